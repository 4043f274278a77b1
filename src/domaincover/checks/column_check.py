"""What is known of one column: what it is taken for, missing values, and what it gives away.

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

from domaincover.data.columns import Kind, as_plain, column_kind, doubt_about, read_days, read_numbers, spelling_of
from domaincover.errors import InputError

Codes = NDArray[np.int64]
COMPARED_ROWS = 100_000  # rows on which columns are compared with labels and domains
MOST_CATEGORIES = 50  # of `TableEncoder`
MOST_BINS, FEWEST_BINS, ROWS_PER_BIN = 1024, 256, 10
GIVEN_AWAY = 0.99  # recall and precision from which a column is as good as a copy
FEWEST_FOR_KEY = 50
NAME_OF_KEY = re.compile(r"(?:^|.*[\W_])(?:id|uid|uuid|guid|key|index|rownames?|row)$", re.IGNORECASE)
CAMEL_KEY = re.compile(r".*[a-z](?:Id|ID|Key)$")


class ColumnCheck(NamedTuple):
    """One column: its kind, how it is written, distinct and missing values, and what it gives away.

    `tells_label` is the mean recall of labels from this column by itself in domains that did not teach it, `tells_one`
    the label that it gives away best, if it does, and `tells_domain` the share of rows whose domain it tells. `fault`
    is why the column cannot be learned from.
    """

    name: str
    kind: Kind = "ignored"
    spelling: str | None = None
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
    found = ColumnCheck(str(column.name))
    try:
        spelling = spelling_of(column)
        plain = column if spelling is None else as_plain(column, spelling)
        kind, n_distinct = column_kind(plain, MOST_CATEGORIES), int(plain.nunique())
        found = found._replace(kind=kind, spelling=spelling, n_distinct=n_distinct, doubt=doubt_about(column))
        found = found._replace(is_key=_is_key(plain, kind, n_distinct), **_missing(plain, subject))
        return found._replace(**_given_away(plain.iloc[subject.sample], found, subject))
    except InputError as error:
        return ColumnCheck(found.name, fault=str(error), **_missing(column, subject))


def _given_away(column: pd.Series[Any], found: ColumnCheck, subject: Subject) -> dict[str, Any]:
    if found.n_distinct == 0 or (found.n_distinct == 1 and not column.isna().any()):
        return {}
    rng = np.random.default_rng([subject.random_state, 1])
    bins, domains = bins_of(column, found.kind), subject.domains[subject.sample]
    given = domain_leak(bins, domains, rng)
    recall, precision = label_leak(bins, subject.labels[subject.sample], domains, subject.n_labels, rng)
    if found.kind == "ignored" or np.isnan(recall).all():
        return given
    by_label = np.minimum(recall, precision)
    best = int(np.nanargmax(by_label))
    gives_one = subject.n_labels > 2 and by_label[best] >= GIVEN_AWAY
    return {**given, "tells_label": float(np.nanmean(recall)), "tells_one": best if gives_one else None}


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
        codes, distinct = pd.factorize(column.astype("string") if column.dtype == object else column)
        counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
        rank = np.argsort(np.argsort(-counts, kind="stable"))
        return np.minimum(np.append(rank, -1)[codes], MOST_BINS) + 1  # code −1 (missing) selects the last
    values = read_days(column) if kind == "date" else read_numbers(column)
    codes, known = pd.factorize(values)
    n_bins = min(max(len(values) // ROWS_PER_BIN, 2), MOST_BINS)
    if len(known) > max(n_bins, FEWEST_BINS) or len(known) == len(values):
        edges = np.unique(np.quantile(values[codes >= 0], np.linspace(0, 1, n_bins + 1)[1:-1]))
        codes = np.where(codes < 0, -1, np.searchsorted(edges, values, side="right"))
    return codes + 1


def label_leak(
    bins: Codes, labels: Codes, domains: Codes, n_labels: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the recall and precision with which the bins tell each label in domains that did not teach it.

    Which label each bin points to is learned in one half of the domains and counted in the other, and the other way
    round. A label that one half lacks has no recall, NaN; the mean is 1 for a copy of the label, 1 / labels for noise.
    """
    n_domains, n_bins = int(domains.max()) + 1, int(bins.max()) + 1
    halves = rng.permutation(n_domains)[domains] % 2 if n_domains > 1 else rng.integers(2, size=len(domains))
    cells = (halves * n_bins + bins) * n_labels + labels
    by_half = np.bincount(cells, minlength=2 * n_bins * n_labels).reshape(2, n_bins, n_labels)
    totals = by_half.sum(axis=1)
    found = np.zeros((n_labels + 1, n_labels))  # by label pointed to (the last: none) and own label
    for taught, tested in ((0, 1), (1, 0)):
        shares = by_half[taught] / np.maximum(totals[taught], 1)  # so that a frequent label has no advantage
        np.add.at(found, np.where(by_half[taught].any(axis=1), shares.argmax(axis=1), n_labels), by_half[tested])
    hits = found.diagonal()  # of the square above the last row
    recall = np.where((totals > 0).all(axis=0), hits / np.maximum(totals.sum(axis=0), 1), np.nan)
    return recall, hits / np.maximum(found[:-1].sum(axis=1), 1)


def domain_leak(bins: Codes, domains: Codes, rng: np.random.Generator) -> dict[str, Any]:
    """Return the share of rows whose domain the bins tell, learned from half of the rows and counted in the others.

    With it, whether there is one bin in each domain, and whether it is another one in each.
    """
    n_domains = int(domains.max()) + 1
    taught = rng.permutation(len(bins)) % 2 == 0
    pairs, counts = np.unique(bins[taught] * n_domains + domains[taught], return_counts=True)
    order = np.argsort(counts, kind="stable")  # the most frequent domain of a bin is written last
    pointed = np.full(int(bins.max()) + 1, -1)
    pointed[pairs[order] // n_domains] = pairs[order] % n_domains
    share = float((pointed[bins[~taught]] == domains[~taught]).mean()) if (~taught).any() else 0.0
    n_pairs, n_bins, n_present = (len(np.unique(some)) for some in (bins * n_domains + domains, bins, domains))
    is_constant = n_pairs == n_present and n_bins > 1
    return {
        "tells_domain": share,
        "is_constant_in_domains": is_constant,
        "is_copy_of_domain": is_constant and n_bins == n_present,
    }
