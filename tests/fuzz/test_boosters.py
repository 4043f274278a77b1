"""Files of boosted trees that were forged: the compiled readers get what was checked, and nothing else."""

import copy
import importlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domaincover import InputError
from domaincover.saving.boosters import booster_part, checked_lightgbm, checked_xgboost, read_booster
from tests.fuzz.damage import few, places_in, spoiled

rng = np.random.default_rng(0)
X, y = rng.normal(size=(200, 3)), np.arange(200) % 3
SETTINGS = {"n_estimators": 2, "max_depth": 2, "n_jobs": 1}
WRONG = (InputError, KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)  # one line of `load`


@pytest.fixture(scope="module")
def xgboost():
    """A part, its JSON, and the probabilities of its model."""
    model = pytest.importorskip("xgboost").XGBClassifier(**SETTINGS).fit(X, y)
    part, _, content = booster_part(model)
    return part, json.loads(content), model.predict_proba(X)


def keys_in(value):
    """Return the path to every key, with all places of a list as one."""
    named = (tuple("[]" if isinstance(key, int) else key for key in path) for path in places_in(value))
    return set(named)


def with_a_stranger(value, path):
    """Return a copy of plain data with one key more, in the mapping at this path."""
    changed = copy.deepcopy(value)
    at(changed, path)["stranger"] = "/etc/passwd"
    return changed


def at(value, path):
    for key in path:
        value = value[key]
    return value


def test_a_key_that_is_not_known_does_not_reach_the_reader_of_xgboost(xgboost):
    """In no mapping of the file, and in one tree for all."""
    model, known = xgboost[1], checked_xgboost(json.dumps(xgboost[1]).encode(), 3)
    mappings = [path for path in places_in(model) if isinstance(at(model, path), dict)]
    of_each_kind = {tuple("[]" if isinstance(key, int) else key for key in path): path for path in mappings}
    assert len(of_each_kind) > 10
    for path in of_each_kind.values():
        forged = json.dumps(with_a_stranger(model, path)).encode()
        if path[-1:] == ("cats",):  # categories of columns must be empty
            with pytest.raises(InputError, match="a column holds categories"):
                checked_xgboost(forged, 3)
        else:
            assert checked_xgboost(forged, 3) == known, path


@few(60)
@given(data=st.data())
def test_forged_trees_of_xgboost_are_rejected_or_predict(xgboost, data, door):
    door("boosted trees")
    part, model, _ = xgboost
    try:
        checked = checked_xgboost(json.dumps(data.draw(spoiled(model))).encode(), 3)
    except WRONG:
        return
    assert keys_in(json.loads(checked)) <= keys_in(json.loads(checked_xgboost(json.dumps(model).encode(), 3))) | NAMED
    assert checked_xgboost(checked, 3) == checked
    try:
        again = read_booster(part, checked)
    except ValueError:  # XGBoostError
        return
    assert again.predict_proba(X).shape == (200, 3)


NAMED = {("learner", "feature_names", "[]"), ("learner", "feature_types", "[]")}


def test_what_was_checked_predicts_as_before(xgboost):
    part, model, probabilities = xgboost
    again = read_booster(part, json.dumps(model).encode())
    np.testing.assert_array_equal(again.predict_proba(X), probabilities)


@pytest.fixture(scope="module")
def lightgbm():
    """A part and its text."""
    model = pytest.importorskip("lightgbm").LGBMClassifier(**SETTINGS, verbose=-1).fit(X, y)
    part, _, content = booster_part(model)
    return part, content.decode()


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # where a name was forged
@few(60)
@given(data=st.data())
def test_forged_trees_of_lightgbm_are_rejected_or_predict(lightgbm, data, door):
    door("boosted trees")
    part, text = lightgbm
    lines = text.split("\n")
    number = data.draw(st.sampled_from([k for k, line in enumerate(lines) if "=" in line]))
    name, _, values = lines[number].partition("=")
    words = values.split(" ")
    words[data.draw(st.integers(0, len(words) - 1))] = data.draw(
        st.sampled_from(["-1", "0", "1", "7", "-99999", "99999", str(2**31), "nan", "inf", "1e308", "", "x", "1 1"])
    )
    lines[number] = f"{name}={' '.join(words)}"
    lines.insert(number, data.draw(st.sampled_from(["stranger=1", "stranger", "linear_tree=1"])))
    try:
        checked = checked_lightgbm("\n".join(lines).encode(), 3)
    except WRONG:
        return
    assert "stranger" not in checked.text
    assert "linear_tree" not in checked.text
    assert checked_lightgbm(checked.text.encode(), 3) == checked
    reader = importlib.import_module("lightgbm")
    try:
        again = read_booster(part, checked.text.encode())
    except reader.basic.LightGBMError:
        return
    if checked.n_features == 3:
        assert again.predict_proba(X).shape == (200, 3)
