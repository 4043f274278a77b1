"""Calibrate thresholds that adapt: batches of the calibration domains are treated as a new domain will be."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.adaptation import AdaptiveThresholds, check_recall_on, offset_of
from domaincover.calibration.base_thresholds import BaseThresholds, Draw, fit_base, fit_label_slope, mean_set_size
from domaincover.calibration.cell_thresholds import Thresholds, cell_thresholds, own_scores
from domaincover.calibration.confidence import check_feasible
from domaincover.calibration.few_labels import bounded_scores, expected_scores, label_shifts
from domaincover.calibration.rare_labels import pooled_row_thresholds
from domaincover.calibration.row_batches import BATCH_SIZES, entry_sizes, median_rows, random_ranks
from domaincover.calibration.self_calibration import self_calibrated_thresholds
from domaincover.criteria import NO_GROUP, Criterion, names_of_groups, targets_by_group
from domaincover.options import OnRareLabel, RecallOn

LABEL_COUNTS = (2, 5, 10, 20, 50, 100)
MOST_DRAWS = 10
SMALLEST_GAIN = 0.01  # sets that are smaller by less are not worth moving thresholds for
MOST_BATCHES = 500  # fewer draws where there are many domains
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
    check_recall_on(recall_on, get_args(RecallOn))
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
