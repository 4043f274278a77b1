"""The command `plan`: how many domains a promise about new ones needs."""

from __future__ import annotations

from typing import Annotated

import typer

from domaincover.cli.arguments import TextOrJson
from domaincover.terminal.messages import text_width


def plan(
    labels: Annotated[int, typer.Option(help="Number of labels.")],
    features: Annotated[int | None, typer.Option(help="Number of features, for linear scorers.")] = None,
    vc_dimension: Annotated[
        int | None, typer.Option(help="VC dimension of each label's scorers, in place of --features.")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Share of new domains that may miss the target.")] = 0.1,
    delta: Annotated[float, typer.Option(help="Probability that the promise fails.")] = 0.05,
    target_recall: Annotated[float, typer.Option(help="Recall wanted for every label in every domain.")] = 0.9,
    recall_slack: Annotated[float, typer.Option(help="How far recall on rows may fall below the target.")] = 0.05,
    domains: Annotated[int | None, typer.Option(help="Number of domains at hand: also print what they allow.")] = None,
    style: TextOrJson = "text",
) -> None:
    """Compute how many domains a promise about new domains needs.

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
