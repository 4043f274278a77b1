"""A table's encoding in ONNX: one input per column, then the steps of `data.table_encoding` in the same arithmetic."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.columns import CYCLES, Categories, category_text, date_cycles, read_days, read_numbers
from domaincover.data.spellings import plain_table
from domaincover.data.table_encoding import FAR, LARGEST, TableEncoding
from domaincover.errors import InputError
from domaincover.exporting.onnx_graph import DOUBLE, ML, SINGLE, STRING, OnnxGraph

MISSING_TEXT = ""
OUTPUTS = ("sets", "scores")


class InputColumn(NamedTuple):
    """A column that the model reads, and how its values are given: doubles (NaN: missing) or text ("": missing)."""

    name: Any
    kind: str
    spelling: str | None

    @property
    def is_text(self) -> bool:
        """Whether values are given as text."""
        return self.kind == "category"


def input_columns(encoding: TableEncoding) -> list[InputColumn]:
    """Return the columns that an encoding reads; reject those that ONNX cannot have as inputs."""
    if not encoding.kinds_:
        raise InputError("the model was fitted on an array without column names; ONNX needs a name for every column.")
    spellings = getattr(encoding, "spellings_", {})
    columns = [
        InputColumn(name, kind, spellings.get(name)) for name, kind in encoding.kinds_.items() if kind != "ignored"
    ]
    names = [str(column.name) for column in columns]
    for name in names:
        if name in OUTPUTS or not name or name.startswith("/") or names.count(name) > 1:
            raise InputError(f"column {name!r} cannot be an input of an ONNX model; rename it and fit again.")
    for name, categories in encoding.categories_.items():
        if MISSING_TEXT in categories.levels:
            raise InputError(
                f"column {str(name)!r} has the empty text as a category, which in ONNX is a missing value."
            )
    return columns


def values_of(column: InputColumn, table: pd.DataFrame) -> NDArray[Any]:
    """Return what the input of a column takes, from a table whose spellings were read."""
    values = table[column.name]
    if column.is_text:
        texts = [MISSING_TEXT if pd.isna(value) else category_text(value) for value in values]
        return np.array(texts, dtype=object)
    return read_days(values) if column.kind == "date" else read_numbers(values).astype(np.float64)


def input_values(encoding: TableEncoding, table: pd.DataFrame) -> dict[str, NDArray[Any]]:
    """Return the inputs of an exported model, from a table."""
    plain = plain_table(table, getattr(encoding, "spellings_", {}))
    return {str(column.name): values_of(column, plain) for column in input_columns(encoding)}


def encoded(graph: OnnxGraph, encoding: TableEncoding) -> str:
    """Return the matrix that `encode` gives, in single precision."""
    columns = input_columns(encoding)
    numbers = [
        graph.column(part)
        for column in columns
        if not column.is_text
        for part in _numbers(graph, column, column.name in encoding.has_times_)
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


def _numbers(graph: OnnxGraph, column: InputColumn, with_time: bool) -> list[str]:
    """Return a column's numbers: one, or the parts of a date."""
    values = graph.input(str(column.name), DOUBLE)
    if column.kind != "date":
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
