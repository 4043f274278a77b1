"""The command `evaluate`: a saved model on a table with known labels; `certify` and `fit` share parts of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from domaincover.cli.arguments import (
    DomainColumn,
    LabelColumn,
    LocalWorkers,
    MinCellSize,
    ModelFolder,
    Page,
    Scheduler,
    Scratch,
    TableFile,
    TableOrJson,
    Thresholds,
)
from domaincover.cli.outputs import (
    check_not_table,
    check_page,
    notes_on_evaluation,
    print_reports,
    versions_here,
    write_page,
)
from domaincover.cli.part_runs import PartWorkers
from domaincover.errors import InputError, one_line
from domaincover.options import ThresholdKind
from domaincover.terminal.messages import warnings_as_notes

if TYPE_CHECKING:
    import pandas as pd

    from domaincover.cli.domain_sets import AdaptedNames, DomainSets
    from domaincover.cli.inputs import ModelColumns
    from domaincover.criteria import TargetRecall
    from domaincover.data.part_tables import PartsTable
    from domaincover.data.tables import Table
    from domaincover.evaluation import DomainReport
    from domaincover.prediction_sets import Sets
    from domaincover.predictors.set_predictor import SetPredictor
    from domaincover.promises.certificates import Certificate
    from domaincover.report.domain_adaptation import DomainAdaptation

PACKAGES = ("sklearn", "lightgbm", "xgboost", "catboost")  # whose classifiers a model may contain


def evaluate(
    model: ModelFolder,
    table: TableFile,
    label: LabelColumn = None,
    domain: DomainColumn = None,
    thresholds: Thresholds = None,
    min_cell_size: MinCellSize = None,
    style: TableOrJson = "table",
    html: Page = None,
    workers: LocalWorkers = None,
    scheduler: Scheduler = None,
    scratch: Scratch = None,
) -> None:
    """Evaluate a model in each domain of a table with known labels.

    Example: domaincover evaluate model new.csv --label outcome --domain hospital --html report.html
    """
    running = PartWorkers(workers, scheduler, scratch)
    found = evaluated(model, table, label, domain, min_cell_size, html, thresholds, running)
    report, target = found.report, found.target_recall
    notes = [*found.warnings, *notes_on_evaluation(report, found.model, found.extra)]
    certificate = certificate_if_unseen(report, target, found.model)
    if html is not None:
        write_page(
            html,
            found.reports,
            target,
            notes,
            found.shown_settings,
            kind="",
            certificate=certificate,
            adaptation=found.adaptation,
        )
    if style == "table":
        certified = [] if certificate is None else [certificate.in_one_line()]
        print_reports(found.reports, target, [*certified, *notes], kind="")
    else:
        content = {"summary": report.summary(target).to_dict(), **found.both_ways(target), "domains": found.records()}
        typer.echo(json.dumps(content, indent=2, allow_nan=False))


NONE_MOVED = "Thresholds are the fixed ones in every domain: their rows are too few, or say too little, to move them."


class Evaluation(NamedTuple):
    """A model's report by domain, and what was saved with the model.

    Of a model that can adapt, `other` is the report with the other kind of thresholds, and `adaptation` says by how
    much thresholds moved.
    """

    report: DomainReport
    model: SetPredictor
    settings: Mapping[str, Any]
    extra: Mapping[str, Any]
    target_recall: TargetRecall
    thresholds: ThresholdKind = "fixed"
    other: DomainReport | None = None
    adaptation: DomainAdaptation | None = None

    @property
    def reports(self) -> dict[str, DomainReport]:
        """The reports by the name of the method, the one asked for first."""
        from domaincover.report.style import KNOWN_METHODS

        method = self.settings.get("method", "model")
        if self.other is None:
            return {method: self.report}
        name = KNOWN_METHODS[method].label if method in KNOWN_METHODS else method
        kinds = ("adapted", "fixed") if self.thresholds == "adapted" else ("fixed", "adapted")
        return {f"{name}, {kind}": report for kind, report in zip(kinds, (self.report, self.other), strict=True)}

    @property
    def shown_settings(self) -> dict[str, Any]:
        """What a page lists: the settings of `fit`, with those of this evaluation in their place, and versions."""
        return {**self.settings, "min_cell_size": self.report.min_cell_size, **versions_here()}

    @property
    def warnings(self) -> list[str]:
        """A line about unusual domains, or about domains that an adapted model is not meant for, if there are any."""
        from domaincover.cli.domain_sets import meant_for_another_domain
        from domaincover.report.domain_adaptation import unusual_domains

        names, moves = self.report.domain_names, self.adaptation
        if moves is None:
            lines = [meant_for_another_domain(self.model, self.settings.get("adapted_to"), names)]
        else:
            lines = [unusual_domains(names, moves.p_values, moves.level), None if moves.moved.any() else NONE_MOVED]
        return [line for line in lines if line is not None]

    def both_ways(self, target_recall: TargetRecall) -> dict[str, Any]:
        """Return which thresholds were used, and a summary for each kind, None where the model cannot adapt."""
        other: ThresholdKind = "fixed" if self.thresholds == "adapted" else "adapted"
        by_kind: dict[str, DomainReport | None] = {self.thresholds: self.report, other: self.other}
        summaries = {
            kind: None if report is None else report.summary(target_recall).to_dict()
            for kind, report in sorted(by_kind.items())
        }
        counts = self.report.sets_by_size
        return {
            "model_sha256": self.settings["sha256"],
            "min_cell_size": self.report.min_cell_size,
            "thresholds": self.thresholds,
            "sets_by_size": None if counts is None else counts.tolist(),
            **self._named,
            **summaries,
        }

    @property
    def _named(self) -> dict[str, str]:
        """The criterion, where it is not the usual one: "min_recall" is then the coverage."""
        return {"criterion": "coverage"} if self.report.is_coverage else {}

    def records(self) -> list[dict[str, Any]]:
        """Return one record per domain, with its p-value and by how much its thresholds moved."""
        records = self.report.records()
        if self.adaptation is None:
            return records
        moved = self.adaptation.records(self.report.label_names)
        return [record | more for record, more in zip(records, moved, strict=True)]

    def under(self, target_recall: TargetRecall) -> Evaluation:
        """Return the evaluation of the domains that count with another target."""
        report = self.report.under(target_recall)
        kept = set(report.domain_names)
        rows = [row for row, name in enumerate(self.report.domain_names) if name in kept]
        found = self.subset(rows)
        return found._replace(report=replace(report, thresholds=found.report.thresholds))

    def subset(self, rows: list[int]) -> Evaluation:
        """Return the evaluation of some domains."""
        return self._replace(
            report=self.report.subset(rows),
            other=None if self.other is None else self.other.subset(rows),
            adaptation=None if self.adaptation is None else self.adaptation.subset(rows),
        ).with_true_kind()

    def with_true_kind(self) -> Evaluation:
        """Return the evaluation; if no domain's rows moved its thresholds, as one of the fixed ones."""
        if self.adaptation is None or self.adaptation.moved.any():
            return self
        return self._replace(report=replace(self.report, thresholds="fixed"), thresholds="fixed", other=None)


def evaluated(
    model: Path,
    table: Path,
    label: str | None,
    domain: str | None,
    min_cell_size: int | None,
    html: Path | None,
    thresholds: ThresholdKind | None = None,
    workers: PartWorkers | None = None,
) -> Evaluation:
    """Load a model and report its sets on a table by domain; reject a page that cannot be written first.

    `min_cell_size=None` is the model's own. `thresholds=None` is "adapted" where the model can adapt. The parts of a
    table in parts are evaluated one after the other, or by `workers`.
    """
    from domaincover.cli.inputs import ModelColumns, check_roles
    from domaincover.data.part_tables import PartsTable
    from domaincover.data.tables import open_table

    check_page(html)
    data, workers = open_table(table), workers or PartWorkers()
    workers.check(data)
    check_not_table(html, "--html", table)

    from domaincover.cli.domain_sets import inner_model
    from domaincover.predictors.label_scoring import last_step
    from domaincover.saving.models import load_extra, load_to_predict, model_checksum

    fitted, extra = load_to_predict(model), load_extra(model) or {}
    settings = extra.get("settings", {})
    label, domain = label or settings.get("label"), domain or settings.get("domain")
    if label is None or domain is None:
        raise InputError("the model does not record its label and domain columns; give --label and --domain.")
    if thresholds == "adapted":
        inner_model(fitted)
    columns, inner = ModelColumns.of(fitted, data), last_step(fitted)
    target = settings.get("target_recall", getattr(inner, "target_recall", 0.9))
    settings = {"model": model.resolve().name, "sha256": model_checksum(model), **settings, "table": table.name}
    if isinstance(data, PartsTable):
        check_roles(data, label, domain)
        found, by_kind = _reports_of_parts(data, model, inner, label, domain, min_cell_size, workers)
    else:
        found, by_kind = _reports_of_table(data, model, fitted, columns, label, domain, min_cell_size)
    if found is None:
        (only,) = by_kind
        own: ThresholdKind | None = getattr(inner, "threshold_kind", None)  # of a model with a promise
        return Evaluation(replace(only, thresholds=own), inner, settings, extra, target, own or "fixed")
    reports = {"adapted": replace(by_kind[0], thresholds="adapted"), "fixed": replace(by_kind[1], thresholds="fixed")}
    kind: ThresholdKind = thresholds or "adapted"
    other = reports["fixed" if kind == "adapted" else "adapted"]
    adaptation = found.adaptation(other.domain_names)
    return Evaluation(reports[kind], inner, settings, extra, target, kind, other, adaptation).with_true_kind()


Reports = tuple["AdaptedNames | None", "list[DomainReport]"]  # adapted and fixed, or the only one


def _reports_of_table(
    data: Table,
    folder: Path,
    fitted: Any,
    columns: ModelColumns,
    label: str,
    domain: str,
    min_cell_size: int | None,
) -> Reports:
    """Report on the sets of a table in one file, which are kept with labels and domains."""
    from domaincover.cli.domain_sets import can_adapt
    from domaincover.data.identity import typed_names
    from domaincover.predictors.label_scoring import last_step

    given = columns.read_labels(data, label, domain, fitted.classes_.tolist())
    given = given._replace(domains=typed_names(given.domains))
    found: AdaptedNames | None = None
    sets: tuple[Sets, ...]
    if can_adapt(fitted):
        found, sets = _adapted_and_fixed_sets(fitted, folder, data, columns, given.domains)
    else:
        sets = (_fixed_sets(fitted, folder, data, columns),)
    with warnings_as_notes():
        return found, [
            last_step(fitted).report_on_sets(each, given.labels, given.domains, min_cell_size=min_cell_size)
            for each in sets
        ]


def _reports_of_parts(
    data: PartsTable,
    folder: Path,
    inner: Any,
    label: str,
    domain: str,
    min_cell_size: int | None,
    workers: PartWorkers,
) -> Reports:
    """Report on the counts of all parts; neither sets nor labels are kept."""
    from domaincover.cli import part_plans
    from domaincover.cli.domain_sets import can_adapt
    from domaincover.cli.part_steps import PartModel

    saved, found = PartModel.at(folder), None
    with warnings_as_notes(), workers.started() as runs, part_plans.scratch_folder(workers) as scratch:
        plan = part_plans.surveyed(runs, saved, domain, data, scratch)
        if adapts := can_adapt(inner):
            found = part_plans.adapted_names(runs, plan, saved, domain, scratch)
        tallies = part_plans.tallies_of_parts(runs, plan, saved, label, domain, scratch, adapts=adapts)
        names = plan.names
        return found, [part_plans.report_of_parts(inner, each, names, min_cell_size) for each in tallies]


def _fixed_sets(fitted: Any, folder: Path, data: Table, columns: ModelColumns) -> Sets:
    import numpy as np

    from domaincover.data.tables import ROWS_AT_ONCE
    from domaincover.predictors.set_predictor import predict_set

    sets = []
    with warnings_as_notes():
        for block, _ in columns.blocks(data, ROWS_AT_ONCE, ids=()):
            with rejected_rows_as_input_error(folder):
                sets.append(predict_set(fitted, block))
    return np.concatenate(sets)


def _adapted_and_fixed_sets(
    fitted: Any, folder: Path, data: Table, columns: ModelColumns, domains: pd.Series[Any]
) -> tuple[AdaptedNames, tuple[Sets, Sets]]:
    """Return both kinds of sets; features are read in blocks, and scores kept until a domain is complete."""
    import numpy as np

    from domaincover.cli.domain_sets import UnadaptedBlock, with_domain_sets
    from domaincover.data.tables import ROWS_AT_ONCE

    def both(found: DomainSets, is_grouped: bool) -> tuple[Sets, Sets]:
        rows = (UnadaptedBlock(X, domains.loc[X.index], kept) for X, kept in columns.blocks(data, ROWS_AT_ONCE, ids=()))
        sets = [(block.sets, block.fixed_sets) for block in found.blocks(rows, is_grouped)]
        adapted, fixed = (np.concatenate(parts) for parts in zip(*sets, strict=True))
        return adapted, fixed

    with warnings_as_notes():
        return with_domain_sets(fitted, folder, both, str(domains.name))


@contextmanager
def rejected_rows_as_input_error(model: Path) -> Iterator[None]:
    """Report rows that a classifier of another package rejects in one line; faults of our own keep their traceback."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        package = _raised_by(error)
        if package not in PACKAGES or not (isinstance(error, ValueError) or type(error).__module__.startswith(package)):
            raise
        raise InputError(f"{model} cannot predict these rows ({one_line(error)}).") from error


def _raised_by(error: Exception) -> str:
    """Return the package whose code our own called last before an error, ours if there is none."""
    packages = [str(frame.f_globals.get("__name__")).partition(".")[0] for frame, _ in walk_tb(error.__traceback__)]
    last = len(packages) - packages[::-1].index("domaincover")
    return packages[min(last, len(packages) - 1)]


def certificate_if_unseen(report: DomainReport, target_recall: TargetRecall, model: SetPredictor) -> Certificate | None:
    """Return a certificate if there are two or more domains and the model has seen none of them."""
    from domaincover.data.identity import can_compare
    from domaincover.promises.certificates import certify, seen_among

    seen, names = model.seen_domains_, report.domain_names
    if seen is None or len(names) < 2 or any(seen_among(names, seen)) or not can_compare(names, seen):
        return None
    return certify(report, target_recall, seen_domains=seen)
