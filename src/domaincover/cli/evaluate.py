"""The command `evaluate`: a saved model on a table with known labels; `certify` and `fit` share parts of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from domaincover.cli.arguments import cell_size, column, model_folder, output_format, page, strict, table_file, workers
from domaincover.cli.outputs import Shown, check_page, notes_on_evaluation, print_json, shown_name
from domaincover.cli.part_runs import PartRuns, check_workers
from domaincover.errors import InputError
from domaincover.options import ThresholdKind
from domaincover.terminal.command_options import option, takes
from domaincover.terminal.messages import warnings_as_notes

if TYPE_CHECKING:
    import pandas as pd

    from domaincover.criteria import TargetRecall
    from domaincover.data.tables import Table
    from domaincover.evaluation import DomainReport
    from domaincover.predictors.domain_record import AdaptedDomains
    from domaincover.predictors.set_predictor import SetPredictor
    from domaincover.promises.certificates import Certificate
    from domaincover.promises.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class LabelledTableOptions:
    """Arguments and options of commands that compare a model's sets with known labels; those of `record`."""

    model: Path = model_folder()
    table: Path = table_file()
    label: str | None = column("Column with the true labels; default: the one used by `fit`.")
    domain: str | None = column("Column with the domains; default: the one used by `fit`.")
    html: Path | None = page()

    def roles(self, settings: Mapping[str, Any]) -> tuple[str, str]:
        """Return the columns of labels and domains: those given, or those that `fit` had."""
        label, domain = self.label or settings.get("label"), self.domain or settings.get("domain")
        if label is None or domain is None:
            raise InputError("the model does not record its label and domain columns; give --label and --domain.")
        return label, domain

    def open_table(self) -> Table:
        """Open the table; reject a page that cannot be written first."""
        from domaincover.data.tables import open_table

        check_page(self.html, self.table)
        return open_table(self.table)


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(LabelledTableOptions):
    """Arguments and options of `evaluate` and `certify`."""

    thresholds: ThresholdKind | None = option(
        "Thresholds: adapted by the rows of each domain, or fixed; default: adapted where the model can adapt."
    )
    min_cell_size: int | None = cell_size()
    strict: bool = strict()
    workers: int | None = workers()


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(EvaluationOptions):
    """Arguments and options of `evaluate`."""

    few_labels: str | None = option(
        "Numbers of labels, such as 30,100: also say what so many labels of each domain would have done there."
    )
    by: str | None = column("Column with groups of rows, such as sex: report each of them, too.")
    style: Literal["table", "json"] = output_format("table")


@takes(EvaluateOptions)
def evaluate(options: EvaluateOptions) -> None:
    """Evaluate a model in each domain of a table with known labels.

    Example: domaincover evaluate model new.csv --label outcome --domain hospital --html report.html
    """
    from domaincover.cli.part_scores import SavedModel

    if hasattr((saved := SavedModel.at(options.model)).load(), "predict_interval"):
        from domaincover.cli.interval_commands import evaluate_intervals

        evaluate_intervals(options, saved)
        return
    found = evaluated(options, options.by)
    target, certificate = found.target_recall, certificate_if_unseen(found.report, found.target_recall, found.model)
    notes = [*found.warnings, *notes_on_evaluation(found.report, found.model, found.extra)]
    gain = None if options.few_labels is None else _label_gain(options, found)
    notes += [] if gain is None else _gain_in_lines(gain)
    shown = Shown(
        found.reports,
        target,
        notes,
        found.settings,
        certificate=certificate,
        adaptation=found.adaptation,
        label_gain=gain,
        verdict=found.verdict_lines,
        by=options.by,
        groups=found.groups,
    )
    if options.html is not None:
        shown.write_page(options.html)
    if options.style == "table":
        shown.print(*([] if certificate is None else [certificate.in_one_line()]))
        return
    verdict = None if found.verdict is None else found.verdict.to_dict()
    content = {"verdict": verdict, "summary": found.report.summary(target).to_dict(), **found.both_ways(target)}
    content |= {} if gain is None else {"few_labels": gain.reset_index().to_dict("records")}
    content["domains"] = found.records()
    if options.by is not None:
        summaries = {
            name: {"summary": report.summary(target).to_dict(), "domains": report.records()}
            for name, report in found.groups.items()
        }
        content["by"] = {options.by: summaries}
    print_json(content)


def _label_gain(options: EvaluateOptions, found: Evaluation) -> pd.DataFrame:
    """Return set size and share at target by number of labels of each domain, over the domains that have the rows."""
    import pandas as pd

    from domaincover.cli.inputs import ModelColumns
    from domaincover.cli.part_scores import SavedModel, inner_model, scored_rows
    from domaincover.predictors.domain_record import sets_with_labels
    from domaincover.predictors.set_predictor import coded_domains, label_codes

    parts = [part.strip() for part in str(options.few_labels).split(",")]
    if not all(part.isdecimal() and int(part) >= 1 for part in parts):
        raise InputError(f"--few-labels takes numbers such as 30,100, got {options.few_labels!r}.")
    fitted, data = SavedModel.at(options.model).load(), options.open_table()
    inner = inner_model(fitted)
    known = ModelColumns.of(fitted, data).read_labels(data, *options.roles(found.settings), inner.classes_.tolist())
    with warnings_as_notes():
        scored = scored_rows(fitted, data, with_features=True)
    labels, domains = label_codes(known.labels, inner.classes_), coded_domains(known.domains, len(known.labels)).codes
    summaries = {}
    for number in (0, *sorted({int(part) for part in parts})):
        sets, rows = sets_with_labels(inner, scored, labels, domains, number)
        if len(rows):
            report = inner.report_on_sets(sets, inner.classes_[labels[rows]], domains[rows])
            summaries[number] = report.summary(found.target_recall)
    columns = {"domains": "n_domains", "set_size": "set_size", "share_at_target": "share_at_target"}
    values = {title: [getattr(each, name) for each in summaries.values()] for title, name in columns.items()}
    return pd.DataFrame(values, index=pd.Index(summaries, name="labels"))


def _gain_in_lines(gain: pd.DataFrame) -> list[str]:
    """Say what labels of each domain would have done there."""
    from domaincover.report.readable import percent

    return [
        f"With {n} labels of each domain: {row.set_size:.2f} labels per set at the median of the rows that come later, "
        f"{percent(row.share_at_target)} of {row.domains:.0f} domains at target."
        for n, row in gain.iterrows()
    ]


NONE_MOVED = "Thresholds are the fixed ones in every domain: their rows are too few, or say too little, to move them."


class Evaluation(NamedTuple):
    """A model's report by domain for each kind of thresholds that it has, and what was saved with the model.

    `thresholds` is the kind that is asked for; `adaptation` says by how much those of a model that can adapt moved.
    `groups` are the reports of groups of rows, with the thresholds that are asked for.
    """

    by_kind: Mapping[ThresholdKind, DomainReport]
    thresholds: ThresholdKind
    model: SetPredictor
    settings: Mapping[str, Any]
    extra: Mapping[str, Any]
    target_recall: TargetRecall
    adaptation: AdaptedDomains | None = None
    groups: Mapping[str, DomainReport] = {}

    @property
    def report(self) -> DomainReport:
        """The report with the thresholds that are asked for."""
        return self.by_kind[self.thresholds]

    @property
    def reports(self) -> dict[str, DomainReport]:
        """The reports by the name of the method, the one asked for first."""
        name = shown_name(self.settings.get("method", "model"))
        if len(self.by_kind) == 1:
            return {name: self.report}
        kinds = sorted(self.by_kind, key=lambda kind: kind != self.thresholds)
        return {f"{name}, {kind}": self.by_kind[kind] for kind in kinds}

    @property
    def warnings(self) -> list[str]:
        """A line about unusual domains, or about domains that an adapted model is not meant for, if there are any."""
        from domaincover.cli.part_scores import meant_for_another_domain
        from domaincover.predictors.domain_record import unusual_domains

        names, moves = self.report.domain_names, self.adaptation
        if moves is None:
            lines = [meant_for_another_domain(self.model, self.settings.get("adapted_to"), names)]
        else:
            lines = [unusual_domains(names, moves.p_values, moves.level), None if moves.moved.any() else NONE_MOVED]
        return list(filter(None, lines))

    @property
    def verdict(self) -> Verdict | None:
        """Whether the domains that are new to the model contradict its promise."""
        return self.model.verdict(self.report.under(self.target_recall))

    @property
    def verdict_lines(self) -> list[str]:
        """The verdict in words, and where it contradicts, what the new domains missed."""
        from domaincover.promises.certificates import seen_among
        from domaincover.promises.verdict import verdict_lines

        seen = seen_among(self.report.domain_names, self.model.seen_domains_ or ())
        new = self.subset([row for row, is_seen in enumerate(seen) if not is_seen])
        told = () if new.adaptation is None else (new.adaptation.p_values, new.adaptation.level)
        return verdict_lines(self.verdict, new.report.under(self.target_recall), *told)

    def both_ways(self, target_recall: TargetRecall) -> dict[str, Any]:
        """Return which thresholds were used, and a summary for each kind, None where the model cannot adapt."""
        summaries = {kind: report.summary(target_recall).to_dict() for kind, report in self.by_kind.items()}
        return {
            "model_sha256": self.settings["sha256"],
            "min_cell_size": self.report.min_cell_size,
            "thresholds": self.thresholds,
            "sets_by_size": self.report.sets_by_size.tolist(),
            **({"criterion": "coverage"} if self.report.is_coverage else {}),  # which "min_recall" then is
            "adapted": summaries.get("adapted"),
            "fixed": summaries.get("fixed"),
        }

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
        judged = replace(report, thresholds=found.report.thresholds)
        return found._replace(by_kind={**found.by_kind, found.thresholds: judged})

    def subset(self, rows: list[int]) -> Evaluation:
        """Return the evaluation of some domains."""
        return self._replace(
            by_kind={kind: report.subset(rows) for kind, report in self.by_kind.items()},
            adaptation=None if self.adaptation is None else self.adaptation.subset(rows),
        ).with_true_kind()

    def with_true_kind(self) -> Evaluation:
        """Return the evaluation; if no domain's rows moved its thresholds, as one of the fixed ones."""
        if self.adaptation is None or self.adaptation.moved.any():
            return self
        return self._replace(by_kind={"fixed": replace(self.report, thresholds="fixed")}, thresholds="fixed")


def evaluated(options: EvaluationOptions, by: str | None = None) -> Evaluation:
    """Load a model and report its sets on a table by domain."""
    from domaincover.cli.inputs import ModelColumns, check_roles

    data = options.open_table()
    check_workers(options.workers, data)

    from domaincover.cli.apply import CountSets, reports_of
    from domaincover.cli.check import note_on_input
    from domaincover.cli.part_scores import SavedModel, adapted_table, can_adapt, inner_model, parts_of
    from domaincover.predictors.calibrated_predictors import last_step

    saved = SavedModel.at(options.model)
    fitted, extra = saved.load(), saved.extra()
    settings = {"model": options.model.resolve().name, "sha256": saved.digest, **extra.get("settings", {})}
    label, domain = options.roles(settings)
    if options.thresholds == "adapted":
        inner_model(fitted)
    ModelColumns.of(fitted, data)
    check_roles(data, label, domain)
    note_on_input(saved, data, domain, strict=options.strict)
    if by is not None:
        data.check_column(by, "--by")
    inner, adapts, found, parts = last_step(fitted), can_adapt(fitted), None, parts_of(data)
    runs = PartRuns(options.workers or 1, hasattr(data, "parts"))
    with warnings_as_notes(), TemporaryDirectory(prefix="domaincover-") if adapts else nullcontext() as folder:
        scratch = None if folder is None else Path(folder)
        if scratch is not None:
            found = adapted_table(runs, saved, domain, parts, scratch)
        reports = reports_of(runs, CountSets(saved, label, domain, scratch, by), parts, options.min_cell_size)
    own: ThresholdKind | None = getattr(inner, "threshold_kind", None)  # of a model with a promise
    kinds: list[ThresholdKind | None] = ["adapted", "fixed"] if adapts else [own]
    asked = (options.thresholds if adapts else own) or kinds[0] or "fixed"
    by_kind = {kind or "fixed": both for kind, both in zip(kinds, reports, strict=True)}
    first = reports[0][0]
    return Evaluation(
        {kind: replace(report, thresholds=kind if own or adapts else None) for kind, (report, _) in by_kind.items()},
        asked,
        inner,
        {**settings, "table": options.table.name, "min_cell_size": first.min_cell_size},
        extra,
        settings.get("target_recall", getattr(inner, "target_recall", 0.9)),
        None if found is None else found.moves_of(first.domain_names),
        by_kind[asked][1],
    ).with_true_kind()


def certificate_if_unseen(report: DomainReport, target_recall: TargetRecall, model: SetPredictor) -> Certificate | None:
    """Return a certificate if there are two or more domains and the model has seen none of them."""
    from domaincover.data.identity import can_compare
    from domaincover.promises.certificates import certify, seen_among

    seen, names = model.seen_domains_, report.domain_names
    if seen is None or len(names) < 2 or any(seen_among(names, seen)) or not can_compare(names, seen):
        return None
    return certify(report, target_recall, seen_domains=seen)
