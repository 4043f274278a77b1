"""Calibrate thresholds that adapt: batches of the calibration domains are treated as a new domain will be."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.adaptation import (
    AdaptiveThresholds,
    FamiliarityTable,
    RowsOfDomains,
    deviation,
    domain_residuals,
    domain_summaries,
    n_counting,
    offset_of,
    order_statistic,
    self_calibrated_thresholds,
)
from domaincover.calibration.rules import (
    cell_thresholds,
    check_feasible,
    highest_confidence,
    own_scores,
    pooled_row_thresholds,
)
from domaincover.criteria import NO_GROUP, Criterion, Thresholds, as_criterion
from domaincover.errors import check_choice
from domaincover.options import OnRareLabel, RecallOn

BATCH_SIZES = (30, 100, 300, 1000, 3000)
MOST_DRAWS = 10
SMALLEST_GAIN = 0.01  # sets that are smaller by less are not worth moving thresholds for
MOST_BATCHES = 500  # fewer draws where there are many domains
NUMBERS_OF_SIZE = 10**7  # draws × rows × labels that set sizes are counted on
MOST_KEPT = 1000  # domains to compare new ones with, so that a model stays small


class ScoredRows(NamedTuple):
    """Scores and probabilities, rows × labels, with the label and the domain of each row as codes."""

    scores: NDArray[Any]
    probabilities: NDArray[Any]
    labels: NDArray[np.int64]
    domains: NDArray[np.int64]

    def of(self, rows: NDArray[Any]) -> ScoredRows:
        """Return some of the rows."""
        return ScoredRows(*(part[rows] for part in self))

    @property
    def is_readable(self) -> NDArray[np.bool_]:
        """Which rows could be read; the others have infinite scores."""
        return np.asarray(np.isfinite(self.scores).all(axis=1))

    @property
    def labelled_scores(self) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
        """Scores, labels and domains, as rules take them."""
        return self.scores, self.labels, self.domains

    @property
    def n_domains(self) -> int:
        """How many domain codes there are."""
        return int(self.domains.max(initial=0)) + 1


class Draw(NamedTuple):
    """One batch of every domain: what it says without labels, and what the labels of the rows that count ask for."""

    evidence: Thresholds  # domains × labels
    asked: Thresholds  # domains × labels
    counted: ScoredRows  # rows in which sets are counted


Batches = Callable[[int], list[Draw]]  # draws of batches of so many rows


class Entry(NamedTuple):
    """What is calibrated for one number of rows: the numbers of base thresholds, and what is added to them.

    The level of a label lies one standard deviation below the mean of what cells ask for beyond the evidence: a label
    that differs much between domains starts lower, so that it does not decide alone on the offset of all labels.
    """

    n_rows: int
    level: NDArray[np.float64]  # labels
    centre: NDArray[np.float64]  # labels
    highest: NDArray[np.float64]  # labels
    slope: float
    offset: NDArray[np.float64] = np.zeros(0)
    set_size: float = np.nan  # in the domains that the numbers were fitted to

    def bases(self, draws: Sequence[Draw]) -> NDArray[np.float64]:
        """Return the base thresholds of every batch, draws × domains × labels."""
        moved = np.stack([deviation(each.evidence, self.centre, self.highest) for each in draws])
        return self.level + self.slope * moved


class Promise(NamedTuple):
    """What is promised, and how a batch is counted."""

    criterion: Criterion
    domain_confidence: float
    min_cell_size: int
    promised: NDArray[np.bool_]  # labels, or groups of the criterion
    pools: bool  # labels in too few domains, instead of putting them into every set
    weights: NDArray[np.float64] | None = None  # of the calibration domains; None for equal ones

    @classmethod
    def of(
        cls,
        rows: ScoredRows,
        target_recall: float | Criterion,
        domain_confidence: float,
        min_cell_size: int = 1,
        label_names: Sequence[Hashable] | None = None,
        on_infeasible: OnRareLabel = "raise",
    ) -> Promise:
        """Return what calibration rows allow; `on_infeasible` says what happens to a label in too few domains."""
        own = own_scores(*rows.labelled_scores, target_recall, min_cell_size)
        names, what = own.names(label_names), "domain confidence"
        rare = check_feasible(own.n_by_cell, domain_confidence, what, names, on_infeasible, can_pool=True)
        return cls(own.criterion, float(domain_confidence), min_cell_size, ~rare, on_infeasible == "pool")

    def asked(self, rows: ScoredRows, n_domains: int) -> Thresholds:
        """Return the cell thresholds of all domains, +∞ for cells that do not count."""
        by_cell = cell_thresholds(*rows.labelled_scores, self.criterion, self.min_cell_size)
        missing = np.full((n_domains - len(by_cell), by_cell.shape[1]), np.inf)
        return np.concatenate([by_cell, missing]) if len(missing) else by_cell

    def evidence(self, rows: ScoredRows, n_domains: int) -> Thresholds:
        """Return the self-calibrated thresholds of all domains."""
        return self_calibrated_thresholds(rows.scores, rows.probabilities, rows.domains, self.criterion, n_domains)

    def n_counting_domains(self, rows: ScoredRows) -> int:
        """Return in how many domains a promised label counts."""
        return int(np.isfinite(self.asked(rows, rows.n_domains)[:, self.promised]).any(axis=1).sum())

    def offset(self, draws: Sequence[Draw], bases: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what is added to base thresholds, by label."""
        residuals = np.stack([each.asked for each in draws]) - bases
        weights = None if self.weights is None else self.weights[: residuals.shape[1]]
        rare = self._rare_residuals(draws, bases)
        return offset_of(residuals, self.promised, rare, self.domain_confidence, weights)

    def _rare_residuals(self, draws: Sequence[Draw], bases: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what the pooled rows of rare labels allow beyond base thresholds; −∞ for nothing."""
        if not self.pools or self.promised.all():
            return np.full(len(self.promised), -np.inf)
        pooled = []
        for draw, base in zip(draws, bases, strict=True):
            own, groups, domains = self._own_rows(draw.counted)
            beyond = own - base[domains, groups]
            pooled.append(pooled_row_thresholds(beyond, groups, len(self.promised), self.criterion.group_targets))
        return np.where(self.promised, -np.inf, np.min(pooled, axis=0))

    def _own_rows(self, rows: ScoredRows) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
        """Return the own-label score, group and domain of each row whose label is constrained."""
        own = rows.scores[np.arange(len(rows.labels)), rows.labels]
        groups = self.criterion.group_of_label[rows.labels]
        counts = groups != NO_GROUP
        return own[counts], groups[counts], rows.domains[counts]

    def sizes(self, draw: Draw, thresholds: Thresholds) -> NDArray[np.float64]:
        """Return the mean number of promised labels in the sets of every domain, NaN without rows."""
        scores, domains = draw.counted.scores, draw.counted.domains
        if not self.criterion.constrained.all():
            scores = scores[:, self.criterion.constrained]
        in_set = np.count_nonzero(~(scores < thresholds[domains]) & self.promised, axis=1)
        n_rows = np.bincount(domains, minlength=len(thresholds))
        with np.errstate(invalid="ignore"):
            return np.bincount(domains, in_set, minlength=len(thresholds)) / n_rows

    def mean_size(self, draws: Sequence[Draw], entry: Entry) -> float:
        """Return the mean number of promised labels in the sets of rows, over draws."""
        bases = entry.bases(draws)
        allowed = domain_residuals(np.stack([each.asked for each in draws]), bases, self.promised)
        n_domains = n_counting(allowed)
        confidence = min(self.domain_confidence, highest_confidence(max(float(n_domains), 1.0)))
        thresholds = bases + order_statistic(allowed, n_domains, confidence)
        few = max(1, NUMBERS_OF_SIZE // max(draws[0].counted.scores.size, 1))
        n_rows = [np.bincount(each.counted.domains, minlength=len(bases[0])) for each in draws[:few]]
        by_domain = [self.sizes(*each) for each in zip(draws[:few], thresholds, strict=False)]
        return float(np.nansum(np.multiply(by_domain, n_rows)) / max(np.sum(n_rows), 1))


def random_batches(promise: Promise, rows: ScoredRows, recall_on: RecallOn, rng: np.random.Generator) -> Batches:
    """Return what draws batches of up to so many random rows of every domain; one of all rows where most have none."""
    n_domains = rows.n_domains
    whole = promise.asked(rows, n_domains)
    n_draws = number_of_draws(promise.n_counting_domains(rows))

    def drawn(n_rows: int) -> Iterator[Draw]:
        if not n_rows:
            yield Draw(np.full(whole.shape, np.nan), whole, rows)
            return
        takes_all = recall_on == "rows given" and n_rows >= median_rows(rows.domains)
        for _ in range(1 if takes_all else n_draws):
            given = random_ranks(rows.domains, rng) < (len(rows.domains) if takes_all else n_rows)
            asked = whole
            if recall_on == "later rows":
                asked = promise.asked(rows.of(~given), n_domains)
            elif not takes_all:
                on_batch = promise.asked(rows.of(given), n_domains)
                asked = np.where(np.isposinf(on_batch), whole, on_batch)
            yield Draw(promise.evidence(rows.of(given), n_domains), asked, rows)

    return lambda n_rows: list(drawn(n_rows))


def number_of_draws(n_domains: int) -> int:
    """Return how many batches to draw from each of so many domains."""
    return int(np.clip(MOST_BATCHES // max(n_domains, 1), 1, MOST_DRAWS))


def fit_adaptive_thresholds(
    calibration: ScoredRows,
    target_recall: float | Criterion,
    domain_confidence: float,
    *,
    training: ScoredRows | None = None,
    recall_on: RecallOn = "rows given",
    min_cell_size: int = 1,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    label_names: Sequence[Hashable] | None = None,
    on_infeasible: OnRareLabel = "raise",
    weights: NDArray[np.float64] | None = None,
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

    `on_infeasible` says what happens to a label in too few domains: "raise", "widen" (in every set) or "pool" (see
    `offset_of`). With a criterion as target, its groups stand for the labels. `weights` are those of the calibration
    domains, where their order matters.
    """
    check_choice("recall_on", recall_on, get_args(RecallOn))
    rng = np.random.default_rng(0) if rng is None else rng
    options = min_cell_size, label_names, on_infeasible
    promise = Promise.of(calibration, target_recall, domain_confidence, *options)._replace(weights=weights)
    most = median_rows(calibration.domains)
    most = most // 2 if recall_on == "later rows" else most  # the other half is to count recall on
    of_calibration = random_batches(promise, calibration, recall_on, rng)
    of_training = None if training is None else random_batches(promise, training, recall_on, rng)
    sizes = entry_sizes(most, batch_sizes)
    entries = fit_entries(promise, sizes, of_calibration, of_training, keeps_fixed=recall_on == "later rows")
    own_sizes = np.bincount(calibration.domains)
    if recall_on == "later rows" or len(entries) == 1:
        return stacked(entries)
    counting = np.isfinite(promise.asked(calibration, calibration.n_domains)[:, promise.promised]).any(axis=1)
    if (own_sizes[counting] < entries[1].n_rows).any():
        entries.insert(1, entries[0]._replace(n_rows=1))
    rule = stacked(entries)
    # whole domains, each with the entry that its own number of rows selects: one order statistic for all sizes
    (whole,) = of_calibration(most)
    bases = rule.base(whole.evidence, rule.entry_of(own_sizes))[None]
    of_sizes = promise.offset([whole], bases)
    offset = np.minimum(rule.offset, of_sizes)
    offset[0], offset[-1] = rule.offset[0], of_sizes
    return rule._replace(offset=offset)


def fit_entries(
    promise: Promise, sizes: Sequence[int], of_calibration: Batches, of_training: Batches | None, *, keeps_fixed: bool
) -> list[Entry]:
    """Return an entry for no rows, and one for each of these numbers of rows that leaves enough cells to count.

    Where so many rows say too little to make sets smaller, the slope is 0; with `keeps_fixed`, all is as without rows.
    """
    entries: list[Entry] = []
    for n_rows in (0, *sizes):
        draws = of_calibration(n_rows)
        of_base = draws if of_training is None else of_training(n_rows)
        entry = fit_base(n_rows, of_base)
        size = promise.mean_size(of_base, entry)
        adapts = True
        if entries:
            still = entry._replace(slope=0.0, level=entries[0].level)
            fixed_size = entries[0].set_size if keeps_fixed else promise.mean_size(of_base, still)
            adapts = size < (1 - SMALLEST_GAIN) * fixed_size
            entry = entry if adapts else still
        offset = promise.offset(draws, entry.bases(draws))
        if entries and promise.promised.any() and np.isneginf(offset[promise.promised]).all():
            continue  # so many rows leave too few cells to count later rows in: a smaller number of rows stands in
        offset = offset if adapts or not keeps_fixed else entries[0].offset
        entries.append(entry._replace(offset=offset, set_size=size))
    return entries


def stacked(entries: Sequence[Entry]) -> AdaptiveThresholds:
    """Return entries as arrays."""
    *parts, _ = zip(*entries, strict=True)
    return AdaptiveThresholds(*map(np.array, parts))


def fit_base(n_rows: int, draws: Sequence[Draw]) -> Entry:
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
    return Entry(n_rows, mean - spread, centre, highest, slope)


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


def fit_familiarity(
    scores: NDArray[Any],
    probabilities: NDArray[Any],
    domains: NDArray[np.int64],
    target_recall: float | Criterion,
    *,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    rng: np.random.Generator | None = None,
) -> FamiliarityTable:
    """Describe the calibration domains by random batches of their rows."""
    rng = np.random.default_rng(0) if rng is None else rng
    present = np.unique(domains)
    kept = np.sort(rng.permutation(present)[:MOST_KEPT])
    n_domains = int(domains.max(initial=0)) + 1
    sizes = entry_sizes(median_rows(domains), batch_sizes)
    targets = as_criterion(target_recall, scores.shape[1]).group_targets
    summaries = np.empty((len(sizes), len(kept), len(targets) + scores.shape[1]))
    place = random_ranks(domains, rng)
    for entry, size in enumerate(sizes):
        given = place < (len(place) if size == sizes[-1] else size)
        batch = scores[given], probabilities[given], domains[given]
        evidence = self_calibrated_thresholds(*batch, target_recall, n_domains)
        summaries[entry] = domain_summaries(*batch, evidence)[kept]
    return FamiliarityTable(float(targets.max()), np.array(sizes, dtype=np.int64), summaries)
