"""The commands `record` and `recalibrate`: what came of new domains joins a model, and its calibration."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from domaincover.cli.adapt import with_last_step
from domaincover.cli.arguments import column, model_folder, page, table_file
from domaincover.cli.evaluate import roles_of
from domaincover.cli.outputs import check_not_table, check_page, in_texts, say_page, versions_here
from domaincover.cli.part_runs import rejected_rows_as_input_error
from domaincover.errors import InputError
from domaincover.files import only_writer
from domaincover.terminal.command_options import REQUIRED, option, takes
from domaincover.terminal.messages import if_stopped, say, text_width, warnings_as_notes
from domaincover.terminal.text import counted, wrapped


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """Arguments and options of `record`."""

    model: Path = model_folder()
    table: Path = table_file()
    label: str | None = column("Column with the true labels; default: the one used by `fit`.")
    domain: str | None = column("Column with the domains; default: the one used by `fit`.")
    html: Path | None = page("whole record")


@dataclass(frozen=True, kw_only=True)
class RecalibrateOptions:
    """Arguments and options of `recalibrate`."""

    model: Path = model_folder()
    out: Path = option("Folder for the recalibrated model.", REQUIRED)


@takes(RecordOptions)
def record(options: RecordOptions) -> None:
    """Add what came of new domains to the record of a model, and say whether its promise stands.

    Example: domaincover record model ward-8.csv --html record.html
    """
    from domaincover.cli.inputs import ModelColumns
    from domaincover.data.tables import open_table

    check_page(options.html)
    data = open_table(options.table)
    check_not_table(options.html, "--html", options.table)

    from domaincover.cli.part_scores import scored_rows
    from domaincover.report.domain_table import domain_table
    from domaincover.report.record_page import record_lines, write_record_page
    from domaincover.saving.models import load_extra, write_record

    settings = (load_extra(options.model) or {}).get("settings", {})
    with only_writer(options.model):
        fitted, inner = _promised(options.model)
        columns, roles = ModelColumns.of(fitted, data), roles_of(options, settings)
        given = columns.read_labels(data, *roles, inner.classes_.tolist())
        with warnings_as_notes(), rejected_rows_as_input_error(options.model):
            inner.record(scored_rows(fitted, data), given.labels, given.domains)
        write_record(options.model, fitted)
    lines, report, n_new = record_lines(inner), inner.record_report(), given.domains.nunique()
    new = report.subset(slice(len(report.domain_names) - n_new, None))
    typer.echo(domain_table({"model": new}, report.judged_by.given, width=text_width()))
    typer.echo("\n".join(part for line in lines for part in wrapped(line, text_width())))
    if options.html is not None:
        about = {**settings, "model": options.model.resolve().name, **versions_here()}
        write_record_page(options.html, inner, lines, in_texts(about))
        say_page(options.html)


@takes(RecalibrateOptions)
def recalibrate(options: RecalibrateOptions) -> None:
    """Let the domains of a model's record calibrate it, too, without a new fit.

    Example: domaincover recalibrate model --out model-2
    """
    from domaincover.saving.models import load_extra, save
    from domaincover.saving.sealed import check_folder

    model, out = options.model, options.out
    if_stopped("no model was written")
    check_folder(out)
    if out.exists() and model.exists() and out.samefile(model):
        raise InputError(f"--out would overwrite the model {model} and its record; choose another folder.")
    fitted, inner = _promised(model)
    new = inner.recalibrated()
    save(with_last_step(fitted, new), out, extra=load_extra(model))
    n_new = len(new.domains_) - len(inner.domains_)
    moved = ", ".join(
        f"{name} {after - before:+.2f}"
        for name, before, after in zip(inner.classes_.tolist(), inner.thresholds_, new.thresholds_, strict=True)
    )
    typer.echo(f"{counted(n_new, 'domain')} of the record joined the calibration; fixed thresholds moved: {moved}.")
    typer.echo(f"Promise: {new.promise}")
    if inner.calibration == "held-out-domains":
        typer.echo("It is exact if it was fixed before the first of them came after how many to calibrate again.")
    say(f"The model is in {out}. Next: domaincover predict {shlex.quote(str(out))} TABLE --out sets.parquet")


def _promised(model: Path) -> tuple[Any, Any]:
    """Return a saved model and the classifier with a promise in it; reject another one."""
    from domaincover.predictors.label_scores import last_step
    from domaincover.predictors.promised_predictor import PromisedPredictor
    from domaincover.saving.models import load_to_predict

    fitted = load_to_predict(model)
    if not isinstance(inner := last_step(fitted), PromisedPredictor):
        raise InputError("the model has no promise that a record could be about; fit with --domain-confidence 0.9.")
    return fitted, inner
