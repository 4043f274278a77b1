"""A model's folder that is damaged, mixed up or forged: the same sets, or one line."""

import hashlib
import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from domaincover import ConformalSetClassifier, SetCoverClassifier, load, save
from domaincover.saving.models import load_extra
from tests.fuzz.answers import answer, is_refused
from tests.fuzz.damage import as_json, few, spoiled

rng = np.random.default_rng(0)
X, y, domains = rng.normal(size=(60, 3)), np.arange(60) % 3, np.arange(60) // 20
MODELS = {
    "network": SetCoverClassifier(hidden=3, epochs=2, random_state=0),
    "sklearn": ConformalSetClassifier(LogisticRegression(), rule="pooled", calibration="cross-fit", random_state=0),
}


@pytest.fixture(scope="module", params=MODELS)
def sound(request, tmp_path_factory):
    """A folder, its files, and the sets of its model."""
    model = MODELS[request.param].fit(X, y, domains=domains)
    folder = tmp_path_factory.mktemp(request.param) / "model"
    save(model, folder, {"note": "kept"})
    return folder, {path.name: path.read_bytes() for path in folder.iterdir()}, model.predict_set(X)


@pytest.fixture
def folder(sound, tmp_path):
    return shutil.copytree(sound[0], tmp_path / "model")


def sets_and_extra(folder):
    return load(folder).predict_set(X), load_extra(folder)


def same_or_refused(folder, sets):
    found = answer(sets_and_extra, folder)
    return is_refused(found) or ((found[0] == sets).all() and found[1] == {"note": "kept"})


@pytest.mark.parametrize("change", ["missing", "empty", "cut off", "longer", "folder", "loop", "fifo-less"])
def test_a_file_that_is_not_as_saved_is_refused(sound, folder, change, door):
    for name, content in sound[1].items():
        door("model folders")
        path = folder / name
        path.unlink()
        if change == "folder":
            path.mkdir()
        elif change == "loop":
            path.symlink_to(path.name)
        elif change != "missing":
            other = {"empty": b"", "cut off": content[:-1], "longer": content + b"\0", "fifo-less": content[::-1]}
            path.write_bytes(other[change])
        assert is_refused(answer(sets_and_extra, folder)), name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        path.write_bytes(content)
    assert same_or_refused(folder, sound[2])


def test_files_that_have_changed_places_are_refused(sound, folder, door):
    names = list(sound[1])
    for first in names:
        for second in names:
            if first != second:
                door("model folders")
                (folder / first).write_bytes(sound[1][second])
                assert is_refused(answer(sets_and_extra, folder)), (first, second)
                (folder / first).write_bytes(sound[1][first])


def test_files_of_another_model_are_refused(sound, folder, tmp_path, door):
    other = SetCoverClassifier(hidden=3, epochs=1, random_state=9).fit(X, y, domains=domains)
    save(other, tmp_path / "other", {"note": "other"})
    for path in (tmp_path / "other").iterdir():
        if (folder / path.name).exists():
            door("model folders")
            (folder / path.name).write_bytes(path.read_bytes())
            assert is_refused(answer(sets_and_extra, folder)), path.name
            (folder / path.name).write_bytes(sound[1][path.name])


def test_links_to_the_files_and_files_beside_them_change_nothing(sound, folder, tmp_path):
    for name in sound[1]:
        shutil.move(folder / name, tmp_path / name)
        (folder / name).symlink_to(tmp_path / name)
    (folder / "part-99.skops").write_bytes(b"a stranger's")
    assert not is_refused(answer(sets_and_extra, folder))
    assert same_or_refused(folder, sound[2])


def forged(folder, change):
    """Write a manifest with other content and checksums that are right."""
    path = folder / "model.json"
    content = json.loads(path.read_bytes())
    del content["checksum"]
    content = change(content)
    compact = json.dumps(content, separators=(",", ":")).encode()
    seal = hashlib.sha256(compact).hexdigest()
    path.write_bytes(json.dumps({**content, "checksum": seal}, separators=(",", ":")).encode())


@few(10)
@given(data=st.data())
def test_a_forged_manifest_gives_a_model_or_one_line(sound, folder, data, door):
    door("model folders")
    manifest = json.loads(sound[1]["model.json"])
    parts = data.draw(spoiled(manifest["parts"]))
    try:
        forged(folder, lambda content: content | {"parts": json.loads(as_json(parts))})
    except ValueError:
        return
    answer(load, folder)
    (folder / "model.json").write_bytes(sound[1]["model.json"])
