"""Calibrate thresholds that adapt: batches of the calibration domains are treated as a new domain will be."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.adaptation import (
    AdaptiveThresholds,
    deviation,
    domain_residuals,
    n_counting,
    offset_of,
    order_statistic,
)
from domaincover.calibration.cell_thresholds import Thresholds, cell_thresholds, own_scores
from domaincover.calibration.confidence import check_feasible, highest_confidence
from domaincover.calibration.few_labels import bounded_scores, expected_scores, label_shifts
from domaincover.calibration.rules import pooled_row_thresholds
from domaincover.calibration.self_calibration import RowsOfDomains, self_calibrated_thresholds
from domaincover.criteria import NO_GROUP, Criterion, names_of_groups, targets_by_group
from domaincover.errors import check_choice
from domaincover.options import OnRareLabel, RecallOn

BATCH_SIZES = (30, 100, 300, 1000, 3000)
LABEL_COUNTS = (2, 5, 10, 20, 50, 100)
MOST_DRAWS = 10
SMALLEST_GAIN = 0.01  # sets that are smaller by less are not worth moving thresholds for
MOST_BATCHES = 500  # fewer draws where there are many domains
NUMBERS_OF_SIZE = 10**7  # draws × rows × labels that set sizes are counted on
MOST_KEPT = 1000  # domains whose residuals are kept for labelled rows, so that a model stays small


class ScoredRows(NamedTuple):
    """Scores and probabilities, rows × labels, with the label and the domain of each row as codes."""

    scores: NDArray[Any]
    probabilities: NDArray[Any]
    labels: NDArray[np.int64]
    domains: NDArray[np.int64]

    def of(self, rows: NDArray[np.bool_]) -> ScoredRows:
        """Return some of the rows."""
        return ScoredRows(*(part[rows] for part in self))

    @property
    def readable(self) -> ScoredRows:
        """The rows that could be read; the others have infinite scores."""
        return self.of(np.isfinite(self.scores).all(axis=1))

    @property
    def labelled_scores(self) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
        """Scores, labels and domains, as rules take them."""
        return self.scores, self.labels, self.domains

    @property
    def n_domains(self) -> int:
        """How many domain codes there are."""
        return int(self.domains.max(initial=0)) + 1


class Draw(NamedTuple):
    """One batch of every domain: what it says without labels, what its labels add, and what they ask for."""

    evidence: Thresholds  # domains × labels
    shifts: NDArray[np.float64]  # levels × domains × labels
    asked: Thresholds  # domains × labels


class BaseThresholds(NamedTuple):
    """The numbers of base thresholds.

    The level of a label lies one standard deviation below the mean of what cells ask for beyond the evidence: a label
    that differs much between domains starts lower, so that it does not decide alone on the offset of all labels.
    """

    level: NDArray[np.float64]  # labels
    centre: NDArray[np.float64]  # labels
    highest: NDArray[np.float64]  # labels
    slope: float
    label_slope: float

    def bases(self, draws: Sequence[Draw]) -> NDArray[np.float64]:
        """Return the base thresholds of every batch, levels × draws × domains × labels."""
        moved = np.stack([deviation(each.evidence, self.centre, self.highest) for each in draws])
        shifts = np.stack([each.shifts for each in draws], axis=1)
        return self.level + self.slope * moved + self.label_slope * shifts


class Entry(NamedTuple):
    """What is kept for one number of rows."""

    n_rows: int
    level: NDArray[np.float64]
    centre: NDArray[np.float64]
    highest: NDArray[np.float64]
    slope: float
    label_slope: float
    residuals: NDArray[np.float64]
    rare_residuals: NDArray[np.float64]
    offset: NDArray[np.float64]
    set_size: float


class Drawing(NamedTuple):
    """How batches are drawn from domains, and what is counted there."""

    target_recall: float | Criterion
    min_cell_size: int
    recall_on: RecallOn
    label_counts: Sequence[int]
    n_draws: int

    def batches(self, rows: ScoredRows, n_rows: int, rng: np.random.Generator) -> Iterator[Draw]:
        """Yield batches of up to `n_rows` random rows of every domain; one of all rows where most have no more."""
        whole = self.asked(rows, rows.n_domains)
        no_shifts = np.zeros((len(self.label_counts) + 1, *whole.shape))
        if not n_rows:
            yield Draw(np.full(whole.shape, np.nan), no_shifts, whole)
            return
        takes_all = self.recall_on == "rows given" and n_rows >= median_rows(rows.domains)
        for _ in range(1 if takes_all else self.n_draws):
            given = random_ranks(rows.domains, rng) < (len(rows.domains) if takes_all else n_rows)
            batch = rows.of(given)
            evidence = self_calibrated_thresholds(*batch[:2], batch.domains, self.target_recall, rows.n_domains)
            asked = whole
            if self.recall_on == "later rows":
                asked = self.asked(rows.of(~given), rows.n_domains)
            elif not takes_all:
                on_batch = self.asked(batch, rows.n_domains)
                asked = np.where(np.isposinf(on_batch), whole, on_batch)
            yield Draw(evidence, self.shifts(batch, evidence, rng), asked)

    def asked(self, rows: ScoredRows, n_domains: int) -> Thresholds:
        """Return the cell thresholds of all domains, +∞ for cells that do not count."""
        by_cell = cell_thresholds(*rows.labelled_scores, self.target_recall, self.min_cell_size)
        missing = np.full((n_domains - len(by_cell), by_cell.shape[1]), np.inf)
        return np.concatenate([by_cell, missing]) if len(missing) else by_cell

    def shifts(self, batch: ScoredRows, evidence: Thresholds, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return what so many labelled rows of every label add, levels × domains × labels; nothing at level 0."""
        found = np.zeros((len(self.label_counts) + 1, *evidence.shape))
        if not self.label_counts:
            return found
        scores, probabilities, labels = batch.scores, batch.probabilities, batch.labels
        if isinstance(self.target_recall, Criterion):
            constrained, labels = self.target_recall.constrained, self.target_recall.group_of_label[labels]
            scores, probabilities = scores[:, constrained], probabilities[:, constrained]
        bounded = bounded_scores(scores, batch.domains, evidence)
        expected = expected_scores(bounded, probabilities, batch.domains, len(evidence))
        cells = np.where(labels == NO_GROUP, evidence.size, batch.domains * evidence.shape[1] + labels)
        place = random_ranks(cells, rng)
        for level, count in enumerate(self.label_counts, start=1):
            known = (place < count) & (labels != NO_GROUP)
            found[level], _ = label_shifts(bounded[known], labels[known], batch.domains[known], expected)
        return found


def fit_adaptive_thresholds(
    calibration: ScoredRows,
    target_recall: float | Criterion,
    domain_confidence: float,
    *,
    training: ScoredRows | None = None,
    recall_on: RecallOn = "rows given",
    min_cell_size: int = 1,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    label_counts: Sequence[int] = LABEL_COUNTS,
    label_names: Sequence[Hashable] | None = None,
    on_infeasible: OnRareLabel = "raise",
    rng: np.random.Generator | None = None,
) -> AdaptiveThresholds:
    """Calibrate thresholds that adapt to the rows of a domain.

    Levels, slopes and centres come from `training`, rows of domains other than those of `calibration`: the promise is
    then proved. Without, they come from the calibration domains, and the promise is expected. `recall_on` says on which
    rows a new domain's recall is promised:

    - "rows given": those that set the thresholds. For an entry, they are that many random rows of each calibration
      domain, where a label with fewer than `min_cell_size` of them is counted on the whole domain. And all entries hold
      whole domains, each with the entry that its own number of rows selects, so that the promise stands for new domains
      of any size if their sizes are drawn alike. Recall on few rows is noisy, so sets for few rows are larger;
    - "later rows": the domain's other rows. Where a number of rows says too little to make sets smaller, it gets the
      fixed thresholds, which hold recall on as many rows as a calibration domain has.

    `label_counts` are the numbers of labelled rows of a label for which there is a level; `on_infeasible` says what
    happens to a label in too few domains: "raise", "widen" (in every set) or "pool" (see `offset_of`). With a criterion
    as target, its groups stand for the labels; with coverage, `label_counts` must be empty.
    """
    check_choice("recall_on", recall_on, get_args(RecallOn))
    rng = np.random.default_rng(0) if rng is None else rng
    n_by_cell = own_scores(*calibration.labelled_scores, target_recall, min_cell_size).n_by_cell
    names = names_of_groups(label_names, target_recall)
    infeasible = check_feasible(n_by_cell, domain_confidence, "domain confidence", names, on_infeasible, can_pool=True)
    own, groups, of_own = _own_rows(calibration, target_recall)
    does_count = n_by_cell[:, ~infeasible].any(axis=1)
    n_domains = int(np.count_nonzero(does_count))
    n_draws = int(np.clip(MOST_BATCHES // max(n_domains, 1), 1, MOST_DRAWS))
    kept = np.sort(rng.permutation(np.flatnonzero(does_count))[:MOST_KEPT])
    drawing = Drawing(target_recall, min_cell_size, recall_on, tuple(sorted(label_counts)), n_draws)
    base_rows = calibration if training is None else training
    scores_in_sets = base_rows.scores
    if isinstance(target_recall, Criterion) and not target_recall.constrained.all():
        scores_in_sets = scores_in_sets[:, target_recall.constrained]

    def set_size(draws: Sequence[Draw], base: BaseThresholds) -> float:
        domains = base_rows.domains
        return mean_set_size(scores_in_sets, domains, draws, base, ~infeasible, domain_confidence)

    def rare_residuals(bases: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what the pooled rows of rare labels allow beyond base thresholds, draws × domains × labels."""
        if on_infeasible != "pool":
            return np.full(len(infeasible), -np.inf)
        beyond = [own - each[of_own, groups] for each in bases]
        pooled = [pooled_row_thresholds(each, groups, len(infeasible), target_recall) for each in beyond]
        return np.where(infeasible, np.min(pooled, axis=0), -np.inf)

    entries: list[Entry] = []
    most = median_rows(calibration.domains)
    most = most // 2 if recall_on == "later rows" else most  # the other half is to count recall on
    for n_rows in (0, *entry_sizes(most, batch_sizes)):
        draws = list(drawing.batches(calibration, n_rows, rng))
        of_base = draws if training is None else list(drawing.batches(training, n_rows, rng))
        base = fit_base(of_base)
        size = set_size(of_base, base)
        if entries:
            still = base._replace(slope=0.0, level=entries[0].level)
            fixed_size = entries[0].set_size if recall_on == "later rows" else set_size(of_base, still)
            adapts = size < (1 - SMALLEST_GAIN) * fixed_size
            base = base if adapts else fit_label_slope(of_base, still)
        bases = base.bases(draws)  # levels × draws × domains × labels
        residuals = np.stack([each.asked for each in draws]) - bases
        rare = rare_residuals(bases[0])
        offset = offset_of(residuals[0], ~infeasible, rare, domain_confidence)
        if entries and not infeasible.all() and np.isneginf(offset[~infeasible]).all():
            continue  # so many rows leave too few cells to count later rows in: a smaller number of rows stands in
        if entries and recall_on == "later rows" and not adapts:
            offset = entries[0].offset
        n_missing = n_draws - residuals.shape[1]  # one draw of all rows stands for as many as the others have
        residuals = np.concatenate([residuals, np.repeat(residuals[:, :1], n_missing, axis=1)], axis=1)
        entries.append(Entry(n_rows, *base, residuals[..., kept, :], rare, offset, size))
    own_sizes = np.bincount(calibration.domains)
    holds_sizes = recall_on == "rows given" and len(entries) > 1
    if holds_sizes and (own_sizes[does_count] < entries[1].n_rows).any():
        entries.insert(1, entries[0]._replace(n_rows=1))
    counts = np.array([0, *drawing.label_counts])
    kept_numbers = dict(zip(Entry._fields, map(np.array, zip(*entries, strict=True)), strict=True))
    del kept_numbers["set_size"]
    rule = AdaptiveThresholds(
        float(targets_by_group(target_recall).max()),
        float(domain_confidence),
        ~infeasible,
        label_counts=counts,
        **kept_numbers,
    )
    if not holds_sizes:
        return rule
    # whole domains, each with the entry that its own number of rows selects: one order statistic for all sizes
    bases = rule.base(draws[0].evidence, rule.entry_of(own_sizes))[None]
    of_sizes = offset_of(draws[0].asked - bases, ~infeasible, rare_residuals(bases), domain_confidence)
    offset = np.minimum(rule.offset, of_sizes)
    offset[0], offset[-1] = rule.offset[0], of_sizes
    return rule._replace(offset=offset)


def _own_rows(
    rows: ScoredRows, target_recall: float | Criterion
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Return the own-label score, group and domain of each row whose label is constrained."""
    own = rows.scores[np.arange(len(rows.labels)), rows.labels]
    if not isinstance(target_recall, Criterion):
        return own, rows.labels, rows.domains
    groups = target_recall.group_of_label[rows.labels]
    counts = groups != NO_GROUP
    return own[counts], groups[counts], rows.domains[counts]


def fit_base(draws: Sequence[Draw]) -> BaseThresholds:
    """Fit the numbers to what the cells of these domains ask for, those that count."""
    asked = np.stack([each.asked for each in draws])
    evidence = np.stack([each.evidence for each in draws])
    counts = np.isfinite(asked)
    seen = np.where(counts & np.isfinite(evidence), evidence, np.nan)
    centre, _ = label_moments(seen)
    highest = np.where(np.isnan(seen), -np.inf, seen).max(axis=(0, 1), initial=-np.inf)
    highest = np.where(np.isfinite(highest), highest, np.inf)
    known = np.where(counts, deviation(evidence, centre, highest), 0.0)
    slope = shrunken_slope(known, np.where(counts, asked - label_moments(asked)[0], 0.0))
    mean, spread = label_moments(np.where(counts, asked - slope * known, np.nan))
    return fit_label_slope(draws, BaseThresholds(mean - spread, centre, highest, slope, 0.0))


def fit_label_slope(draws: Sequence[Draw], base: BaseThresholds) -> BaseThresholds:
    """Return the base with the slope of what is left on what labelled rows say."""
    asked = np.stack([each.asked for each in draws])
    counts = np.isfinite(asked)
    left = np.where(counts, asked - base._replace(label_slope=0.0).bases(draws)[0], np.nan)
    left = np.where(counts, left - label_moments(left)[0], 0.0)
    shifts = np.stack([each.shifts for each in draws], axis=1)[1:] * counts
    by_level = shifts.reshape(-1, *left.shape[1:])
    return base._replace(label_slope=shrunken_slope(by_level, np.tile(left, (len(shifts), 1, 1))))


def mean_set_size(
    scores: NDArray[Any],
    domains: NDArray[np.int64],
    draws: Sequence[Draw],
    base: BaseThresholds,
    promised: NDArray[np.bool_],
    domain_confidence: float,
) -> float:
    """Return the mean number of promised labels in the sets of the domains that the base was fitted to, over draws."""
    bases = base.bases(draws)[0]
    allowed = domain_residuals(np.stack([each.asked for each in draws]), bases, promised)
    n_domains = n_counting(allowed)
    confidence = min(domain_confidence, highest_confidence(max(n_domains, 1)))
    thresholds = bases + order_statistic(allowed, n_domains, confidence)
    few = thresholds[: max(1, NUMBERS_OF_SIZE // max(scores.size, 1))]
    return float(
        np.mean([np.count_nonzero(~(scores < each[domains]) & promised) for each in few]) / max(len(scores), 1)
    )


def label_moments(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of a label's finite values, draws × domains × labels; 0 where it has none."""
    finite = np.isfinite(values)
    count = np.maximum(finite.sum(axis=(0, 1)), 1)
    mean = np.where(finite, values, 0.0).sum(axis=(0, 1)) / count
    with np.errstate(invalid="ignore"):
        squares = np.where(finite, (values - mean) ** 2, 0.0).sum(axis=(0, 1))
    return mean, np.sqrt(squares / count)


def shrunken_slope(known: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
    """Return the slope of least squares of `wanted` on `known`, (draws, domains, labels), drawn towards 0.

    Noise in what is known lowers the slope of itself. What the slope's own uncertainty adds is taken off as in the
    positive-part James–Stein estimator, slope · max(0, 1 − variance / slope²), with the variance clustered by domain,
    since the labels and draws of one domain err together. Never negative; 0 where nothing is known.
    """
    spread = float((known**2).sum())
    if spread == 0.0:
        return 0.0
    slope = float((known * wanted).sum()) / spread
    if slope <= 0.0:
        return 0.0
    by_domain = (known * (wanted - slope * known)).sum(axis=(0, 2))
    variance = float((by_domain**2).sum()) / spread**2
    return slope * max(0.0, 1.0 - variance / slope**2)


def random_ranks(groups: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the place of every row in a random order of its group's rows."""
    shuffled = rng.permutation(len(groups))
    order, starts, counts = RowsOfDomains.of(groups[shuffled], 0)
    ranks = np.empty(len(groups), np.int64)
    ranks[shuffled[order]] = np.arange(len(groups)) - np.repeat(starts, counts)
    return ranks


def median_rows(domains: NDArray[np.int64]) -> int:
    """Return the number of rows of the domain in the middle."""
    counts = np.bincount(domains)
    return int(np.median(counts[counts > 0])) if len(counts) else 0


def entry_sizes(most: int, batch_sizes: Sequence[int]) -> list[int]:
    """Return the numbers of rows that get an entry: the given ones that are smaller than `most`, and `most` itself."""
    sizes = [size for size in sorted(batch_sizes) if size < most]
    return [*sizes, most] if most >= min(batch_sizes, default=1) else sizes
