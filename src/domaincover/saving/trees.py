"""What compiled code follows blindly is checked after loading: indices of trees, sparse matrices, neighbours.

scikit-learn steps from node to node of a tree without looking whether there is one. A forged file could send it
outside of the array, so every such number is looked at once, here, before anything is predicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.neighbors import BallTree, KDTree
from sklearn.tree import BaseDecisionTree, DecisionTreeRegressor
from sklearn.tree._tree import Tree

from domaincover.errors import InputError

MOST_FEATURES = 10_000_000  # in the one row that is tried
BITSET = 8  # words of 32 bits, one bit per category


def check_loaded(model: object) -> None:
    """Check everything that hangs on a loaded estimator, parts before wholes."""
    found = list(_within(model))
    for kind, check in _CHECKS:
        for part in found:
            if isinstance(part, kind):
                check(part)
    for part in found:
        if issparse(part):
            _check_sparse(part)


def _within(root: object) -> Iterator[object]:
    """Yield every object that hangs on this one, each once."""
    waiting, seen = [root], dict[int, object]()
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, str | bytes | int | float | type):
            continue
        seen[id(item)] = item  # keeps it alive, so that no other gets its number
        yield item
        waiting += _held_by(item)


def _held_by(item: object) -> list[object]:
    held: list[object] = []
    if isinstance(item, dict):
        held += [*item.keys(), *item.values()]
    elif isinstance(item, list | tuple | set):
        held += item
    elif isinstance(item, np.ndarray) and item.dtype == object:
        held += np.asarray(item).ravel().tolist()  # also what a mask would hide
    attributes = getattr(item, "__dict__", {})
    # A tree on its own does not look at how many columns it is given; only in a decision tree is it in its place.
    in_place = "tree_" if isinstance(item, BaseDecisionTree) else None
    return held + [value for name, value in attributes.items() if name != in_place]


def _need(fact: bool | np.bool_, what: str) -> None:
    if not fact:
        raise InputError(f"{what}, as in no model that was fitted.")


def _check_steps(left: NDArray[Any], right: NDArray[Any], rows: NDArray[Any], n_nodes: int) -> None:
    """Children come after their parent, so that every walk ends, and inside of the tree."""
    inside = (left > rows) & (right > rows) & (left < n_nodes) & (right < n_nodes)
    _need(inside.all(), "a tree leads outside of itself")


def _check_tree(tree: Any) -> None:
    counted = tree.node_count == tree.capacity >= 1 and tree.n_outputs >= 1
    _need(counted, "a tree has another number of nodes than it says")
    inner = np.flatnonzero(tree.children_left != -1)
    _check_steps(tree.children_left[inner], tree.children_right[inner], inner, tree.node_count)
    feature = tree.feature[inner]
    _need(((feature >= 0) & (feature < tree.n_features)).all(), "a tree asks for a column that there is not")


def _check_decision_tree(model: Any) -> None:
    if "tree_" in vars(model):  # else it was not fitted
        _need(type(model.tree_) is Tree, "a decision tree has something else in its place")
        _check_tree(model.tree_)
        fits = model.tree_.n_features == model.n_features_in_
        _need(fits, "a tree was fitted on other columns than its classifier")


def _refuse_stray(tree: object) -> None:  # noqa: ARG001
    _need(False, "a tree stands outside of a decision tree")


def _check_ensemble(model: Any) -> None:
    for tree in np.ravel(vars(model).get("estimators_", [])):
        fits = isinstance(tree, BaseDecisionTree) and tree.tree_.n_features == model.n_features_in_
        _need(fits, "a tree was fitted on other columns than its forest")


def _check_boosting(model: Any) -> None:
    """Trees add to as many columns as the start of boosting has."""
    if "estimators_" not in vars(model):
        return
    _check_ensemble(model)
    trees = model.estimators_
    _need(all(type(tree) is DecisionTreeRegressor for tree in trees.ravel()), "boosting is not made of trees")
    _need(model.n_features_in_ <= MOST_FEATURES, "boosting has no end of columns")
    start = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))
    _need(start.shape[1] == trees.shape[1], "boosting has other labels than its start")


def _check_hist_boosting(model: Any) -> None:
    if "_predictors" not in vars(model):
        return
    categorical = np.asarray(model._bin_mapper.is_categorical_, dtype=bool)
    _need(len(categorical) == model._n_features, "boosting was fitted on other columns than its trees")
    for tree in (tree for stage in model._predictors for tree in stage):
        _check_hist_tree(tree, categorical)


def _check_hist_tree(tree: Any, categorical: NDArray[np.bool_]) -> None:
    nodes, bitsets = tree.nodes, (tree.raw_left_cat_bitsets, tree.binned_left_cat_bitsets)
    _need(nodes.dtype == PREDICTOR_RECORD_DTYPE and nodes.ndim == 1 and len(nodes) >= 1, "a tree has no nodes")
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    _check_steps(nodes["left"][inner], nodes["right"][inner], inner, len(nodes))
    feature = nodes["feature_idx"][inner]
    known = ((feature >= 0) & (feature < len(categorical))).all()
    _need(known, "a tree asks for a column that there is not")
    by_category = nodes["is_categorical"][inner] != 0
    _need(categorical[feature[by_category]].all(), "a tree asks for categories of a column of numbers")
    rows = nodes["bitset_idx"][inner][by_category]
    for bits in bitsets:
        _need(bits.ndim == 2 and bits.shape[1] == BITSET and (rows < len(bits)).all(), "a tree asks for no category")


def _rebuild(tree: Any) -> None:
    """Build a tree of neighbours again from its data, as it was built before, so that no loaded index is followed."""
    data, _, _, _, leaf_size, *_, metric, weight = tree.__getstate__()
    tree.__setstate__(type(tree)(data, leaf_size, metric, weight).__getstate__())


def _check_sparse(matrix: Any) -> None:
    _need(matrix.format in ("csr", "csc"), "a sparse matrix is of another kind")
    matrix.check_format(full_check=True)


_CHECKS = (
    (Tree, _refuse_stray),
    (BaseDecisionTree, _check_decision_tree),
    (BaseForest, _check_ensemble),
    (BaseGradientBoosting, _check_boosting),
    (BaseHistGradientBoosting, _check_hist_boosting),
    (KDTree | BallTree, _rebuild),
)
