"""The command `plan`: how many domains a promise about new ones needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import typer

from domaincover.cli.arguments import output_format
from domaincover.cli.outputs import print_json
from domaincover.terminal.command_options import option, takes
from domaincover.terminal.messages import text_width


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
