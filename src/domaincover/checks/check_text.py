"""The check of a table as text: findings first, then rows, columns, and what is possible."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from domaincover.terminal.text import counted, cut, table_lines, wrapped

if TYPE_CHECKING:
    from domaincover.checks.column_check import ColumnCheck
    from domaincover.checks.findings import Finding
    from domaincover.checks.table_check import TableCheck

HARM_WORDS = {
    "stops": "Stops a fit",
    "misleads": "Misleads",
    "weakens": "Weakens",
    "note": "Good to know",
}
MOST_DOMAINS, MOST_LABELS, MOST_COLUMNS = 12, 6, 40
LONGEST_NAME = 24
OPEN = {True: "yes", False: "no", None: "maybe"}


def check_text(check: TableCheck, width: int = 100, *, for_shell: bool = False) -> str:
    """Return the check in blocks; for a shell, columns are left out by options of `fit`."""
    parts = [
        _lines(size_in_words(check), width),
        *([] if check.findings else [["Nothing to change was found."]]),
        *_findings(check.findings, width, for_shell),
        [f"Rows by {check.cells.domain} and {check.cells.label}", *_rows(check, width)],
        ["Columns", *_columns(check, width)],
        ["What will be possible", *_routes(check, width)],
        _lines(limits_in_words(check), width),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def size_in_words(check: TableCheck) -> str:
    """Return how many rows, domains, labels and columns there are."""
    cells = check.cells
    sizes = " to ".join(dict.fromkeys(f"{end:,}" for end in np.sort(cells.counts.sum(axis=1))[[0, -1]].tolist()))
    labels = f"{counted(len(cells.label_names), 'label')} ({cells.label})"
    domains = f"{counted(len(cells.domain_names), 'domain')} ({cells.domain}) of {sizes} rows"
    return f"{check.n_rows:,} rows; {labels}; {domains}; {len(check.columns):,} columns to learn from."


def advice_on(finding: Finding, for_shell: bool) -> str:
    """Return what to do about a finding, with the option of `fit` that leaves its columns out."""
    if not finding.drop or not for_shell:
        return finding.advice
    return f"{finding.advice} {' '.join(f'--drop {shlex.quote(name)}' for name in finding.drop)}"


def limits_in_words(check: TableCheck) -> str:
    """Return what the check looked at, and what it cannot find."""
    n_rows, compared = check.cells.n_rows, f"{check.n_rows_compared:,}"
    sampled = f" Columns were compared with labels and domains on {compared} of {n_rows:,} rows, at random."
    sampled = sampled if check.n_rows_compared < n_rows else ""
    return f"Each column was looked at by itself; two that together give something away are not found.{sampled}"


def share_text(share: float | None) -> str:
    """Return a share in percent, a dash where it is not known."""
    return "–" if share is None else f"{100 * share:.0f} %"


def missing_text(share: float) -> str:
    """Return a share of missing values, nothing for none, and never 0 % for some."""
    return "" if share == 0 else "below 1 %" if share < 0.005 else f"{100 * share:.0f} %"


def kind_text(column: ColumnCheck) -> str:
    """Return what a column is taken for, and how it is written."""
    return column.kind if column.spelling is None else f"{column.kind}, {column.spelling}"


def _findings(findings: Sequence[Finding], width: int, for_shell: bool) -> list[list[str]]:
    blocks = {harm: [words] for harm, words in HARM_WORDS.items()}
    for finding in findings:
        blocks[finding.harm] += _lines(f"{finding.what} {advice_on(finding, for_shell)}", width, "- ", "  ")
    return [lines for lines in blocks.values() if len(lines) > 1]


def _rows(check: TableCheck, width: int) -> list[str]:
    """Return a table of the domains with fewest rows, and of all."""
    cells = check.cells
    totals = cells.counts.sum(axis=1)
    shown = np.argsort(totals, kind="stable")[:MOST_DOMAINS]
    by_size = np.argsort(-cells.counts.sum(axis=0), kind="stable")
    labels = by_size if len(by_size) <= MOST_LABELS + 1 else np.r_[by_size[: MOST_LABELS - 1], by_size[-1]]
    heads = [cells.domain, "rows", *(cells.label_names[k] for k in labels)]
    lines = [[cells.domain_names[d], f"{totals[d]:,}", *(f"{cells.counts[d, k]:,}" for k in labels)] for d in shown]
    if len(shown) < len(totals):
        lines.append([f"… {len(totals) - len(shown):,} more", *[""] * (len(heads) - 1)])
    lines.append(["all", f"{totals.sum():,}", *(f"{cells.counts[:, k].sum():,}" for k in labels)])
    lines.append([f"domains with {cells.min_cell_size} or more", "", *(f"{cells.enough[k]:,}" for k in labels)])
    hidden = len(by_size) - len(labels)
    between = [f"  ({hidden} more labels between the last two; --format json has all)"] if hidden else []
    return [*_table(heads, lines, 1, width), *between]


def _columns(check: TableCheck, width: int) -> list[str]:
    n_rows = max(check.cells.n_rows, 1)
    heads = ["name", "taken for", "examples", "distinct", "missing", "tells label", "tells domain"]
    lines = [
        [
            column.name,
            kind_text(column),
            ", ".join(column.examples),
            f"{column.n_distinct:,}",
            missing_text(column.n_missing / n_rows),
            share_text(column.tells_label),
            share_text(column.tells_domain),
        ]
        for column in check.columns[:MOST_COLUMNS]
    ]
    n_more = len(check.columns) - MOST_COLUMNS
    more = [f"  … {n_more:,} more; --format json has all"] if n_more > 0 else []
    return [*_table(heads, lines, 3, width), *more]


def _routes(check: TableCheck, width: int) -> list[str]:
    return [
        line
        for route in check.outlook.routes
        for line in _lines(f"{route.name}: {route.words}", width, f"{OPEN[route.is_open]:>5}  ", " " * 7)
    ]


def _lines(words: str, width: int, first: str = "", then: str = "") -> list[str]:
    """Return lines no longer than the width that break neither an option nor between it and its value."""
    kept = re.sub(r"--\S+ (?=\S)", lambda found: found[0].replace(" ", "\u00a0"), words)
    return wrapped(kept, width, first, then)


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]], n_text: int, width: int) -> list[str]:
    """Return aligned and indented lines, in which long names are cut."""
    shown = [[cut(name, LONGEST_NAME), *others] for name, *others in lines]
    return [f"  {line}" for line in table_lines(heads, shown, n_text, width - 2)]
