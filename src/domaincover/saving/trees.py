"""Validate the data of loaded estimators that compiled code uses without bounds checks.

scikit-learn's compiled code follows the node indices of a tree unchecked, so a forged file could make it read out of
bounds. Indices of trees, sparse matrices and neighbour searches are therefore validated once, before any prediction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.neighbors import BallTree, KDTree
from sklearn.tree import BaseDecisionTree, DecisionTreeRegressor
from sklearn.tree._tree import Tree

from domaincover.estimators.fitted_trees import Nodes, forest_from
from domaincover.predictors.forest import need

MOST_FEATURES = 10_000_000  # bounds the memory of the one row that is predicted as a check
BITSET = 8  # 32-bit words, one bit per category


def check_loaded(model: object) -> None:
    """Check every object reachable from a loaded estimator, nested ones first."""
    found = list(_within(model))
    for kind, check in _CHECKS:
        for part in found:
            if isinstance(part, kind):
                check(part)
    for part in found:
        if issparse(part):
            _check_sparse(part)


def _within(root: object) -> Iterator[object]:
    """Yield every object reachable from this one, each once."""
    waiting, seen = [root], dict[int, object]()
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, str | bytes | int | float | type):
            continue
        seen[id(item)] = item  # a reference, so that the id is not reused
        yield item
        waiting += _held_by(item)


def _held_by(item: object) -> list[object]:
    held: list[object] = []
    if isinstance(item, dict):
        held += [*item.keys(), *item.values()]
    elif isinstance(item, list | tuple | set):
        held += item
    elif isinstance(item, np.ndarray) and item.dtype == object:
        held += np.asarray(item).ravel().tolist()  # including masked entries
    attributes = getattr(item, "__dict__", {})
    # A bare tree does not check its number of input columns; only a decision tree does.
    in_place = "tree_" if isinstance(item, BaseDecisionTree) else None
    return held + [value for name, value in attributes.items() if name != in_place]


def _check_nodes(trees: list[Nodes], n_features: int) -> None:
    """Require nodes that are trees: making a forest of them checks all that compiled code would follow."""
    values = [tree.value.reshape(len(tree.value), -1) for tree in trees]
    forest_from(
        [tree._replace(value=value.astype(np.float64)) for tree, value in zip(trees, values, strict=True)],
        n_features=n_features,
        target=np.zeros(len(trees), dtype=np.int32),
        baseline=np.zeros(values[0].shape[1]),
        link="mean",
    )


def _check_decision_tree(model: Any) -> None:
    if "tree_" not in vars(model):  # it was not fitted
        return
    tree = model.tree_
    need(type(tree) is Tree, "the tree_ of a decision tree is not a tree")
    need(tree.node_count == tree.capacity >= 1 and tree.n_outputs >= 1, "a tree's node count is wrong")
    _check_nodes([Nodes.of_tree(tree)], tree.n_features)
    need(tree.n_features == model.n_features_in_, "a tree and its classifier have different numbers of columns")


def _reject_bare_tree(tree: object) -> None:  # noqa: ARG001
    need(False, "a tree is outside of a decision tree")


def _check_ensemble(model: Any) -> None:
    for tree in np.ravel(vars(model).get("estimators_", [])):
        fits = isinstance(tree, BaseDecisionTree) and tree.tree_.n_features == model.n_features_in_
        need(fits, "a tree and its forest have different numbers of columns")


def _check_boosting(model: Any) -> None:
    """Require as many trees per stage as the initial prediction has columns."""
    if "estimators_" not in vars(model):
        return
    _check_ensemble(model)
    trees = model.estimators_
    need(all(type(tree) is DecisionTreeRegressor for tree in trees.ravel()), "boosting contains a non-tree")
    need(model.n_features_in_ <= MOST_FEATURES, f"boosting has more than {MOST_FEATURES} columns")
    start = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))
    need(start.shape[1] == trees.shape[1], "boosting and its initial prediction have different numbers of labels")


def _check_hist_boosting(model: Any) -> None:
    trees = [tree for stage in vars(model).get("_predictors", []) for tree in stage]
    if not trees:
        return
    categorical = np.asarray(model._bin_mapper.is_categorical_, dtype=bool)
    need(len(categorical) == model._n_features, "boosting and its bins have different numbers of columns")
    typed = all(tree.nodes.dtype == PREDICTOR_RECORD_DTYPE and tree.nodes.ndim == 1 for tree in trees)
    need(typed and all(len(tree.nodes) for tree in trees), "a tree has no nodes")
    _check_nodes([Nodes.of_histogram(tree) for tree in trees], len(categorical))
    for tree in trees:
        inner = tree.nodes[(tree.nodes["is_leaf"] == 0) & (tree.nodes["is_categorical"] != 0)]
        need(categorical[inner["feature_idx"]].all(), "a tree splits a numeric column by category")
        for bits in (tree.raw_left_cat_bitsets, tree.binned_left_cat_bitsets):
            known = bits.ndim == 2 and bits.shape[1] == BITSET and (inner["bitset_idx"] < len(bits)).all()
            need(known, "a category is out of bounds")


def _rebuild(tree: Any) -> None:
    """Rebuild a neighbour-search tree from its data, so that no loaded index is used."""
    data, _, _, _, leaf_size, *_, metric, weight = tree.__getstate__()
    tree.__setstate__(type(tree)(data, leaf_size, metric, weight).__getstate__())


def _check_sparse(matrix: Any) -> None:
    need(matrix.format in ("csr", "csc"), "a sparse matrix is neither csr nor csc")
    matrix.check_format(full_check=True)


_CHECKS = (
    (Tree, _reject_bare_tree),
    (BaseDecisionTree, _check_decision_tree),
    (BaseForest, _check_ensemble),
    (BaseGradientBoosting, _check_boosting),
    (BaseHistGradientBoosting, _check_hist_boosting),
    (KDTree | BallTree, _rebuild),
)
