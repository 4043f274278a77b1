from pathlib import Path

import pandas as pd
import pytest

from domaincover import InputError
from domaincover.paper.catalogue import CATALOGUE, DATASET_GROUPS, EPOCHS, study_dataset
from domaincover.paper.experiment import (
    PAPER_EXPERIMENTS,
    Experiment,
    dataset_experiment,
    paper_experiments,
    parse_settings,
    parsed,
    read_experiment,
)
from domaincover.paper.methods import GROUPS, METHODS
from domaincover.paper.published import published
from domaincover.paper.study import Run, Study
from domaincover.paper.study_datasets import QUICK, Sizes

FULL = """
title = "Mine"
datasets = ["synthetic-10", "synthetic-50-random"]
methods = ["paper", "irm"]
target_recalls = [0.8, 0.9]
seeds = 3
epochs = 7
figures = ["cross", "curves"]
n_train_domains = 12
n_unseen_domains = 8
max_train_rows = 300
max_test_rows = 200
"""


def studies(experiment, quick=False):
    return list(experiment.studies({}, quick, lambda _: None))


def test_a_file_says_what_is_run():
    experiment = parsed(FULL, "mine", "mine.toml")
    assert (experiment.name, experiment.title, experiment.figures) == ("mine", "Mine", ("cross", "curves"))
    first, second = studies(experiment)
    assert (first.dataset, second.dataset) == ("synthetic-10", "synthetic-50-random")
    runs = list(first.runs())
    assert len(runs) == 6 * 2 * 3
    assert {run.epochs for run in runs} == {7}
    assert runs[0].setting.sizes == Sizes(12, 8, 300, 200)


def test_what_a_file_does_not_say_is_the_data_sets_own():
    (study,) = studies(Experiment("mine", datasets=("synthetic-10",)))
    run = next(study.runs())
    assert (run.epochs, run.batch_size, run.min_cell_size, run.recall_from) == (30, 128, 101, "full-pass")
    assert "n_train_domains" not in run.to_dict()


def test_one_size_alone_leaves_the_others_as_the_data_set_has_them():
    (study,) = studies(parsed('datasets = ["synthetic-10"]\nn_train_domains = 12', "mine", "mine.toml"))
    assert next(study.runs()).setting.sizes == Sizes(12, 25, 2_000, 1_000)


def test_values_of_the_command_line_take_the_place_of_those_of_the_file():
    experiment = parsed(FULL, "mine", "mine.toml").with_values(parse_settings(["epochs=9", "methods=erm"]), "--set")
    assert (experiment.methods, experiment.settings["epochs"], experiment.seeds) == (("erm",), 9, 3)
    assert experiment.sizes["n_train_domains"] == 12


def test_seeds_can_be_given_by_data_set_method_or_group_of_either():
    text = 'datasets = ["synthetic-10", "votes"]\nmethods = ["erm", "robust", "joint"]\n'
    experiment = parsed(text + "seeds = {synthetic = 20, joint = 3, robust = 40}", "mine", "mine.toml")
    by_run = {(study.dataset, name): len(study.seeds) for study in studies(experiment) for name in study.methods}
    assert (by_run["synthetic-10", "erm"], by_run["votes", "erm"]) == (20, 5)
    assert (by_run["synthetic-10", "erm-joint"], by_run["votes", "set-cover-joint"]) == (3, 3)
    assert (by_run["synthetic-10", "robust"], by_run["votes", "robust"]) == (20, 40), "the smallest that applies"
    assert {len(study.seeds) for study in studies(experiment, quick=True)} == {1}
    assert {len(study.seeds) for study in studies(experiment.with_values({"seeds": 2}, "--set"))} == {2}


def test_the_papers_experiments_have_20_seeds_on_synthetic_data_but_for_what_is_costly():
    main = paper_experiments()["main"]
    counts = {
        (dataset, name): main.n_seeds(dataset, name)
        for dataset in ("synthetic-50", "votes", "fmow")
        for name in ("set-cover", "set-cover-best", "set-cover-joint")
    }
    assert {key for key, count in counts.items() if count == 20} == {
        ("synthetic-50", "set-cover"),
        ("synthetic-50", "set-cover-best"),
    }
    assert set(counts.values()) == {20, 5}


def test_a_data_set_is_an_experiment_of_the_papers_five_methods():
    (study,) = studies(dataset_experiment("synthetic-20-random"))
    assert (study.dataset, study.methods) == ("synthetic-20-random", GROUPS["paper"])
    assert len(studies(dataset_experiment("synthetic"))) == 4


def test_quick_takes_a_little_of_everything():
    (study,) = studies(Experiment("mine", datasets=("synthetic-10",)), quick=True)
    assert study.seeds == (0,)
    run = next(study.runs())
    assert run.setting.sizes == QUICK
    assert run.epochs < 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('dataset = ["synthetic-10"]', "mine.toml: unknown key 'dataset'; did you mean datasets?"),
        ("colour = 3", "mine.toml: unknown key 'colour'; there are name, "),
        ("seeds = 2.5", "seeds must be an integer, or integers by data set or method as {synthetic = 20}, got 2.5"),
        ("seeds = true", "seeds must be an integer, or integers by data set or method as {synthetic = 20}, got True"),
        ("seeds = {synthetic = 2.5}", "as {synthetic = 20}, got {'synthetic': 2.5}"),
        ("seeds = {synthetic = 0}", "seeds must be from 1 to 10000, got 0"),
        ("seeds = {synthetics = 9}", "no data set or method is called 'synthetics'; did you mean synthetic?"),
        ("seeds = 0", "seeds must be from 1 to 10000, got 0"),
        ('target_recalls = ["high"]', "target_recalls must be a list of numbers, got ['high']"),
        ("datasets = []", "mine.toml: datasets is empty"),
        ('figures = ["crosses"]', "figures must be one of 'cross', 'cross-splits'"),
        ('kind = "grids"', "kind must be one of 'grid', 'theory', 'times', got 'grids'; did you mean grid?"),
        ('learn = "tail"', "learn must be one of 'auto', 'head', 'all', got 'tail'"),
        ("download = 1", "download must be true or false, got 1"),
        ('kind = "times"\nmethods = ["erm"]', "times are of erm and set-cover"),
        ('kind = "times"\nmethods = ["paper"]\ntarget_recalls = [0.8, 0.9]', "times are of one target recall, got 2"),
        ('kind = "theory"', "domains is missing: numbers of training domains"),
        ('kind = "theory"\ndomains = [5000]', "domains must be from 1 to 1000, got 5000"),
        ("steps = 0", "steps must be from 1 to 1000000000, got 0"),
        ('name = "../x"', "becomes a folder"),
        ("seeds = ", "mine.toml is not valid TOML: Invalid value"),
    ],
)
def test_what_a_file_may_not_say_is_named_with_what_may_be_meant(text, message):
    with pytest.raises(InputError) as refused:
        parsed(text, "mine", "mine.toml")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [('methods = ["erm"]', "datasets is missing"), (None, "cannot read"), (b"\xff\xfe", "it is not UTF-8 text")],
)
def test_a_file_that_cannot_be_run_is_refused(tmp_path, text, message):
    file = tmp_path / "mine.toml"
    if text is not None:
        file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(InputError, match=message):
        read_experiment(file)


def test_every_file_of_the_paper_is_an_experiment_and_named_in_the_list():
    from importlib.resources import files

    folder = files("domaincover.paper") / "experiments"
    names = {item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml")}
    assert names == set(PAPER_EXPERIMENTS)
    for experiment in paper_experiments().values():
        assert experiment.title
        assert experiment.paper


def test_a_line_about_each_experiment_stands_in_the_papers_readme():
    from importlib.resources import files

    text = (files("domaincover.paper") / "experiments" / "README.md").read_text()
    for name, experiment in paper_experiments().items():
        assert f"| `{name}` |" in text
        assert experiment.paper in text


def test_wilds_is_left_out_of_a_group_with_a_note_and_asked_for_by_name():
    notes = []
    group = Experiment("mine", datasets=("synthetic-10", "wilds"))
    assert [dataset.name for dataset in group.present_datasets({}, False, notes.append)] == ["synthetic-10"]
    assert notes == ["wilds is left out: give --wilds, the folder with its data sets."]
    with pytest.raises(InputError, match="fmow: it is read from a folder; give --wilds"):
        Experiment("mine", datasets=("fmow",)).present_datasets({}, False, notes.append)


def test_the_papers_numbers_are_of_known_data_sets_and_methods_and_name_their_table():
    table = published().results
    assert set(table["dataset"]) <= {*DATASET_GROUPS["synthetic"], *DATASET_GROUPS["wilds"]}
    assert table["source"].str.fullmatch(r"Table \d").all()
    assert table.groupby(["experiment", "dataset", "target_recall"]).size().isin([5, 6]).all()
    ours = table.query("dataset == 'synthetic-50-random' and method == 'set-cover'").iloc[0]
    assert (ours["min_recall"], ours["set_size"], ours["share_at_target"]) == (0.91, 1.18, 0.68)
    assert set(published().times["dataset"]) == set(DATASET_GROUPS["wilds"])


def test_the_papers_contents_name_its_tables_and_figures_in_order_with_known_experiments_and_methods():
    paper = published()
    # Tables 2 to 4 are settings.
    for kind, numbers in (("Table", [1, 5, 6, 7, 8, 9]), ("Figure", range(1, 13))):
        names = [exhibit.name for exhibit in paper.exhibits if exhibit.name.startswith(kind)]
        assert names == [f"{kind} {number}" for number in numbers]
    assert {exhibit.experiment for exhibit in paper.exhibits} == {*PAPER_EXPERIMENTS} - {"theory"}
    assert {name for exhibit in paper.exhibits for name in exhibit.methods} <= set(METHODS)
    assert set(paper.results["source"]) == {one.name for one in paper.exhibits if one.kind == "results"}
    for exhibit in paper.exhibits:
        rows = paper.results[paper.results["source"] == exhibit.name]
        if len(rows):
            assert set(rows["dataset"]) == set(exhibit.datasets)
            assert set(rows["method"]) == set(exhibit.methods)
            assert set(rows["target_recall"]) == set(exhibit.target_recalls)
            assert set(rows["experiment"]) == {exhibit.experiment}


def test_the_papers_printed_settings_are_our_defaults():
    path = Path(__file__).with_name("printed_settings.csv")
    printed = pd.read_csv(path, dtype=str, keep_default_na=False).set_index("setting")
    synthetic, wide = study_dataset("synthetic-10"), study_dataset("synthetic-50")
    own = [synthetic.batch_size, Study.learning_rate, synthetic.epochs, *synthetic.sizes]
    own += [Run("synthetic-10", "set-cover", 0.9, 0).initial_multiplier, Study.update_every]
    assert [float(value) for value in printed["synthetic"][:9]] == own
    assert printed.loc["Hidden units", ["synthetic-10", "synthetic-50"]].tolist() == [
        str(synthetic.hidden),
        str(wide.hidden),
    ]
    for name in DATASET_GROUPS["wilds"]:
        expected = [CATALOGUE[name].batch_size, Study.learning_rate, EPOCHS, *CATALOGUE[name].sizes]
        assert [float(value) for value in printed[name][:7]] == expected
    for dataset in (synthetic, wide):
        source = dataset.source
        half = len(source.mean) // 2
        drawn = [source.low, source.high, source.mean[0], source.direction[0], source.direction[half], source.deviation]
        assert [float(value) for value in printed[dataset.name][-6:]] == drawn


@pytest.mark.parametrize(
    "given",
    [
        "--seeds=2",
        "--set=epochs=3",
        "--set=learning_rate=0.1",
        "--set=min_cell_size=5",
        "--set=steps=9",
        "--set=max_train_rows=50",
        "--set=domain_confidence=0.8",
    ],
)
def test_a_quick_run_refuses_what_it_sets_itself(refused, given, tmp_path):
    key = given.removeprefix("--set=").split("=")[0].removeprefix("--")
    refused(f"--quick sets {key} itself", "paper", "synthetic-10", "--quick", given, "--out", tmp_path / "runs")


def test_the_papers_synthetic_data_are_compared_over_20_seeds_with_the_best_iterate_too():
    found = list(dataset_experiment("synthetic").studies({}, False, print))
    assert {len(study.seeds) for study in found} == {20}
    assert {study.methods for study in found} == {(*GROUPS["paper"], "set-cover-best")}
    (other,) = dataset_experiment("synthetic-200").studies({}, False, print)
    assert (len(other.seeds), other.methods) == (5, GROUPS["paper"])
