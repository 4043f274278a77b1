"""Export models of tables to ONNX, as one file: encoding, scorers and thresholds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from domaincover.errors import InputError, check_installed
from domaincover.files import write_whole
from domaincover.predictors.calibrated_predictors import CalibratedPredictor, ConformalPredictor
from domaincover.predictors.label_scores import MeanPredictor
from domaincover.predictors.names import check_fitted
from domaincover.predictors.network_predictors import NetworkPredictor, SetCoverPredictor, SingleLabelPredictor
from domaincover.predictors.set_predictor import SetPredictor

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from domaincover.exporting.onnx_graph import OnnxGraph


def export_onnx(model: Any, path: str | Path) -> None:
    """Write a model of tables as an ONNX file, which gives the same sets as `predict_set` with fixed thresholds.

    The file has an input for every column, one value per row: doubles for numbers, booleans (0 and 1) and dates (days
    since 1970, UTC), with NaN for missing values; text for categories, "" for missing values. `onnx_inputs` makes them
    from a table. Outputs are `sets` (booleans, rows × labels) and `scores` (doubles). The metadata have the labels, the
    thresholds' kind, the promise and the columns, as JSON.

    Parameters
    ----------
    model : SetPredictor
        A `SetCoverClassifier`, `ERMClassifier`, `DomainGeneralizationClassifier` or `MeanClassifier`, or a
        `PromisedSetClassifier` or `ConformalSetClassifier` around one; of scikit-learn's classifiers,
        `HistGradientBoostingClassifier` behind a `TableEncoder`. A model from `adapt` has the thresholds of its domain.
    path : path
        The file to write.
    """
    _check_exportable(model)
    from onnx import checker, helper

    from domaincover.exporting.onnx_graph import BOOL, DOUBLE, IR_VERSION, OPSETS, OnnxGraph

    graph = OnnxGraph()
    scores, sets = _scores_and_sets(graph, model)
    graph.name_output(sets, "sets")
    graph.name_output(scores, "scores")
    shape: list[str | int | None] = ["rows", len(model.classes_)]
    outputs = [helper.make_tensor_value_info(name, kind, shape) for name, kind in (("sets", BOOL), ("scores", DOUBLE))]
    made = helper.make_model(
        helper.make_graph(graph.nodes, "domaincover", list(graph.inputs.values()), outputs, graph.constants),
        opset_imports=[helper.make_opsetid(*opset) for opset in OPSETS.items()],
        ir_version=IR_VERSION,
        producer_name="domaincover",
    )
    helper.set_model_props(made, {name: json.dumps(value) for name, value in _metadata(model).items()})
    checker.check_model(made)
    write_whole(Path(path), made.SerializeToString())


def onnx_inputs(model: Any, table: pd.DataFrame) -> dict[str, NDArray[Any]]:
    """Return the inputs of an exported model from a table, by the name of the column."""
    _check_exportable(model)
    from domaincover.exporting.onnx_encoding import input_values

    return input_values(_encoding_of(model), table)


def _check_exportable(model: Any) -> None:
    """Reject what is not a fitted model of sets."""
    if not isinstance(model, SetPredictor):
        raise InputError(f"a {type(model).__name__} cannot be exported; models of domaincover on tables can.")
    check_fitted(model)
    check_installed("onnx", "ONNX files", "onnx")


def _encoding_of(model: SetPredictor) -> Any:
    from domaincover.exporting.onnx_scorers import table_encoding_of

    estimators = model.predictors_ if isinstance(model, CalibratedPredictor) else [model]
    encodings = [table_encoding_of(each) for each in estimators]
    return encodings[0]


def _scores_and_sets(graph: OnnxGraph, model: Any) -> tuple[str, str]:
    """Return the scores that thresholds are compared with, and the sets."""
    from domaincover.exporting.onnx_scorers import raw_scores

    _encoding_of(model)
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
    highest = graph.only_highest(scores, len(model.classes_))
    if isinstance(model, SingleLabelPredictor | MeanPredictor):  # what cannot be read may be anything
        return scores, graph.add("Or", highest, graph.is_unread(scores))
    return scores, highest


def _at_thresholds(graph: OnnxGraph, scores: str, thresholds: NDArray[Any]) -> str:
    """Put a label into the set unless its score is below its threshold."""
    return graph.add("Not", graph.add("Less", scores, graph.constant(thresholds.astype(np.float64))))


def _as_they_are(graph: OnnxGraph, model: CalibratedPredictor) -> str:
    """Return the scores of the estimator of a conformal classifier."""
    from domaincover.exporting.onnx_scorers import raw_scores

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
    from domaincover.exporting import onnx_scorers

    raw = [onnx_scorers.raw_scores(graph, each, model.classes_) for each in model.predictors_]
    unread = [graph.any_in_row(graph.is_unread(each)) for each in raw]
    read = [graph.add("Where", flag, graph.constant(0.0), each) for each, flag in zip(raw, unread, strict=True)]
    by_model = [_probabilities(graph, model, number, each) for number, each in enumerate(read)]
    if model.calibration == "jackknife-minmax":
        each_by_itself = [onnx_scorers.log_odds(graph, probabilities) for probabilities in by_model]
        found = graph.add("Max", *each_by_itself)
    else:
        mean = by_model[0] if len(by_model) == 1 else onnx_scorers.mean_probabilities(graph, by_model)
        found = onnx_scorers.log_odds(graph, mean)
    return graph.add("Where", onnx_scorers.any_of(graph, unread), graph.constant(np.inf), found)


def _probabilities(graph: OnnxGraph, model: CalibratedPredictor, number: int, raw: str) -> str:
    """Return the probabilities of one of the estimators from log-probabilities, or by its link from margins."""
    from domaincover.exporting.onnx_scorers import without_zeros

    if not model.links_:
        return without_zeros(graph, graph.add("Exp", raw), model.lowest_[number])
    link = model.links_[number]
    unit, intercept = (graph.constant(np.asarray(link[name], dtype=float)) for name in ("unit", "intercept"))
    linked = graph.add("Add", graph.add("Mul", unit, raw), intercept)
    unknown = graph.add("IsInf", raw, detect_positive=0)
    return graph.softmax(graph.add("Where", unknown, graph.constant(-np.inf), linked))


def _metadata(model: Any) -> dict[str, Any]:
    """Return what a reader of the file needs to know, by name."""
    from domaincover.data.dataset import texts
    from domaincover.exporting.onnx_encoding import input_columns

    columns = [
        {"name": str(column.name), "kind": column.kind}
        | ({} if column.spelling is None else {"spelling": column.spelling})
        for column in input_columns(_encoding_of(model))
    ]
    return {
        "labels": list(texts(model.classes_.tolist())),
        "columns": columns,
        "promise": model.promise,
        "thresholds": getattr(model, "threshold_kind", "fixed"),
    }
