import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from domaincover import InputError
from domaincover.files import locked
from domaincover.paper import catalogue, methods
from domaincover.paper.catalogue import study_dataset
from domaincover.paper.collect import collect
from domaincover.paper.experiment import Experiment, paper_experiments
from domaincover.paper.job import predicted
from domaincover.paper.plugins import GROUP, absolute, load_plugins
from domaincover.paper.runner import Work, Workers, plan_studies, run_study
from domaincover.paper.study import Study
from domaincover.paper.study_datasets import Sizes, TableDataset, draw_study_data

PLUGIN = absolute(str(Path(__file__).with_name("plugin_file.py")))


@pytest.fixture(autouse=True)
def no_plugin_stays(monkeypatch):
    """Give every test registries of its own."""
    monkeypatch.setattr(catalogue, "REGISTERED", dict(catalogue.REGISTERED))
    monkeypatch.setattr(methods, "METHODS", dict(methods.METHODS))
    monkeypatch.setattr("domaincover.paper.plugins.REGISTERED", catalogue.REGISTERED)
    monkeypatch.setattr("domaincover.paper.plugins.METHODS", methods.METHODS)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("domaincover_plugin_"):
            del sys.modules[name]


def of_clinics(*names, **changes):
    return Study(study_dataset("clinics"), names, seeds=(0, 1), **changes)


def do(study, out, **means):
    return run_study(plan_studies([study], out), out, Workers(plugins=(PLUGIN,), **means))


def test_a_plug_ins_data_set_and_methods_are_run_beside_the_others(tmp_path):
    load_plugins([PLUGIN])
    do(of_clinics("erm", "set-cover", "logistic-robust", "logistic"), tmp_path / "runs")
    unseen = collect(tmp_path / "runs").results.query("split == 'unseen'").set_index("method")
    assert unseen["n_domains"].tolist() == [6] * 4
    assert unseen.loc["logistic", "set_size"] == 1
    assert unseen.loc["logistic-robust", "set_size"] > 1
    table = pd.read_parquet(tmp_path / "runs/clinics/logistic/target-0.9/seed-0/predictions.parquet")
    assert not any(name.startswith("score") for name in table)
    assert (table["in_set[ill]"] != table["in_set[well]"]).all()


def test_an_own_method_gives_what_its_estimator_gives_on_the_same_rows(tmp_path):
    load_plugins([PLUGIN])
    do(of_clinics("logistic"), tmp_path / "runs")
    table = pd.read_parquet(tmp_path / "runs/clinics/logistic/target-0.9/seed-1/predictions.parquet")
    data = draw_study_data(study_dataset("clinics"), 1, 20)
    X, y, _ = data.training_numbers
    expected = LogisticRegression().fit(X, y).predict(data.numbers)  # 0 is ill: names are sorted
    assert (table["in_set[well]"].to_numpy() == (expected == 1)).all()


def test_plug_ins_take_part_in_the_papers_experiments():
    before = paper_experiments()
    load_plugins([PLUGIN])
    after = paper_experiments()
    assert after["main"].datasets == (*before["main"].datasets, "clinics")
    assert "logistic-robust" in after["main"].methods
    assert "logistic-robust" in after["single-label"].methods
    assert after["penalties"].methods == before["penalties"].methods
    assert after["theory"] == before["theory"]


def test_what_fails_is_told_with_the_rest_finished(tmp_path):
    load_plugins([PLUGIN])
    outcome = do(of_clinics("breaks", "logistic"), tmp_path / "runs")
    assert (outcome.n_new, [failure.n_runs for failure in outcome.failures]) == (2, [1, 1])
    told = re.fullmatch(r"RuntimeError: no such luck at all \(traceback in (.*)\)", outcome.failures[0].reason)
    assert "raise RuntimeError" in (tmp_path / "runs" / told[1]).read_text()
    again = do(of_clinics("breaks", "logistic"), tmp_path / "runs")  # nothing new, and not refused
    assert (again.n_finished_before, again.n_new) == (2, 0)


@pytest.mark.slow
@pytest.mark.deep
def test_a_job_that_always_kills_its_process_is_told_and_the_rest_is_finished(tmp_path, monkeypatch):
    monkeypatch.setattr("domaincover.terminal.processes.ATTEMPTS", 1)  # each starts processes anew, which takes time
    load_plugins([PLUGIN])
    outcome = do(of_clinics("dies", "logistic", "logistic-robust"), tmp_path / "runs", n_processes=2)
    assert {failure.job.split(",")[0] for failure in outcome.failures} >= {"clinics dies"}
    assert all("its process was killed" in failure.reason for failure in outcome.failures)
    assert not list(tmp_path.glob("runs/clinics/dies/*/*/DONE"))
    assert outcome.n_new == len(list(tmp_path.glob("runs/clinics/*/*/*/DONE")))


def test_two_calls_in_one_directory_do_not_spoil_each_other(tmp_path):
    load_plugins([PLUGIN])
    study, out = of_clinics("logistic"), tmp_path / "runs"
    plan = plan_studies([study], out)
    said = r"another process is using .*; wait until"
    with locked(out / ".lock", taken=""), pytest.raises(InputError, match=said):
        run_study(plan, out)
    assert not list(out.glob("*/*/*/*/DONE"))
    assert run_study(plan, out).n_new == 2
    assert run_study(plan, out).n_new == 2, "who planned before the other ended finds all done"
    assert len(list(out.glob("*/*/*/*/DONE"))) == 2


def test_a_run_on_other_data_or_with_other_sizes_is_not_taken_for_finished(tmp_path, monkeypatch):
    load_plugins([PLUGIN])
    do(of_clinics("logistic"), tmp_path / "runs")
    clinics = catalogue.REGISTERED["clinics"]
    X, y, domains = clinics.read()
    for other, message in (
        (replace(clinics, read=lambda: (X + 1, y, domains)), r"was made with other settings \(data '[0-9a-f]{32}'"),
        (replace(clinics, max_train_rows=50), "was made with other settings .max_train_rows 60"),
    ):
        monkeypatch.setitem(catalogue.REGISTERED, "clinics", other)
        with pytest.raises(InputError, match=message):
            plan_studies([of_clinics("logistic")], tmp_path / "runs")
    monkeypatch.setitem(catalogue.REGISTERED, "clinics", replace(clinics, read=lambda: (X, y, domains)))
    assert plan_studies([of_clinics("logistic")], tmp_path / "runs").n_finished == 2


def test_data_of_two_dimensions_need_no_table():
    load_plugins([PLUGIN])
    data = draw_study_data(study_dataset("clinics"), 0, 20)
    assert data.X.shape == data.numbers.shape == (len(np.concatenate(data.split)), 3)
    assert np.abs(data.training_numbers[0].mean(axis=0)).max() < 1e-5, "standardised by the training rows"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_module_anywhere", "cannot be imported: ModuleNotFoundError"),
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
        (
            'from domaincover.study import register_method\nregister_method("erm")(None)',
            "method 'erm' is already registered",
        ),
        (
            'from domaincover.study import register_dataset\nregister_dataset("votes")(None)',
            "a dataset 'votes' already exists",
        ),
        ('from domaincover.study import register_dataset\nregister_dataset("../x")(None)', "becomes a folder"),
        ('from domaincover.study import register_dataset\nregister_dataset("results")(None)', "is reserved"),
        (
            'from domaincover.study import register_dataset\nregister_dataset("x", rows=3)(None)',
            "has an unknown setting 'rows'",
        ),
    ],
)
def test_a_plug_in_that_cannot_be_used_gets_one_line(tmp_path, text, message):
    file = tmp_path / "own.py"
    file.write_text(text)
    with pytest.raises(InputError, match=f"^plug-in .*own.py.*{message}"):
        load_plugins([str(file)])


def test_a_plug_in_that_has_changed_is_not_taken_for_what_this_process_read(tmp_path):
    file = tmp_path / "own.py"
    file.write_text("")
    load_plugins([str(file)])
    load_plugins([str(file)])
    file.write_text("pass")
    with pytest.raises(InputError, match="has changed since this process imported it; restart the workers"):
        load_plugins([str(file)])


def test_where_too_few_domains_train_for_a_promise_its_methods_are_left_out_with_a_note():
    load_plugins([PLUGIN])
    notes = []
    few = {"settings": {"min_cell_size": 5}, "sizes": Sizes(5, 6, 60, 60)._asdict()}
    experiment = Experiment("x", datasets=("clinics",), methods=("erm", "joint"), **few)
    (study,) = experiment.studies({}, False, notes.append)
    assert study.methods == ("erm",)
    assert notes[0].startswith(
        "erm-joint is left out on clinics: a domain confidence of 0.9 takes 9 calibration domains"
    )


def test_a_penaltys_weight_is_taken_from_a_file():
    settings = {"penalty_weight": 2.0}
    (study,) = Experiment("x", datasets=("synthetic-10",), methods=("irm",), settings=settings).studies(
        (), False, print
    )
    assert {run.penalty_weight for run in study.runs()} == {2.0}


def test_runs_that_train_differently_are_not_one_job():
    from domaincover.paper.job import plan_jobs

    runs = [
        run
        for epochs in (1, 2)
        for run in Study(study_dataset("synthetic-10"), ("erm",), seeds=(0,), epochs=epochs).runs()
    ]
    assert [len(job.runs) for job in plan_jobs(runs)] == [1, 1]


def test_a_worker_that_does_not_see_the_directory_says_so(tmp_path):
    from domaincover.paper.job import plan_jobs

    (job,) = plan_jobs(Study(study_dataset("synthetic-10"), ("erm",), seeds=(0,)).runs())
    done = Work(str(tmp_path / "elsewhere"), str(tmp_path / "elsewhere/.progress"))(job)
    assert done.is_input
    assert "this worker cannot read" in done.reason


def test_a_plug_in_is_found_by_its_modules_name_in_the_current_folder(tmp_path, monkeypatch):
    shutil.copy(PLUGIN, tmp_path / "my_own_plugin.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    load_plugins(["my_own_plugin"])
    assert "clinics" in catalogue.REGISTERED
    del sys.modules["my_own_plugin"]
    with pytest.raises(InputError, match=r"plug-in nowhere\.py: the file does not exist"):
        load_plugins(["nowhere.py"])


def test_installed_packages_announce_plug_ins_by_an_entry_point(tmp_path, monkeypatch):
    shutil.copy(PLUGIN, tmp_path / "announced_plugin.py")
    described = tmp_path / "announced-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: announced\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(f"[{GROUP}]\nown = announced_plugin\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    load_plugins([])
    assert "clinics" in catalogue.REGISTERED
    del sys.modules["announced_plugin"]


def test_an_estimator_that_gives_no_sets_is_refused():
    load_plugins([PLUGIN])
    data = draw_study_data(study_dataset("clinics"), 0, 20)
    method = methods.study_method("logistic")

    class Fits:
        def fit(self, *_):
            return self

    class Numbers(Fits):
        def predict_set(self, X):
            return np.zeros(len(X))

    with pytest.raises(InputError, match="Fits has neither predict_set nor predict"):
        predicted(Fits(), data, method)
    with pytest.raises(InputError, match=r"Numbers must return booleans, .* 2 labels, got float64"):
        predicted(Numbers(), data, method)


def test_a_label_that_an_estimator_did_not_meet_is_in_every_set():
    load_plugins([PLUGIN])
    data = draw_study_data(study_dataset("clinics"), 0, 20)
    method = methods.study_method("logistic")

    class OnlyIll:
        classes_ = np.array([0])

        def fit(self, *_):
            return self

        def predict_set(self, X):
            return np.zeros((len(X), 1), bool)

    sets = predicted(OnlyIll(), data, method).sets
    assert not sets[:, 0].any()
    assert sets[:, 1].all()


def test_studies_that_want_one_run_with_two_settings_are_refused(tmp_path):
    both = [Study(study_dataset("synthetic-10"), ("erm",), epochs=epochs) for epochs in (1, 2)]
    with pytest.raises(InputError, match=r"two experiments have synthetic-10/erm/.* with epochs 1 and 2"):
        plan_studies(both, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_run_of_the_same_data_read_in_two_ways_is_done_once(tmp_path):
    def table():
        rows = np.arange(240)
        return rows[:, None] / 240.0, rows % 2, rows // 2 % 6

    sources = [
        TableDataset(name="twice", read=read, n_train_domains=3, n_unseen_domains=3, min_cell_size=5)
        for read in (table, lambda: table())
    ]
    plan = plan_studies([Study(source, ("erm",), seeds=(0,)) for source in sources], tmp_path / "runs")
    assert sum(len(job.runs) for job in plan.jobs) == 1


def test_a_method_that_cannot_be_run_on_a_data_set_is_left_out_of_an_experiment_with_a_note(monkeypatch):
    notes = []
    monkeypatch.setattr("domaincover.paper.experiment.why_not", lambda name, *_: "why" if name == "mmd" else None)
    (study,) = Experiment("x", datasets=("synthetic-10",), methods=("erm", "mmd")).studies({}, False, notes.append)
    assert study.methods == ("erm",)
    assert notes == ["mmd is left out on synthetic-10: why"]


def test_the_report_of_an_own_method_is_like_any_other(tmp_path):
    load_plugins([PLUGIN])
    do(of_clinics("logistic"), tmp_path / "runs")
    report = json.loads((tmp_path / "runs/clinics/logistic/target-0.9/seed-0/report.json").read_text())
    assert (report["thresholds"], report["config"]["method"]) == (None, "logistic")
    assert report["seconds"]["train"] > 0


def test_a_failed_method_is_told_the_rest_is_made_and_the_code_says_so(here, tmp_path):
    text = 'datasets = ["clinics"]\nmethods = ["logistic", "breaks"]\nseeds = 1\nfigures = ["share"]\n'
    (tmp_path / "mine.toml").write_text(text)
    arguments = ["run", tmp_path / "mine.toml", "--plugin", PLUGIN, "--jobs", 1, "--out", tmp_path / "runs"]
    for _ in range(2):
        code, _, told = here(*arguments)
        assert code == 1
        assert "Failed: clinics breaks, seed 0 (1 run): RuntimeError: no such luck at all" in told
        share = tmp_path / "runs/results/mine/share-clinics.png"
        share.unlink()  # which is there, and made anew although something fails again


MARGIN = """
import numpy as np
from domaincover.study import register_method

MARGIN = 0.1


class Sets:
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_set(self, X):
        return np.stack([X[:, 0] < MARGIN, X[:, 0] > -MARGIN], axis=1)


@register_method("margins")
def margins(target_recall, seed):
    return Sets()
"""


def test_an_edited_plug_in_does_not_give_the_numbers_of_before(here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(MARGIN, encoding="utf-8")
    few = "n_train_domains = 3\nn_unseen_domains = 2\nmax_train_rows = 20\nmax_test_rows = 20\nfigures = []\n"
    few += 'seeds = 1\nepochs = 1\nmin_cell_size = 1\nmethods = ["margins", "erm"]\n'
    Path("own.toml").write_text(f'datasets = ["synthetic-10"]\n{few}', encoding="utf-8")
    command = ["run", "own.toml", "--plugin", "own.py", "--jobs", 1]
    assert here(*command)[0] == 0
    before = pd.read_parquet("runs/own/synthetic-10/margins/target-0.9/seed-0/predictions.parquet")
    Path("own.py").write_text(MARGIN.replace("0.1", "2.0"), encoding="utf-8")
    forget_plugins(monkeypatch)
    code, printed, told = here(*command)
    assert (code, printed, told.count("\n")) == (2, "", 1)
    assert re.search(r"margins/target-0.9/seed-0 was made with other settings \(plugin_source '[0-9a-f]{32}'\)", told)
    shutil.rmtree("runs/own/synthetic-10/margins")
    forget_plugins(monkeypatch)
    code, _, told = here(*command)
    assert code == 0
    assert "2 runs: 1 finished, 1 to do" in told
    after = pd.read_parquet("runs/own/synthetic-10/margins/target-0.9/seed-0/predictions.parquet")
    assert not after.equals(before)


def forget_plugins(monkeypatch):
    """Forget what this process has read, as the next command does."""
    monkeypatch.setattr("domaincover.paper.plugins._read", {})
    for name in list(methods.METHODS):
        if methods.METHODS[name].from_plugin:
            del methods.METHODS[name]
    for name in list(sys.modules):
        if name.startswith("domaincover_plugin_"):
            del sys.modules[name]


def test_a_worker_with_another_version_of_a_plug_in_says_so(tmp_path):
    load_plugins([PLUGIN])
    job, *_ = plan_studies([of_clinics("logistic")], tmp_path / "runs").jobs
    methods.METHODS["logistic"] = replace(methods.METHODS["logistic"], plugin_source="another")
    done = Work(str(tmp_path / "runs"), str(tmp_path))(job)
    assert (done.reason, done.is_input) == ("this worker has another version of the plug-in of logistic.", True)
