"""Boosters of other packages are saved in their own formats, without any `trusted`."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from domaincover import InputError, PromisedSetClassifier, TableEncoder, load
from domaincover.saving.booster_files import checked_lightgbm, checked_xgboost
from domaincover.saving.boosters import booster_part, read_booster

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 3, 900)
X = pd.DataFrame(RNG.normal(size=(900, 3)) + CODES[:, None], columns=list("abc"))
SMALL = {
    "lightgbm": ("LGBMClassifier", {"n_estimators": 3, "verbose": -1, "n_jobs": 1}),
    "xgboost": ("XGBClassifier", {"n_estimators": 3, "n_jobs": 1}),
    "catboost": ("CatBoostClassifier", {"iterations": 3, "verbose": False, "allow_writing_files": False}),
}


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


@pytest.mark.parametrize(
    ("line", "forged"),
    [("left_child", "left_child=99999"), ("split_feature", "split_feature=7"), ("num_cat", "num_cat=1")],
)
def test_a_forged_tree_of_lightgbm_is_one_line(line, forged):
    part, _, content = booster_part(booster("lightgbm").fit(X.to_numpy(), CODES))
    lines = content.decode().split("\n")
    number = next(k for k, text in enumerate(lines) if text.startswith(f"{line}="))
    lines[number] = forged + lines[number].partition(" ")[1] + lines[number].partition(" ")[2]
    with pytest.raises(InputError, match="boosted trees: "):
        read_booster(part, "\n".join(lines).encode())
    assert checked_lightgbm(content, 3).n_features == 3


@pytest.mark.parametrize("name", ["left_children", "split_indices"])
def test_a_forged_tree_of_xgboost_is_one_line(name):
    _, _, content = booster_part(booster("xgboost").fit(X.to_numpy(), CODES))
    model = json.loads(content)
    model["learner"]["gradient_booster"]["model"]["trees"][0][name][0] = 99999
    with pytest.raises(InputError, match="out of bounds"):
        checked_xgboost(json.dumps(model).encode(), 3)
