"""What the commands show and write beside models: tables, pages, notes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from domaincover.cli.terminal import text_width
from domaincover.errors import InputError

if TYPE_CHECKING:
    from domaincover.estimators.base import SetClassifier
    from domaincover.evaluation import DomainReport
    from domaincover.promises.certificates import Certificate


def check_page(path: Path | None) -> None:
    """Refuse a page that could not be written, before work is done."""
    if path is None:
        return
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if path.is_dir() or not above.is_dir() or not os.access(above, os.W_OK):
        what = f"{path} is a folder" if path.is_dir() else f"{above} is not a folder that can be written to"
        raise InputError(f"cannot write the page {path}: {what}.")


def check_not_table(path: Path | None, option: str, table: Path) -> None:
    """Refuse to write over the table that is read."""
    if path is not None and path.exists() and path.samefile(table):
        raise InputError(f"{option} is the table itself, which would be lost; choose another name than {path}.")


def notes_on_evaluation(report: DomainReport, model: SetClassifier, extra: Mapping[str, Any]) -> list[str]:
    """Say which domains training had, and what the fit's own evaluation found about single labels."""
    from domaincover.promises.certificates import seen_among

    n_seen = sum(seen_among(report.domain_names, model.domains_.tolist()))
    notes = []
    if n_seen:
        notes.append(
            f"Domains that were in the training data: {n_seen} of {len(report.domain_names)}; if their rows were "
            "too, their recall says little about new domains."
        )
    if (promise := model.promise) is not None:
        notes.append(f"Promised by the model: {promise}")
    assessment = extra.get("assessment")
    if assessment:
        notes.append(f"When the model was fitted: {assessment['diagnosis']['text']}")
    return notes


def print_reports(reports: Mapping[str, DomainReport], target: float, notes: Sequence[str], kind: str) -> None:
    """Print the domains worst first, the methods side by side, and what it all says in sentences."""
    from domaincover.report.domain_headline import summary_lines
    from domaincover.report.domain_table import domain_table, summary_table

    look: dict[str, Any] = {"width": text_width(), "color": sys.stdout.isatty()}
    typer.echo(domain_table(reports, target, **look), color=look["color"] or None)
    typer.echo(summary_table(reports, target, **look), color=look["color"] or None)
    typer.echo("\n".join([*summary_lines(reports, target, kind=kind), *notes]))


def write_page(
    path: Path,
    reports: Mapping[str, DomainReport],
    target: float,
    notes: Sequence[str],
    settings: Mapping[str, Any],
    kind: str,
    certificate: Certificate | None = None,
    about: Sequence[str] = (),
) -> None:
    """Write the same as a page, with a certificate and what is to be said about it, and say where the page is."""
    from domaincover.report.domain_page import write_domain_page

    shown = {name: str(value) for name, value in settings.items()}
    title = f"Prediction sets for {shown.get('label', 'labels')}, by {shown.get('domain', 'domain')}"
    write_domain_page(
        path,
        reports,
        target,
        title=title,
        notes=notes,
        settings=shown,
        kind=kind,
        certificate=certificate,
        certificate_notes=about,
    )
    say(f"The page is {path.resolve().as_uri()}")


@contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """Say what the estimators warn of without the lines of code that did."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", UserWarning)
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"Note: {' '.join(message.split())}")


def say(message: str) -> None:
    """Tell the user something that is not a result: it goes to standard error."""
    typer.echo(message, err=True)
