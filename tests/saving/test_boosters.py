"""Boosters of other packages are saved in their own formats, without any `trusted`."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from domaincover import ConformalSetClassifier, InputError, MeanClassifier, PromisedSetClassifier, TableEncoder, load
from domaincover.cli import main
from domaincover.estimators.scorer_fits import CodedLabels
from domaincover.saving.boosters import booster_part, checked_lightgbm, checked_xgboost, read_booster

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 3, 900)
X = pd.DataFrame(RNG.normal(size=(900, 3)) + CODES[:, None], columns=list("abc"))
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
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-12)
    assert not list((tmp_path / "model").glob("*.skops"))


@pytest.mark.parametrize("package", SMALL)
def test_a_booster_takes_labels_of_text_and_is_read_by_the_shell(package, tmp_path, status_of):
    names = np.array(["well", "ill", "unknown"])[CODES]
    model = ConformalSetClassifier(booster(package), random_state=0).fit(X, names, domains=np.arange(900) // 75)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.classes_.tolist() == ["ill", "unknown", "well"]
    np.testing.assert_allclose(again.label_scores(X), model.label_scores(X), rtol=1e-12)
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
    assert isinstance(model.estimator_, CodedLabels)


def test_labels_from_0_are_left_to_xgboost():
    model = ConformalSetClassifier(booster("xgboost"), random_state=0).fit(X, CODES, domains=np.arange(900) // 75)
    assert type(model.estimator_).__name__ == "XGBClassifier"


@pytest.mark.parametrize(
    ("line", "forged"),
    [("left_child", "left_child=99999"), ("split_feature", "split_feature=7"), ("num_cat", "num_cat=1")],
)
def test_a_forged_tree_of_lightgbm_is_one_line(line, forged):
    part, _, content = booster_part(booster("lightgbm").fit(X.to_numpy(), CODES))
    lines = content.decode().split("\n")
    number = next(k for k, text in enumerate(lines) if text.startswith(f"{line}="))
    lines[number] = forged + lines[number].partition(" ")[1] + lines[number].partition(" ")[2]
    with pytest.raises(InputError, match="no fitted model is like that"):
        read_booster(part, "\n".join(lines).encode())
    assert checked_lightgbm(content, 3).n_features == 3


@pytest.mark.parametrize("name", ["left_children", "split_indices"])
def test_a_forged_tree_of_xgboost_is_one_line(name):
    _, _, content = booster_part(booster("xgboost").fit(X.to_numpy(), CODES))
    model = json.loads(content)
    model["learner"]["gradient_booster"]["model"]["trees"][0][name][0] = 99999
    with pytest.raises(InputError, match="out of bounds"):
        checked_xgboost(json.dumps(model).encode(), 3)
