"""Options of the command line that are out of range, empty, or point at the wrong thing: one line, nothing written."""

import sys

import pytest

ROLES = ["--label", "y", "--domain", "d"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y,d\n" + "".join(f"{k},{'ab'[k % 2]},h{k % 4}\n" for k in range(40)))
    return path


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--target-recall", "nan", "target recall must lie between 0 and 1"),
        ("--target-recall", "1e999", "target recall must lie between 0 and 1"),
        ("--target-recall", "", "--target-recall: '' is neither a number such as 0.9 nor LABEL=NUMBER"),
        ("--domain-confidence", "nan", "must lie between 0 and 1"),
        ("--hold-out-domains", "nan", "from 0 to below 1"),
        ("--seed", "99999999999999999999", "Invalid value for '--seed'"),
        ("--min-cell-size", "-1", "Invalid value for '--min-cell-size'"),
        ("--label", "", "has no column ''"),
        ("--label", "y\0", "has no column"),
        ("--drop", "", "has no column ''"),
        ("--image-column", "", "has no column '' (--image-column)"),
        ("--text-column", "", "has no column '' (--text-column)"),
        ("--crop", "nan", "--crop is for images"),
        ("--workers", "99999999", "--workers is for images"),
        ("--method", "", "Invalid value for '--method'"),
    ],
)
def test_fit_refuses(table, tmp_path, refused, door, option, value, told):
    door("options")
    refused(told, "fit", table, *ROLES, "--out", tmp_path / "model", option, value)


def test_nothing_is_written_over_the_table(table, tmp_path, refused, door):
    content = table.read_bytes()
    for arguments in (
        ["fit", table, *ROLES, "--out", table],
        ["fit", table, *ROLES, "--out", tmp_path / "model", "--html", table],
        ["predict", tmp_path / "model", table, "--out", table],
    ):
        door("options")
        refused(str(table), *arguments)
        assert table.read_bytes() == content


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--seeds", str(10**12)], "must be at most 10000"),
        (["--datasets", "nan"], "unknown dataset 'nan'"),
        (["--set", f"epochs={10**20}"], "epochs must be at most"),
        (["--set", "target_recalls=nan"], "target recall must lie between 0 and 1"),
        (["--set", "epochs=nan"], "epochs must be an integer"),
        (["--set", f"epochs={'9' * 5000}"], "epochs must be an integer"),
        (["--set", "epochs=1\nseeds=2"], "epochs must be an integer"),
        (["--set", "="], "unknown key ''"),
        (["--set", "methods=" + "[" * 5000], "methods must be a list of strings"),
        (["--jobs", "-1"], "--jobs must be at least 1"),
    ],
)
def test_a_study_refuses(tmp_path, refused, door, arguments, told):
    door("options")
    refused(told, "paper", "synthetic", "--out", tmp_path / "runs", *arguments)


def test_memory_that_runs_out_is_told_in_one_line(monkeypatch, refused, table):
    def exhausted(**_):
        raise MemoryError

    monkeypatch.setattr(sys.modules["domaincover.cli.app"], "app", exhausted)
    refused("out of memory", "fit", table)
