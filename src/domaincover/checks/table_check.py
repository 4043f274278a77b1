"""Check a table before anything is fitted to it: what gives labels or domains away, what is too small or missing."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.checks.column_check import ColumnCheck, Subject, check_column
from domaincover.checks.domain_drift import Drift, drift_of, in_order
from domaincover.checks.findings import Cells, Finding, findings_of, reach_in_words
from domaincover.checks.seen_rows import domains_alike, row_hashes
from domaincover.data.columns import plain_table
from domaincover.data.dataset import Coded, check_min_cell_size, code_names, count_cells, one_dimensional, texts
from domaincover.errors import InputError
from domaincover.options import MIN_CELL_SIZE
from domaincover.terminal.text import counted, wrapped

HARM_WORDS = {"stops": "Stops a fit", "misleads": "Misleads", "weakens": "Weakens", "note": "Good to know"}


@dataclass(frozen=True, eq=False)
class TableCheck:
    """What a table allows, and what to change in it; `check_table` makes it.

    `findings` come in the order of harm: what stops a fit, what misleads it, what weakens it, and notes. `reach` says
    which promises the domains allow.
    """

    cells: Cells
    n_rows: int
    columns: tuple[ColumnCheck, ...]
    findings: tuple[Finding, ...]
    reach: str
    n_rows_compared: int

    @property
    def counts(self) -> pd.DataFrame:
        """Rows by domain and label."""
        cells = self.cells
        domains, labels = pd.Index(cells.domain_names, name=cells.domain), pd.Index(cells.label_names, name=cells.label)
        return pd.DataFrame(cells.counts, domains, labels)

    @property
    def drop(self) -> tuple[str, ...]:
        """The columns that the findings advise to leave out."""
        return tuple(dict.fromkeys(name for finding in self.findings for name in finding.drop))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for strict JSON."""
        return {
            "n_rows": self.n_rows,
            "n_rows_compared": self.n_rows_compared,
            **self.cells._asdict(),
            "counts": self.cells.counts.tolist(),
            **{name: [part._asdict() for part in getattr(self, name)] for name in ("findings", "columns")},
            "reach": self.reach,
        }

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def text(self, width: int = 100, *, for_shell: bool = False) -> str:
        """Return the findings and what is possible, as lines; for a shell, advice in options of `fit`."""
        found = _findings(self.findings, width, for_shell) or [["Nothing to change was found."]]
        parts = [_lines(_size(self), width), *found, _lines(self.reach, width), _lines(_limits(self), width)]
        return "\n\n".join("\n".join(lines) for lines in parts)

    def __str__(self) -> str:
        return self.text()


def check_table(
    X: Any,
    y: Any,
    domains: Any,
    *,
    min_cell_size: int = MIN_CELL_SIZE,
    random_state: int = 0,
) -> TableCheck:
    """Check a table of features, its labels and its domains, without fitting a model.

    It finds columns that by themselves give the label away in domains that did not teach it, columns that give the
    domain away, identifiers, cells and domains that are too small, missing values, and text that nearly looks like
    numbers or dates; and it says what promises the domains allow. A large table is compared with labels and domains on
    a sample of its rows, which the result tells.

    Parameters
    ----------
    X : table
        Features, as a pandas, polars or Arrow table.
    y, domains : array-like
        Label and domain of each row; rows in which one is missing are counted and left out.
    min_cell_size : int
        Rows of a label that a domain needs to count in a promise.
    random_state : int
        Seed of the sample and of the halves that are compared.

    >>> X = pd.DataFrame({"dose": [1.0, 2.0, 3.0, 4.0] * 30, "copy": ["no", "no", "yes", "yes"] * 30})
    >>> y, clinic = ["well", "well", "ill", "ill"] * 30, ["A", "B", "C", "D", "E", "F"] * 20
    >>> check = check_table(X, y, clinic)
    >>> check.findings[0].harm, check.drop
    ('misleads', ('dose', 'copy'))
    """
    check_min_cell_size(min_cell_size)
    table = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X.to_pandas() if hasattr(X, "to_pandas") else X)
    names, groups = _series(y, "label", len(table)), _series(domains, "domain", len(table))
    known = (names.notna() & groups.notna()).to_numpy()
    if not known.any():
        raise InputError("no row has both a label and a domain.")
    n_known = int(known.sum())
    labels = code_names(names[known].to_numpy(), "labels", n_known)
    of_domains = code_names(groups[known].to_numpy(), "domains", n_known)
    if len(labels.names) < 2:
        raise InputError(f"every label is {labels.names[0]!r}; sets need at least two labels.")
    cells = Cells(
        label=str(names.name),
        domain=str(groups.name),
        label_names=tuple(texts(labels.names)),
        domain_names=tuple(texts(of_domains.names)),
        counts=count_cells(of_domains.codes, labels.codes, len(of_domains.names), len(labels.names)),
        min_cell_size=min_cell_size,
        n_without_label=int(names.isna().sum()),
        n_without_domain=int(groups.isna().sum()),
    )
    subject = Subject(labels.codes, of_domains.codes, len(labels.names), len(of_domains.names), random_state)
    features = table if known.all() else table[known]
    columns = tuple(check_column(features[name], subject) for name in features)
    return TableCheck(
        cells=cells,
        n_rows=len(table),
        columns=columns,
        findings=findings_of(
            cells,
            columns,
            _domains_alike(features, columns, cells, of_domains.codes),
            _drift(features, columns, cells, of_domains, random_state),
        ),
        reach=reach_in_words(cells),
        n_rows_compared=len(subject.sample),
    )


def _drift(
    features: pd.DataFrame, columns: Sequence[ColumnCheck], cells: Cells, domains: Coded, random_state: int
) -> Drift | None:
    """Return what drifts along the names of the domains, where they are numbers or dates."""
    order = in_order(pd.Series(cells.domain_names))
    if order is None:
        return None
    sizes = cells.counts.sum(axis=1)
    numbers = {
        f"the share of {cells.label} {name!r}": cells.counts[:, k] / sizes for k, name in enumerate(cells.label_names)
    }
    of_numbers = [
        name
        for name, check in zip(features, columns, strict=True)
        if check.kind == "number" and check.spelling is None and not check.is_constant_in_domains
    ]
    means = features[of_numbers].groupby(domains.codes).mean()
    numbers |= {f"the mean of {name}": means[name].to_numpy(float) for name in of_numbers}
    return drift_of(numbers, order, random_state)


def _domains_alike(
    features: pd.DataFrame, columns: Sequence[ColumnCheck], cells: Cells, domains: NDArray[np.int64]
) -> list[tuple[str, str, float]]:
    """Return pairs of domains that share most rows, apart from columns that tell them apart anyway."""
    told_by = [
        (name, check)
        for name, check in zip(features, columns, strict=True)
        if check.fault is None and not (check.is_key or check.is_constant_in_domains)
    ]
    kinds = {name: check.kind for name, check in told_by}
    if set(kinds.values()) <= {"ignored"}:
        return []
    plain = plain_table(features, {name: check.spelling for name, check in told_by if check.spelling is not None})
    pairs = domains_alike(row_hashes(plain, kinds, salt=0), domains)
    return [(cells.domain_names[one], cells.domain_names[other], share) for one, other, share in pairs]


def _series(values: Any, name: str, n_rows: int) -> pd.Series[Any]:
    """Return labels or domains as a column with a name, one per row."""
    listed = one_dimensional(values, f"{name}s")
    if len(listed) != n_rows:
        raise InputError(f"X has {n_rows} rows, but there are {len(listed)} {name}s.")
    given = getattr(values, "name", None)
    return pd.Series(listed, name=name if given is None else str(given))


def _size(check: TableCheck) -> str:
    """Return how many rows, domains, labels and columns there are."""
    cells = check.cells
    sizes = " to ".join(dict.fromkeys(f"{end:,}" for end in np.sort(cells.counts.sum(axis=1))[[0, -1]].tolist()))
    labels = f"{counted(len(cells.label_names), 'label')} ({cells.label})"
    domains = f"{counted(len(cells.domain_names), 'domain')} ({cells.domain}) of {sizes} rows"
    return f"{check.n_rows:,} rows; {labels}; {domains}; {len(check.columns):,} columns to learn from."


def _limits(check: TableCheck) -> str:
    """Return what the check looked at, and what it cannot find."""
    n_rows, compared = check.cells.n_rows, check.n_rows_compared
    sampled = f" Columns were compared with labels and domains on {compared:,} of {n_rows:,} rows, at random."
    told = "Each column was looked at by itself; two that together give something away are not found."
    return told + sampled if compared < n_rows else told


def _findings(findings: Sequence[Finding], width: int, for_shell: bool) -> list[list[str]]:
    blocks = {harm: [words] for harm, words in HARM_WORDS.items()}
    for finding in findings:
        drop = shlex.join([word for name in finding.drop for word in ("--drop", name)]) if for_shell else ""
        blocks[finding.harm] += _lines(f"{finding.what} {finding.advice} {drop}", width, "- ", "  ")
    return [lines for lines in blocks.values() if len(lines) > 1]


def _lines(words: str, width: int, first: str = "", then: str = "") -> list[str]:
    """Return lines no longer than the width that break neither an option nor between it and its value."""
    kept = re.sub(r"--\S+ (?=\S)", lambda found: found[0].replace(" ", "\u00a0"), words)
    return wrapped(kept, width, first, then)
