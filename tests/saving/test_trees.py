"""Trees of all packages are saved as arrays, without skops and without any `trusted`."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline

from domaincover import ConformalSetClassifier, InputError, MeanClassifier, PromisedSetClassifier, TableEncoder, load
from domaincover.cli import main
from domaincover.estimators.fitted_trees import TreesClassifier
from domaincover.saving.models import load_to_predict, save
from domaincover.saving.parts import PartsReader

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 3, 900)
X = pd.DataFrame(RNG.normal(size=(900, 3)) + CODES[:, None], columns=list("abc"))
ROUNDING = {"lightgbm": 1e-12, "xgboost": 1e-6}  # XGBoost computes in single precision
SMALL = {
    "lightgbm": ("LGBMClassifier", {"n_estimators": 3, "verbose": -1, "n_jobs": 1}),
    "xgboost": ("XGBClassifier", {"n_estimators": 3, "n_jobs": 1}),
}


@pytest.fixture
def status_of(monkeypatch):
    """Call a command in this process, and return its status."""

    def called(*arguments):
        monkeypatch.setattr("sys.argv", ["domaincover", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code

    return called


def booster(package):
    name, params = SMALL[package]
    return getattr(pytest.importorskip(package), name)(**params)


@pytest.mark.parametrize("package", SMALL)
def test_a_promise_around_a_booster_is_saved_without_trusted(package, tmp_path):
    model = PromisedSetClassifier(make_pipeline(TableEncoder(scale=False), booster(package)), folds=2, random_state=0)
    model.fit(X, CODES, domains=np.arange(900) // 75).save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=ROUNDING[package])
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"arrays.safetensors", "model.json"}


@pytest.mark.parametrize("package", SMALL)
def test_a_booster_takes_labels_of_text_and_is_read_by_the_shell(package, tmp_path, status_of):
    names = np.array(["well", "ill", "unknown"])[CODES]
    model = ConformalSetClassifier(booster(package), random_state=0).fit(X, names, domains=np.arange(900) // 75)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.classes_.tolist() == ["ill", "unknown", "well"]
    np.testing.assert_allclose(again.label_scores(X), model.label_scores(X), rtol=ROUNDING[package])
    assert (model.predict(X) == names).mean() > 0.6
    X.assign(other="text").to_csv(tmp_path / "new.csv", index=False)
    assert status_of("predict", tmp_path / "model", tmp_path / "new.csv", "--out", tmp_path / "sets.csv") == 0
    written = pd.read_csv(tmp_path / "sets.csv").set_size
    assert written.tolist() == model.predict_set(X.astype(float)).sum(axis=1).tolist()


def test_the_shell_says_which_column_a_booster_cannot_read(tmp_path, capsys, status_of):
    model = ConformalSetClassifier(booster("xgboost"), random_state=0).fit(X, CODES, domains=np.arange(900) // 75)
    model.save(tmp_path / "model")
    X.assign(b="text").to_csv(tmp_path / "new.csv", index=False)
    assert status_of("predict", tmp_path / "model", tmp_path / "new.csv", "--out", tmp_path / "sets.csv") == 2
    assert "column 'b' is not of numbers" in capsys.readouterr().err


def test_a_mean_with_xgboost_keeps_labels_of_text():
    names = np.array(["well", "ill", "unknown"])[CODES]
    given = {"domains": np.arange(900) // 75}
    model = MeanClassifier([("a", booster("xgboost")), ("b", booster("lightgbm"))]).fit(X, names, **given)
    assert model.classes_.tolist() == ["ill", "unknown", "well"]
    assert np.isfinite(model.label_scores(X)).all()


@pytest.mark.parametrize("labels", [[1, 2, 3], [0, 2, 7], [-1, 0, 1]])
def test_numbers_that_xgboost_rejects_are_coded_too(labels):
    y = np.array(labels)[CODES]
    model = ConformalSetClassifier(booster("xgboost"), random_state=0).fit(X, y, domains=np.arange(900) // 75)
    assert model.classes_.tolist() == labels
    assert isinstance(model.estimator_, TreesClassifier)


def test_labels_from_0_are_left_to_xgboost():
    model = ConformalSetClassifier(booster("xgboost"), random_state=0).fit(X, CODES, domains=np.arange(900) // 75)
    assert type(model.estimator_).__name__ == "XGBClassifier"


TREES = [*SMALL, "scikit-learn"]


def classifier(package):
    return RandomForestClassifier(3, random_state=0) if package == "scikit-learn" else booster(package)


@pytest.mark.parametrize("package", TREES)
def test_what_predicts_is_saved_as_what_was_fitted(package, tmp_path):
    model = PromisedSetClassifier(
        make_pipeline(TableEncoder(scale=False), classifier(package)), folds=2, random_state=0
    )
    model.fit(X, np.array(["a", "b", "c"])[CODES], domains=np.arange(900) // 75).save(tmp_path / "model")
    light = load_to_predict(tmp_path / "model")
    assert not hasattr(light, "fit")
    np.testing.assert_array_equal(light.label_scores(X), load(tmp_path / "model").label_scores(X))
    np.testing.assert_array_equal(light.predict_set(X), model.predict_set(X))
    for name, again in {"light": light, "whole": load(tmp_path / "model")}.items():
        save(again, tmp_path / name)
        for path in (tmp_path / "model").iterdir():
            assert (tmp_path / name / path.name).read_bytes() == path.read_bytes()


def test_a_loaded_booster_is_fitted_again_with_its_parameters(tmp_path):
    model = ConformalSetClassifier(booster("lightgbm"), calibration="training-data")
    again = load(model.fit(X, CODES, domains=np.arange(900) // 75).save(tmp_path / "model") or tmp_path / "model")
    assert again.estimator.get_params() == model.estimator.get_params() | {"n_jobs": None}  # of this machine
    scores = again.label_scores(X)
    np.testing.assert_array_equal(
        again.fit(X, CODES, domains=np.arange(900) // 75).predict_set(X), model.predict_set(X)
    )
    np.testing.assert_allclose(again.label_scores(X), scores, rtol=1e-12)


@pytest.mark.parametrize("package", SMALL)
def test_a_model_predicts_where_the_package_of_its_booster_is_not_installed(package, tmp_path, monkeypatch):
    model = ConformalSetClassifier(booster(package), random_state=0).fit(X, CODES, domains=np.arange(900) // 75)
    model.save(tmp_path / "model")
    expected = model.predict_set(X)
    monkeypatch.setattr("domaincover.saving.parts.find_spec", lambda name: None if name == package else name)
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_set(X), expected)
    again.save(tmp_path / "again")
    assert (tmp_path / "again" / "model.json").read_bytes() == (tmp_path / "model" / "model.json").read_bytes()
    with pytest.raises(InputError, match=f"pip install {package}"):
        again.fit(X, CODES, domains=np.arange(900) // 75)


@pytest.mark.parametrize("forged", [{"input_model": "/etc/passwd"}, {"objective": "binary", "boosting_type": [1]}])
def test_a_forged_parameter_of_a_booster_is_refused(forged):
    pytest.importorskip("lightgbm")
    part = {"kind": "LGBMClassifier", "params": forged, "learned": {}}
    with pytest.raises(InputError, match=r"has no parameter '(input_model|boosting_type)'"):
        PartsReader({}).read([part])


def test_trees_of_other_labels_than_the_classifiers_are_refused(tmp_path):
    save(classifier("scikit-learn").fit(X, CODES), tmp_path / "model")
    content = json.loads((tmp_path / "model" / "model.json").read_bytes())
    (part,) = content["parts"]
    part["learned"]["classes_"] = {"array": {"dtype": "<i8", "shape": [2], "items": [0, 1]}}
    arrays = (tmp_path / "model" / "arrays.safetensors").read_bytes()
    with pytest.raises(InputError, match="another number of labels than its trees"):
        PartsReader({"arrays.safetensors": arrays}).read([part])
