import json

import pytest

from domaincover import InputError
from domaincover.paper import job
from domaincover.paper.catalogue import study_dataset
from domaincover.paper.run_directory import open_study
from domaincover.paper.study import Study
from domaincover.paper.study_datasets import QUICK
from domaincover.paper.training_times import measure_times, read_times

SETTING = study_dataset("synthetic-10").with_sizes(QUICK)
STUDY = Study(
    study_dataset("synthetic-10").with_sizes(QUICK),
    ("erm", "set-cover"),
    seeds=(0,),
    epochs=4,
    min_cell_size=20,
    quick=True,
)


def test_both_methods_are_timed_once_and_kept(tmp_path, monkeypatch):
    trained = []
    real = job.estimator_of
    monkeypatch.setattr(job, "estimator_of", lambda run: trained.append(run) or real(run))
    open_study(tmp_path)
    measure_times(STUDY, tmp_path)
    warm_up, timed = trained[:2], trained[2:]
    assert {run.epochs for run in warm_up} == {1}
    assert [run.method for run in timed] == ["erm", "set-cover"] * 3, "in turns"
    assert sum(run.epochs for run in timed if run.method == "erm") == 4
    times = read_times(tmp_path).set_index("dataset").loc["synthetic-10"]
    assert min(times["erm_seconds"], times["set_cover_seconds"]) > 0
    measure_times(STUDY, tmp_path)
    assert len(trained) == 8


def test_times_of_other_settings_and_foreign_files_are_refused(tmp_path):
    open_study(tmp_path)
    file = tmp_path / "times/synthetic-10.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"config": {"epochs": 99}, "seconds": {"erm": 1, "set-cover": 2}}))
    with pytest.raises(InputError, match=r"synthetic-10.json was made with .*epochs 99"):
        measure_times(STUDY, tmp_path)
    file.write_text("[]")
    for use in (lambda: measure_times(STUDY, tmp_path), lambda: read_times(tmp_path)):
        with pytest.raises(InputError, match="is no measurement of training times; delete it"):
            use()
    file.write_text(json.dumps({"config": {}, "seconds": {"erm": 10**400, "set-cover": 2}}))
    with pytest.raises(InputError, match="is no measurement of training times; delete it"):
        read_times(tmp_path)
