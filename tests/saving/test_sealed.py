"""A folder is written whole or not at all, and read only as it was written."""

import json
import os
import shutil

import numpy as np
import pytest
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from domaincover import ConformalSetClassifier, ERMClassifier, GaussianDomains, InputError, load, save
from domaincover.files import replace_folder
from domaincover.saving.models import check_folder, load_extra, write_folder

DATA = GaussianDomains.of_paper(n_features=4).sample(n_domains=4, n_per_domain=20, rng=np.random.default_rng(0))
X, y, DOMAINS = DATA.examples, DATA.labels, DATA.domains
FILES = ["arrays.safetensors", "extra.json", "model.json", "part-0.skops"]


class Subclass(ConformalSetClassifier):
    """Not ours, since a file could not say what it does."""


@pytest.fixture(scope="module")
def network():
    return ERMClassifier(hidden=4, epochs=1, random_state=0).fit(X, y, domains=DOMAINS)


@pytest.fixture(scope="module")
def original(network, tmp_path_factory):
    """A folder with a file of every kind: a network's weights, a skops file, and extra."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    save(make_pipeline(StandardScaler(), network).fit(X, y), folder, {"rows": 80})
    return folder


@pytest.fixture
def folder(original, tmp_path):
    return shutil.copytree(original, tmp_path / "model")


def listing(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_folder_has_a_file_of_every_kind(folder):
    assert sorted(listing(folder)) == FILES


@pytest.mark.parametrize("name", FILES)
def test_one_changed_bit_anywhere_is_refused_and_the_file_named(name, folder):
    content = (folder / name).read_bytes()
    for position in range(0, len(content), max(1, len(content) // 200)):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        (folder / name).write_bytes(changed)
        with pytest.raises(InputError, match=f"{name} is corrupt"):
            load(folder)


@pytest.mark.parametrize("name", [name for name in FILES if name != "model.json"])
def test_a_missing_file_is_named(name, folder):
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"{name} is missing"):
        load(folder)


def test_extra_that_was_changed_is_refused(folder):
    (folder / "extra.json").write_text('{"rows": 81}')
    with pytest.raises(InputError, match=r"extra\.json is corrupt"):
        load_extra(folder)


def test_a_folder_without_a_manifest_is_no_model(tmp_path):
    with pytest.raises(InputError, match=r"holds no model\.json, so it is not a model"):
        load(tmp_path)


def test_a_file_is_no_model(tmp_path):
    (tmp_path / "model").write_text("")
    with pytest.raises(InputError, match="is a file; a saved model is a folder"):
        load(tmp_path / "model")


def test_a_path_that_does_not_exist_is_no_model(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        load(tmp_path / "model")


def test_a_manifest_that_is_no_file_is_no_model(tmp_path):
    os.mkfifo(tmp_path / "model.json")  # reading it would wait for ever
    with pytest.raises(InputError, match=r"holds no model\.json"):
        load(tmp_path)


def test_a_link_to_a_model_can_be_loaded(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert isinstance(load(tmp_path / "link"), Pipeline)


def test_saving_through_a_link_replaces_what_it_leads_to(folder, network, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    save(network, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert isinstance(load(folder), ERMClassifier)


# Writing


def test_a_place_for_a_model_can_be_checked_before_it_is_fitted(folder, tmp_path):
    check_folder(folder)
    check_folder(tmp_path / "new")
    with pytest.raises(InputError, match="is not a model folder and is not empty"):
        check_folder(tmp_path)


def test_saving_makes_the_folders_above(network, tmp_path):
    save(network, tmp_path / "a" / "b" / "model")
    assert isinstance(load(tmp_path / "a" / "b" / "model"), ERMClassifier)


def test_an_empty_folder_is_filled(network, tmp_path):
    (tmp_path / "model").mkdir()
    save(network, tmp_path / "model")
    assert isinstance(load(tmp_path / "model"), ERMClassifier)


def test_an_older_model_is_replaced_and_nothing_else_is_left(folder, network):
    save(network, folder)
    assert sorted(listing(folder)) == ["arrays.safetensors", "model.json"]
    assert os.listdir(folder.parent) == ["model"]


def test_a_folder_that_is_no_model_is_not_touched(network, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not a model folder and is not empty; choose another name"):
        save(network, tmp_path)
    assert listing(tmp_path) == {"thesis.tex": b"years of work"}


def test_a_folder_with_some_other_model_json_is_not_touched(network, tmp_path):
    (tmp_path / "model.json").write_text(json.dumps({"format": "of somebody else"}))
    with pytest.raises(InputError, match="is not a model folder"):
        save(network, tmp_path)


def test_a_users_file_beside_an_older_model_is_not_lost(folder, network):
    (folder / "notes.txt").write_text("notes")
    with pytest.raises(InputError, match=r"also contains 'notes\.txt', which would be lost"):
        save(network, folder)


def test_a_file_in_the_way_is_refused(network, tmp_path):
    (tmp_path / "model").write_text("")
    with pytest.raises(InputError, match="is a file; a model is saved to a folder"):
        save(network, tmp_path / "model")


def test_a_place_that_cannot_be_written_is_told_in_one_line(network, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write .*file is not a writable folder"):
        save(network, tmp_path / "file" / "model")


def test_a_folder_in_place_of_the_manifest_is_told_in_one_line(network, tmp_path):
    (tmp_path / "model.json").mkdir()
    with pytest.raises(InputError, match=r"cannot read .*model\.json: "):
        save(network, tmp_path)


def test_an_older_model_comes_back_when_the_new_one_cannot_take_its_place(folder):
    before = listing(folder)
    with pytest.raises(FileNotFoundError):
        replace_folder(folder.with_name("gone.part"), folder)
    assert listing(folder) == before
    assert os.listdir(folder.parent) == ["model"]


def test_a_name_that_no_disk_takes_is_told_in_one_line(network, tmp_path):
    with pytest.raises(InputError, match=r"cannot write .*File name too long"):
        save(network, tmp_path / ("long" * 100))
    assert os.listdir(tmp_path) == []


class Interrupted(dict):
    """Files of which the second does not come, since Ctrl-C does."""

    def items(self):
        yield "part-0.skops", b"first"
        raise KeyboardInterrupt


def test_an_interrupted_save_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "model", {}, Interrupted())
    assert os.listdir(tmp_path) == []


def test_an_interrupted_save_leaves_the_older_model_as_it_was(folder):
    before = listing(folder)
    with pytest.raises(KeyboardInterrupt):
        write_folder(folder, {}, Interrupted())
    assert listing(folder) == before
    assert os.listdir(folder.parent) == ["model"]


def test_a_model_that_cannot_be_saved_leaves_the_older_one_as_it_was(folder, network):
    before = listing(folder)
    model = Subclass(network, calibration="prefit").fit(X, y, domains=DOMAINS)
    with pytest.raises(InputError, match="cannot be saved"):
        save(model, folder)
    assert listing(folder) == before
