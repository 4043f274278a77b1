import numpy as np
import pandas as pd
import pytest

from domaincover import InputError
from domaincover.paper.catalogue import study_dataset
from domaincover.paper.collect import read_histories
from domaincover.paper.job import plan_jobs, run_job
from domaincover.paper.run_directory import open_study
from domaincover.paper.study import Study
from domaincover.paper.study_datasets import QUICK
from domaincover.paper.study_report.chart_data import best_step

SETTINGS = {"seeds": (0, 1), "epochs": 4, "min_cell_size": 20, "quick": True}
RESULTS = pd.DataFrame({"dataset": ["synthetic-10"], "method": ["set-cover"], "target_recall": [0.9]})


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    open_study(out)
    for job in plan_jobs(
        Study(study_dataset("synthetic-10").with_sizes(QUICK), ("set-cover", "set-cover-best"), **SETTINGS).runs()
    ):
        run_job(job, out)
    return out


def test_the_history_of_the_first_seed_has_every_step_and_cell(out):
    (history,) = read_histories(out, RESULTS)
    assert (history.dataset, history.target_recall, history.seed) == ("synthetic-10", 0.9, 0)
    assert history.recall.shape == history.multipliers.shape == (4, len(history.cells)) == (4, 20)
    assert len(set(history.cells)) == 20


def test_the_best_step_is_that_of_the_weights_which_the_best_iterate_keeps(out):
    (history,) = read_histories(out, RESULTS)
    folder = out / "synthetic-10/set-cover-best/target-0.9/seed-0"
    table = pd.read_parquet(folder / "predictions.parquet")
    train = table[table["split"] == "train"]
    inside = train[[name for name in train if name.startswith("in_set")]].to_numpy()
    assert inside.sum(axis=1).mean() == pytest.approx(history.set_size[best_step(history)], abs=1e-6)


def test_of_steps_that_are_at_target_the_best_has_the_smallest_sets(out):
    (history,) = read_histories(out, RESULTS)
    recall = np.full((3, 20), 0.95)
    recall[0, 3] = 0.5
    found = history._replace(recall=recall, set_size=np.array([1.0, 1.4, 1.2]))
    assert best_step(found) == 2
    recall[1:, 3] = 0.6, 0.55
    assert best_step(found) == 1, "no step is at target, and this is nearest"


def test_without_set_cover_there_is_no_history(out):
    assert read_histories(out, RESULTS.assign(method="erm")) == []
    assert read_histories(out, RESULTS.assign(target_recall=0.8)) == []


@pytest.mark.parametrize("content", [b"", b"PK", b"text"])
def test_a_broken_history_is_one_line(content, tmp_path):
    folder = tmp_path / "synthetic-10/set-cover/target-0.9/seed-0"
    folder.mkdir(parents=True)
    (folder / "history.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"history.npz is not a training history .*; delete that folder and run again"):
        read_histories(tmp_path, RESULTS)
