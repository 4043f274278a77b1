"""An HTML page of the check of a table: what to change, what is possible, its columns and its rows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np

from domaincover.checks.check_text import (
    HARM_WORDS,
    OPEN,
    kind_text,
    limits_in_words,
    missing_text,
    share_text,
    size_in_words,
)
from domaincover.checks.findings import NEARLY, TELLS_DOMAIN
from domaincover.checks.table_check import TableCheck
from domaincover.files import write_whole
from domaincover.report.template import rendered

MOST_DOMAINS, MOST_COLUMNS = 200, 500


def write_check_page(path: Path, check: TableCheck, *, title: str, command: str | None = None) -> None:
    """Write the page as one file that needs no network and no script; `command` is what to run next."""
    cells = check.cells
    n_labels = len(cells.label_names)
    order = np.argsort(cells.counts.sum(axis=1), kind="stable")
    page = rendered(
        "check_page.html",
        title=title,
        headline=headline_of(check),
        size=size_in_words(check),
        command=command,
        charts={},
        settings={"min_cell_size": str(cells.min_cell_size), "rows compared": f"{check.n_rows_compared:,}"},
        findings=[
            finding._asdict() | {"word": HARM_WORDS[finding.harm], "options": _options(finding.drop)}
            for finding in check.findings
        ],
        routes=[route._asdict() | {"open": OPEN[route.is_open]} for route in check.outlook.routes],
        chance=f"{100 / n_labels:.0f} %",
        columns=_columns(check),
        more_columns=_rest(len(check.columns), MOST_COLUMNS, "columns"),
        domain=cells.domain,
        label=cells.label,
        labels=cells.label_names,
        rows=[_row(check, int(k)) for k in order[:MOST_DOMAINS]],
        more_domains=_rest(len(order), MOST_DOMAINS, "domains"),
        total=f"{cells.counts.sum():,}",
        sums=[f"{count:,}" for count in cells.counts.sum(axis=0)],
        enough=[f"{count:,}" for count in (cells.counts >= cells.min_cell_size).sum(axis=0)],
        min_cell_size=cells.min_cell_size,
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


def _options(drop: tuple[str, ...]) -> str:
    return " ".join(f"--drop {shlex.quote(name)}" for name in drop)


def _columns(check: TableCheck) -> list[dict[str, Any]]:
    n_rows = max(int(check.cells.counts.sum()), 1)
    return [
        {
            "name": column.name,
            "kind": kind_text(column),
            "examples": ", ".join(column.examples),
            "distinct": f"{column.n_distinct:,}",
            "missing": missing_text(column.n_missing / n_rows),
            "label": _told(column.tells_label, NEARLY),
            "domain": _told(column.tells_domain, TELLS_DOMAIN),
        }
        for column in check.columns[:MOST_COLUMNS]
    ]


def _told(share: float | None, much: float) -> dict[str, Any]:
    return {
        "text": share_text(share),
        "share": None if share is None else f"{100 * share:.0f}",
        "much": share is not None and share >= much,
    }


def _row(check: TableCheck, domain: int) -> dict[str, Any]:
    counts = check.cells.counts[domain]
    return {
        "name": check.cells.domain_names[domain],
        "total": f"{counts.sum():,}",
        "cells": [{"text": f"{count:,}", "few": count < check.cells.min_cell_size} for count in counts.tolist()],
    }


def _rest(n_all: int, most: int, what: str) -> str:
    return f" {n_all - most:,} more {what} are not shown here." if n_all > most else ""
