"""The command `certify`: a certificate for new domains from domains that a model has not seen."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import typer

from domaincover.cli.arguments import output_format, page, parsed_targets, targets
from domaincover.cli.evaluate import Evaluation, LabelledTableOptions, evaluated
from domaincover.cli.outputs import in_texts, print_json, say_page, versions_here
from domaincover.errors import InputError
from domaincover.terminal.command_options import option, takes
from domaincover.terminal.messages import say, text_width
from domaincover.terminal.text import listed

KEEP_SOME = "fit --no-final-fit leaves a quarter of the domains for certify --unseen-only"


@dataclass(frozen=True, kw_only=True)
class CertifyOptions(LabelledTableOptions):
    """Arguments and options of `certify`."""

    target_recall: list[str] | None = targets(
        "Recall to certify, or LABEL=NUMBER, repeated, for some labels; default: the target that the model was fitted "
        "for."
    )
    confidence: float = option("Confidence of each statement.", 0.95)
    unseen_only: bool = option("Leave out domains that the model was trained on.", False)
    style: Literal["text", "json"] = output_format("text")
    html: Path | None = page("certificate")


@takes(CertifyOptions)
def certify(options: CertifyOptions) -> None:
    """Certify how likely the next domain is at target, from domains that the model has not seen.

    Example: domaincover certify model new.csv --html certificate.html
    """
    from domaincover.criteria import check_criterion
    from domaincover.prediction_sets import check_share
    from domaincover.promises import certificates

    html = options.html
    check_share(options.confidence, "--confidence")
    asked = parsed_targets(options.target_recall) if options.target_recall else None
    if asked is not None:
        check_criterion("min-recall", asked)
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
        from domaincover.report.certificate_page import write_certificate_page

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
