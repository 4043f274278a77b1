"""Build an ONNX graph operation by operation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

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

    def only_highest(self, scores: str, n_labels: int) -> str:
        """Return the sets of the first label with the highest score."""
        best = self.add("ArgMax", scores, axis=1, keepdims=1)
        return self.add("Equal", best, self.constant(np.arange(n_labels)))

    def wider(self, scores: str, places: NDArray[np.int64], n_labels: int, filler: float) -> str:
        """Return scores, whose columns go to these places among all labels, with a filler in the others."""
        if np.array_equal(places, np.arange(n_labels)):
            return scores
        padded = self.add("Pad", scores, self.constant(np.array([0, 0, 0, 1])), self.constant(np.float64(filler)))
        columns = np.full(n_labels, len(places))
        columns[places] = np.arange(len(places))
        return self.add("Gather", padded, self.constant(columns), axis=1)
