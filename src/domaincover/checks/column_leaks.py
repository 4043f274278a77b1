"""How much one column by itself says of the label and of the domain.

A column's values become bins: categories as they are, numbers and dates by quantile, missing values in a bin of their
own. What a bin says is learned from some rows and counted on others: the label in domains that did not teach it, since
only that helps in a new domain, and the domain in other rows of the same domains.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.columns import Kind, read_days, read_numbers

Codes = NDArray[np.int64]
MOST_BINS, FEWEST_BINS, ROWS_PER_BIN = 1024, 256, 10


class LabelLeak(NamedTuple):
    """How well one column tells labels in domains that did not teach it.

    `recall` is the mean over labels, 1 for a copy of the label and 1 / labels for noise. `by_label` is the smaller of a
    single label's recall and precision. Labels that one half of the domains lacks are NaN and do not count.
    """

    recall: float
    by_label: NDArray[np.float64]


class DomainLeak(NamedTuple):
    """Share of rows whose domain a column tells, and whether it has one value in each domain, another in each."""

    share_told: float
    is_constant: bool
    is_copy: bool


def bins_of(column: pd.Series[Any], kind: Kind) -> Codes:
    """Return the bin of each value, 0 for missing ones; rare categories beyond the most frequent share one bin."""
    if kind in ("category", "ignored"):
        codes, _ = pd.factorize(column.astype("string") if column.dtype == object else column)
        return _most_frequent(codes.astype(np.int64)) + 1
    values = read_days(column) if kind == "date" else read_numbers(column)
    known = ~np.isnan(values)
    bins = np.zeros(len(values), dtype=np.int64)
    distinct, places = np.unique(values[known], return_inverse=True)
    n_bins = min(max(len(values) // ROWS_PER_BIN, 2), MOST_BINS)
    if len(distinct) <= max(n_bins, FEWEST_BINS) and len(distinct) < len(values):
        bins[known] = places + 1
        return bins
    edges = np.unique(np.quantile(values[known], np.linspace(0, 1, n_bins + 1)[1:-1]))
    bins[known] = np.searchsorted(edges, values[known], side="right") + 1
    return bins


def label_leak(bins: Codes, labels: Codes, domains: Codes, n_labels: int, rng: np.random.Generator) -> LabelLeak:
    """Learn which label each bin points to in one half of the domains, and count in the other; then exchange them."""
    n_domains = int(domains.max()) + 1
    halves = rng.permutation(n_domains)[domains] % 2 if n_domains > 1 else rng.integers(2, size=len(domains))
    by_half = np.bincount(
        (halves * (bins.max() + 1) + bins) * n_labels + labels, minlength=2 * (bins.max() + 1) * n_labels
    ).reshape(2, -1, n_labels)
    totals = by_half.sum(axis=1)
    counts = (totals > 0).all(axis=0)  # labels that both halves have
    hits, told, present = (np.zeros(n_labels) for _ in range(3))
    for taught, tested in ((0, 1), (1, 0)):
        shares = by_half[taught] / np.maximum(totals[taught], 1)  # so that a frequent label has no advantage
        choice = np.where(by_half[taught].any(axis=1), shares.argmax(axis=1), n_labels)
        found = by_half[tested]
        np.add.at(hits, choice[choice < n_labels], found[choice < n_labels, choice[choice < n_labels]])
        told += np.bincount(choice, weights=found.sum(axis=1), minlength=n_labels + 1)[:n_labels]
        present += totals[tested]
    recall = np.where(counts, hits / np.maximum(present, 1), np.nan)
    precision = hits / np.maximum(told, 1)
    mean = float(recall[counts].mean()) if counts.any() else float("nan")
    return LabelLeak(mean, np.minimum(recall, precision))


def domain_leak(bins: Codes, domains: Codes, rng: np.random.Generator) -> DomainLeak:
    """Learn which domain each bin points to in half of the rows, and count in the other half."""
    n_domains = int(domains.max()) + 1
    taught = rng.permutation(len(bins)) % 2 == 0
    pairs, counts = np.unique(bins[taught] * n_domains + domains[taught], return_counts=True)
    order = np.argsort(counts, kind="stable")  # the most frequent domain of a bin is written last
    pointed = np.full(int(bins.max()) + 1, -1)
    pointed[pairs[order] // n_domains] = pairs[order] % n_domains
    share = float((pointed[bins[~taught]] == domains[~taught]).mean()) if (~taught).any() else 0.0
    n_pairs = len(np.unique(bins * n_domains + domains))
    n_bins, n_present = len(np.unique(bins)), len(np.unique(domains))
    is_constant = n_pairs == n_present and n_bins > 1
    return DomainLeak(share, is_constant, is_constant and n_bins == n_present)


def _most_frequent(codes: Codes) -> Codes:
    """Return codes in which all but the most frequent share one code."""
    known = codes[codes >= 0]
    counts = np.bincount(known)
    if len(counts) <= MOST_BINS:
        return codes
    kept = np.full(len(counts) + 1, MOST_BINS)  # code −1 (missing) selects the last
    kept[np.argsort(-counts, kind="stable")[:MOST_BINS]] = np.arange(MOST_BINS)
    kept[-1] = -1
    return kept[codes]
