import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from domaincover import InputError
from domaincover.files import machine
from domaincover.paper.catalogue import study_dataset
from domaincover.paper.collect import collect
from domaincover.paper.job import estimator_of, plan_jobs
from domaincover.paper.methods import GROUPS, METHODS, study_method, study_methods
from domaincover.paper.runner import plan_studies, run_study
from domaincover.paper.study import Run, Study
from domaincover.paper.study_datasets import Sizes, draw_study_data
from domaincover.terminal.processes import one_thread

SETTING = study_dataset("synthetic-10")
FEWER = SETTING.with_sizes(Sizes(10, 4, 300, 200))
SMALL = Study(SETTING, seeds=(0, 1), epochs=1)


def do(study, out, n_processes=1):
    return run_study(plan_studies([study], out), out, n_processes)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One small study with every method; tests that change it work on a copy."""
    out = tmp_path_factory.mktemp("study") / "runs"
    do(SMALL, out)
    return out


@pytest.fixture
def copy(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "runs")


def without_seconds(tables):
    return tables.results.drop(columns="train_seconds")


def test_every_run_has_its_directory_with_done_in_it(finished):
    folders = {str(path.parent.relative_to(finished)) for path in finished.glob("**/DONE")}
    assert folders == {run.folder for run in SMALL.runs()}
    assert len(folders) == 10
    for folder in folders:
        names = {path.name for path in (finished / folder).iterdir()}
        assert names == {"config.json", "predictions.parquet", "report.json", "history.npz", "DONE"}


def test_a_report_says_what_was_run_and_with_what(finished):
    report = json.loads((finished / "synthetic-10/robust/target-0.9/seed-1/report.json").read_text())
    assert (report["config"]["seed"], report["config"]["method"]) == (1, "robust")
    assert {"python", "domaincover", "torch"} <= set(report["versions"])
    assert report["seconds"]["train"] > 0
    assert len(report["thresholds"]) == 2
    assert len(report["splits"]["unseen"]["domains"]) == 25


def test_predictions_give_the_reported_numbers(finished):
    folder = finished / "synthetic-10/set-cover/target-0.9/seed-0"
    table = pd.read_parquet(folder / "predictions.parquet")
    report = json.loads((folder / "report.json").read_text())
    assert table["split"].value_counts().to_dict() == {"train": 50_000, "seen": 25_000, "unseen": 25_000}
    unseen = table[table["split"] == "unseen"]
    assert ((unseen["score[1]"] >= 0) == unseen["in_set[1]"]).all()
    hit = np.where(unseen["label"] == "1", unseen["in_set[1]"], unseen["in_set[0]"])
    recall = pd.Series(hit, index=unseen.index).groupby([unseen["domain"].astype(str), unseen["label"].astype(str)])
    by_cell = recall.mean()
    for domain in report["splits"]["unseen"]["domains"]:
        assert domain["recall"] == pytest.approx({y: by_cell[domain["domain"], y] for y in "01"})


def test_every_method_of_a_seed_meets_the_same_rows_and_domains(finished):
    first, *others = (
        pd.read_parquet(
            finished / f"synthetic-10/{method}/target-0.9/seed-0/predictions.parquet",
            columns=["split", "domain", "label"],
        )
        for method in SMALL.methods
    )
    assert all(first.equals(other) for other in others)


def test_held_out_calibration_gives_the_target_on_average_over_the_calibration_half(finished):
    table = pd.read_parquet(finished / "synthetic-10/pooled-held-out/target-0.9/seed-0/predictions.parquet")
    report = json.loads((finished / "synthetic-10/pooled-held-out/target-0.9/seed-0/report.json").read_text())
    train = table[table["split"] == "train"]
    own = train[train["label"] == "1"]
    by_domain = (own["score[1]"] >= report["thresholds"][1]).groupby(own["domain"].astype(str)).mean()
    # the calibration half is 12 of the 25 domains; no 12 others can be told apart from outside, but their mean must
    # lie between those of the 12 lowest and the 12 highest
    ordered = np.sort(by_domain.to_numpy())
    assert len(ordered) == 25
    assert ordered[:12].mean() <= 0.9 + 1e-3
    assert ordered[-12:].mean() >= 0.9


def test_the_history_of_set_cover_is_kept(finished):
    folder = finished / "synthetic-10/set-cover/target-0.9/seed-0"
    history = np.load(folder / "history.npz")
    assert history["multipliers"].shape == history["recall"].shape == (1, 25, 2)
    assert np.isfinite(history["recall"]).all()
    assert history["loss"].shape == history["set_size"].shape == (1,)
    table = pd.read_parquet(folder / "predictions.parquet", columns=["split", "domain"])
    assert set(history["domains"]) == set(table.loc[table["split"] == "train", "domain"])
    assert history["labels"].tolist() == ["0", "1"]


ONE_SEED = Study(
    FEWER,
    ("erm", "robust", "pooled-held-out", "set-cover", "set-cover-best", "set-cover-full-set-best", "vrex"),
    seeds=(3,),
    epochs=2,
    min_cell_size=20,
)


def assert_a_run_has_the_sets_of_its_estimator(run, out):
    data = draw_study_data(run.setting, run.seed, run.min_cell_size)
    X, y, domains = data.training
    with one_thread():
        model = estimator_of(run).fit(X, y, domains=domains)
        batches = {"domains": data.batches} if study_method(run.method).adapts else {}
        sets, scores = model.predict_set(data.X, **batches), model.label_scores(data.X)
    table = pd.read_parquet(out / run.folder / "predictions.parquet")
    np.testing.assert_array_equal(table.filter(like="in_set").to_numpy(), sets, err_msg=run.method)
    np.testing.assert_array_equal(table.filter(like="score").to_numpy(), np.float32(scores), err_msg=run.method)


def test_a_run_has_the_sets_of_its_estimator_fitted_by_hand_bit_for_bit(tmp_path):
    do(ONE_SEED, tmp_path)
    for run in ONE_SEED.runs():
        assert_a_run_has_the_sets_of_its_estimator(run, tmp_path)


BOTH_ITERATES = Study(
    SETTING,
    ("set-cover", "set-cover-best", "set-cover-full-set", "set-cover-full-set-best"),
    seeds=(0,),
)


def test_set_cover_is_algorithm_1_as_printed_and_the_best_iterate_a_method_of_its_own():
    iterates = {run.method: (run.iterate, run.recall_from) for run in BOTH_ITERATES.runs()}
    assert iterates["set-cover"] == iterates["set-cover-full-set"] == ("last", "full-pass")
    assert iterates["set-cover-best"] == iterates["set-cover-full-set-best"] == ("best", "full-pass")
    promised = replace(BOTH_ITERATES, methods=GROUPS["joint"]).runs()
    assert {run.iterate for run in promised if run.method.startswith("set-cover")} == {"best"}


def test_a_study_can_set_the_iterate_but_of_methods_that_name_it():
    iterates = {run.method: run.iterate for run in replace(BOTH_ITERATES, iterate="best").runs()}
    assert set(iterates.values()) == {"best"}
    iterates = {run.method: run.iterate for run in replace(BOTH_ITERATES, iterate="last").runs()}
    assert (iterates["set-cover"], iterates["set-cover-best"]) == ("last", "best")
    with pytest.raises(InputError, match="iterate must be one of 'best', 'last', got 'mean'"):
        replace(BOTH_ITERATES, iterate="mean")


def test_both_iterates_come_from_one_training():
    jobs = plan_jobs(BOTH_ITERATES.runs())
    assert sorted(job.scorer for job in jobs) == ["set-cover", "set-cover-full-set"]
    assert {len(job.runs) for job in jobs} == {2}


def test_finished_runs_are_skipped(copy):
    before = {path: path.stat().st_mtime_ns for path in copy.glob("**/report.json")}
    outcome = do(SMALL, copy)
    assert (outcome.n_finished_before, outcome.n_new) == (10, 0)
    assert {path: path.stat().st_mtime_ns for path in copy.glob("**/report.json")} == before


def test_an_interrupted_run_is_redone_with_the_same_result(copy, finished):
    folder = copy / "synthetic-10/erm/target-0.9/seed-0"
    (folder / "DONE").unlink()
    (folder / "report.json").write_text("{half")
    outcome = do(SMALL, copy)
    assert (outcome.n_finished_before, outcome.n_new) == (9, 1)
    pd.testing.assert_frame_equal(without_seconds(collect(str(copy))), without_seconds(collect(finished)))


def test_an_unfinished_run_is_not_read(copy):
    (copy / "synthetic-10/erm/target-0.9/seed-0/DONE").unlink()
    results = collect(copy).results.set_index(["method", "split"])
    assert results.loc[("erm", "unseen"), "n_seeds"] == 1
    assert results.loc[("robust", "unseen"), "n_seeds"] == 2


@pytest.mark.deep
def test_several_processes_give_the_results_of_one(finished, tmp_path):
    do(SMALL, tmp_path / "runs", n_processes=2)
    pd.testing.assert_frame_equal(without_seconds(collect(tmp_path / "runs")), without_seconds(collect(finished)))


def test_a_seed_gives_the_same_result_alone_and_stacked_with_another(finished, tmp_path):
    do(Study(SETTING, seeds=(1,), epochs=1), tmp_path / "runs")
    for method in SMALL.methods:
        alone, stacked = (
            pd.read_parquet(out / f"synthetic-10/{method}/target-0.9/seed-1/predictions.parquet")
            for out in (tmp_path / "runs", finished)
        )
        assert np.abs(alone["score[1]"] - stacked["score[1]"]).max() < 1e-4


def test_target_recalls_train_together_and_each_as_if_alone(finished, tmp_path):
    study = Study(SETTING, ("set-cover", "robust"), (0.8, 0.9), seeds=(0,), epochs=1)
    assert len(plan_jobs(study.runs())) == 2
    do(study, tmp_path / "runs")
    stacked, alone = (
        pd.read_parquet(out / "synthetic-10/set-cover/target-0.9/seed-0/predictions.parquet")
        for out in (tmp_path / "runs", finished)
    )
    assert np.abs(alone["score[1]"] - stacked["score[1]"]).max() < 1e-4
    results = collect(tmp_path / "runs").results.set_index(["method", "target_recall", "split"])["set_size"]
    assert results["robust", 0.8, "unseen"] < results["robust", 0.9, "unseen"]


def test_the_same_name_with_other_settings_is_refused(copy):
    with pytest.raises(InputError, match=r"seed-0 was made with other settings \(epochs 1\)"):
        plan_studies([Study(SETTING, epochs=2)], copy)


def test_a_foreign_directory_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not empty and not a domaincover study"):
        plan_studies([SMALL], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_study_of_a_newer_format_is_refused(copy):
    (copy / "study.json").write_text('{"domaincover_study": 2}')
    with pytest.raises(InputError, match="format 2 and this version reads 1"):
        collect(copy)


@pytest.mark.parametrize("content", ["{}", "[1, 2]", "3"])
def test_a_report_that_is_none_is_named(copy, content):
    (copy / "synthetic-10/erm/target-0.9/seed-0/report.json").write_text(content)
    with pytest.raises(InputError, match=r"seed-0/report.json"):
        collect(copy)


def test_a_file_is_no_study(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file, not a study's directory"):
        collect(tmp_path / "file")
    with pytest.raises(InputError, match="is a file; choose a directory"):
        plan_studies([SMALL], tmp_path / "file")


def test_targets_that_are_nearly_equal_have_folders_of_their_own():
    assert len({Run("synthetic-10", "erm", target, 0).folder for target in (0.9, 0.90, 0.8999999)}) == 2


def test_leftovers_of_dead_processes_are_removed_and_those_of_living_ones_kept(copy):
    dead, alive, foreign, elsewhere = (
        copy / ".unfinished" / name
        for name in (
            f".run.999999999-{machine()}-0a1b2c3d4e5f.part",
            f".run.1-{machine()}-0a1b2c3d4e5f.part",
            "a-b",
            ".run.999999999-00000000-0a1b2c3d4e5f.part",
        )
    )
    for folder in (dead, alive, foreign, elsewhere):
        folder.mkdir(parents=True)
    plan_studies([SMALL], copy)
    assert (dead.exists(), alive.exists(), foreign.exists(), elsewhere.exists()) == (False, True, True, True)


def test_a_study_without_finished_runs_says_so(tmp_path):
    plan_studies([SMALL], tmp_path / "runs")
    with pytest.raises(InputError, match="no finished run yet"):
        collect(tmp_path / "runs")


def test_results_are_means_over_seeds_of_the_reported_summaries(finished):
    results = collect(finished).results.set_index(["method", "split"])
    reports = [
        json.loads((finished / f"synthetic-10/robust/target-0.9/seed-{seed}/report.json").read_text())
        for seed in (0, 1)
    ]
    shares = [report["splits"]["unseen"]["summary"]["share_at_target"] for report in reports]
    row = results.loc[("robust", "unseen")]
    assert row["share_at_target"] == pytest.approx(np.mean(shares))
    assert row["share_at_target_std"] == pytest.approx(np.std(shares, ddof=1))
    assert (row["n_seeds"], row["n_domains"]) == (2, 25)
    interval = scipy.stats.ttest_1samp(shares, 0).confidence_interval(0.95)
    assert row["share_at_target_ci"] == pytest.approx((interval.high - interval.low) / 2)


def test_the_domain_table_has_a_row_per_domain_split_seed_and_method(finished):
    domains = collect(finished).domains
    assert len(domains) == 25 * 3 * 2 * 5
    assert set(domains.iloc[0]["recall"]) == {"0", "1"}
    assert (domains["n_labels"] == 2).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"methods": ("set-cove",)},
            r"unknown method 'set-cove' \(did you mean set-cover\?\); methods are erm, irm, vrex",
        ),
        ({"target_recalls": (90,)}, "between 0 and 1, got 90"),
        ({"seeds": (0, -1)}, "seed must be 0 or above, got -1"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"penalty_weight": np.inf}, "penalty_weight must be a finite number, 0 or more, got inf"),
        ({"penalty_weight": 1.0}, "penalty_weight applies to irm, vrex, mmd and coral, but the study has none of them"),
        ({"domains_per_batch": 1}, "domains_per_batch must be at least 2, got 1"),
    ],
)
def test_an_impossible_study_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        Study(SETTING, **changes)


def test_jobs_share_networks_and_the_costly_ones_come_first():
    studies = [Study(study_dataset(name), epochs=1) for name in ("synthetic-10", "synthetic-50")]
    jobs = plan_jobs(run for study in studies for run in study.runs())
    assert len(jobs) == 6
    assert jobs[0].dataset == "synthetic-50"
    assert sum(len(job.runs) for job in jobs) == 50
    assert {run.method for job in jobs if job.scorer == "erm" for run in job.runs} == {"erm", "pooled-train", "robust"}


@pytest.mark.slow
def test_joint_methods_run_in_the_study_with_their_confidence(tmp_path):
    study = Study(FEWER, methods=GROUPS["joint"], seeds=(0,), epochs=1, min_cell_size=20)
    assert do(study, tmp_path).n_new == 4
    fixed, adapted = (
        json.loads((tmp_path / f"synthetic-10/{method}/target-0.9/seed-0/report.json").read_text())
        for method in ("set-cover-joint", "set-cover-adapted")
    )
    assert fixed["config"]["domain_confidence"] == adapted["config"]["domain_confidence"] == 0.9
    assert len(fixed["thresholds"]) == 2
    assert adapted["thresholds"] is None  # every domain has its own
    assert fixed["seconds"] == adapted["seconds"]
    for run in study.runs():
        assert_a_run_has_the_sets_of_its_estimator(run, tmp_path)
    with pytest.raises(InputError, match=r"was made with other settings \(domain_confidence 0\.9\)"):
        plan_studies([replace(study, domain_confidence=0.8)], tmp_path)


def test_fixed_and_adapted_thresholds_are_of_one_model_whose_networks_train_once():
    study = Study(SETTING, methods=GROUPS["joint"], seeds=(0, 1))
    jobs = plan_jobs(study.runs())
    assert sorted(job.scorer for job in jobs) == ["erm-joint"] * 2 + ["set-cover-joint"] * 2
    assert {len(job.runs) for job in jobs} == {2}


def test_the_rows_of_a_domain_within_a_split_are_its_batch():
    data = draw_study_data(next(ONE_SEED.runs()).setting, 0, 20)
    batches = {name: set(data.batches[rows]) for name, rows in data.split._asdict().items()}
    assert [len(codes) for codes in batches.values()] == [10, 10, 4]
    assert len(set.union(*batches.values())) == 24
    seen = data.split.seen
    assert len(set(zip(data.batches[seen], data.domains[seen], strict=True))) == 10


SINGLE_LABEL = Study(FEWER, ("irm", "vrex", "mmd", "coral"), seeds=(0, 1), epochs=1, min_cell_size=20)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """The methods that compare domains, stacked over two seeds."""
    out = tmp_path_factory.mktemp("compared") / "runs"
    do(SINGLE_LABEL, out)
    return out


def test_methods_that_compare_domains_answer_with_one_label_each_with_a_network_of_its_own(compared):
    folder = "synthetic-10/{}/target-0.9/seed-0/predictions.parquet"
    tables = {name: pd.read_parquet(compared / folder.format(name)) for name in SINGLE_LABEL.methods}
    for table in tables.values():
        assert (table.filter(like="in_set").sum(axis=1) == 1).all()
    scores = np.stack([table["score[1]"] for table in tables.values()])
    assert len(np.unique(scores, axis=0)) == len(tables)


def test_their_seeds_train_stacked_as_they_would_alone(compared, tmp_path):
    do(replace(SINGLE_LABEL, seeds=(1,)), tmp_path)
    for method in SINGLE_LABEL.methods:
        alone, stacked = (
            pd.read_parquet(out / f"synthetic-10/{method}/target-0.9/seed-1/predictions.parquet")
            for out in (tmp_path, compared)
        )
        # Their rounding differs, and IRM's weight of 100 makes more of it than ERM's steps do.
        assert np.abs(alone["score[1]"] - stacked["score[1]"]).max() < 2e-3


def test_only_they_record_how_many_domains_a_batch_has(compared):
    config = json.loads((compared / "synthetic-10/irm/target-0.9/seed-0/config.json").read_text())
    assert config["domains_per_batch"] == 4
    assert {run.domains_per_batch for run in SMALL.runs()} == {None}
    with pytest.raises(InputError, match=r"was made with other settings \(domains_per_batch 4\)"):
        plan_studies([replace(SINGLE_LABEL, domains_per_batch=5)], compared)


def test_a_penaltys_weight_is_that_of_the_methods_which_have_one():
    study = replace(SINGLE_LABEL, penalty_weight=0.5)
    weighted = {run.method for run in study.runs() if run.penalty_weight == 0.5}
    assert weighted == {"irm", "vrex", "mmd", "coral"}


def test_a_groups_name_stands_for_its_methods_each_of_them_once():
    assert study_methods(["single-label", "robust", "erm"]) == (*GROUPS["single-label"], "robust")
    assert set(GROUPS["paper"]) | set(GROUPS["single-label"]) < set(METHODS)
    assert SMALL.methods == GROUPS["paper"]


@pytest.mark.parametrize("order", [1, -1])
def test_runs_that_differ_in_a_setting_that_one_of_them_lacks_are_told_by_it(tmp_path, order):
    settings = [SETTING.with_sizes(sizes) for sizes in (None, Sizes(6, 4, 60, 60))]
    both = [Study(setting, ("erm",), seeds=(0,)) for setting in settings]
    with pytest.raises(InputError, match=r"have synthetic-10/erm/target-0\.9/seed-0 with n_train_domains"):
        plan_studies(both[::order], tmp_path / "runs")
