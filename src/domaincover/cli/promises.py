"""Commands about what can be promised for new domains: certify, plan."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from domaincover.cli.arguments import DomainColumn, LabelColumn, MinCellSize, ModelFolder, Page, TableFile
from domaincover.cli.outputs import say, write_page
from domaincover.cli.terminal import text_width
from domaincover.errors import InputError

if TYPE_CHECKING:
    from domaincover.cli.judging import Judged

Format = Annotated[Literal["text", "json"], typer.Option("--format", help="How to print.")]


def certify(
    model: ModelFolder,
    table: TableFile,
    label: LabelColumn = None,
    domain: DomainColumn = None,
    target_recall: Annotated[
        float | None, typer.Option(help="Recall to certify, if it is not the one that the model was fitted for.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="How sure each statement is to be.")] = 0.95,
    min_cell_size: MinCellSize = None,
    unseen_only: Annotated[
        bool, typer.Option("--unseen-only", help="Leave out domains that the model was trained on, if there are any.")
    ] = False,
    style: Format = "text",
    html: Page = None,
) -> None:
    """Certify, from domains that a model has not seen, how likely the next one is at the target.

    Example: domaincover certify model new.csv --html certificate.html
    """
    from domaincover.cli.judging import judge
    from domaincover.prediction_sets import check_share, check_target_recall
    from domaincover.promises import certificates

    check_share(confidence, "--confidence")
    if target_recall is not None:
        check_target_recall(target_recall)
    given = judge(model, table, label, domain, min_cell_size, html)
    seen = _seen_domains(given)
    judged = _without_seen(given, seen) if unseen_only else _all_unseen(given, seen)
    target = judged.target_recall if target_recall is None else target_recall
    certificate = certificates.certify(judged.report, target, confidence=confidence, seen_domains=seen)
    n_domains = len(given.report.domain_names)
    if n_left_out := n_domains - certificate.domains.n_domains:
        say(f"Left out, since they were seen in training: {n_left_out} of {n_domains} domains.")
    if html is not None:
        settings = {**judged.settings, "target_recall": target, "confidence": confidence}
        write_page(html, judged.reports, target, [], settings, kind="unseen", certificate=certificate)
    typer.echo(certificate.to_json() if style == "json" else certificate.text(text_width()))


def plan(
    labels: Annotated[int, typer.Option(help="How many labels there are.")],
    features: Annotated[int | None, typer.Option(help="How many features, for linear scorers.")] = None,
    vc_dimension: Annotated[
        int | None, typer.Option(help="VC dimension of each label's scorers, in place of --features.")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Share of new domains that may miss the target.")] = 0.1,
    delta: Annotated[float, typer.Option(help="Probability that the promise fails by an unlucky draw.")] = 0.05,
    target_recall: Annotated[float, typer.Option(help="Recall that every label should have in every domain.")] = 0.9,
    recall_slack: Annotated[
        float, typer.Option(help="How far below the target recall may be, as the price of counting it on rows.")
    ] = 0.05,
    domains: Annotated[int | None, typer.Option(help="Domains at hand: tell what they allow, too.")] = None,
    style: Format = "text",
) -> None:
    """Tell how many domains are needed to promise something about new ones, before they are collected.

    Example: domaincover plan --labels 3 --features 50 --epsilon 0.1 --delta 0.05
    """
    from domaincover.promises.plans import plan_domains

    made = plan_domains(
        labels,
        features,
        vc_dimension=vc_dimension,
        epsilon=epsilon,
        delta=delta,
        target_recall=target_recall,
        recall_slack=recall_slack,
        n_domains=domains,
    )
    typer.echo(made.to_json() if style == "json" else made.text(text_width()))


def _seen_domains(judged: Judged) -> Sequence[Hashable]:
    """Return the model's own domains, or refuse a model that cannot tell them."""
    seen = judged.model.seen_domains_
    if seen is None:
        raise InputError(
            "the model does not say which domains it was trained on, so none can be known to be new; "
            "fit it with domains, or call domaincover.certify from Python."
        )
    return seen


def _all_unseen(judged: Judged, seen: Sequence[Hashable]) -> Judged:
    """Refuse domains that the model has seen: say which, and what to do."""
    from domaincover.cli.inputs import listed
    from domaincover.promises.certificates import seen_among

    names = judged.report.domain_names
    known = [name for name, is_seen in zip(names, seen_among(names, seen), strict=True) if is_seen]
    if known:
        n_others = len(names) - len(known)
        hope = f"; --unseen-only certifies on the other {n_others}" if n_others > 1 else ""
        raise InputError(
            f"{len(known)} of {len(names)} domains were seen in training: {listed(known)}; a certificate is about new "
            f"domains{hope}."
        )
    return judged


def _without_seen(judged: Judged, seen: Sequence[Hashable]) -> Judged:
    """Leave out the domains that the model has seen."""
    from domaincover.promises.certificates import seen_among

    is_seen = seen_among(judged.report.domain_names, seen)
    if all(is_seen):
        raise InputError(f"all {len(is_seen)} domains were seen in training; a certificate is about new domains.")
    return judged._replace(report=judged.report.subset([row for row, known in enumerate(is_seen) if not known]))
