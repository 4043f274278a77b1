"""The commands on promises about new domains: `certify`, `record`, `recalibrate` and `plan`."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import typer

from domaincover.cli.adapt import with_last_step
from domaincover.cli.arguments import model_folder, output_format, parsed_targets, targets
from domaincover.cli.evaluate import Evaluation, EvaluationOptions, LabelledTableOptions, evaluated
from domaincover.cli.outputs import check_model_folder, in_texts, print_json, say_model, say_page, versions_here
from domaincover.cli.part_runs import rejected_rows_as_input_error
from domaincover.errors import InputError
from domaincover.files import only_writer
from domaincover.terminal.command_options import REQUIRED, option, takes
from domaincover.terminal.messages import if_stopped, say, text_width, warnings_as_notes
from domaincover.terminal.text import counted, listed, wrapped

KEEP_SOME = "fit --no-final-fit leaves a quarter of the domains for certify --unseen-only"


@dataclass(frozen=True, kw_only=True)
class CertifyOptions(EvaluationOptions):
    """Arguments and options of `certify`."""

    target_recall: list[str] | None = targets(
        "Recall to certify, or LABEL=NUMBER, repeated, for some labels; default: the target that the model was fitted "
        "for."
    )
    confidence: float = option("Confidence of each statement.", 0.95)
    unseen_only: bool = option("Leave out domains that the model was trained on.", False)
    style: Literal["text", "json"] = output_format("text")


@takes(CertifyOptions)
def certify(options: CertifyOptions) -> None:
    """Certify how likely the next domain is at target, from domains that the model has not seen.

    Example: domaincover certify model new.csv --html certificate.html
    """
    from domaincover.cli.part_scores import SavedModel
    from domaincover.criteria import check_criterion, check_share
    from domaincover.promises import certificates

    html = options.html
    check_share(options.confidence, "--confidence")
    asked = parsed_targets(options.target_recall) if options.target_recall else None
    if asked is not None:
        check_criterion("min-recall", asked)
    if hasattr((saved := SavedModel.at(options.model)).load(), "predict_interval"):
        from domaincover.cli.interval_commands import certify_intervals

        certify_intervals(options, saved)
        return
    given = evaluated(options)
    judged, n_domains = _unseen(given, leave_out=options.unseen_only), len(given.report.domain_names)
    n_seen, target = n_domains - len(judged.report.domain_names), judged.target_recall if asked is None else asked
    judged, seen = judged.under(target), given.model.seen_domains_
    confidence, verdict = options.confidence, judged.model.verdict(judged.report)
    certificate = certificates.certify(judged.report, target, confidence=confidence, seen_domains=seen, verdict=verdict)
    if n_seen:
        say(f"Left out because the model was trained on them: {n_seen} of {n_domains} domains.")
    doubt = None if html is None else certificate.doubt
    notes = list(filter(None, [judged.report.not_counted(), doubt, *judged.warnings]))
    if html is not None:
        from domaincover.report.pages import write_certificate_page

        versions, promise, today = versions_here(), judged.model.promise, datetime.date.today()
        settings = {**judged.settings, "target_recall": target, "confidence": confidence, **versions}
        subject = html, certificate, judged.report, target, in_texts(settings)
        write_certificate_page(*subject, versions=versions, date=today, promise=promise, notes=notes)
        say_page(html)
    if options.style == "json":
        print_json({**certificate.to_dict(), **judged.both_ways(target)})
        return
    typer.echo(certificate.text(text_width()))
    for line in (*notes, f"SHA-256 of the model: {judged.settings['sha256']}"):
        say(line)


def _unseen(judged: Evaluation, *, leave_out: bool) -> Evaluation:
    """Return the evaluation of the domains that the model has not seen; reject others, or leave them out."""
    from domaincover.promises.certificates import seen_among

    seen, names = judged.model.seen_domains_, judged.report.domain_names
    if seen is None:
        raise InputError(
            "the model does not record the domains that it was trained on, so none is known to be new; "
            "fit it with domains, or call domaincover.certify from Python."
        )
    new = [row for row, is_seen in enumerate(seen_among(names, seen)) if not is_seen]
    if len(new) == len(names):
        return judged
    if leave_out and new:
        return judged.subset(new)
    known = [name for row, name in enumerate(names) if row not in new]
    advice = f"--unseen-only certifies on the other {len(new)}" if len(new) > 1 else KEEP_SOME
    raise InputError(
        f"{len(known)} of {len(names)} domains were seen in training: {listed(known)}; a certificate is about new "
        f"domains; {advice}."
    )


@dataclass(frozen=True, kw_only=True)
class RecalibrateOptions:
    """Arguments and options of `recalibrate`."""

    model: Path = model_folder()
    out: Path = option("Folder for the recalibrated model.", REQUIRED)


@takes(LabelledTableOptions)
def record(options: LabelledTableOptions) -> None:
    """Add what came of new domains to the record of a model, and say whether its promise stands.

    Example: domaincover record model ward-8.csv --html record.html
    """
    from domaincover.cli.inputs import ModelColumns

    data = options.open_table()

    from domaincover.cli.part_scores import scored_rows
    from domaincover.report.domain_table import domain_table
    from domaincover.report.pages import record_lines, write_record_page
    from domaincover.saving.models import load_extra, write_record

    settings = (load_extra(options.model) or {}).get("settings", {})
    with only_writer(options.model):
        fitted, inner = _promised(options.model)
        columns, roles = ModelColumns.of(fitted, data), options.roles(settings)
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

    model, out = options.model, options.out
    if_stopped("no model was written")
    check_model_folder(out, model)
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
    say_model(out)


def _promised(model: Path) -> tuple[Any, Any]:
    """Return a saved model and the classifier with a promise in it; reject another one."""
    from domaincover.predictors.calibrated_predictors import last_step
    from domaincover.predictors.promised_predictor import PromisedPredictor
    from domaincover.saving.models import load_to_predict

    fitted = load_to_predict(model)
    if not isinstance(inner := last_step(fitted), PromisedPredictor):
        raise InputError("the model has no promise that a record could be about; fit with --domain-confidence 0.9.")
    return fitted, inner


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Options of `plan`."""

    epsilon: float = option("Share of new domains that may miss the target.", 0.1)
    delta: float = option("Probability that the promise fails.", 0.05)
    target_recall: float = option("Recall wanted for every label in every domain.", 0.9)
    domains: int | None = option("Number of domains at hand: also print what they allow.")
    style: Literal["text", "json"] = output_format("text")


@takes(PlanOptions)
def plan(options: PlanOptions) -> None:
    """Compute how many domains a promise about new domains needs.

    Example: domaincover plan --epsilon 0.1 --delta 0.05 --domains 40
    """
    from domaincover.promises.plans import plan_domains

    asked = {"epsilon": options.epsilon, "delta": options.delta, "target_recall": options.target_recall}
    made = plan_domains(**asked, n_domains=options.domains)
    if options.style == "json":
        print_json(made.to_dict())
    else:
        typer.echo(made.text(text_width()))
