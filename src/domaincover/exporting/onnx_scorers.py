"""The scores of networks, boosted trees and their mean in ONNX, in the arithmetic of `predict`.

Everything is computed in double precision and rounded to single where the predictors round, so that the order of
additions, in which runtimes differ, is rounded away here as there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import numpy_helper

from domaincover.calibration.few_labels import FAR
from domaincover.calibration.links import DECIMALS, LOWEST_PROBABILITY, SMALLEST, Link
from domaincover.data.table_encoding import TableEncoding
from domaincover.errors import InputError
from domaincover.estimators.fitted_trees import forest_of
from domaincover.exporting.onnx_graph import DOUBLE, ML, SINGLE, OnnxGraph, encoded
from domaincover.networks.dense_layers import DenseLayers
from domaincover.predictors.calibrated_predictors import (
    CalibratedPredictor,
    ConformalPredictor,
    MeanOfModels,
    MeanPredictor,
)
from domaincover.predictors.forest import Forest
from domaincover.predictors.set_predictor import label_codes
from domaincover.predictors.table_predictors import NetworkPredictor, SetCoverPredictor, SingleLabelPredictor

LOWEST_TREE_PROBABILITY = 1e-30  # its logarithm stands for that of 0
AT_MOST = 0  # mode of a tree's node: a value goes the true way if it is at most the threshold
SUM = 1


def table_encoding_of(estimator: Any) -> TableEncoding:
    """Return what turns a table's columns into numbers; reject an estimator that cannot be exported, by name."""
    if isinstance(estimator, MeanPredictor | CalibratedPredictor):
        of_estimators = estimator.estimators_ if isinstance(estimator, MeanPredictor) else estimator.predictors_
        encodings = [table_encoding_of(each) for each in of_estimators]
        return encodings[0]
    if isinstance(estimator, NetworkPredictor):
        return _encoding_of_network(estimator)
    if hasattr(estimator, "steps"):
        _trees_of(estimator)
        return estimator.steps[0][1]
    raise InputError(
        f"a {type(estimator).__name__} cannot be exported; perceptrons, linear models and trees on tables, and their "
        "mean, can."
    )


def _trees_of(pipeline: Any) -> Forest:
    """Return the trees of a pipeline of an encoding and trees; reject others."""
    forest = forest_of(pipeline.steps[-1][1])
    if len(pipeline.steps) != 2 or not isinstance(pipeline.steps[0][1], TableEncoding) or forest is None:
        names = ", ".join(type(step).__name__ for _, step in pipeline.steps)
        raise InputError(f"a pipeline of {names} cannot be exported; TableEncoder and trees split by thresholds can.")
    if forest.value.dtype != np.float64:
        raise InputError("trees of XGBoost cannot be exported: they add in single precision, which ONNX does not.")
    if not forest.takes_missing:
        raise InputError("trees that reject rows with missing values cannot be exported, since ONNX cannot reject.")
    return forest


def _encoding_of_network(estimator: NetworkPredictor) -> TableEncoding:
    name = type(estimator).__name__
    if not isinstance(estimator.encoder_, TableEncoding):
        raise InputError(f"this {name} reads images or texts, which cannot be exported; models of tables can.")
    if not isinstance(getattr(estimator, "layers_", None), DenseLayers):
        raise InputError(f"this {name} has a network of its own, which cannot be exported; 'mlp' and 'linear' can.")
    if not estimator.standardize:
        raise InputError(
            f"this {name} has standardize=False and rejects rows with missing values, which ONNX cannot do."
        )
    return estimator.encoder_


def scores_and_sets(graph: OnnxGraph, model: Any) -> tuple[str, str]:
    """Return the scores that thresholds are compared with, and the sets."""
    table_encoding_of(model)
    if isinstance(model, ConformalPredictor) and not model.leaves_out:
        scores = _as_they_are(graph, model)
    elif isinstance(model, CalibratedPredictor):
        scores = _log_odds(graph, model)
    else:
        scores = raw_scores(graph, model, model.classes_)
    if isinstance(model, SetCoverPredictor):
        return scores, _at_thresholds(graph, scores, model.thresholds_.astype(np.float32))
    if hasattr(model, "thresholds_"):
        return scores, _at_thresholds(graph, scores, model.thresholds_)
    best = graph.add("ArgMax", scores, axis=1, keepdims=1)  # the first of the highest
    highest = graph.add("Equal", best, graph.constant(np.arange(len(model.classes_))))
    if isinstance(model, SingleLabelPredictor | MeanPredictor):  # what cannot be read may be anything
        return scores, graph.add("Or", highest, graph.is_unread(scores))
    return scores, highest


def _at_thresholds(graph: OnnxGraph, scores: str, thresholds: NDArray[Any]) -> str:
    """Put a label into the set unless its score is below its threshold."""
    return graph.add("Not", graph.add("Less", scores, graph.constant(thresholds.astype(np.float64))))


def _as_they_are(graph: OnnxGraph, model: CalibratedPredictor) -> str:
    """Return the scores of the estimator of a conformal classifier."""
    (estimator,) = model.predictors_
    if not isinstance(estimator, NetworkPredictor):  # whose scores are in single precision
        raise InputError(
            f"a {type(model).__name__} (calibration={model.calibration!r}) around a {type(estimator).__name__} cannot "
            "be exported: a threshold may stand exactly at a score, whose last bits differ in ONNX; "
            "calibration='cross-fit' can, and PromisedSetClassifier."
        )
    return raw_scores(graph, estimator, model.classes_)


def _log_odds(graph: OnnxGraph, model: CalibratedPredictor) -> str:
    """Return log-odds of the mean of the estimators, or with "jackknife-minmax" the highest of any of them."""
    by_model, unread = _probabilities_by_model(graph, model.mean_)
    if model.calibration == "jackknife-minmax":
        found = graph.add("Max", *(log_odds(graph, each) for each in by_model))
    else:
        mean = by_model[0] if len(by_model) == 1 else mean_probabilities(graph, by_model)
        found = log_odds(graph, _corrected(graph, model, mean) if hasattr(model, "correction_") else mean)
    return graph.add("Where", unread, graph.constant(np.inf), found)


def _corrected(graph: OnnxGraph, model: Any, probabilities: str) -> str:
    """Return probabilities with what an adapted model has learned from labels, as `calibration.few_labels` does."""
    logs = _log(graph, probabilities, LOWEST_PROBABILITY)
    mean = graph.add("Div", graph.by_row("ReduceSum", logs), graph.constant(float(len(model.classes_))))
    features = graph.add("Sub", logs, mean)
    if model.feature_encoder_ is not None:
        columns = graph.cast(encoded(graph, model.feature_encoder_), DOUBLE)
        features = graph.add("Concat", columns, features, axis=1)
    centred = graph.add("Sub", features, graph.constant(model.feature_scale_["mean"]))
    scaled = graph.add("Mul", centred, graph.constant(1 / model.feature_scale_["unit"]))
    cut = graph.add("Clip", scaled, graph.constant(-FAR), graph.constant(FAR))
    moved = graph.add("MatMul", cut, graph.constant(model.correction_["weights"]))
    return graph.softmax(graph.add("Add", graph.add("Add", logs, moved), graph.constant(model.correction_["bias"])))


def raw_scores(graph: OnnxGraph, estimator: Any, classes: Any) -> str:
    """Return what `log_scores_for` gives, as doubles: margins or log-probabilities of all labels."""
    if isinstance(estimator, MeanPredictor):
        scores = _mean(graph, estimator)
    elif isinstance(estimator, NetworkPredictor):
        scores = _network(graph, estimator)
    else:
        matrix = graph.cast(encoded(graph, table_encoding_of(estimator)), DOUBLE)
        probabilities = _tree_probabilities(graph, _trees_of(estimator), matrix)
        scores = _log(graph, probabilities, LOWEST_TREE_PROBABILITY)
    return graph.wider(scores, label_codes(estimator.classes_, classes), len(classes), -np.inf)


def _network(graph: OnnxGraph, estimator: NetworkPredictor) -> str:
    """Return a network's scores; of one that gives a single label, log-probabilities."""
    units = graph.cast(encoded(graph, _encoding_of_network(estimator)), DOUBLE)
    layers = zip(estimator.layers_.weights, estimator.layers_.biases, strict=True)
    for k, (weight, bias) in enumerate(layers):
        units = units if k == 0 else graph.add("Max", units, graph.constant(0.0))
        product = graph.add("MatMul", units, graph.constant(weight.T.astype(np.float64)))
        units = graph.add("Add", product, graph.constant(bias.astype(np.float64)))
    scores = rounded(graph, units)
    return _log_softmax(graph, scores) if isinstance(estimator, SingleLabelPredictor) else scores


def _log_softmax(graph: OnnxGraph, scores: str) -> str:
    unread = graph.is_unread(scores)
    finite = graph.add("Where", unread, graph.constant(0.0), scores)
    below = graph.add("Sub", finite, graph.by_row("ReduceMax", finite))
    total = graph.add("Log", graph.by_row("ReduceSum", graph.add("Exp", below)))
    return graph.add("Where", unread, scores, rounded(graph, graph.add("Sub", below, total)))


def _mean(graph: OnnxGraph, estimator: MeanPredictor) -> str:
    """Return the log of the normalised geometric mean of several classifiers' probabilities; +∞ for unread rows."""
    for each in estimator.estimators_:
        if not (isinstance(each, SingleLabelPredictor | MeanPredictor) or hasattr(each, "steps")):
            raise InputError(f"a mean with a {type(each).__name__} in it cannot be exported.")
    mean = MeanOfModels(estimator.estimators_, estimator.classes_, estimator.lowest_)
    by_model, unread = _probabilities_by_model(graph, mean)
    return graph.add("Where", unread, graph.constant(np.inf), graph.add("Log", mean_probabilities(graph, by_model)))


def _probabilities_by_model(graph: OnnxGraph, mean: MeanOfModels) -> tuple[list[str], str]:
    """Return each classifier's probabilities, and which rows some classifier could not read."""
    raw = [raw_scores(graph, each, mean.classes) for each in mean.models]
    unread = graph.any_in_row(graph.is_unread(raw[0]))
    for each in raw[1:]:
        unread = graph.add("Or", unread, graph.any_in_row(graph.is_unread(each)))
    read = [graph.add("Where", unread, graph.constant(0.0), each) for each in raw]
    if mean.links:
        return [_linked(graph, *each) for each in zip(mean.links, read, strict=True)], unread
    by_model = zip(read, mean.lowest, strict=True)
    return [without_zeros(graph, graph.add("Exp", each), lowest) for each, lowest in by_model], unread


def _linked(graph: OnnxGraph, link: Link, margins: str) -> str:
    """Return probabilities from margins."""
    scaled = graph.add("Mul", graph.constant(np.float64(link.unit)), margins)
    linked = graph.add("Add", scaled, graph.constant(np.asarray(link.intercept, dtype=float)))
    unknown = graph.add("IsInf", margins, detect_positive=0)
    return graph.softmax(graph.add("Where", unknown, graph.constant(-np.inf), linked))


def rounded(graph: OnnxGraph, values: str) -> str:
    """Return doubles rounded to single precision."""
    return graph.cast(graph.cast(values, SINGLE), DOUBLE)


def mean_probabilities(graph: OnnxGraph, by_model: list[str]) -> str:
    """Return the normalised geometric mean over models, as `calibration.links` does."""
    logs = [_log(graph, each, LOWEST_PROBABILITY) for each in by_model]
    total = graph.add("Sum", *logs)
    return graph.softmax(graph.add("Div", total, graph.constant(float(len(logs)))))


def without_zeros(graph: OnnxGraph, probabilities: str, lowest: Any) -> str:
    """Return probabilities with the label's lowest in place of 0, rows that change normalised."""
    zero = graph.add("LessOrEqual", probabilities, graph.constant(SMALLEST))
    raised = graph.add("Where", zero, graph.constant(np.asarray(lowest, dtype=float)), probabilities)
    total = graph.add("Max", graph.by_row("ReduceSum", raised), graph.constant(SMALLEST))
    return graph.add("Where", graph.any_in_row(zero), graph.add("Div", raised, total), probabilities)


def log_odds(graph: OnnxGraph, probabilities: str) -> str:
    """Return log(p / (1 − p)) of every label, rounded, as `calibration.links` does."""
    axis = graph.constant(np.array(1))
    before = graph.add("CumSum", probabilities, axis, exclusive=1)
    after = graph.add("CumSum", probabilities, axis, exclusive=1, reverse=1)
    others = graph.add("Add", before, after)
    own = _log(graph, probabilities, LOWEST_PROBABILITY)
    odds = graph.add("Sub", own, _log(graph, others, LOWEST_PROBABILITY))
    unit = graph.constant(10.0**DECIMALS)
    return graph.add("Div", graph.add("Round", graph.add("Mul", odds, unit)), unit)


def _log(graph: OnnxGraph, values: str, lowest: float) -> str:
    return graph.add("Log", graph.add("Max", values, graph.constant(lowest)))


def _tree_probabilities(graph: OnnxGraph, forest: Forest, matrix: str) -> str:
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
