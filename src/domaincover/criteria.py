"""Sets as boolean matrices, one row per example and one column per label, and what a domain has to reach.

That is the loss L(h, e) of the paper's framework, as one object. A criterion puts every (domain, label) cell into a
constrained group and gives the group its target:

- min recall: each cell is a group of its own, so every label has to reach its target in every domain;
- with targets by label, a label without a target is in no group: it is not constrained;
- coverage: all labels of a domain are one group, so the share of its examples whose set holds their label counts.

SET-COVER has a multiplier for every group, rules calibrate a threshold for every group, and a domain is at target if
every group of it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, SupportsFloat, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import merge_small_cells, texts
from domaincover.errors import InputError, check_choice
from domaincover.options import CriterionName

Sets = NDArray[np.bool_]
Thresholds = NDArray[np.float64]
MOST_CELLS = 10**8  # counts of 800 MB; rejects names such as 20260131 given as codes
MISSING_LABEL = -1  # the code of a row whose label is not known
SMALLEST_SAVING = 0.1  # against sets drawn by lot; below it, sets are called useless
TargetRecall = float | Mapping[Any, float]
NO_GROUP = -1
MOST_NAMES = 10


def check_target_recall(target_recall: float) -> float:
    """Reject a target recall that is not between 0 and 1."""
    return check_share(target_recall, "target recall")


def check_share(value: float, what: str) -> float:
    """Reject a number that is not between 0 and 1.

    >>> check_share(95, "confidence")
    Traceback (most recent call last):
    domaincover.errors.InputError: confidence must lie between 0 and 1, got 95; write 95 % as 0.95.
    """
    if isinstance(value, bool | str) or not isinstance(value, SupportsFloat):
        raise InputError(f"{what} must be a number between 0 and 1, got {value!r}.")
    if not 0 < value < 1:
        percent = value if 1 < value < 100 else 95
        raise InputError(f"{what} must lie between 0 and 1, got {value:g}; write {percent:g} % as {percent / 100:g}.")
    return float(value)


def hits_needed(n_examples: Any, target_recall: Any) -> NDArray[np.int64]:
    """Return the smallest number of covered examples whose share of `n_examples` is at least the target.

    Agrees with `hits / n >= target` in floating point, where ceil(target · n) may be one off.
    """
    n = np.asarray(n_examples, dtype=np.int64)
    needed = np.ceil(target_recall * n).astype(np.int64)
    whole = np.maximum(n, 1)
    needed -= (needed - 1) / whole >= target_recall
    return np.asarray(np.where(n > 0, needed + (needed / whole < target_recall), 0))


def checked_codes(codes: Any, what: str, n_expected: int, n_codes: int | None = None) -> NDArray[np.int64]:
    """Return label or domain codes as an array; reject names, which `DomainDataset` codes."""
    array = np.asarray(codes)
    if array.dtype.kind not in "iu":
        raise InputError(
            f"{what}s must be codes, whole numbers from 0, got {array.dtype}; "
            "`DomainDataset.from_arrays` makes codes from names."
        )
    if array.shape != (n_expected,):
        raise InputError(f"there must be one {what} for each of {n_expected} examples, got shape {array.shape}.")
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    if low < 0 or (n_codes is not None and high >= n_codes):
        raise InputError(f"{what} codes run from {low} to {high}, but there are {n_codes or 'only codes from 0'}.")
    return array.astype(np.int64, copy=False)


def checked_scores(scores: Any) -> NDArray[Any]:
    """Return scores as an array, examples × labels."""
    array = np.asarray(scores)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(f"scores must be numbers, examples × labels, got {array.dtype} of shape {array.shape}.")
    return array


def check_n_cells(n_domains: int, n_labels: int, n_examples: int) -> None:
    """Reject domain codes that are far too many, which are names."""
    if n_domains * n_labels > MOST_CELLS:
        raise InputError(
            f"domain codes run up to {n_domains - 1:,} for {n_examples:,} examples; codes count from 0: "
            "`DomainDataset.from_arrays` makes them from names."
        )


def sets_from_scores(scores: NDArray[Any], thresholds: NDArray[Any]) -> Sets:
    """Put a label into the set unless its score is below its threshold; NaN is not below."""
    return ~np.asarray(scores < thresholds)


def single_label_sets(scores: NDArray[Any]) -> Sets:
    """Return sets with only the highest-scoring label."""
    return np.arange(scores.shape[1]) == scores.argmax(axis=1)[:, None]


def covers(sets: Sets, labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each example whether its set holds its label."""
    return np.take_along_axis(sets, labels[:, None], axis=1)[:, 0]


def set_sizes(sets: Sets) -> NDArray[np.int64]:
    """Return the number of labels in each set."""
    # for few labels, einsum is more than twice as fast as numpy's sum or count along rows
    return np.einsum("nl->n", np.asarray(sets, dtype=bool).view(np.uint8), dtype=np.int64)


def share(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """Divide, NaN where the whole is 0."""
    return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=np.asarray(whole) > 0)


def size_by_lot(n_labels: Any, recall: Any) -> Any:
    """Return the size of sets drawn by lot with this recall: each label is in the set with that probability.

    Sets that are hardly smaller say nothing about an example, whatever their recall.
    """
    return n_labels * np.asarray(recall, dtype=float)


def is_hardly_better_than_lot(set_size: Any, by_lot: Any) -> Any:
    """Return whether sets save less than a tenth of the labels that sets drawn by lot would have at the same recall.

    >>> bool(is_hardly_better_than_lot(9.94, 10)), bool(is_hardly_better_than_lot(1.2, 1.88))
    (True, False)
    """
    return np.asarray(set_size) > (1 - SMALLEST_SAVING) * np.asarray(by_lot)


class Criterion(NamedTuple):
    """What every domain has to reach, for labels in a known order.

    `targets` is one per label, NaN where a label is not constrained, and `given` is what a user wrote.
    """

    name: CriterionName
    targets: NDArray[np.float64]
    given: TargetRecall

    @property
    def is_coverage(self) -> bool:
        """Whether all labels of a domain count together."""
        return self.name == "coverage"

    @property
    def constrained(self) -> NDArray[np.bool_]:
        """Which labels count."""
        return ~np.isnan(self.targets)

    @property
    def group_of_label(self) -> NDArray[np.int64]:
        """The group of each label among those of a domain; −1 for a label that is not constrained."""
        if self.is_coverage:
            return np.zeros(len(self.targets), dtype=np.int64)
        return np.where(self.constrained, np.cumsum(self.constrained) - 1, NO_GROUP)

    @property
    def group_targets(self) -> NDArray[np.float64]:
        """The target of each group."""
        return self.targets[:1] if self.is_coverage else self.targets[self.constrained]

    def group_names(self, label_names: Sequence[Any]) -> list[Any]:
        """Return the names of the groups: those of their labels, or "any label" for all of them."""
        if self.is_coverage:
            return ["any label"]
        return [name for name, counts in zip(label_names, self.constrained.tolist(), strict=True) if counts]

    def group_counts(self, n_by_cell: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of examples in each group, domains × groups, from those in cells."""
        return n_by_cell.sum(axis=1, keepdims=True) if self.is_coverage else n_by_cell[:, self.constrained]

    def by_label(self, of_groups: NDArray[Any], unconstrained: Any) -> NDArray[Any]:
        """Return values of groups along the last axis for each label; others for labels that are not constrained."""
        group = self.group_of_label
        return np.where(group == NO_GROUP, unconstrained, of_groups[..., group])

    def of_labels(self, labels: NDArray[np.int64]) -> Criterion:
        """Return the criterion for some of the labels, given by their codes."""
        return self._replace(targets=self.targets[labels])

    def merged_domains(
        self, domains: NDArray[np.int64], labels: NDArray[np.int64], n_domains: int, min_cell_size: int
    ) -> NDArray[np.int64]:
        """Return domain codes in which small cells of a label are merged; with coverage, small domains."""
        codes, n_codes = (np.zeros_like(labels), 1) if self.is_coverage else (labels, len(self.targets))
        return merge_small_cells(domains, codes, n_domains, n_codes, min_cell_size)

    def plain(self, label_names: Sequence[Any]) -> float | dict[str, float]:
        """Return the target as plain data: one number, or one for each constrained label's name."""
        if not isinstance(self.given, Mapping):
            return self.given
        names = texts(tuple(label_names))
        return {name: float(t) for name, t in zip(names, self.targets, strict=True) if not np.isnan(t)}


def check_criterion(name: str, target_recall: Any) -> None:
    """Reject an unknown criterion, and targets that are not between 0 and 1."""
    check_choice("criterion", name, get_args(CriterionName))
    if not isinstance(target_recall, Mapping):
        check_target_recall(target_recall)
        return
    if name == "coverage":
        raise InputError("criterion='coverage' counts all labels together and has one target; give one number.")
    if not target_recall:
        raise InputError("target recall by label names no label; give at least one, such as {'sick': 0.95}.")
    for value in target_recall.values():
        check_target_recall(value)


def criterion_for(
    target_recall: TargetRecall, label_names: Sequence[Hashable], name: CriterionName = "min-recall"
) -> Criterion:
    """Return the criterion for these labels; a mapping gives targets by label, and leaves other labels unconstrained.

    A key that is no label may be the text of one, as on the command line.

    >>> criterion_for({"sick": 0.95}, ("sick", "well")).targets
    array([0.95,  nan])
    """
    check_criterion(name, target_recall)
    if not isinstance(target_recall, Mapping):
        return Criterion(name, np.full(len(label_names), float(target_recall)), target_recall)
    position = _positions(label_names)
    unknown = [key for key in target_recall if key not in position]
    if unknown:
        known = ", ".join(map(repr, label_names[:MOST_NAMES])) + (" …" if len(label_names) > MOST_NAMES else "")
        raise InputError(f"target recall names {unknown[0]!r}, which is none of the labels: {known}.")
    targets = np.full(len(label_names), np.nan)
    for key, value in target_recall.items():
        targets[position[key]] = value
    return Criterion(name, targets, target_recall)


def targets_among(targets: Mapping[Any, float], label_names: Sequence[Hashable]) -> TargetRecall:
    """Return the targets of labels that are among these; the highest for every label where none is."""
    known = _positions(label_names)
    return {key: value for key, value in targets.items() if key in known} or max(targets.values())


def _positions(label_names: Sequence[Hashable]) -> dict[Any, int]:
    """Return the place of each label by its name and by its text."""
    by_text: dict[Any, int] = {text: k for k, text in enumerate(texts(tuple(label_names)))}
    return by_text | {label: k for k, label in enumerate(label_names)}


def every_label(n_labels: int, target_recall: float = 1.0) -> Criterion:
    """Return the criterion that every label counts by itself, all with the same target."""
    return Criterion("min-recall", np.full(n_labels, target_recall), target_recall)


def as_criterion(target_recall: float | Criterion, n_labels: int) -> Criterion:
    """Return a criterion for so many labels as it is, and one target as that of every label."""
    if not isinstance(target_recall, Criterion):
        return every_label(n_labels, check_target_recall(target_recall))
    if len(target_recall.targets) != n_labels:
        raise InputError(f"the criterion has {len(target_recall.targets)} labels, but scores have {n_labels}.")
    return target_recall


def free_thresholds(scores: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return thresholds at which each label is in as many sets as there are examples of it: for unconstrained labels.

    −∞ for a label without examples, as for any label that nothing is known of. Works on scores of any scale.
    """
    n_of_label = np.bincount(labels, minlength=scores.shape[1])
    ranked = np.sort(np.asarray(scores, dtype=float), axis=0)
    picks = np.where(n_of_label > 0, len(ranked) - n_of_label, 0)
    if not len(ranked):
        return np.full(scores.shape[1], -np.inf)
    return np.where(n_of_label > 0, ranked[picks, np.arange(scores.shape[1])], -np.inf)


def thresholds_by_label(
    of_groups: NDArray[Any], scores: NDArray[Any], labels: NDArray[np.int64], criterion: Criterion
) -> NDArray[Any]:
    """Return each label's threshold from those of groups; unconstrained labels get `free_thresholds`."""
    is_free = not (criterion.is_coverage or criterion.constrained.all())
    return criterion.by_label(of_groups, free_thresholds(scores, labels) if is_free else -np.inf)
