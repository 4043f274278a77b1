"""Build an ONNX graph: its operations, and a table's encoding in the arithmetic of `data.table_encoding`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from domaincover.data.columns import (
    CYCLES,
    Categories,
    Kind,
    category_text,
    date_cycles,
    plain_table,
    read_days,
    read_numbers,
)
from domaincover.data.table_encoding import FAR, LARGEST, TableEncoding
from domaincover.errors import InputError

ML = "ai.onnx.ml"
OPSETS = {"": 18, ML: 5}
IR_VERSION = 10  # of ONNX 1.16, which brought these operations
DOUBLE, SINGLE, WHOLE, BOOL, STRING = (
    TensorProto.DOUBLE,
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.STRING,
)
MISSING_TEXT = ""
OUTPUTS = ("sets", "scores")


class OnnxGraph:
    """Operations, constants and inputs; what a method returns is the name of a tensor.

    Names of tensors within begin with a slash and a number, which keeps them apart from those of most columns.
    """

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.inputs: dict[str, ValueInfoProto] = {}

    def input(self, name: str, kind: int) -> str:
        """Return an input with one value per row; asked for again, the same."""
        self.inputs.setdefault(name, helper.make_tensor_value_info(name, kind, ["rows"]))
        return name

    def constant(self, value: Any) -> str:
        """Return an array or a number as a constant; numbers are doubles."""
        name = f"/{len(self.constants)} constant"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, operation: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Return the result of an operation."""
        name = f"/{len(self.nodes)} {operation}"
        self.nodes.append(helper.make_node(operation, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def name_output(self, tensor: str, name: str) -> None:
        """Give a tensor the name of an output."""
        self.nodes.append(helper.make_node("Identity", [tensor], [name], name=f"/{name}"))

    def cast(self, tensor: str, kind: int) -> str:
        """Return a tensor as another type."""
        return self.add("Cast", tensor, to=kind)

    def column(self, vector: str) -> str:
        """Return one value per row as a matrix of one column."""
        return self.add("Unsqueeze", vector, self.constant(np.array([1])))

    def beside(self, *matrices: str) -> str:
        """Return matrices with the same rows as one."""
        return matrices[0] if len(matrices) == 1 else self.add("Concat", *matrices, axis=1)

    def by_row(self, operation: str, matrix: str) -> str:
        """Return a reduction over the columns, such as ReduceMax, as a matrix of one column."""
        return self.add(operation, matrix, self.constant(np.array([1])), keepdims=1)

    def any_in_row(self, flags: str) -> str:
        """Return whether a row has any flag."""
        return self.cast(self.by_row("ReduceMax", self.cast(flags, SINGLE)), BOOL)

    def is_unread(self, scores: str) -> str:
        """Return where scores are +∞."""
        return self.add("IsInf", scores, detect_negative=0)

    def softmax(self, values: str) -> str:
        """Return exponentials that sum to 1 in every row, by the steps of `calibration.links`."""
        raised = self.add("Exp", self.add("Sub", values, self.by_row("ReduceMax", values)))
        return self.add("Div", raised, self.by_row("ReduceSum", raised))

    def wider(self, scores: str, places: NDArray[np.int64], n_labels: int, filler: float) -> str:
        """Return scores, whose columns go to these places among all labels, with a filler in the others."""
        if np.array_equal(places, np.arange(n_labels)):
            return scores
        padded = self.add("Pad", scores, self.constant(np.array([0, 0, 0, 1])), self.constant(np.float64(filler)))
        columns = np.full(n_labels, len(places))
        columns[places] = np.arange(len(places))
        return self.add("Gather", padded, self.constant(columns), axis=1)


def input_kinds(encoding: TableEncoding) -> dict[Any, Kind]:
    """Return the columns that an encoding reads, with their kinds; reject those that ONNX cannot have as inputs.

    Categories are given as text ("": missing), others as doubles (NaN: missing).
    """
    if not encoding.kinds_:
        raise InputError("the model was fitted on an array without column names; ONNX needs a name for every column.")
    kinds: dict[Any, Kind] = {name: kind for name, kind in encoding.kinds_.items() if kind != "ignored"}
    names = [str(name) for name in kinds]
    for name in names:
        if name in OUTPUTS or not name or name.startswith("/") or names.count(name) > 1:
            raise InputError(f"column {name!r} cannot be an input of an ONNX model; rename it and fit again.")
    for name, categories in encoding.categories_.items():
        if MISSING_TEXT in categories.levels:
            raise InputError(
                f"column {str(name)!r} has the empty text as a category, which in ONNX is a missing value."
            )
    return kinds


def input_values(encoding: TableEncoding, table: pd.DataFrame) -> dict[str, NDArray[Any]]:
    """Return the inputs of an exported model, from a table."""
    plain = plain_table(table, getattr(encoding, "spellings_", {}))
    values: dict[str, NDArray[Any]] = {}
    for name, kind in input_kinds(encoding).items():
        if kind == "category":
            listed = [MISSING_TEXT if pd.isna(value) else category_text(value) for value in plain[name]]
            values[str(name)] = np.array(listed, dtype=object)
        else:
            numbers = read_days(plain[name]) if kind == "date" else read_numbers(plain[name])
            values[str(name)] = numbers.astype(np.float64)
    return values


def encoded(graph: OnnxGraph, encoding: TableEncoding) -> str:
    """Return the matrix that `encode` gives, in single precision."""
    numbers = [
        graph.column(part)
        for name, kind in input_kinds(encoding).items()
        if kind != "category"
        for part in _numbers(graph, str(name), kind, name in encoding.has_times_)
    ]
    parts = []
    if numbers:
        matrix = graph.beside(*numbers)
        parts.append(_scaled(graph, matrix, encoding) if encoding.scale else _as_single(graph, matrix))
        if encoding.scale and encoding.marked_.any():
            marked = graph.add("Gather", matrix, graph.constant(np.flatnonzero(encoding.marked_)), axis=1)
            parts.append(graph.cast(graph.add("IsNaN", marked), SINGLE))
    parts += [_one_hot(graph, str(name), levels) for name, levels in encoding.categories_.items() if levels.levels]
    return graph.beside(*parts)


def _numbers(graph: OnnxGraph, name: str, kind: Kind, with_time: bool) -> list[str]:
    """Return a column's numbers: one, or the parts of a date."""
    values = graph.input(name, DOUBLE)
    if kind != "date":
        return [values]
    turned = graph.add("Mul", graph.constant(2 * np.pi), values)
    angles = [graph.add("Div", turned, graph.constant(CYCLES[cycle])) for cycle in date_cycles(with_time)]
    return [values, *(graph.add(wave, angle) for angle in angles for wave in ("Sin", "Cos"))]


def _scaled(graph: OnnxGraph, numbers: str, encoding: TableEncoding) -> str:
    """Standardise, compress extreme values, and replace missing ones by the mean, 0."""
    zero, far = graph.constant(0.0), graph.constant(FAR)
    centred = graph.add("Sub", numbers, graph.constant(encoding.mean_))
    scaled = graph.add("Mul", centred, graph.constant(1 / encoding.deviation_))
    known = graph.add("Where", graph.add("IsNaN", scaled), zero, scaled)
    size = graph.add("Min", graph.add("Abs", known), graph.constant(np.float64(LARGEST)))
    beyond = graph.add("Max", graph.add("Sub", size, far), zero)
    grown = graph.add("Add", far, graph.add("Log", graph.add("Add", graph.constant(1.0), beyond)))
    signed = graph.add("Mul", grown, graph.add("Sign", known))
    return graph.cast(graph.add("Where", graph.add("Greater", size, far), signed, known), SINGLE)


def _as_single(graph: OnnxGraph, numbers: str) -> str:
    """Return numbers in single precision, clipped to its range; missing values stay missing."""
    largest = np.float64(LARGEST)
    clipped = graph.add("Clip", numbers, graph.constant(-largest), graph.constant(largest))
    return graph.cast(graph.add("Where", graph.add("IsNaN", numbers), numbers, clipped), SINGLE)


def _one_hot(graph: OnnxGraph, name: str, categories: Categories) -> str:
    """Return a column for each category; an unknown one has zeros in all."""
    texts = [MISSING_TEXT if level is None else level for level in categories.levels]
    codes = graph.add(
        "LabelEncoder",
        graph.input(name, STRING),
        domain=ML,
        keys_strings=texts,
        values_int64s=list(range(len(texts))),
        default_int64=-1,
    )
    return graph.cast(graph.add("Equal", graph.column(codes), graph.constant(np.arange(len(texts)))), SINGLE)
