"""Trees in ONNX, with the thresholds and values of a `Forest` in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import numpy_helper

from domaincover.exporting.onnx_graph import ML, OnnxGraph
from domaincover.predictors.forest import Forest

AT_MOST = 0  # mode of a node: a value goes the true way if it is at most the threshold
SUM = 1


def tree_probabilities(graph: OnnxGraph, forest: Forest, matrix: str) -> str:
    """Return the probabilities of the trees' labels, rows × labels, from a matrix of doubles."""
    added = graph.add("TreeEnsemble", matrix, domain=ML, **_attributes(forest))
    outputs = graph.add("Add", added, graph.constant(forest.baseline.astype(np.float64)))
    if forest.link == "mean":
        return graph.add("Div", outputs, graph.constant(float(len(forest.root))))
    if forest.link == "softmax":
        return graph.softmax(outputs)
    likely = graph.add("Sigmoid", outputs)
    if len(forest.baseline) > 1:
        return likely
    return graph.beside(graph.add("Sub", graph.constant(1.0), likely), likely)


def _attributes(forest: Forest) -> dict[str, Any]:
    """Return the nodes of all trees; a tree that is one leaf gets a split with this leaf on both sides."""
    n_outputs, alone = len(forest.baseline), np.flatnonzero(forest.root < 0)
    splits = len(forest.feature) + np.arange(len(alone))
    roots = forest.root.copy()
    roots[alone] = splits
    left, right = (np.append(side, forest.root[alone]) for side in (forest.left, forest.right))
    value, target = forest.value, forest.target[forest.structure.tree_of_leaf]
    if value.ndim == 2:  # a leaf with several values becomes as many trees
        n_nodes, n_leaves, each = len(left), len(value), np.arange(n_outputs)[:, None]
        roots = (roots + n_nodes * each).ravel()
        left, right = (
            np.where(side < 0, side - n_leaves * each, side + n_nodes * each).ravel() for side in (left, right)
        )
        value, target = value.T.ravel(), np.repeat(np.arange(n_outputs), n_leaves)
    times = len(left) // (len(forest.feature) + len(alone))

    def of_splits(values: Any, filler: Any) -> Any:
        return np.tile(np.append(values, np.full(len(alone), filler)), times)

    return {
        "aggregate_function": SUM,
        "n_targets": n_outputs,
        "tree_roots": roots.astype(np.int64).tolist(),
        "nodes_featureids": of_splits(forest.feature, 0).astype(np.int64).tolist(),
        "nodes_splits": numpy_helper.from_array(of_splits(forest.threshold, 0.0).astype(np.float64)),
        "nodes_modes": numpy_helper.from_array(np.full(len(left), AT_MOST, dtype=np.uint8)),
        "nodes_missing_value_tracks_true": of_splits(forest.missing_left, False).astype(np.int64).tolist(),
        "nodes_truenodeids": np.where(left < 0, ~left, left).astype(np.int64).tolist(),
        "nodes_falsenodeids": np.where(right < 0, ~right, right).astype(np.int64).tolist(),
        "nodes_trueleafs": (left < 0).astype(np.int64).tolist(),
        "nodes_falseleafs": (right < 0).astype(np.int64).tolist(),
        "leaf_targetids": target.astype(np.int64).tolist(),
        "leaf_weights": numpy_helper.from_array(value.astype(np.float64)),
    }
