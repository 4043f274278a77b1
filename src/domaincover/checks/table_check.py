"""Check a table before anything is fitted to it: what gives labels or domains away, what is too small or missing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pandas as pd

from domaincover.checks.column_check import ColumnCheck, Subject, check_column
from domaincover.checks.findings import Cells, Finding, Outlook, findings_of, outlook_of
from domaincover.data.dataset import check_min_cell_size, code_names, count_cells, one_dimensional, texts
from domaincover.errors import InputError
from domaincover.options import MIN_CELL_SIZE


@dataclass(frozen=True, eq=False)
class TableCheck:
    """What a table allows, and what to change in it; `check_table` makes it.

    `findings` come in the order of harm: what stops a fit, what misleads it,
    what weakens it, and notes.
    """

    cells: Cells
    n_rows: int
    columns: tuple[ColumnCheck, ...]
    findings: tuple[Finding, ...]
    outlook: Outlook
    n_rows_compared: int

    @property
    def counts(self) -> pd.DataFrame:
        """Rows by domain and label."""
        cells = self.cells
        return pd.DataFrame(
            cells.counts,
            index=pd.Index(cells.domain_names, name=cells.domain),
            columns=pd.Index(cells.label_names, name=cells.label),
        )

    @property
    def drop(self) -> tuple[str, ...]:
        """The columns that the findings advise to leave out."""
        return tuple(dict.fromkeys(name for finding in self.findings for name in finding.drop))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for strict JSON."""
        outlook = self.outlook._asdict() | {"routes": [route._asdict() for route in self.outlook.routes]}
        return {
            "n_rows": self.n_rows,
            "n_rows_compared": self.n_rows_compared,
            **self.cells._asdict(),
            "counts": self.cells.counts.tolist(),
            "findings": [finding._asdict() for finding in self.findings],
            "columns": [column._asdict() for column in self.columns],
            "outlook": outlook,
        }

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def text(self, width: int = 100, *, for_shell: bool = False) -> str:
        """Return the findings, the rows, the columns and what is possible; for a shell, advice in its options."""
        from domaincover.checks.check_text import check_text

        return check_text(self, width, for_shell=for_shell)

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
    labels, of_domains = (
        code_names(each[known].to_numpy(), what, int(known.sum()))
        for each, what in ((names, "labels"), (groups, "domains"))
    )
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
        findings=findings_of(cells, columns),
        outlook=outlook_of(cells),
        n_rows_compared=len(subject.sample),
    )


def _series(values: Any, name: str, n_rows: int) -> pd.Series[Any]:
    """Return labels or domains as a column with a name, one per row."""
    listed = one_dimensional(values, f"{name}s")
    if len(listed) != n_rows:
        raise InputError(f"X has {n_rows} rows, but there are {len(listed)} {name}s.")
    given = getattr(values, "name", None)
    return pd.Series(listed, name=name if given is None else str(given))
