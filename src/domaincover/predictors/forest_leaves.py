"""Which leaf of every tree a row comes to.

Trees of up to 64 leaves, as boosting has them, are evaluated by masks, after QuickScorer (Lucchese et al., SIGIR 2015):
a value of a column says of each leaf whether it can still be reached, one bit a leaf. A table by column has the bits of
every tree for each bin of its values, so that a row needs one look-up and one AND for all trees. One bit remains.
Larger trees are walked, one level of all rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from domaincover.predictors.forest import Forest

MOST_MASKED = 64  # leaves of a tree, one bit for each
ROWS_TO_BIN = 16_384  # their values stay in the processor's cache

Leaves = Callable[[slice], NDArray[Any]]  # of rows to the number of a leaf, trees × rows


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
