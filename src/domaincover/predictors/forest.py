"""Trees of any library as arrays: checked when they are made, and evaluated with numpy alone.

Scores have the bits of the library that fitted the trees where it adds them in order, as scikit-learn and LightGBM do
in double precision and XGBoost in single: a threshold may stand exactly at a score.

Trees of up to 64 leaves, as boosting has them, are evaluated by masks, after QuickScorer (Lucchese et al., SIGIR 2015):
a value of a column says of each leaf whether it can still be reached, one bit a leaf. A table by column has the bits of
every tree for each bin of its values, so that a row needs one look-up and one AND for all trees. One bit remains.
Larger trees are walked, one level of all rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError
from domaincover.terminal.processes import in_threads, n_threads

MOST_MASKED = 64  # leaves of a tree, one bit for each
ROWS_TO_BIN = 16_384  # their values stay in the processor's cache

Leaves = Callable[[slice], NDArray[Any]]  # of rows to the number of a leaf, trees × rows
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


class Structure(NamedTuple):
    """Where nodes stand: the splits of each level, the tree of each split and leaf, and a leaf's place in its tree."""

    levels: list[NDArray[np.int32]]
    tree_of_split: NDArray[np.int32]
    tree_of_leaf: NDArray[np.int32]
    place_of_leaf: NDArray[np.int32]
    n_leaves: NDArray[np.int64]

    @classmethod
    def of(cls, forest: Forest, most_levels: int) -> Structure:
        """Go down all trees at once; what lies below the last level is left out."""
        n_trees, n_leaves = len(forest.root), len(forest.value)
        of_split, of_leaf = np.zeros(len(forest.feature), dtype=np.int32), np.zeros(n_leaves, dtype=np.int32)
        node, tree, levels = forest.root, np.arange(n_trees, dtype=np.int32), list[NDArray[np.int32]]()
        while len(node) and len(levels) < most_levels:
            is_split = node >= 0
            of_leaf[~node[~is_split]] = tree[~is_split]
            node, tree = node[is_split], tree[is_split]
            of_split[node] = tree
            levels.append(node)
            node, tree = np.concatenate([forest.left[node], forest.right[node]]), np.concatenate([tree, tree])
        levels += [node] * bool(len(node))
        n_by_tree = np.bincount(of_leaf, minlength=n_trees)
        order = np.argsort(of_leaf, kind="stable")
        place = np.empty(n_leaves, dtype=np.int32)
        place[order] = np.arange(n_leaves) - np.repeat(np.cumsum(n_by_tree) - n_by_tree, n_by_tree)
        return cls(levels, of_split, of_leaf, place, n_by_tree)


class MaskedTrees:
    """Trees of up to 64 leaves, and rows as bins: the number of a column's thresholds that are below a value."""

    def __init__(self, forest: Forest, X: NDArray[Any]) -> None:
        self._forest, self._structure = forest, forest.structure
        self._kind: Any = np.uint32 if self._structure.n_leaves.max() <= 32 else np.uint64
        self._columns, self._column = np.unique(forest.feature, return_inverse=True)
        self._place = np.empty(len(forest.feature), dtype=np.intp)
        thresholds = [np.unique(forest.threshold[self._column == k]) for k in range(len(self._columns))]
        self._bins = np.empty((len(self._columns), len(X)), dtype=np.min_scalar_type(len(forest.feature) + 1))
        for k, edges in enumerate(thresholds):
            own = self._column == k
            self._place[own] = np.searchsorted(edges, forest.threshold[own])
            for start in range(0, len(X), ROWS_TO_BIN):
                part = slice(start, start + ROWS_TO_BIN)
                self._bins[k, part] = _bins_of(forest.compared(X[part, self._columns[k]]), edges)
        self._n_bins = [len(edges) + 1 for edges in thresholds]
        self._reach = self._leaves_below()

    def leaves_of(self, trees: slice) -> Leaves:
        """Return what finds the leaves of some trees."""
        first, n_trees = trees.start, len(self._forest.root[trees])
        tables = self._tables(first, n_trees)
        leaf_at = np.zeros((n_trees, MOST_MASKED), dtype=np.int64)
        own = np.flatnonzero((self._structure.tree_of_leaf >= first) & (self._structure.tree_of_leaf < first + n_trees))
        leaf_at[self._structure.tree_of_leaf[own] - first, self._structure.place_of_leaf[own]] = own
        offsets = np.arange(n_trees)[:, None] * MOST_MASKED

        def leaves(rows: slice) -> NDArray[Any]:
            bins = self._bins[:, rows]
            reached = np.ones((bins.shape[1], n_trees), dtype=self._kind)
            allowed = np.empty_like(reached)
            for number, (column, table) in enumerate(tables):
                np.take(table, bins[column], axis=0, out=allowed if number else reached, mode="clip")
                if number:
                    reached &= allowed
            place = np.bitwise_count(reached - self._kind(1))  # of the one bit that remains
            return leaf_at.take(place.T + offsets)

        return leaves

    def _tables(self, first: int, n_trees: int) -> list[tuple[int, NDArray[Any]]]:
        """Return, by column, which leaves a value leaves within reach: bins, and last a missing value, × trees."""
        tree = self._structure.tree_of_split - first
        splits = np.flatnonzero((tree >= 0) & (tree < n_trees))
        splits = splits[np.argsort(self._column[splits], kind="stable")]
        ends = np.searchsorted(self._column[splits], np.arange(len(self._columns) + 1))
        n_leaves = self._structure.n_leaves[first : first + n_trees]
        every = ~self._kind(0) >> (self._kind(0).nbytes * 8 - n_leaves).astype(self._kind)
        tables = []
        for column in np.flatnonzero(np.diff(ends)).tolist():
            own = splits[ends[column] : ends[column + 1]]
            n_bins, of_tree, place = self._n_bins[column], tree[own], self._place[own]
            not_left, not_right = ~self._reach[:, own]
            up, down = np.tile(every, (2, n_bins + 1, 1))
            np.bitwise_and.at(up, (place + 1, of_tree), not_left)
            np.bitwise_and.at(down, (place, of_tree), not_right)
            np.bitwise_and.accumulate(up[:n_bins], axis=0, out=up[:n_bins])
            down[:n_bins] = np.bitwise_and.accumulate(down[n_bins - 1 :: -1], axis=0)[::-1]
            table = up & down
            table[n_bins] = every
            missing = np.where(self._forest.missing_left[own], not_right, not_left)
            np.bitwise_and.at(table[n_bins], of_tree, missing)
            tables.append((column, table))
        return tables

    def _leaves_below(self) -> NDArray[Any]:
        """Return the bits of the leaves on the left and on the right of each split."""
        bit = self._kind(1) << self._structure.place_of_leaf.astype(self._kind)
        below = np.zeros((2, len(self._forest.feature)), dtype=self._kind)
        for splits in self._structure.levels[::-1]:
            for side, children in enumerate((self._forest.left[splits], self._forest.right[splits])):
                is_leaf = children < 0
                below[side, splits[is_leaf]] = bit[~children[is_leaf]]
                below[side, splits[~is_leaf]] = np.bitwise_or(*below[:, children[~is_leaf]])
        return below


class WalkedTrees:
    """Trees of any size."""

    def __init__(self, forest: Forest, X: NDArray[Any]) -> None:
        self._forest, self._X = forest, X
        self._children = np.stack([forest.right, forest.left], axis=1).ravel()

    def leaves_of(self, trees: slice) -> Leaves:
        """Return what finds the leaves of some trees."""
        roots, forest = self._forest.root[trees], self._forest

        def leaves(rows: slice) -> NDArray[Any]:
            X = np.ascontiguousarray(forest.compared(self._X[rows]))
            has_missing, values = bool(np.isnan(X).any()), X.ravel()
            found = np.repeat(roots, len(X))
            place = np.flatnonzero(found >= 0)
            start, node = (place % len(X)) * X.shape[1], found[place]
            while len(place):
                value = values.take(start + forest.feature.take(node))
                goes_left = value <= forest.threshold.take(node)
                if has_missing:
                    goes_left |= np.isnan(value) & forest.missing_left.take(node)
                node = self._children.take(2 * node + goes_left)
                found[place] = node
                goes_on = node >= 0
                place, start, node = place[goes_on], start[goes_on], node[goes_on]
            return ~found.reshape(len(roots), len(X))

        return leaves


def _bins_of(values: NDArray[Any], edges: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return how many edges are below each value, one more than all for a missing one.

    Like `searchsorted`, in half its time: all rows take the same steps, so the processor foresees them.
    """
    step = 1 << len(edges).bit_length()
    padded = np.full(step, np.inf)
    padded[: len(edges)] = edges
    found = np.zeros(len(values), dtype=np.intp)
    while step := step // 2:
        found += (values > padded[found + (step - 1)]) * step
    return np.where(np.isnan(values), len(edges) + 1, found)


@dataclass(frozen=True, eq=False)
class Forest:
    """Decision trees: a node from 0 on is a split, a negative one is the leaf ~node."""

    n_features: int
    # Of each tree: its first node, and the output that its leaves add to.
    root: NDArray[np.int32]
    target: NDArray[np.int32]
    # Of each split: values of the column up to the threshold go left, others right, missing ones as told.
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[Any]  # of each leaf: what it adds to the output of its tree, or a row with one for every output
    baseline: NDArray[Any]  # what each output starts from
    # How outputs become probabilities. One output with a sigmoid is the probability of the second of two labels. Trees
    # of a regressor have one output, the number itself ("identity") or the mean over trees.
    link: ForestLink
    rounds: bool = False  # examples to single precision, before they are compared with thresholds
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
