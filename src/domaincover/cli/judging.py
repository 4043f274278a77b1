"""A saved model judged on a table whose labels are known: what `evaluate` and `certify` share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from domaincover.cli.outputs import check_not_table, check_page, warnings_in_a_line
from domaincover.errors import InputError, one_line

if TYPE_CHECKING:
    from domaincover.estimators.base import SetClassifier
    from domaincover.evaluation import DomainReport
    from domaincover.promises.certificates import Certificate


class Judged(NamedTuple):
    """How a model does in each domain of a table, and what it keeps of its own fit."""

    report: DomainReport
    model: SetClassifier
    settings: Mapping[str, Any]
    extra: Mapping[str, Any]
    target_recall: float

    @property
    def reports(self) -> dict[str, DomainReport]:
        """The report by the name of the method."""
        return {self.settings.get("method", "model"): self.report}


def judge(
    model: Path, table: Path, label: str | None, domain: str | None, min_cell_size: int | None, html: Path | None
) -> Judged:
    """Load a model, read a table as it wants it, and report by domain; refuses a page that cannot be written.

    None for `min_cell_size` counts what the model's promise counts, if it has one, and every cell otherwise.
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
        raise InputError("the model does not say which columns it was fitted on; give --label and --domain.")
    columns, sets = ModelColumns.of(fitted, data), []
    given = columns.read_labels(data, label, domain, fitted.classes_.tolist())
    with warnings_in_a_line():
        for block, _ in columns.blocks(data, ROWS_AT_ONCE, ids=()):
            with answering(model):
                inner, X = unwrapped(fitted, block)
                sets.append(inner.predict_set(X))
    if min_cell_size is None:
        min_cell_size = inner.min_cell_size if inner.promise is not None else 1
    report = inner.report_on_sets(np.concatenate(sets), given.labels, given.domains, min_cell_size=min_cell_size)
    target = float(settings.get("target_recall", getattr(inner, "target_recall", 0.9)))
    return Judged(report, inner, {**settings, "table": table.name}, extra, target)


@contextmanager
def answering(model: Path) -> Iterator[None]:
    """Tell in one line that a model cannot answer: a stranger's may have parts that fit, and numbers that do not."""
    try:
        yield
    except (InputError, MemoryError, OSError):
        raise
    except Exception as error:
        raise InputError(
            f"{model} cannot answer ({one_line(error)}); it is damaged, or was changed by hand."
        ) from error


def certificate_if_unseen(report: DomainReport, target_recall: float, model: SetClassifier) -> Certificate | None:
    """Return a certificate where there are two or more domains and all of them are new to the model."""
    from domaincover.promises.certificates import certify, seen_among

    seen = model.seen_domains_
    if seen is None or len(report.domain_names) < 2 or any(seen_among(report.domain_names, seen)):
        return None
    return certify(report, target_recall, seen_domains=seen)
