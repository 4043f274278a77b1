"""The command `evaluate`: a saved model on a table with known labels; `certify` and `fit` share parts of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from domaincover.cli.arguments import DomainColumn, LabelColumn, MinCellSize, ModelFolder, Page, TableFile, TableOrJson
from domaincover.cli.outputs import check_not_table, check_page, notes_on_evaluation, print_reports, write_page
from domaincover.errors import InputError, one_line
from domaincover.terminal.messages import warnings_as_notes

if TYPE_CHECKING:
    from domaincover.estimators.base import SetClassifier
    from domaincover.evaluation import DomainReport
    from domaincover.promises.certificates import Certificate


def evaluate(
    model: ModelFolder,
    table: TableFile,
    label: LabelColumn = None,
    domain: DomainColumn = None,
    min_cell_size: MinCellSize = None,
    style: TableOrJson = "table",
    html: Page = None,
) -> None:
    """Evaluate a model in each domain of a table with known labels.

    Example: domaincover evaluate model new.csv --label outcome --domain hospital --html report.html
    """
    found = evaluated(model, table, label, domain, min_cell_size, html)
    report, target = found.report, found.target_recall
    notes = notes_on_evaluation(report, found.model, found.extra)
    certificate = certificate_if_unseen(report, target, found.model)
    if html is not None:
        write_page(html, found.reports, target, notes, found.settings, kind="", certificate=certificate)
    if style == "table":
        certified = [] if certificate is None else [certificate.in_one_line()]
        print_reports(found.reports, target, [*certified, *notes], kind="")
    else:
        content = {"summary": report.summary(target).to_dict(), "domains": report.records()}
        typer.echo(json.dumps(content, indent=2, allow_nan=False))


class Evaluation(NamedTuple):
    """A model's report by domain, and what was saved with the model."""

    report: DomainReport
    model: SetClassifier
    settings: Mapping[str, Any]
    extra: Mapping[str, Any]
    target_recall: float

    @property
    def reports(self) -> dict[str, DomainReport]:
        """The report by the name of the method."""
        return {self.settings.get("method", "model"): self.report}


def evaluated(
    model: Path, table: Path, label: str | None, domain: str | None, min_cell_size: int | None, html: Path | None
) -> Evaluation:
    """Load a model and report its sets on a table by domain; reject a page that cannot be written first.

    `min_cell_size=None` is the value of the model's promise, or 1 without a promise.
    """
    import numpy as np

    from domaincover.cli.inputs import ModelColumns
    from domaincover.data.tables import ROWS_AT_ONCE, open_table

    check_page(html)
    data = open_table(table)
    check_not_table(html, "--html", table)

    from domaincover.estimators.base import unwrapped
    from domaincover.saving.models import load, load_extra

    fitted, extra = load(model), load_extra(model) or {}
    settings = extra.get("settings", {})
    label, domain = label or settings.get("label"), domain or settings.get("domain")
    if label is None or domain is None:
        raise InputError("the model does not record its label and domain columns; give --label and --domain.")
    columns, sets = ModelColumns.of(fitted, data), []
    given = columns.read_labels(data, label, domain, fitted.classes_.tolist())
    with warnings_as_notes():
        for block, _ in columns.blocks(data, ROWS_AT_ONCE, ids=()):
            with corrupt_model_as_input_error(model):
                inner, X = unwrapped(fitted, block)
                sets.append(inner.predict_set(X))
    if min_cell_size is None:
        min_cell_size = inner.min_cell_size if inner.promise is not None else 1
    report = inner.report_on_sets(np.concatenate(sets), given.labels, given.domains, min_cell_size=min_cell_size)
    target = float(settings.get("target_recall", getattr(inner, "target_recall", 0.9)))
    return Evaluation(report, inner, {**settings, "table": table.name}, extra, target)


@contextmanager
def corrupt_model_as_input_error(model: Path) -> Iterator[None]:
    """Report a model that fails to predict in one line: its files may be valid and their content not."""
    try:
        yield
    except (InputError, MemoryError, OSError):
        raise
    except Exception as error:
        raise InputError(
            f"{model} cannot predict ({one_line(error)}); it is corrupt, or was changed by hand."
        ) from error


def certificate_if_unseen(report: DomainReport, target_recall: float, model: SetClassifier) -> Certificate | None:
    """Return a certificate if there are two or more domains and the model has seen none of them."""
    from domaincover.promises.certificates import certify, seen_among

    seen = model.seen_domains_
    if seen is None or len(report.domain_names) < 2 or any(seen_among(report.domain_names, seen)):
        return None
    return certify(report, target_recall, seen_domains=seen)
