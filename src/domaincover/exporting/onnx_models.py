"""Export models of tables to ONNX, as one file: encoding, scorers and thresholds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domaincover.errors import InputError, check_installed
from domaincover.files import write_whole
from domaincover.predictors.set_predictor import SetPredictor, check_fitted

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


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
        `PromisedSetClassifier` or `ConformalSetClassifier` around one; of other classifiers, trees of scikit-learn and
        LightGBM behind a `TableEncoder`. A model from `adapt` has the thresholds of its domain.
    path : path
        The file to write.
    """
    _check_exportable(model)
    from onnx import checker, helper

    from domaincover.exporting.onnx_graph import BOOL, DOUBLE, IR_VERSION, OPSETS, OnnxGraph
    from domaincover.exporting.onnx_scorers import scores_and_sets

    graph = OnnxGraph()
    scores, sets = scores_and_sets(graph, model)
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
    from domaincover.exporting.onnx_graph import input_values
    from domaincover.exporting.onnx_scorers import table_encoding_of

    return input_values(table_encoding_of(model), table)


def _check_exportable(model: Any) -> None:
    """Reject what is not a fitted model of sets."""
    if not isinstance(model, SetPredictor):
        raise InputError(f"a {type(model).__name__} cannot be exported; models of domaincover on tables can.")
    check_fitted(model)
    check_installed("onnx", "ONNX files", "onnx")


def _metadata(model: Any) -> dict[str, Any]:
    """Return what a reader of the file needs to know, by name."""
    from domaincover.data.dataset import texts
    from domaincover.exporting.onnx_graph import input_kinds
    from domaincover.exporting.onnx_scorers import table_encoding_of

    encoding = table_encoding_of(model)
    spellings = getattr(encoding, "spellings_", {})
    columns = [
        {"name": str(name), "kind": kind} | ({"spelling": spellings[name]} if name in spellings else {})
        for name, kind in input_kinds(encoding).items()
    ]
    return {
        "labels": list(texts(model.classes_.tolist())),
        "columns": columns,
        "promise": model.promise,
        "thresholds": getattr(model, "threshold_kind", "fixed"),
    }
