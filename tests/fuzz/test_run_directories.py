"""A study's directory in which a file is missing, cut off, changed or forged: the same results, or one line."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domaincover.evaluation import domain_report
from domaincover.paper.collect import collect
from domaincover.paper.run_directory import is_finished, open_study, write_json, write_run
from domaincover.paper.study import Run
from domaincover.paper.study_report.study_tables import format_results
from domaincover.paper.theory import read_theory
from domaincover.paper.training_times import read_times
from tests.fuzz.answers import answer, is_refused
from tests.fuzz.damage import IS_DEEP, as_json, few, flipped, odd_values, positions, spoiled

RUN = Run("synthetic-10", "erm", 0.9, 0)
STYLES = ("table", "csv", "latex", "json") if IS_DEEP else ("csv", "json")
FILES = ["report.json", "config.json", "DONE"]


def report_content():
    rng = np.random.default_rng(0)
    report = domain_report(
        rng.random((40, 2)) < 0.9, np.arange(40) % 2, np.arange(40) % 4, ("a", "b"), tuple("wxyz"), 1
    )
    split = {"summary": report.summary(0.9).to_dict(), "domains": report.records()}
    return {
        "config": RUN.to_dict(),
        "labels": ["a", "b"],
        "thresholds": [0.1, 0.2],
        "seconds": {"train": 1.5},
        "versions": {"numpy": "2.0"},
        "splits": {"seen": split, "unseen": split},
    }


def study(out):
    open_study(out)
    write_run(out, RUN, lambda folder: write_json(folder / "report.json", report_content()))
    return out


def everything(out):
    tables = collect(out)
    shown = tables.results[tables.results["split"] == "unseen"]
    if shown.empty:
        shown = tables.results
    return [format_results(shown, style, color=False) for style in STYLES]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    out = study(tmp_path_factory.mktemp("study") / "runs")
    return out, everything(out)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_noticed_or_changes_nothing(sound, name, door):
    out, results = sound
    path = out / RUN.folder / name
    content = path.read_bytes()
    try:
        for position in positions(content, 12):
            door("run directories")
            path.write_bytes(flipped(content, position, position % 8))
            found = answer(everything, out)
            assert is_refused(found) or found == results, position
            finished = answer(is_finished, out, RUN)
            assert is_refused(finished) or finished, position
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize("name", ["report.json", "config.json"])
@pytest.mark.parametrize("change", ["missing", "empty", "cut off", "of another", "folder"])
def test_a_run_that_lacks_something_is_told_and_never_half_read(tmp_path, name, change, door):
    door("run directories")
    path = study(tmp_path / "runs") / RUN.folder / name
    content = path.read_bytes()
    path.unlink()
    if change == "folder":
        path.mkdir()
    elif change != "missing":
        other = as_json(report_content() | {"labels": ["b", "a"]})
        path.write_bytes({"empty": b"", "cut off": content[: len(content) // 2], "of another": other}[change])
    read = everything if name == "report.json" else lambda out: is_finished(out, RUN)
    assert "delete that folder and run" in str(answer(read, tmp_path / "runs"))


@few(12)
@given(data=st.data())
def test_a_forged_report_gives_tables_or_one_line(sound, data, door):
    door("run directories")
    out, _ = sound
    folder = out / RUN.folder
    kept = {name: (folder / name).read_bytes() for name in FILES}
    try:
        (folder / "DONE").write_bytes(b"")  # as in runs of older versions, and as a forger would have it
        (folder / "report.json").write_bytes(as_json(data.draw(spoiled(report_content()))))
        answer(everything, out)
    finally:
        for name, content in kept.items():
            (folder / name).write_bytes(content)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff\xfe", b"{}", b"[]", b"null", b'{"domaincover_study": 99}'])
def test_a_mark_that_is_none_is_told(tmp_path, content):
    (study(tmp_path / "runs") / "study.json").write_bytes(content)
    assert is_refused(answer(collect, tmp_path / "runs"))


THEORY = {
    "domaincover_theory": 1,
    "settings": {"n_features": 10, "n_seeds": 1},
    "versions": {},
    "rows": [
        {
            "n_domains": 2,
            "seed": 0,
            "predictor": "trained",
            "share_missing_training": 0.0,
            "share_missing_new": 0.1,
            "worst_training_recall": 0.9,
            "mean_set_size": 1.1,
        }
    ],
}
TIMES = {"config": {}, "seconds": {"erm": 1.0, "set-cover": 2.0}, "versions": {}}


@few(12)
@given(data=st.data())
def test_forged_theory_and_times_are_read_or_refused(tmp_path, data, door):
    door("run directories")
    (tmp_path / "theory.json").write_text(json.dumps(data.draw(spoiled(THEORY) | odd_values)))
    answer(read_theory, tmp_path)
    if not (tmp_path / "study.json").exists():
        open_study(tmp_path / "runs")
        (tmp_path / "runs" / "times").mkdir(exist_ok=True)
    (tmp_path / "runs" / "times" / "synthetic-10.json").write_text(json.dumps(data.draw(spoiled(TIMES) | odd_values)))
    answer(read_times, tmp_path / "runs")
