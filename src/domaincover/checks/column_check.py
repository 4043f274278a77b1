"""What is known of one column: what it is taken for, examples, missing values, and what it gives away.

A column's values become bins: categories as they are, numbers and dates by quantile, missing values in a bin of their
own. What a bin says is learned from some rows and counted on others: the label in domains that did not teach it, since
only that helps in a new domain, and the domain in other rows of the same domains.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.columns import Kind, column_kind, read_days, read_numbers
from domaincover.data.spellings import as_plain, doubt_about, spelling_of
from domaincover.errors import InputError
from domaincover.terminal.text import cut

Codes = NDArray[np.int64]
COMPARED_ROWS = 100_000  # rows on which columns are compared with labels and domains
MOST_CATEGORIES = 50  # of `TableEncoder`
MOST_BINS, FEWEST_BINS, ROWS_PER_BIN = 1024, 256, 10
GIVEN_AWAY = 0.99  # recall and precision from which a column is as good as a copy
N_EXAMPLES = 3
LONGEST_EXAMPLE = 24
FEWEST_FOR_KEY = 50
NAME_OF_KEY = re.compile(r"(?:^|.*[\W_])(?:id|uid|uuid|guid|key|index|rownames?|row)$", re.IGNORECASE)
CAMEL_KEY = re.compile(r".*[a-z](?:Id|ID|Key)$")


class ColumnCheck(NamedTuple):
    """One column: its kind, how it is written, examples, distinct and missing values, and what it gives away.

    `tells_label` is the mean recall of labels from this column by itself in domains that did not teach it, `tells_one`
    the label that it gives away best, if it does, and `tells_domain` the share of rows whose domain it tells. `fault`
    is why the column cannot be learned from.
    """

    name: str
    kind: Kind = "ignored"
    spelling: str | None = None
    examples: tuple[str, ...] = ()
    n_distinct: int = 0
    n_missing: int = 0
    n_domains_without: int = 0
    is_key: bool = False
    tells_label: float | None = None
    tells_one: int | None = None
    tells_domain: float | None = None
    is_constant_in_domains: bool = False
    is_copy_of_domain: bool = False
    doubt: str | None = None
    fault: str | None = None


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


@dataclass(frozen=True)
class Subject:
    """The labels and domains that columns are compared with, on a sample of a large table."""

    labels: Codes
    domains: Codes
    n_labels: int
    n_domains: int
    random_state: int

    @cached_property
    def sample(self) -> Codes:
        """The rows that are compared, in order."""
        n_rows = len(self.labels)
        return np.sort(np.random.default_rng(self.random_state).permutation(n_rows)[:COMPARED_ROWS])


def check_column(column: pd.Series[Any], subject: Subject) -> ColumnCheck:
    """Return what is known of a column; marks such as ? count as missing where the others are numbers or dates."""
    found = ColumnCheck(str(column.name), examples=_examples(column))
    try:
        spelling = spelling_of(column)
        plain = column if spelling is None else as_plain(column, spelling)
        kind, n_distinct = column_kind(plain, MOST_CATEGORIES), int(plain.nunique())
        found = found._replace(kind=kind, spelling=spelling, n_distinct=n_distinct, doubt=doubt_about(column))
        found = found._replace(is_key=_is_key(plain, kind, n_distinct), **_missing(plain, subject))
        return found._replace(**_given_away(plain.iloc[subject.sample], found, subject))
    except InputError as error:
        unread = ColumnCheck(found.name, examples=found.examples, fault=str(error))
        return unread._replace(**_missing(column, subject))


def _given_away(column: pd.Series[Any], found: ColumnCheck, subject: Subject) -> dict[str, Any]:
    if found.n_distinct == 0 or (found.n_distinct == 1 and not column.isna().any()):
        return {}
    rng = np.random.default_rng([subject.random_state, 1])
    bins, domains = bins_of(column, found.kind), subject.domains[subject.sample]
    of_domain = domain_leak(bins, domains, rng)
    of_label = label_leak(bins, subject.labels[subject.sample], domains, subject.n_labels, rng)
    about_domain = {
        "tells_domain": of_domain.share_told,
        "is_constant_in_domains": of_domain.is_constant,
        "is_copy_of_domain": of_domain.is_copy,
    }
    if found.kind == "ignored" or np.isnan(of_label.recall):
        return about_domain
    best = int(np.nanargmax(of_label.by_label))
    gives_one = subject.n_labels > 2 and of_label.by_label[best] >= GIVEN_AWAY
    return {**about_domain, "tells_label": of_label.recall, "tells_one": best if gives_one else None}


def _examples(column: pd.Series[Any]) -> tuple[str, ...]:
    """Return the first distinct values as text."""
    shown = dict.fromkeys(_shortened(value) for value in column.dropna().head(100))
    return tuple(list(shown)[:N_EXAMPLES])


def _shortened(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else " ".join(str(value).removesuffix(" 00:00:00").split())
    return cut(text, LONGEST_EXAMPLE)


def _missing(column: pd.Series[Any], subject: Subject) -> dict[str, Any]:
    """Return how many values are missing, and how many domains have none at all."""
    missing = column.isna().to_numpy()
    n_known = np.bincount(subject.domains[~missing], minlength=subject.n_domains)
    return {"n_missing": int(missing.sum()), "n_domains_without": int((n_known == 0).sum())}


def _is_key(column: pd.Series[Any], kind: Kind, n_distinct: int) -> bool:
    """Return whether a column has another whole number in every row, or many values and the name of an identifier."""
    if kind not in ("number", "category") or n_distinct < FEWEST_FOR_KEY:
        return False
    name = str(column.name).strip()
    if n_distinct > MOST_CATEGORIES and (NAME_OF_KEY.match(name) or CAMEL_KEY.match(name)):
        return True
    if kind != "number" or n_distinct < len(column) or column.dtype.kind not in "iuf":
        return False
    return bool((column.to_numpy(dtype=np.float64, na_value=np.nan) % 1 == 0).all())


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
