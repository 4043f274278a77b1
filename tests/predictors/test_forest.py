"""Trees as arrays: the probabilities of the library that fitted them, and nothing but trees is accepted."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from domaincover import InputError
from domaincover.datasets import load_storms
from domaincover.estimators.fitted_trees import TreesClassifier, forest_of
from domaincover.predictors.forest import MOST_LEVELS, Forest
from tests.fuzz.damage import few

RNG = np.random.default_rng(0)


def lightgbm(**settings):
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=9, verbose=-1, n_jobs=1, **settings)


def xgboost(**settings):
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=9, n_jobs=1, **settings)


IN_ORDER = {  # trees whose sum has the library's own bits
    "histogram boosting": lambda: HistGradientBoostingClassifier(max_iter=9),
    "boosting of 60 leaves": lambda: HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=60, min_samples_leaf=3),
    "boosting of 200 leaves": lambda: HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=200),
    "boosting that stopped early": lambda: HistGradientBoostingClassifier(early_stopping=True, n_iter_no_change=1),
    "forest": lambda: RandomForestClassifier(9, random_state=0),
    "forest of small trees": lambda: RandomForestClassifier(9, max_leaf_nodes=20, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(5, random_state=0),
    "one tree": lambda: DecisionTreeClassifier(max_depth=4),
    "leaves without splits": lambda: HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=10**6),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=5),
    "gradient boosting from zero": lambda: GradientBoostingClassifier(n_estimators=5, init="zero"),
}
NEARLY = {  # with another exponential, or another order
    "lightgbm": lightgbm,
    "lightgbm, one against all": lambda: lightgbm(objective="multiclassova"),
    "lightgbm as a forest": lambda: lightgbm(boosting_type="rf", subsample=0.5, subsample_freq=1),
    "lightgbm, dart": lambda: lightgbm(boosting_type="dart"),
    "lightgbm without a side for missing values": lambda: lightgbm(use_missing=False),
}
SINGLE = {  # in single precision
    "xgboost": xgboost,
    "xgboost, pruned": lambda: xgboost(gamma=5, num_parallel_tree=2, tree_method="exact"),
    "xgboost by leaves": lambda: xgboost(grow_policy="lossguide", max_leaves=40),
}


@pytest.fixture(scope="module")
def storms():
    """Return numbers with many ties, some of them missing, and three labels."""
    X, y, seasons = load_storms()
    X = X.select_dtypes("number").to_numpy(dtype=float)[(seasons >= 2012).to_numpy()]
    X[RNG.random(X.shape) < 0.05] = np.nan
    return X, y[(seasons >= 2012).to_numpy()].to_numpy()


def with_ties(forest, X):
    """Return the rows with some values exactly at, or a bit beside, a threshold that they are compared with."""
    X, n = X.copy(), min(len(X), 4 * len(forest.feature))
    chosen = RNG.integers(len(forest.feature), size=n) if n else []
    for row, split in enumerate(chosen):
        value = forest.threshold[split]
        beside = np.float32(value) if row % 2 else value
        if np.isfinite(value):
            X[row, forest.feature[split]] = np.nextafter(beside, [-np.inf, beside, np.inf][row % 3])
    return X


def fitted(make, storms, n_labels):
    X, y = storms
    if isinstance(make(), GradientBoostingClassifier):
        X = np.nan_to_num(X)
    model = make().fit(X, np.unique(y, return_inverse=True)[1] if n_labels == 3 else (y == "hurricane").astype(int))
    return model, with_ties(forest_of(model), X)


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("name", IN_ORDER)
def test_probabilities_of_scikit_learn_have_its_own_bits(name, n_labels, storms):
    model, X = fitted(IN_ORDER[name], storms, n_labels)
    np.testing.assert_array_equal(forest_of(model).probabilities(X), model.predict_proba(X), strict=True)


def test_an_exponential_loss_has_its_own_bits_too(storms):
    model, X = fitted(lambda: GradientBoostingClassifier(n_estimators=5, loss="exponential"), storms, 2)
    np.testing.assert_array_equal(forest_of(model).probabilities(X), model.predict_proba(X), strict=True)


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("name", NEARLY)
def test_probabilities_of_lightgbm_are_the_same_but_for_the_last_bits(name, n_labels, storms):
    make = NEARLY[name] if n_labels == 3 or "against" not in name else lightgbm
    model, X = fitted(make, storms, n_labels)
    np.testing.assert_allclose(forest_of(model).probabilities(X), model.predict_proba(X), rtol=1e-12, strict=True)


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("name", SINGLE)
def test_sums_of_xgboost_are_its_own_and_probabilities_differ_by_three_roundings(name, n_labels, storms):
    model, X = fitted(SINGLE[name], storms, n_labels)
    forest = forest_of(model)
    margins = model.predict(X, output_margin=True)
    np.testing.assert_array_equal(forest.outputs(X).squeeze(), margins, strict=True)
    rounding = 3 * np.finfo(np.float32).eps / 2  # of an exponential, a sum and a quotient
    np.testing.assert_allclose(forest.probabilities(X), model.predict_proba(X), rtol=rounding, strict=True)


def test_xgboost_starts_from_its_base_score_and_ends_with_its_best_round(storms):
    X, y = storms
    y = (y == "hurricane").astype(int)
    model = xgboost(base_score=0.3, early_stopping_rounds=1, learning_rate=2.0)
    model.fit(X[::2], y[::2], eval_set=[(X[1::2], y[1::2])], verbose=False)
    assert model.best_iteration < 8
    margins = model.predict(X, output_margin=True)
    np.testing.assert_array_equal(forest_of(model).outputs(X)[:, 0], margins)


def test_a_threshold_in_single_precision_is_compared_in_single_precision():
    X = np.linspace(0.1, 0.2, 50)[:, None]
    model = xgboost(min_child_weight=0).fit(X, (X[:, 0] > 0.15).astype(int))
    forest = forest_of(model)
    beside = np.float64(forest.threshold[0]) + np.float32(2**-25) * np.arange(-3, 4)
    np.testing.assert_array_equal(
        forest.outputs(beside[:, None])[:, 0], model.predict(beside[:, None], output_margin=True)
    )


def test_rows_do_not_depend_on_those_beside_them_nor_on_threads(storms, monkeypatch):
    model, X = fitted(IN_ORDER["histogram boosting"], storms, 3)
    forest = forest_of(model)
    whole = forest.probabilities(X)
    np.testing.assert_array_equal(
        np.concatenate([forest.probabilities(X[k : k + 7]) for k in range(0, 70, 7)]), whole[:70]
    )
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    np.testing.assert_array_equal(forest.probabilities(X), whole)
    assert forest.probabilities(X[:0]).shape == (0, 3)


def test_missing_values_are_refused_where_the_library_refuses_them(storms):
    model, X = fitted(IN_ORDER["gradient boosting"], storms, 2)
    with pytest.raises(InputError, match="missing values"):
        forest_of(model).probabilities(np.full_like(X[:3], np.nan))
    with pytest.raises(InputError, match=f"fitted on {X.shape[1]} columns"):
        forest_of(model).probabilities(X[:, 1:])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lightgbm(zero_as_missing=True), "zero_as_missing"),
        (lambda: lightgbm(linear_tree=True), "linear leaves"),
        (lambda: xgboost(booster="dart"), "the booster 'dart'"),
        (lambda: xgboost(multi_strategy="multi_output_tree"), "several values"),
        (lambda: xgboost(missing=-1.0), "stands for missing values"),
    ],
)
def test_what_cannot_become_a_forest_is_refused_by_name(make, message, storms):
    X, y = storms
    model = make().fit(np.where(RNG.random(X.shape) < 0.1, 0, np.nan_to_num(X)), np.unique(y, return_inverse=True)[1])
    with pytest.raises(InputError, match=message):
        forest_of(model)


def test_categories_of_lightgbm_and_xgboost_are_refused_by_name():
    frame = pd.DataFrame({"ward": pd.Categorical(np.tile(list("abcdef"), 60))})
    y = np.isin(frame["ward"], ["a", "c", "f"]).astype(int)
    for model in (lightgbm(), xgboost(enable_categorical=True, max_cat_to_onehot=2)):
        with pytest.raises(InputError, match="categories"):
            forest_of(model.fit(frame, y))


def test_what_scikit_learn_alone_can_do_is_refused_by_name():
    X = RNG.normal(size=(90, 2))
    y, two = (X[:, 0] > 0).astype(int), (X > 0).astype(int)
    with pytest.raises(InputError, match="HistGradientBoostingClassifier with categories"):
        forest_of(HistGradientBoostingClassifier(categorical_features=[0]).fit(np.round(X) % 4, y))
    with pytest.raises(InputError, match="an estimator to start from"):
        forest_of(GradientBoostingClassifier(init=LogisticRegression(), n_estimators=2).fit(X, y))
    with pytest.raises(InputError, match="several outputs"):
        forest_of(RandomForestClassifier(2).fit(X, two))
    assert forest_of(LogisticRegression().fit(X, y)) is None


def test_trees_as_arrays_are_fitted_again_as_the_classifier_that_they_are_of():
    X = pd.DataFrame(RNG.normal(size=(90, 2)), columns=["a b", "c"])
    y = np.where(X["c"] > 0, "up", "down")
    model = TreesClassifier(DecisionTreeClassifier(max_depth=2, random_state=0)).fit(X, y)
    np.testing.assert_array_equal(model.predict(X[["c", "a b"]]), model.estimator.fit(X, y).predict(X))
    with pytest.raises(InputError, match="no column 'a b'"):
        model.predict(X[["c"]])


# Arrays that are no trees

STUMPS = Forest(  # splits 0 and 1 of one tree, and a tree that is a leaf
    n_features=2,
    root=np.array([0, -4], np.int32),
    target=np.array([0, 0], np.int32),
    feature=np.array([1, 0], np.int32),
    threshold=np.array([0.5, np.inf]),
    missing_left=np.array([True, False]),
    left=np.array([-1, -2], np.int32),
    right=np.array([1, -3], np.int32),
    value=np.array([1.0, 2.0, 3.0, 10.0]),
    baseline=np.array([100.0]),
    link="sigmoid",
)


def test_a_forest_by_hand_adds_what_its_leaves_say():
    rows = np.array([[0, 0.5], [0, 0.6], [np.nan, 0.6], [np.inf, np.nan]])
    np.testing.assert_array_equal(STUMPS.outputs(rows)[:, 0], [111, 112, 113, 111])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("left", [0, -2], "does not come before its children"),
        ("right", [1, 0], "does not come before its children"),
        ("right", [1, -1], "met twice, or never"),
        ("root", [1, -4], "met twice, or never"),
        ("left", [-9, -2], "out of bounds"),
        ("right", [2**31 - 1, -3], "out of bounds"),
        ("root", [-(2**31), -4], "out of bounds"),
        ("feature", [2, 0], "column out of bounds"),
        ("feature", [-1, 0], "column out of bounds"),
        ("feature", [0], "different lengths"),
        ("threshold", [np.nan, 0.0], "threshold is no number"),
        ("threshold", [-np.inf, 0.0], "threshold is no number"),
        ("value", [1.0, 2.0, np.nan, 4.0], "no finite value"),
        ("value", [1.0, 2.0, 3.0], "out of bounds"),
        ("value", [[1.0], [2.0], [3.0], [4.0]], "does not fit the leaves"),
        ("baseline", [np.inf], "no finite value"),
        ("baseline", [], "no trees, or outputs"),
        ("target", [0, 1], "a tree has no output"),
        ("target", [0], "no trees, or outputs"),
        ("link", "log", "the link is unknown"),
        ("link", "mean", "does not fit the leaves"),
    ],
)
def test_arrays_that_are_no_trees_are_refused(name, value, message):
    kind = getattr(getattr(STUMPS, name), "dtype", None)
    with pytest.raises(InputError, match=message):
        replace(STUMPS, **{name: value if kind is None else np.array(value, kind)})


@pytest.mark.parametrize("forged", [np.zeros(2), np.zeros((2, 1), np.int32), [0, -4], None, 7])
def test_roots_of_another_type_are_refused(forged):
    with pytest.raises(InputError, match="root has another"):
        replace(STUMPS, root=forged)


def chain(n):
    """Return a tree that is as deep as it has splits."""
    own = np.arange(n, dtype=np.int32)
    arrays = {"feature": np.zeros(n, np.int32), "threshold": np.zeros(n), "missing_left": np.zeros(n, bool)}
    right = np.append(own[1:], np.int32(-n - 1))
    value, one = np.zeros(n + 1), np.zeros(1, np.int32)
    return replace(STUMPS, root=one, target=one, **arrays, left=~own, right=right, value=value)


def test_a_tree_deeper_than_any_is_refused_and_any_other_is_read():
    with pytest.raises(InputError, match="levels"):
        chain(MOST_LEVELS + 1)
    assert chain(3000).outputs(np.array([[0.0, 0.0], [1.0, 0.0]])).tolist() == [[100.0], [100.0]]


def test_a_billion_columns_and_a_million_nodes_need_no_more_memory_than_their_arrays():
    n = 2**20  # stumps
    own = np.arange(n, dtype=np.int32)
    halves = {"left": ~(2 * own), "right": ~(2 * own + 1), "value": np.zeros(2 * n)}
    splits = {"feature": own, "threshold": np.zeros(n), "missing_left": np.zeros(n, bool)}
    tracemalloc.start()
    forest = replace(STUMPS, n_features=10**9, root=own, target=np.zeros(n, np.int32), **splits, **halves)
    size, most = sum(part.nbytes for part in vars(forest).values() if isinstance(part, np.ndarray)), 30
    assert tracemalloc.get_traced_memory()[1] < most * size
    tracemalloc.stop()


@few(200)
@given(data=st.data())
def test_forged_trees_are_refused_or_end_at_a_leaf(data):
    forest = forged(data)
    if forest is not None:
        rows = np.array([[0.0, 0.0], [1.0, -1.0], [np.nan, np.inf]])
        assert np.isfinite(forest.outputs(rows)).all()


def forged(data):
    """Return stumps with some of their numbers replaced, or None if they are refused."""
    arrays = {name: getattr(STUMPS, name).copy() for name in ("root", "target", "feature", "left", "right")}
    for _ in range(data.draw(st.integers(1, 4))):
        array = arrays[data.draw(st.sampled_from(sorted(arrays)))]
        array[data.draw(st.integers(0, len(array) - 1))] = data.draw(
            st.integers(-6, 3) | st.integers(-(2**31), 2**31 - 1)
        )
    try:
        return replace(STUMPS, **arrays)
    except InputError:
        return None
