"""Trees of any library as arrays: checked when they are made, and evaluated with numpy alone.

Scores have the bits of the library that fitted the trees where it adds them in order, as scikit-learn and LightGBM do
in double precision and XGBoost in single: a threshold may stand exactly at a score.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError
from domaincover.networks.threads import in_threads, n_threads
from domaincover.predictors.forest_leaves import MOST_MASKED, Leaves, MaskedTrees, Structure, WalkedTrees

ForestLink = Literal["sigmoid", "softmax", "mean", "identity"]
MOST_LEVELS = 10_000
ROWS_AT_ONCE, TREES_AT_ONCE = 1024, 128  # what is known of them stays in the processor's cache
TABLE_SIZE = 2**22  # entries that the masks of some trees may take
KINDS = {
    **dict.fromkeys(("root", "target", "feature", "left", "right"), (np.int32,)),
    "threshold": (np.float64,),
    "missing_left": (np.bool_,),
    **dict.fromkeys(("value", "baseline"), (np.float32, np.float64)),
}


@dataclass(frozen=True, eq=False)
class Forest:
    """Decision trees: a node from 0 on is a split, a negative one is the leaf ~node.

    Attributes
    ----------
    n_features : int
        Columns of the examples.
    root, target : arrays
        Of each tree: its first node, and the output that its leaves add to.
    feature, threshold, missing_left, left, right : arrays
        Of each split: values of the column up to the threshold go left, others right, missing ones as told.
    value : array
        Of each leaf: what it adds to the output of its tree, or a row with what it adds to every output.
    baseline : array
        What each output starts from.
    link : {"sigmoid", "softmax", "mean", "identity"}
        How outputs become probabilities. One output with a sigmoid is the probability of the second of two labels.
        Trees of a regressor have one output, the number itself ("identity") or the mean over trees.
    rounds : bool
        Whether examples are rounded to single precision before they are compared with thresholds.
    takes_missing : bool
        Whether examples may have missing values.
    """

    n_features: int
    root: NDArray[np.int32]
    target: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[Any]
    baseline: NDArray[Any]
    link: ForestLink
    rounds: bool = False
    takes_missing: bool = True

    def __post_init__(self) -> None:
        """Reject, in linear time, arrays that are no trees: every node but a root is the child of one split before."""
        for name, kinds in KINDS.items():
            array = getattr(self, name)
            need(type(array) is np.ndarray and array.dtype in kinds, f"{name} has another type")
            need(array.ndim == 1 or (name == "value" and array.ndim == 2), f"{name} has another shape")
        n_trees, n_splits, n_leaves, n_outputs = map(len, (self.root, self.feature, self.value, self.baseline))
        of_splits = (self.threshold, self.missing_left, self.left, self.right)
        need(all(len(each) == n_splits for each in of_splits), "arrays of splits have different lengths")
        need(len(self.target) == n_trees > 0 < n_outputs, "there are no trees, or outputs")
        need(self.value.shape[1:] in ((), (n_outputs,)), "leaves have another number of outputs")
        need(self.link in get_args(ForestLink), "the link is unknown")
        need((self.link == "mean") == (self.value.ndim == 2), "the link does not fit the leaves")
        need(self.value.dtype == self.baseline.dtype, "leaves and baseline have different types")
        need(((self.target >= 0) & (self.target < n_outputs)).all(), "a tree has no output")
        need(((self.feature >= 0) & (self.feature < self.n_features)).all(), "a split is on a column out of bounds")
        need(np.isfinite(self.value).all() and np.isfinite(self.baseline).all(), "a leaf has no finite value")
        need((self.threshold > -np.inf).all(), "a threshold is no number")
        nodes = np.concatenate([self.root, self.left, self.right])
        need(((nodes >= -n_leaves) & (nodes < n_splits)).all(), "a node is out of bounds")
        own = np.arange(n_splits)
        for side in (self.left, self.right):
            need(((side < 0) | (side > own)).all(), "a split does not come before its children")
        times = np.bincount(nodes.astype(np.int64) + n_leaves, minlength=n_leaves + n_splits)
        need((times == 1).all(), "a node is met twice, or never")
        need(len(self.structure.levels) <= MOST_LEVELS, f"a tree has more than {MOST_LEVELS} levels")

    @property
    def n_labels(self) -> int:
        """How many labels the probabilities are of."""
        return 2 if self.link == "sigmoid" and len(self.baseline) == 1 else len(self.baseline)

    def probabilities(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the probability of each label, rows × labels."""
        outputs = self.outputs(X)
        if self.link == "mean":
            outputs /= len(self.root)
            return outputs
        if self.link == "softmax":
            kind = outputs.dtype
            # In double precision, and rounded: as good as exact, like the C library's function in single precision.
            raised = np.exp((outputs - outputs.max(axis=1, keepdims=True, initial=-np.inf)).astype(float)).astype(kind)
            return raised / raised.sum(axis=1, keepdims=True, dtype=float).astype(kind)
        from scipy.special import expit  # whose bits are those of scikit-learn, LightGBM and XGBoost

        likely = expit(outputs)
        return np.concatenate([1 - likely, likely], axis=1) if likely.shape[1] == 1 else likely

    def numbers(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the number that the trees of a regressor predict for each row."""
        outputs = self.outputs(X)[:, 0]
        return outputs / len(self.root) if self.link == "mean" else outputs

    def outputs(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the baselines and what all trees add to them, rows × outputs."""
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise InputError(f"the trees were fitted on {self.n_features} columns; the examples have another number.")
        if not self.takes_missing and np.isnan(X).any():
            raise InputError("the examples contain missing values (NaN), which these trees do not take; impute them.")
        total = np.tile(self.baseline[:, None], len(X)).T  # by columns, so that sums over labels are in order too
        is_small = self.structure.n_leaves.max() <= MOST_MASKED
        finder = MaskedTrees(self, X) if is_small else WalkedTrees(self, X)
        at_once = max(1, min(TREES_AT_ONCE, TABLE_SIZE // (len(self.feature) + 1)))
        for first in range(0, len(self.root), at_once):
            trees = slice(first, first + at_once)
            add = partial(self._add, total, trees, finder.leaves_of(trees))
            in_threads(add, range(0, len(X), ROWS_AT_ONCE), n_threads())
        return total

    def _add(self, total: NDArray[Any], trees: slice, leaves_of: Leaves, start: int) -> None:
        """Add some trees to the outputs of some rows, one after the other as the libraries do."""
        rows = slice(start, start + ROWS_AT_ONCE)
        leaves, own = leaves_of(rows), total[rows]
        if self.value.ndim == 2:
            np.add.reduce(np.concatenate([own[None], self.value[leaves]]), axis=0, out=own)
            return
        for output in np.unique(self.target[trees]).tolist():
            added = self.value[leaves[self.target[trees] == output]]
            own[:, output] = np.add.reduce(np.concatenate([own[None, :, output], added]), axis=0)

    def compared(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return values as they are compared with thresholds."""
        with np.errstate(over="ignore"):  # too large is infinite
            return X.astype(np.float32 if self.rounds else np.float64, copy=False).astype(np.float64, copy=False)

    @cached_property
    def structure(self) -> Structure:
        """Where the nodes stand."""
        return Structure.of(self, MOST_LEVELS)


def need(fact: bool | np.bool_, what: str) -> None:
    """Reject what no fitted model is like."""
    if not fact:
        raise InputError(f"trees: {what}; no fitted model is like that.")
