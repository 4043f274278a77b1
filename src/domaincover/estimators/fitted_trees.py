"""The trees that scikit-learn, LightGBM and XGBoost have fitted, as a `Forest`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils import get_tags

from domaincover.errors import InputError
from domaincover.predictors.forest import Forest
from domaincover.predictors.table_predictors import NumbersPredictor, TreesPredictor

# Of LightGBM: bits of decision_type, and up to where values are taken for 0.
BY_CATEGORY, DEFAULT_LEFT, ZERO_IS_MISSING, NAN_IS_MISSING = 1, 2, 4, 8
ZERO = float(np.float32(1e-35))
LINKS = {"binary": "sigmoid", "multiclass": "softmax", "multiclassova": "sigmoid"}
LINKS |= {"binary:logistic": "sigmoid", "multi:softprob": "softmax", "multi:softmax": "softmax"}  # XGBoost


class TreesClassifier(TreesPredictor, ClassifierMixin, BaseEstimator):
    """A classifier of trees that is kept as arrays once it is fitted: what `load` returns for it.

    XGBoost, which takes only the labels 0, 1, 2, …, is fitted to the places of labels among the sorted ones.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a clone of the estimator, and keep its trees."""
        labels, codes = np.unique(np.asarray(y), return_inverse=True)
        is_coded, weights = takes_codes_only(self.estimator), {"sample_weight": sample_weight}
        fitted = clone(self.estimator).fit(X, codes if is_coded else y, **({} if sample_weight is None else weights))
        for name, value in (learned_trees(fitted) | ({"classes_": labels} if is_coded else {})).items():
            setattr(self, name, value)
        return self


class TreesRegressor(NumbersPredictor, RegressorMixin, BaseEstimator):
    """A regressor of trees that is kept as arrays once it is fitted: what `load` returns for it."""

    __init__ = TreesClassifier.__init__
    fit = TreesClassifier.fit


def takes_codes_only(model: Any) -> bool:
    """Tell whether a classifier rejects labels other than 0, 1, 2, …"""
    return type(model).__name__ == "XGBClassifier"


def learned_trees(model: Any) -> dict[str, Any]:
    """Return what predicts in place of a classifier of trees, by attribute: nothing if it is not fitted."""
    fitted = ("_predictors", "estimators_", "tree_", "fitted_", "_Booster")  # the last two of LightGBM and XGBoost
    if not any(vars(model).get(name) is not None for name in fitted):
        return {}
    names = {"feature_names_in_": model.feature_names_in_} if hasattr(model, "feature_names_in_") else {}
    forest = CONVERTERS[type(model).__name__](model)
    classes = {"classes_": np.asarray(model.classes_)} if hasattr(model, "classes_") else {}
    return {**classes, "forest_": forest, **names}


def forest_of(model: Any) -> Forest | None:
    """Return the trees of a fitted classifier; None if it is none of trees."""
    known = type(model).__name__ in CONVERTERS and type(model).__module__.startswith(
        ("sklearn.", "lightgbm", "xgboost")
    )
    return (learned_trees(model) if known else vars(model)).get("forest_")


class Nodes(NamedTuple):
    """The nodes of one tree; leaves have a left child of −1."""

    left: NDArray[Any]
    right: NDArray[Any]
    feature: NDArray[Any]
    threshold: NDArray[Any]
    missing_left: NDArray[Any]
    value: NDArray[Any]


def _forest(trees: Sequence[Nodes], **others: Any) -> Forest:
    """Return trees as one forest: the numbers of nodes become those of splits and of leaves."""
    sizes = np.array([len(tree.left) for tree in trees])
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    left, right, feature, threshold, missing_left, value = map(np.concatenate, zip(*trees, strict=True))
    split = left != -1
    place = np.where(split, np.cumsum(split) - 1, -np.cumsum(~split)).astype(np.int32)
    n_outputs = len(others["baseline"])
    in_turn = np.zeros(len(trees)) if value.ndim == 2 else np.arange(len(trees)) % n_outputs
    of_splits = {
        "feature": feature[split].astype(np.int32),
        "threshold": threshold[split].astype(np.float64),
        "missing_left": missing_left[split].astype(bool),
        "left": place[(left + first)[split]],
        "right": place[(right + first)[split]],
    }
    target = {"target": in_turn.astype(np.int32)} | others
    return Forest(root=place[np.unique(first)], **of_splits, value=value[~split], **target)


def _nodes(tree: Any) -> Nodes:
    """Return the nodes of scikit-learn's `Tree`."""
    arrays = tree.children_left, tree.children_right, tree.feature, tree.threshold, tree.missing_go_to_left
    return Nodes(*arrays, tree.value[:, 0, :])


def _of_trees(model: Any) -> Forest:
    _take(model, model.n_outputs_ == 1, "several outputs")
    trees = getattr(model, "estimators_", [model])
    return _forest(
        [_nodes(tree.tree_) for tree in trees],
        n_features=model.n_features_in_,
        baseline=np.zeros(len(getattr(model, "classes_", [0]))),
        link="mean",
        rounds=True,
        takes_missing=get_tags(trees[0]).input_tags.allow_nan and trees[0].monotonic_cst is None,
    )


def _of_gradient_boosting(model: Any) -> Forest:
    _take(model, model.init in (None, "zero"), "an estimator to start from")
    twice = 2 if model.loss == "exponential" else 1
    trees = [_nodes(tree.tree_) for tree in model.estimators_.ravel()]
    start = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32)).ravel()
    return _forest(
        [tree._replace(value=twice * model.learning_rate * tree.value[:, 0]) for tree in trees],
        n_features=model.n_features_in_,
        baseline=twice * start.astype(np.float64),
        link="sigmoid" if len(start) == 1 else "softmax",
        rounds=True,
        takes_missing=False,
    )


def _of_histogram_boosting(model: Any) -> Forest:
    _take(model, model._preprocessor is None, "categories")
    trees = []
    for nodes in (tree.nodes for stage in model._predictors for tree in stage):
        left, right = (np.where(nodes["is_leaf"], -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
        numbers = (nodes[name] for name in ("feature_idx", "num_threshold", "missing_go_to_left", "value"))
        trees.append(Nodes(left, right, *numbers))
    baseline = np.array(model._baseline_prediction, dtype=np.float64).ravel()
    link = "sigmoid" if len(baseline) == 1 else "softmax"
    if not hasattr(model, "classes_"):
        _take(model, model.loss in ("squared_error", "absolute_error", "quantile"), f"the loss {model.loss!r}")
        link = "identity"
    return _forest(trees, n_features=model._n_features, baseline=baseline, link=link)


def _of_lightgbm(model: Any) -> Forest:
    head, *texts = model.booster_.model_to_string().split("\nend of trees")[0].split("\nTree=")
    given, n_outputs = _fields(head), model.booster_.num_model_per_iteration()
    objective = given.get("objective", "of its own")
    _take(model, objective.split(" ")[0] in LINKS, f"the objective {objective!r}")
    sigmoid = re.search(r"sigmoid:(\S+)", objective)
    unit = 1.0 if sigmoid is None else float(sigmoid[1])
    unit /= len(texts) // n_outputs if "average_output" in head.split("\n") else 1
    trees = []
    for tree in map(_fields, texts):
        _take(model, tree["num_cat"] == "0" and tree.get("is_linear", "0") == "0", "categories or linear leaves")
        value = np.array(tree["leaf_value"].split(), dtype=float)
        names = ("left_child", "right_child", "split_feature", "decision_type", "threshold")
        # Nodes are its splits and then its leaves, which it numbers −1, −2, …
        splits = (np.array(tree.get(name, "").split(), dtype=float) for name in names)
        left, right, feature, kind, threshold = (np.append(part, np.full(len(value), -1.0)) for part in splits)
        is_split, kind = np.arange(len(left)) < len(value) - 1, kind.astype(int)
        _take(model, not (kind[is_split] & ZERO_IS_MISSING).any(), "zero_as_missing=True")
        left, right = (np.where(side < 0, len(value) - 2 - side, side) for side in (left, right))
        of_zero = np.where(threshold >= 0, ZERO, np.nextafter(-ZERO, -1))
        threshold = np.where(np.abs(threshold) <= ZERO, of_zero, threshold)
        missing_left = np.where(kind & NAN_IS_MISSING, kind & DEFAULT_LEFT, threshold >= 0)  # else it is taken for 0
        left, right = (np.where(is_split, side, -1).astype(int) for side in (left, right))
        trees.append(
            Nodes(left, right, feature, threshold, missing_left, unit * np.append(np.zeros(len(value) - 1), value))
        )
    link, n_features = LINKS[objective.split(" ")[0]], model.booster_.num_feature()
    return _forest(trees, n_features=n_features, baseline=np.zeros(n_outputs), link=link)


def _fields(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)


def _of_xgboost(model: Any) -> Forest:
    learner = json.loads(bytes(model.get_booster().save_raw("json")))["learner"]
    booster, shape, objective = (learner[name] for name in ("gradient_booster", "learner_model_param", "objective"))
    name = objective["name"]
    _take(model, booster["name"] == "gbtree", f"the booster {booster['name']!r}")
    _take(model, name in LINKS, f"the objective {name!r}")
    _take(model, model.missing is None or np.isnan(model.missing), "a number that stands for missing values")
    given, n_outputs = booster["model"], max(1, int(shape["num_class"]))
    n_trees = len(given["trees"])
    if "best_iteration" in learner["attributes"]:  # more rounds were no better
        per_round = n_outputs * int(given["gbtree_model_param"]["num_parallel_tree"])
        n_trees = (int(learner["attributes"]["best_iteration"]) + 1) * per_round
    base = np.array(shape["base_score"].strip("[]").split(","), dtype=np.float32)
    base = -np.log((1 / base - 1).astype(np.float64)) if name == "binary:logistic" else base
    return _forest(
        [_xgboost_nodes(model, tree) for tree in given["trees"][:n_trees]],
        n_features=int(shape["num_feature"]),
        target=np.array(given["tree_info"][:n_trees], dtype=np.int32),
        baseline=np.broadcast_to(base, n_outputs).astype(np.float32),
        link=LINKS[name],
        rounds=True,
    )


def _xgboost_nodes(model: Any, tree: dict[str, Any]) -> Nodes:
    _take(model, not any(tree["split_type"]), "categories")
    _take(model, int(tree["tree_param"]["size_leaf_vector"]) < 2, "leaves with several values")
    names = ("left_children", "right_children", "split_indices", "default_left")
    left, right, feature, missing_left = (np.array(tree[name]) for name in names)
    condition = np.array(tree["split_conditions"], dtype=np.float32)  # or the value of a leaf
    threshold = np.nextafter(condition, np.float32(-np.inf))  # a value goes left if it is below the condition
    kept = np.isin(np.arange(len(left)), [0, *left, *right])  # pruning leaves deleted nodes behind
    place = np.append(np.cumsum(kept) - 1, -1)
    others = (part[kept] for part in (feature, threshold, missing_left, condition))
    return Nodes(place[left[kept]], place[right[kept]], *others)


def _take(model: Any, fact: bool | np.bool_, what: str) -> None:
    """Reject what a forest cannot have."""
    if not fact:
        raise InputError(
            f"a {type(model).__name__} with {what} cannot be saved or exported; trees that split numbers by thresholds "
            "can: encode categories with TableEncoder."
        )


CONVERTERS: dict[str, Callable[[Any], Forest]] = {
    "DecisionTreeClassifier": _of_trees,
    "ExtraTreesClassifier": _of_trees,
    "GradientBoostingClassifier": _of_gradient_boosting,
    "HistGradientBoostingClassifier": _of_histogram_boosting,
    "HistGradientBoostingRegressor": _of_histogram_boosting,
    "LGBMClassifier": _of_lightgbm,
    "RandomForestClassifier": _of_trees,
    "RandomForestRegressor": _of_trees,
    "XGBClassifier": _of_xgboost,
}
