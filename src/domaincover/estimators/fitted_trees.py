"""The trees that scikit-learn, LightGBM and XGBoost have fitted, as a `Forest`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags

from domaincover.errors import InputError
from domaincover.predictors.forest import Forest, need
from domaincover.predictors.tree_predictors import TreesPredictor

ZERO = float(np.float32(1e-35))  # LightGBM takes values up to this for 0
MISSING_IS_NAN, MISSING_IS_NOTHING, BY_CATEGORY, DEFAULT_LEFT = 8, 0, 1, 2  # in LightGBM's decision_type
LIGHTGBM_LINKS = {"binary": "sigmoid", "multiclass": "softmax", "multiclassova": "sigmoid"}
XGBOOST_LINKS = {"binary:logistic": "sigmoid", "multi:softprob": "softmax", "multi:softmax": "softmax"}


class TreesClassifier(TreesPredictor, ClassifierMixin, BaseEstimator):
    """A classifier of trees that is kept as arrays once it is fitted: what `load` returns for it.

    Parameters
    ----------
    estimator : classifier
        A `HistGradientBoostingClassifier`, for instance; `fit` fits a clone.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, **params: Any) -> Self:
        """Fit a clone of the classifier, and keep its trees."""
        learned = learned_trees(clone(self.estimator).fit(X, y, **params))
        if learned is None:
            raise InputError(f"this {type(self.estimator).__name__} has something that trees as arrays do not have.")
        for name, value in learned.items():
            setattr(self, name, value)
        return self


def is_trees(model: object) -> bool:
    """Tell whether a classifier is one that can become a forest."""
    return type(model).__module__.split(".")[0] == PACKAGES.get(type(model).__name__)


def learned_trees(model: Any) -> dict[str, Any] | None:
    """Return what predicts in place of a classifier of trees, by attribute: nothing if it is not fitted.

    None stands for what trees as arrays do not have, such as categories; a package whose classifiers cannot be saved
    otherwise is rejected by name.
    """
    if not _is_fitted(model):
        return {}
    forest = CONVERTERS[type(model).__name__](model)
    if forest is None:
        return None
    names = {"feature_names_in_": model.feature_names_in_} if hasattr(model, "feature_names_in_") else {}
    return {"classes_": np.asarray(model.classes_), "forest_": forest, **names}


def forest_of(model: Any) -> Forest | None:
    """Return the trees of a fitted classifier, or None."""
    learned = vars(model) if isinstance(model, TreesPredictor) else (learned_trees(model) if is_trees(model) else {})
    return (learned or {}).get("forest_")


class Nodes(NamedTuple):
    """The nodes of one tree; leaves have a left child of −1."""

    left: NDArray[Any]
    right: NDArray[Any]
    feature: NDArray[Any]
    threshold: NDArray[Any]
    missing_left: NDArray[Any]
    value: NDArray[Any]

    @classmethod
    def of_tree(cls, tree: Any) -> Self:
        """Return those of scikit-learn's `Tree`."""
        children = tree.children_left.astype(np.int64), tree.children_right.astype(np.int64)
        missing = np.asarray(tree.missing_go_to_left) != 0
        return cls(*children, tree.feature, tree.threshold, missing, tree.value.reshape(tree.node_count, -1))

    @classmethod
    def of_histogram(cls, tree: Any) -> Self:
        """Return those of histogram gradient boosting; a split by category has no threshold."""
        nodes = tree.nodes
        is_leaf = nodes["is_leaf"] != 0
        left, right = (np.where(is_leaf, -1, nodes[name].astype(np.int64)) for name in ("left", "right"))
        threshold = np.where(is_leaf | (nodes["is_categorical"] != 0), 0.0, nodes["num_threshold"])
        missing = nodes["missing_go_to_left"] != 0
        return cls(left, right, nodes["feature_idx"].astype(np.int64), threshold, missing, nodes["value"])


def forest_from(trees: Sequence[Nodes], **others: Any) -> Forest:
    """Return trees as one forest."""
    sizes = np.array([len(tree.left) for tree in trees])
    size, first = np.repeat(sizes, sizes), np.repeat(np.cumsum(sizes) - sizes, sizes)
    left, right, feature, threshold, missing_left, value = map(np.concatenate, zip(*trees, strict=True))
    split = left != -1
    for side in (left, right):
        need(((side >= 0) & (side < size))[split].all(), "a tree node refers to a child out of bounds")
    need(((feature >= 0) & (feature < others["n_features"]))[split].all(), "a tree splits on a column out of bounds")
    place = np.where(split, np.cumsum(split) - 1, -np.cumsum(~split)).astype(np.int32)
    return Forest(
        root=place[np.unique(first)],
        feature=feature[split].astype(np.int32),
        threshold=threshold[split].astype(np.float64),
        missing_left=missing_left[split],
        left=place[(left + first)[split]],
        right=place[(right + first)[split]],
        value=value[~split],
        **others,
    )


def _in_turn(n_trees: int, n_outputs: int) -> NDArray[np.int32]:
    return (np.arange(n_trees) % n_outputs).astype(np.int32)


def _histogram_boosting(model: Any) -> Forest | None:
    trees = [Nodes.of_histogram(tree) for stage in model._predictors for tree in stage]
    if model._preprocessor is not None:  # categories
        return None
    baseline = np.array(model._baseline_prediction, dtype=np.float64).ravel()
    return forest_from(
        trees,
        n_features=model._n_features,
        target=_in_turn(len(trees), len(baseline)),
        baseline=baseline,
        link="sigmoid" if len(baseline) == 1 else "softmax",
    )


def _boosting(model: Any) -> Forest | None:
    if model.init not in (None, "zero"):
        return None
    unit = model.learning_rate * (2 if model.loss == "exponential" else 1)
    trees = [Nodes.of_tree(tree.tree_) for tree in model.estimators_.ravel()]
    baseline = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32)).ravel()
    return forest_from(
        [tree._replace(value=unit * tree.value[:, 0]) for tree in trees],
        n_features=model.n_features_in_,
        target=_in_turn(len(trees), model.estimators_.shape[1]),
        baseline=baseline.astype(np.float64) * (2 if model.loss == "exponential" else 1),
        link="sigmoid" if len(baseline) == 1 else "softmax",
        rounds=True,
        takes_missing=False,
    )


def _trees(model: Any) -> Forest | None:
    each = model.estimators_ if hasattr(model, "estimators_") else [model]
    if model.n_outputs_ > 1:
        return None
    return forest_from(
        [Nodes.of_tree(tree.tree_) for tree in each],
        n_features=model.n_features_in_,
        target=np.zeros(len(each), dtype=np.int32),
        baseline=np.zeros(len(model.classes_)),
        link="mean",
        rounds=True,
        takes_missing=get_tags(each[0]).input_tags.allow_nan and each[0].monotonic_cst is None,
    )


def _lightgbm(model: Any) -> Forest:
    head, *texts = model.booster_.model_to_string().split("\nend of trees")[0].split("\nTree=")
    given = _fields(head)
    objective, n_outputs = given.get("objective", "custom").split(" ")[0], int(given["num_class"])
    _take("LightGBM", objective in LIGHTGBM_LINKS, f"the objective {objective!r}")
    sigmoid = re.search(r"sigmoid:(\S+)", given["objective"])
    unit = 1.0 if sigmoid is None else float(sigmoid[1])
    unit /= len(texts) // n_outputs if "average_output" in head.split("\n") else 1
    trees = []
    for tree in map(_fields, texts):
        _take("LightGBM", tree["num_cat"] == "0" and tree.get("is_linear", "0") == "0", "categories or linear leaves")
        split, leaf = int(tree["num_leaves"]) - 1, np.array(tree["leaf_value"].split(), dtype=float)
        names = ("left_child", "right_child", "split_feature", "decision_type")
        left, right, feature, decision = (np.array(tree.get(name, "").split(), dtype=int) for name in names)
        missing = decision & ~(BY_CATEGORY | DEFAULT_LEFT)
        known = np.isin(missing, (MISSING_IS_NAN, MISSING_IS_NOTHING)).all()
        _take("LightGBM", known, "zero_as_missing=True")
        threshold = np.array(tree.get("threshold", "").split(), dtype=float)
        of_zero = np.where(threshold >= 0, ZERO, np.nextafter(-ZERO, -np.inf))
        threshold = np.where(np.abs(threshold) <= ZERO, of_zero, threshold)
        missing_left = np.where(missing == MISSING_IS_NAN, (decision & DEFAULT_LEFT) != 0, threshold >= 0)
        left, right = (np.where(side < 0, split + ~side, side) for side in (left, right))
        left, right, feature, threshold = (
            np.append(part, np.full(split + 1, -1)) for part in (left, right, feature, threshold)
        )
        missing_left, value = np.append(missing_left, np.zeros(split + 1, bool)), np.append(np.zeros(split), leaf)
        trees.append(Nodes(left, right, feature, threshold, missing_left, unit * value))
    return forest_from(
        trees,
        n_features=int(given["max_feature_idx"]) + 1,
        target=_in_turn(len(trees), n_outputs),
        baseline=np.zeros(n_outputs),
        link=LIGHTGBM_LINKS[objective],
    )


def _xgboost(model: Any) -> Forest:
    learner = json.loads(bytes(model.get_booster().save_raw("json")))["learner"]
    booster, shape, objective = (
        learner["gradient_booster"],
        learner["learner_model_param"],
        learner["objective"]["name"],
    )
    _take("XGBoost", booster["name"] == "gbtree", f"the booster {booster['name']!r}")
    _take("XGBoost", objective in XGBOOST_LINKS, f"the objective {objective!r}")
    _take("XGBoost", int(shape.get("num_target", "1")) == 1, "several targets")
    _take("XGBoost", model.missing is None or np.isnan(model.missing), "a number that stands for missing values")
    given, n_outputs = booster["model"], max(1, int(shape["num_class"]))
    n_trees = len(given["trees"])
    if "best_iteration" in learner.get("attributes", {}):  # more rounds were no better
        per_round = n_outputs * int(given["gbtree_model_param"]["num_parallel_tree"])
        n_trees = (int(learner["attributes"]["best_iteration"]) + 1) * per_round
    base = np.array(shape["base_score"].strip("[]").split(","), dtype=np.float32)
    if objective == "binary:logistic":
        base = -np.log((1 / base - 1).astype(np.float64))
    return forest_from(
        [_xgboost_nodes(tree) for tree in given["trees"][:n_trees]],
        n_features=int(shape["num_feature"]),
        target=np.array(given["tree_info"][:n_trees], dtype=np.int32),
        baseline=np.broadcast_to(base, n_outputs).astype(np.float32),
        link=XGBOOST_LINKS[objective],
        rounds=True,
    )


def _xgboost_nodes(tree: dict[str, Any]) -> Nodes:
    _take("XGBoost", not any(tree["split_type"]), "categories")
    _take("XGBoost", int(tree["tree_param"]["size_leaf_vector"]) < 2, "leaves with several values")
    names = ("left_children", "right_children", "split_indices", "split_conditions", "default_left")
    left, right, feature, condition, default = (np.array(tree[name]) for name in names)
    condition = condition.astype(np.float32)
    below = np.nextafter(condition, np.float32(-np.inf))  # a value goes left if it is below the condition
    kept = np.zeros(len(left), dtype=bool)  # pruning leaves deleted nodes behind
    kept[[0, *left[left != -1], *right[left != -1]]] = True
    place = np.append(np.cumsum(kept) - 1, -1)
    return Nodes(
        place[left[kept]], place[right[kept]], *(part[kept] for part in (feature, below, default == 1, condition))
    )


def _fields(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)


def _take(package: str, fact: bool | np.bool_, what: str) -> None:
    """Reject what a forest cannot have."""
    if not fact:
        raise InputError(
            f"a model of {package} with {what} cannot be saved or exported; trees that split numbers by thresholds "
            "can: encode categories with TableEncoder."
        )


def _is_fitted(model: Any) -> bool:
    if type(model).__name__ == "LGBMClassifier":
        return bool(getattr(model, "fitted_", False))
    return any(name in vars(model) for name in ("_predictors", "estimators_", "tree_", "_Booster"))


CONVERTERS: dict[str, Callable[[Any], Forest | None]] = {
    "DecisionTreeClassifier": _trees,
    "ExtraTreesClassifier": _trees,
    "GradientBoostingClassifier": _boosting,
    "HistGradientBoostingClassifier": _histogram_boosting,
    "LGBMClassifier": _lightgbm,
    "RandomForestClassifier": _trees,
    "XGBClassifier": _xgboost,
}
PACKAGES = dict.fromkeys(CONVERTERS, "sklearn") | {"LGBMClassifier": "lightgbm", "XGBClassifier": "xgboost"}
