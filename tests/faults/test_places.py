"""Odd places: folders that cannot be written, no home, names of every kind, other encodings, a clock that goes back."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from domaincover import load
from domaincover.cli import main
from domaincover.data.examples import default_cache_folder
from domaincover.data.tables import open_table
from domaincover.files import write_whole
from domaincover.paper.collect import collect
from domaincover.paper.runner import plan_studies, run_study
from tests.faults.conftest import FIT, tiny_study

NAMES = ["spaces 😀 é quo'te\"s two\nlines $(false);`%41", "-" + "x" * 200, "not \udcff UTF-8"]


@pytest.fixture
def readonly(tmp_path):
    """A folder that cannot be written to, by the superuser neither."""
    folder = tmp_path / "readonly"
    folder.mkdir()
    folder.chmod(0o555)
    if os.access(folder, os.W_OK):
        mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", folder]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("the superuser can write everywhere, and nothing can be mounted")
        yield folder
        subprocess.run(["umount", "--lazy", folder], check=True)
    else:
        yield folder


@pytest.mark.parametrize("option", ["--out", "--html", "--checkpoints"])
def test_a_folder_that_cannot_be_written_is_told_before_anything_is_done(refused, readonly, table, option, tmp_path):
    places = {"--out": tmp_path / "model"} | {option: readonly / "place"}
    refused("cannot write ", "fit", table, *FIT, *(part for pair in places.items() for part in pair))


def test_predict_report_and_studies_say_where_they_cannot_write(refused, readonly, table, model, study):
    refused("cannot write ", "predict", model, table, "--out", readonly / "sets.csv")
    refused("cannot write ", "paper", "synthetic", "--out", readonly / "runs")
    refused("cannot write ", "report", study, "--out", readonly / "report.html")


def test_a_model_and_a_study_can_be_read_from_where_nothing_can_be_written(here, model, study, table, tmp_path):
    for place in (model, study):
        for path in [place, *place.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert here("predict", model, table, "--out", tmp_path / "sets.csv")[0] == 0
        assert here("results", study)[0] == 0
    finally:
        for place in (model, study):
            for path in [place, *place.rglob("*")]:
                path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("variable", ["DOMAINCOVER_CACHE", "HOME"])
def test_a_study_needs_no_cache_that_can_be_written(readonly, tmp_path, monkeypatch, variable):
    for name in ("DOMAINCOVER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(readonly))
    assert run_study(plan_studies([tiny_study()], tmp_path / "runs"), tmp_path / "runs").failures == ()


def test_without_a_home_nothing_is_kept_but_all_goes_on(tmp_path, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    for name in ("DOMAINCOVER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pathlib.Path.home", homeless)
    assert not default_cache_folder().exists()
    assert run_study(plan_studies([tiny_study()], tmp_path / "runs"), tmp_path / "runs").failures == ()


@pytest.mark.parametrize("name", NAMES, ids=["signs", "long, with a dash", "not UTF-8"])
def test_files_may_have_any_name(here, tmp_path, table, name, monkeypatch):
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    train, page, model, sets = (f"{name}{end}" for end in (".csv", ".html", ".model", ".parquet"))
    Path(train).write_bytes(table.read_bytes())
    assert here("fit", *FIT, f"--out={model}", f"--html={page}", "--", train)[0] == 0
    assert here("predict", f"--out={sets}", "--", model, train)[0] == 0
    assert len(pd.read_parquet(io.BytesIO(Path(sets).read_bytes()))) == len(pd.read_csv(table))
    assert Path(page).read_text(encoding="utf-8").rstrip().endswith("</html>")
    load(model)
    assert open_table(Path(sets)).columns[-1] == "set_size"
    assert sorted(os.listdir()) == sorted([train, page, model, sets])


@pytest.mark.parametrize(
    ("encoding", "arguments"),
    [
        ("ascii", ["results"]),
        ("latin-1", ["results"]),
        ("cp1252", ["results", "--format", "latex"]),
        ("ascii", ["report"]),
    ],
)
def test_whatever_the_encoding_of_the_terminal_all_can_be_said(study, tmp_path, monkeypatch, encoding, arguments):
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
    for name, stream in zip(("sys.stdout", "sys.stderr"), streams, strict=True):
        monkeypatch.setattr(name, stream)
    out = ["--out", str(tmp_path / "pä😀ge.html")] if arguments == ["report"] else []
    monkeypatch.setattr("sys.argv", ["domaincover", arguments[0], str(study), *arguments[1:], *out])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code in (0, None)
    if out:
        (tmp_path / "pä😀ge.html").read_text(encoding="utf-8")


def test_signs_that_an_encoding_lacks_are_written_as_their_codes(monkeypatch):
    from domaincover.cli.app import accept_any_text

    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", stream)
    accept_any_text()
    stream.write("5 ≥ 2 ☃ \udcff")
    stream.flush()
    assert stream.buffer.getvalue() == b"5 \\u2265 2 \\u2603 \\udcff"


def test_files_are_read_and_written_as_utf8_whatever_the_locale():
    source = Path(__file__).parents[2] / "src"
    checked = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--preview", "--select", "PLW1514", "--no-cache", source],
        capture_output=True,
        text=True,
        check=False,
    )
    if "No module named ruff" in checked.stderr:
        pytest.skip("ruff is not installed")
    assert checked.returncode == 0, checked.stdout


def test_what_is_finished_is_told_by_no_clock(tmp_path, monkeypatch):
    clock = iter(range(10**9, 0, -1000))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    out = tmp_path / "runs"
    outcome = run_study(plan_studies([tiny_study(2)], out), out)
    assert outcome.seconds >= 0
    for number, done in enumerate(sorted(out.rglob("*"))):  # the first written is now the newest, in a year to come
        os.utime(done, (4e9 - number, 4e9 - number))
    again = plan_studies([tiny_study(2)], out)
    assert (again.n_finished, again.n_to_do) == (2, 0)
    seconds = [column for column in collect(out).results if "seconds" in column]
    assert (collect(out).results[seconds] >= 0).all(axis=None)


def test_no_duration_is_measured_by_a_clock_that_can_be_set():
    source = Path(__file__).parents[2] / "src"
    text = "".join(path.read_text(encoding="utf-8") for path in source.rglob("*.py"))
    assert not [clock for clock in ("time.time(", "datetime.now(", "utcnow(", "st_mtime)") if clock in text]


def test_the_mark_of_a_file_written_before_is_no_matter(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("older")
    os.utime(path, (4e9, 4e9))
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_table_with_signs_of_every_kind_is_the_same_when_it_is_read_again(tmp_path, monkeypatch):
    from domaincover.data.tables import write_table

    monkeypatch.setattr("locale.getpreferredencoding", lambda *_: "ascii")
    table = pd.DataFrame({"é😀": ["ß", "–", "two\nlines"]})
    write_table(tmp_path / "t.csv", [table])
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "t.csv", encoding="utf-8"), table)


def test_a_study_can_be_in_a_directory_whose_name_is_not_utf8(tmp_path):
    out = tmp_path / "not \udcff UTF-8"
    assert run_study(plan_studies([tiny_study()], out), out).failures == ()
    assert len(collect(out).results) > 0
