"""Tables, pages and notes that the commands on one model print and write."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from domaincover.errors import InputError
from domaincover.terminal.messages import say, text_width
from domaincover.terminal.text_lines import wrapped

if TYPE_CHECKING:
    from domaincover.criteria import TargetRecall
    from domaincover.data.tables.arrow_tables import PartsTable
    from domaincover.evaluation import DomainReport
    from domaincover.predictors.set_predictor import SetPredictor
    from domaincover.promises.certificates import Certificate
    from domaincover.report.domain_adaptation import DomainAdaptation


LIBRARIES = ("domaincover", "numpy", "scikit-learn", "torch")


def versions_here() -> dict[str, str]:
    """Return the versions that a page names: of Python and of the libraries that its numbers rest on."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):  # torch, where models only predict
            found[name] = version(name)
    return found


def shown_name(method: str) -> str:
    """Return the name of a method for readers: the paper's, where it has one."""
    from domaincover.paper.study_report.style import method_styles

    return method_styles([method])[method].label


def check_page(path: Path | None) -> None:
    """Reject a page that cannot be written, before any work."""
    if path is None:
        return
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if path.is_dir() or not above.is_dir() or not os.access(above, os.W_OK):
        what = f"{path} is a folder" if path.is_dir() else f"{above} is not a folder that can be written to"
        raise InputError(f"cannot write the page {path}: {what}.")


def check_not_table(path: Path | None, option: str, table: Path) -> None:
    """Reject an output that would overwrite the input table."""
    if path is not None and path.exists() and table.exists() and path.samefile(table):
        raise InputError(f"{option} would overwrite the input table {path}; choose another name.")


def check_output_folder(out: Path, data: PartsTable, model: Path) -> None:
    """Reject a folder for parts in which other files would be mixed up with them."""
    from domaincover.data.tables.arrow_tables import part_names

    if out.exists() and not out.is_dir():
        raise InputError(f"cannot write parts to {out}: it is a file; name a folder.")
    here, table = out.resolve(), data.path.resolve()
    if here == table or table in here.parents or here in table.parents:
        raise InputError(f"--out {out} and the table {data.path} lie within each other; choose another folder.")
    if here == model.resolve():
        raise InputError(f"--out would mix the sets with the model {model}; choose another folder.")
    foreign = sorted({*part_names(out)} - {part.name for part in data.parts})
    if foreign:
        raise InputError(f"{out / foreign[0]} is no part of {data.path}; choose another folder, or remove it.")


def notes_on_evaluation(report: DomainReport, model: SetPredictor, extra: Mapping[str, Any]) -> list[str]:
    """Return notes on domains seen in training, on the promise, and on the evaluation made by `fit`."""
    from domaincover.data.identity import in_words, look_alikes
    from domaincover.promises.certificates import seen_among

    known = model.domains_.tolist()
    n_seen, alike = sum(seen_among(report.domain_names, known)), look_alikes(report.domain_names, known)
    notes = [line for line in (report.not_counted(),) if line is not None]
    if alike:
        notes.append(f"Some domains look like others that were in the training data: {in_words(alike)}.")
    if n_seen:
        notes.append(
            f"{n_seen} of {len(report.domain_names)} domains were in the training data; if their rows were too, their "
            "recall says little about new domains."
        )
    if (promise := model.promise) is not None:
        notes.append(f"Promise of the model: {promise}")
    assessment = extra.get("assessment")
    if assessment:
        notes.append(f"When the model was fitted: {assessment['diagnosis']['text']}")
    return notes


def print_reports(
    reports: Mapping[str, DomainReport],
    target: TargetRecall,
    notes: Sequence[str],
    kind: str,
    verdict: Sequence[str] = (),
) -> None:
    """Print the verdict on a promise, the domains worst first, the methods side by side, and a summary in sentences."""
    from domaincover.evaluation import sizes_in_words
    from domaincover.report.domain_headline import summary_lines
    from domaincover.report.domain_table import domain_table, summary_table

    for line in verdict:
        typer.echo("\n".join(wrapped(line, text_width())))
    look: dict[str, Any] = {"width": text_width(), "color": sys.stdout.isatty()}
    typer.echo(domain_table(reports, target, **look), color=look["color"] or None)
    typer.echo(summary_table(reports, target, **look), color=look["color"] or None)
    sizes = sizes_in_words(next(iter(reports.values())).sets_by_size)
    typer.echo("\n".join([*summary_lines(reports, target, kind=kind), sizes, *notes]))


def write_page(
    path: Path,
    reports: Mapping[str, DomainReport],
    target: TargetRecall,
    notes: Sequence[str],
    settings: Mapping[str, Any],
    kind: str,
    certificate: Certificate | None = None,
    about: Sequence[str] = (),
    adaptation: DomainAdaptation | None = None,
    **others: Any,
) -> None:
    """Write the same as an HTML page, with a certificate and notes on it, and print its address."""
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
        adaptation=adaptation,
        **others,
    )
    say(f"The page is {path.resolve().as_uri()}")


def write_certificate(
    path: Path,
    certificate: Certificate,
    report: DomainReport,
    target: TargetRecall,
    promise: str | None,
    notes: Sequence[str],
    settings: Mapping[str, Any],
) -> None:
    """Write the certificate as an HTML page of today's date, to print and sign, and print its address."""
    import datetime

    from domaincover.report.certificate_page import write_certificate_page

    shown = {name: str(value) for name, value in settings.items()}
    about: dict[str, Any] = {"versions": versions_here(), "date": datetime.date.today(), "promise": promise}
    write_certificate_page(path, certificate, report, target, shown, **about, notes=notes)
    say(f"The page is {path.resolve().as_uri()}")
