"""Tables, pages and notes that the commands on one model print and write."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from domaincover.errors import InputError
from domaincover.terminal.messages import say, text_width
from domaincover.terminal.text import wrapped

if TYPE_CHECKING:
    import pandas as pd

    from domaincover.criteria import TargetRecall
    from domaincover.data.tables.arrow_tables import PartsTable
    from domaincover.evaluation import DomainReport
    from domaincover.predictors.domain_record import AdaptedDomains
    from domaincover.predictors.set_predictor import SetPredictor
    from domaincover.promises.certificates import Certificate


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


def check_page(path: Path | None, table: Path | None = None) -> None:
    """Reject a page that cannot be written, or would overwrite the table, before any work."""
    if path is None:
        return
    if table is not None:
        check_not_table(path, "--html", table)
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if path.is_dir() or not above.is_dir() or not os.access(above, os.W_OK):
        what = f"{path} is a folder" if path.is_dir() else f"{above} is not a folder that can be written to"
        raise InputError(f"cannot write the page {path}: {what}.")


def check_not_table(path: Path, option: str, table: Path) -> None:
    """Reject an output that would overwrite the input table."""
    if path.exists() and table.exists() and path.samefile(table):
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

    known, promise = model.domains_.tolist(), model.promise
    n_seen, alike = sum(seen_among(report.domain_names, known)), look_alikes(report.domain_names, known)
    notes = [
        report.not_counted(),
        alike and f"Some domains look like others that were in the training data: {in_words(alike)}.",
        n_seen
        and f"{n_seen} of {len(report.domain_names)} domains were in the training data; if their rows were too, their "
        "recall says little about new domains.",
        promise and f"Promise of the model: {promise}",
        extra.get("assessment") and f"When the model was fitted: {extra['assessment']['diagnosis']['text']}",
    ]
    return [str(note) for note in notes if note]


class Shown(NamedTuple):
    """Reports by the name of a method, and what stands beside them on a terminal or a page."""

    reports: Mapping[str, DomainReport]
    target: TargetRecall
    notes: Sequence[str]
    settings: Mapping[str, Any]
    kind: str = ""  # of the domains, such as "unseen"
    certificate: Certificate | None = None
    certificate_notes: Sequence[str] = ()
    adaptation: AdaptedDomains | None = None
    label_gain: pd.DataFrame | None = None  # of the model
    verdict: Sequence[str] = ()
    by: str | None = None  # a column with groups of rows
    groups: Mapping[str, DomainReport] = {}

    def print(self, *certified: str) -> None:
        """Print the verdict, the domains worst first, methods and groups, and a summary in sentences."""
        from domaincover.report.domain_reports import sizes_in_words, summary_lines
        from domaincover.report.domain_table import domain_table, group_table, summary_table

        for line in self.verdict:
            typer.echo("\n".join(wrapped(line, text_width())))
        look: dict[str, Any] = {"width": text_width(), "color": sys.stdout.isatty()}
        for table in (domain_table, summary_table):
            typer.echo(table(self.reports, self.target, **look), color=look["color"] or None)
        if self.by is not None:
            typer.echo(group_table(self.by, self.groups, self.target, **look), color=look["color"] or None)
        lines = summary_lines(self.reports, self.target, kind=self.kind)
        sizes = sizes_in_words(next(iter(self.reports.values())).sets_by_size)
        typer.echo("\n".join([*lines, sizes, *certified, *self.notes]))

    def write_page(self, path: Path) -> None:
        """Write the same as an HTML page, and print its address."""
        from domaincover.report.pages import write_domain_page

        settings, more = in_texts({**self.settings, **versions_here()}), self._asdict()
        title = f"Prediction sets for {settings.get('label', 'labels')}, by {settings.get('domain', 'domain')}"
        for name in ("reports", "target", "settings"):
            del more[name]
        write_domain_page(path, self.reports, self.target, title=title, settings=settings, **more)
        say_page(path)


def check_model_folder(out: Path, model: Path | None = None) -> None:
    """Reject a folder that a new model cannot be written to, or that is the model it is made from."""
    from domaincover.saving.models import check_folder

    check_folder(out)
    if model is not None and out.exists() and model.exists() and out.samefile(model):
        raise InputError(f"--out would overwrite the model {model}; choose another folder.")


def say_model(out: Path, options: str = "") -> None:
    """Print where a model is, and how to use it."""
    say(f"The model is in {out}. Next: domaincover predict {shlex.quote(str(out))} TABLE{options} --out sets.parquet")


def in_texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as a page shows them."""
    return {name: str(value) for name, value in settings.items()}


def print_json(content: Any) -> None:
    """Print plain data as strict JSON."""
    typer.echo(json.dumps(content, indent=2, allow_nan=False))


def say_page(path: Path) -> None:
    """Print the address of a page."""
    say(f"The page is {path.resolve().as_uri()}")
