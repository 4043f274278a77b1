"""Histogram gradient boosting in ONNX: the trees of scikit-learn with double thresholds and values."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import numpy_helper

from domaincover.errors import InputError
from domaincover.exporting.onnx_graph import ML, OnnxGraph

AT_MOST = 0  # mode of a node: a value goes the true way if it is at most the threshold
SUM = 1


def is_boosting(model: Any) -> bool:
    """Return whether a model is scikit-learn's classifier of histogram gradient boosting."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return isinstance(model, HistGradientBoostingClassifier)


def tree_probabilities(graph: OnnxGraph, model: Any, matrix: str) -> str:
    """Return the probabilities of the trees' labels, rows × labels, from a matrix of doubles."""
    raw = _raw(graph, model, matrix)
    if len(model.classes_) > 2:
        return graph.softmax(raw)
    second = graph.add("Sigmoid", raw)
    return graph.beside(graph.add("Sub", graph.constant(1.0), second), second)


def _raw(graph: OnnxGraph, model: Any, matrix: str) -> str:
    """Return the baseline and the sum of all trees."""
    baseline = np.array(model._baseline_prediction, dtype=np.float64).reshape(1, -1)
    n_targets = baseline.shape[1]
    trees, targets = [], []
    for stage in model._predictors:
        for target, tree in enumerate(stage):
            if tree.nodes["is_categorical"][tree.nodes["is_leaf"] == 0].any():
                raise InputError("boosting with splits by category cannot be exported; TableEncoder avoids them.")
            if len(tree.nodes) == 1:  # the same for all rows
                baseline[0, target] += tree.nodes["value"][0]
            else:
                trees.append(tree.nodes)
                targets.append(target)
    if not trees:
        n_rows = graph.add("Shape", matrix, start=0, end=1)
        shape = graph.add("Concat", n_rows, graph.constant(np.array([1])), axis=0)
        return graph.add("Expand", graph.constant(baseline), shape)
    found = graph.add("TreeEnsemble", matrix, domain=ML, **_attributes(trees, targets), n_targets=n_targets)
    return graph.add("Add", found, graph.constant(baseline))


def _attributes(trees: list[Any], targets: list[int]) -> dict[str, Any]:
    """Return the nodes of all trees, inner nodes and leaves each in one list."""
    n_inner = [int((nodes["is_leaf"] == 0).sum()) for nodes in trees]
    n_leaves = [len(nodes) - inner for nodes, inner in zip(trees, n_inner, strict=True)]
    first_inner = np.concatenate([[0], np.cumsum(n_inner)])[:-1]
    first_leaf = np.concatenate([[0], np.cumsum(n_leaves)])[:-1]
    inner = np.concatenate([nodes[nodes["is_leaf"] == 0] for nodes in trees])
    leaves = np.concatenate([nodes[nodes["is_leaf"] == 1] for nodes in trees])
    ways: dict[str, list[Any]] = {"left": [], "right": [], "left_is_leaf": [], "right_is_leaf": []}
    for nodes, inner_start, leaf_start in zip(trees, first_inner, first_leaf, strict=True):
        is_leaf = nodes["is_leaf"] == 1
        place = np.where(is_leaf, np.cumsum(is_leaf) - 1 + leaf_start, np.cumsum(~is_leaf) - 1 + inner_start)
        for side in ("left", "right"):
            child = nodes[side][~is_leaf].astype(np.int64)
            ways[side].append(place[child])
            ways[f"{side}_is_leaf"].append(is_leaf[child])
    found = {name: np.concatenate(parts).astype(np.int64).tolist() for name, parts in ways.items()}
    return {
        "aggregate_function": SUM,
        "tree_roots": first_inner.astype(np.int64).tolist(),
        "nodes_featureids": inner["feature_idx"].astype(np.int64).tolist(),
        "nodes_splits": numpy_helper.from_array(inner["num_threshold"].astype(np.float64)),
        "nodes_modes": numpy_helper.from_array(np.full(len(inner), AT_MOST, dtype=np.uint8)),
        "nodes_missing_value_tracks_true": inner["missing_go_to_left"].astype(np.int64).tolist(),
        "nodes_truenodeids": found["left"],
        "nodes_falsenodeids": found["right"],
        "nodes_trueleafs": found["left_is_leaf"],
        "nodes_falseleafs": found["right_is_leaf"],
        "leaf_targetids": np.repeat(targets, n_leaves).astype(np.int64).tolist(),
        "leaf_weights": numpy_helper.from_array(leaves["value"].astype(np.float64)),
    }
