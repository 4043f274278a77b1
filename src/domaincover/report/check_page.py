"""An HTML page of the check of a table: what to change, what is possible, its columns and its rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from domaincover.checks.column_check import ColumnCheck
from domaincover.checks.findings import NEARLY, TELLS_DOMAIN
from domaincover.checks.table_check import (
    HARM_WORDS,
    OPEN,
    TableCheck,
    drop_options,
    limits_in_words,
    size_in_words,
)
from domaincover.files import write_whole
from domaincover.report.template import rendered

MOST_DOMAINS, MOST_COLUMNS = 200, 500


def write_check_page(path: Path, check: TableCheck, *, title: str, command: str | None = None) -> None:
    """Write the page as one file that needs no network and no script; `command` is what to run next."""
    cells = check.cells
    order = np.argsort(cells.counts.sum(axis=1), kind="stable")
    page = rendered(
        "check_page.html",
        title=title,
        headline=headline_of(check),
        size=size_in_words(check),
        command=command,
        settings={"min_cell_size": str(cells.min_cell_size), "rows compared": f"{check.n_rows_compared:,}"},
        check=check,
        cells=cells,
        harms=HARM_WORDS,
        answers=OPEN,
        options=drop_options,
        kind_text=kind_text,
        missing_text=missing_text,
        share_text=share_text,
        much={"tells_label": NEARLY, "tells_domain": TELLS_DOMAIN},
        n_rows=max(int(cells.counts.sum()), 1),
        most_columns=MOST_COLUMNS,
        order=order[:MOST_DOMAINS].tolist(),
        n_more_domains=max(len(order) - MOST_DOMAINS, 0),
        enough=cells.enough.tolist(),
        limits=limits_in_words(check),
    )
    write_whole(Path(path), page)


def headline_of(check: TableCheck) -> str:
    """Return the most harmful kind of finding in a sentence."""
    worst = [finding for finding in check.findings if finding.harm == check.findings[0].harm]
    if not worst or worst[0].harm == "note":
        return "Nothing that would stop, mislead or weaken a fit was found."
    one = len(worst) == 1
    match worst[0].harm:
        case "stops":
            return f"{len(worst)} thing{'' if one else 's'} would stop a fit."
        case "misleads":
            return f"{len(worst)} column{' gives' if one else 's give'} the label or the domain away."
    return f"Nothing misleads a fit, but {len(worst)} thing{' weakens' if one else 's weaken'} it."


def share_text(share: float | None) -> str:
    """Return a share in percent, a dash where it is not known."""
    return "–" if share is None else f"{100 * share:.0f} %"


def missing_text(share: float) -> str:
    """Return a share of missing values, nothing for none, and never 0 % for some."""
    return "" if share == 0 else "below 1 %" if share < 0.005 else f"{100 * share:.0f} %"


def kind_text(column: ColumnCheck) -> str:
    """Return what a column is taken for, and how it is written."""
    return column.kind if column.spelling is None else f"{column.kind}, {column.spelling}"
