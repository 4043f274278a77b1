"""The command `plan`: how many domains a promise about new ones needs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from domaincover.cli.arguments import TextOrJson
from domaincover.terminal.messages import text_width


def plan(
    epsilon: Annotated[float, typer.Option(help="Share of new domains that may miss the target.")] = 0.1,
    delta: Annotated[float, typer.Option(help="Probability that the promise fails.")] = 0.05,
    target_recall: Annotated[float, typer.Option(help="Recall wanted for every label in every domain.")] = 0.9,
    domains: Annotated[int | None, typer.Option(help="Number of domains at hand: also print what they allow.")] = None,
    style: TextOrJson = "text",
) -> None:
    """Compute how many domains a promise about new domains needs.

    Example: domaincover plan --epsilon 0.1 --delta 0.05 --domains 40
    """
    from domaincover.promises.plans import plan_domains

    made = plan_domains(epsilon=epsilon, delta=delta, target_recall=target_recall, n_domains=domains)
    as_json = style == "json"
    typer.echo(json.dumps(made.to_dict(), indent=2, allow_nan=False) if as_json else made.text(text_width()))
