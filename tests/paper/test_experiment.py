import pytest

from domaincover import InputError
from domaincover.paper.datasets import DATASET_GROUPS, QUICK, Sizes
from domaincover.paper.experiment import PAPER, Experiment, paper_experiments, parsed, read_experiment
from domaincover.paper.published import published_results, published_times

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
    return list(experiment.studies((), quick, lambda _: None))


def test_a_file_says_what_is_run():
    experiment = parsed(FULL, "mine", "mine.toml")
    assert (experiment.name, experiment.title, experiment.figures) == ("mine", "Mine", ("cross", "curves"))
    first, second = studies(experiment)
    assert (first.datasets, second.datasets) == (("synthetic-10",), ("synthetic-50-random",))
    runs = list(first.runs())
    assert len(runs) == 6 * 2 * 3
    assert {run.epochs for run in runs} == {7}
    assert runs[0].setting.sizes == Sizes(12, 8, 300, 200)


def test_what_a_file_does_not_say_is_the_data_sets_own():
    (study,) = studies(Experiment("mine", datasets=("synthetic-10",)))
    run = next(study.runs())
    assert (run.epochs, run.batch_size, run.min_cell_size, run.recall_from) == (30, 128, 101, "full-pass")
    assert "n_train_domains" not in run.to_dict()


def test_quick_takes_a_little_of_everything():
    (study,) = studies(Experiment("mine", datasets=("synthetic-10",)), quick=True)
    assert study.seeds == (0,)
    run = next(study.runs())
    assert run.setting.sizes == QUICK
    assert run.epochs < 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('dataset = ["synthetic-10"]', "mine.toml: no key 'dataset'; did you mean datasets?"),
        ("colour = 3", "mine.toml: no key 'colour'; there are name, "),
        ("seeds = 2.5", "seeds must be a whole number, got 2.5"),
        ("seeds = true", "seeds must be a whole number, got True"),
        ("seeds = 0", "seeds is the number of seeds and must be at least 1, got 0"),
        ('target_recalls = ["high"]', "target_recalls must be a list of numbers, got ['high']"),
        ("datasets = []", "mine.toml: datasets is empty"),
        ('figures = ["crosses"]', "figures must be among cross, cross-splits"),
        ('kind = "grids"', "kind must be one of grid, theory, times, got 'grids'"),
        ("n_train_domains = 5", "n_train_domains needs n_unseen_domains, max_train_rows, max_test_rows as well"),
        ('kind = "times"\nmethods = ["erm"]', "times are of erm and set-cover"),
        ('kind = "times"\nmethods = ["paper"]\ntarget_recalls = [0.8, 0.9]', "times are of one target recall, got 2"),
        ('kind = "theory"', "domains is missing: how many train"),
        ('kind = "theory"\ndomains = [5000]', "domains takes numbers from 1 to 1000, got 5000"),
        ("steps = 0", "steps must be at least 1, got 0"),
        ('name = "../x"', "becomes a folder"),
        ("seeds = ", "mine.toml is no TOML: Invalid value"),
    ],
)
def test_what_a_file_may_not_say_is_named_with_what_may_be_meant(text, message):
    with pytest.raises(InputError) as refused:
        parsed(text, "mine", "mine.toml")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [('methods = ["erm"]', "datasets is missing"), (None, "cannot read"), (b"\xff\xfe", "it is not text")],
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
    assert {item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml")} == set(PAPER)
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
    assert group.present_datasets((), notes.append) == ["synthetic-10"]
    assert notes == ["WILDS is left out: give --wilds, the folder that holds the released ones."]
    with pytest.raises(InputError, match="fmow of WILDS is read from a folder; give --wilds"):
        Experiment("mine", datasets=("fmow",)).present_datasets((), notes.append)


def test_the_papers_numbers_are_of_known_data_sets_and_methods_and_name_their_table():
    table = published_results()
    assert set(table["dataset"]) <= {*DATASET_GROUPS["synthetic"], *DATASET_GROUPS["wilds"]}
    assert table["source"].str.fullmatch(r"Table \d").all()
    assert table.groupby(["experiment", "dataset", "target_recall"]).size().isin([5, 6]).all()
    ours = table.query("dataset == 'synthetic-50-random' and method == 'set-cover'").iloc[0]
    assert (ours["min_recall"], ours["set_size"], ours["share_at_target"]) == (0.91, 1.18, 0.68)
    assert set(published_times()["dataset"]) == set(DATASET_GROUPS["wilds"])
