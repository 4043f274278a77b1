"""What is known of one column: what it is taken for, examples, missing values, and what it gives away."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.checks.column_leaks import bins_of, domain_leak, label_leak
from domaincover.data.columns import Kind, column_kind
from domaincover.data.spellings import as_plain, doubt_about, spelling_of
from domaincover.errors import InputError

COMPARED_ROWS = 100_000  # rows on which columns are compared with labels and domains
MOST_CATEGORIES = 50  # of `TableEncoder`
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
    kind: Kind
    spelling: str | None
    examples: tuple[str, ...]
    n_distinct: int
    n_missing: int
    n_domains_without: int
    is_key: bool
    tells_label: float | None
    tells_one: int | None
    tells_domain: float | None
    is_constant_in_domains: bool
    is_copy_of_domain: bool
    doubt: str | None
    fault: str | None


@dataclass(frozen=True)
class Subject:
    """The labels and domains that columns are compared with, on a sample of a large table."""

    labels: NDArray[np.int64]
    domains: NDArray[np.int64]
    n_labels: int
    n_domains: int
    random_state: int
    sample: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        n_rows = len(self.labels)
        rng = np.random.default_rng(self.random_state)
        drawn = np.sort(rng.permutation(n_rows)[:COMPARED_ROWS]) if n_rows > COMPARED_ROWS else np.arange(n_rows)
        object.__setattr__(self, "sample", drawn)


def check_column(column: pd.Series[Any], subject: Subject) -> ColumnCheck:
    """Return what is known of a column; marks such as ? count as missing where the others are numbers or dates."""
    found: dict[str, Any] = {"name": str(column.name), "examples": _examples(column)}
    try:
        spelling = spelling_of(column)
        plain = column if spelling is None else as_plain(column, spelling)
        kind, n_distinct = column_kind(plain, MOST_CATEGORIES), int(plain.nunique())
        found |= {"spelling": spelling, "kind": kind, "n_distinct": n_distinct, "doubt": doubt_about(column)}
        found |= {"is_key": _is_key(plain, kind, n_distinct), "fault": None, **_missing(plain, subject)}
        return ColumnCheck(**found, **_given_away(plain.iloc[subject.sample], kind, n_distinct, subject))
    except InputError as error:
        nothing = {"spelling": None, "kind": "ignored", "n_distinct": 0, "doubt": None, "is_key": False}
        found |= nothing | {"fault": str(error), **_missing(column, subject)}
        return ColumnCheck(**found, **_NOTHING)


_NOTHING: dict[str, Any] = {
    "tells_label": None,
    "tells_one": None,
    "tells_domain": None,
    "is_constant_in_domains": False,
    "is_copy_of_domain": False,
}


def _given_away(column: pd.Series[Any], kind: Kind, n_distinct: int, subject: Subject) -> dict[str, Any]:
    if n_distinct == 0 or (n_distinct == 1 and not column.isna().any()):
        return _NOTHING
    rng = np.random.default_rng([subject.random_state, 1])
    bins, domains = bins_of(column, kind), subject.domains[subject.sample]
    of_domain = domain_leak(bins, domains, rng)
    of_label = label_leak(bins, subject.labels[subject.sample], domains, subject.n_labels, rng)
    best = None if np.isnan(of_label.by_label).all() else int(np.nanargmax(of_label.by_label))
    gives_one = best is not None and subject.n_labels > 2 and of_label.by_label[best] >= GIVEN_AWAY
    return {
        "tells_label": None if np.isnan(of_label.recall) or kind == "ignored" else of_label.recall,
        "tells_one": best if gives_one and kind != "ignored" else None,
        "tells_domain": of_domain.share_told,
        "is_constant_in_domains": of_domain.is_constant,
        "is_copy_of_domain": of_domain.is_copy,
    }


def _examples(column: pd.Series[Any]) -> tuple[str, ...]:
    """Return the first distinct values as text."""
    shown = dict.fromkeys(_shortened(value) for value in column.dropna().head(100))
    return tuple(list(shown)[:N_EXAMPLES])


def _shortened(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else " ".join(str(value).removesuffix(" 00:00:00").split())
    return text if len(text) <= LONGEST_EXAMPLE else f"{text[: LONGEST_EXAMPLE - 1]}…"


def _missing(column: pd.Series[Any], subject: Subject) -> dict[str, int]:
    """Return how many values are missing, and how many domains have none at all."""
    missing = column.isna().to_numpy()
    n_known = np.bincount(subject.domains[~missing], minlength=subject.n_domains)
    return {"n_missing": int(missing.sum()), "n_domains_without": int((n_known == 0).sum())}


def _is_key(column: pd.Series[Any], kind: Kind, n_distinct: int) -> bool:
    """Return whether a column has another whole number in every row, or many values and the name of an identifier."""
    many = n_distinct >= FEWEST_FOR_KEY
    if kind not in ("number", "category") or not many:
        return False
    name = str(column.name).strip()
    if n_distinct > MOST_CATEGORIES and (NAME_OF_KEY.match(name) or CAMEL_KEY.match(name)):
        return True
    if kind != "number" or n_distinct < len(column):
        return False
    values = column.to_numpy(dtype=np.float64, na_value=np.nan) if column.dtype.kind in "iuf" else np.array([0.5])
    return bool((values % 1 == 0).all())
