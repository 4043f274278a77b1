"""The command `demo`: a promise on Atlantic storms, from a table in the package to a page, in seconds."""

from __future__ import annotations

import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path

import typer

from domaincover.cli.outputs import check_page, say_page
from domaincover.terminal.command_options import option, takes
from domaincover.terminal.messages import say, text_width

PAGE = Path("domaincover-demo.html")


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """Options of `demo`."""

    html: Path = option("Page to write.", PAGE)
    seed: int = option("Random seed: which seasons are new.", 0)


@takes(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Promise every kind of storm in hurricane seasons that the model has not seen, and open the page.

    Example: domaincover demo
    """
    check_page(options.html, PAGE.with_suffix(".csv"))
    say("Atlantic storms (NOAA): a hurricane, a tropical storm or weaker in 24 hours? Domains are seasons.")
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline

    from domaincover.data.encoding import TableEncoder
    from domaincover.datasets import load_storms
    from domaincover.estimators.assessment import BASELINE, FIXED, MODEL, assess
    from domaincover.estimators.calibrated_classifiers import PromisedSetClassifier
    from domaincover.report.domain_table import summary_table
    from domaincover.report.pages import write_domain_page

    trees = HistGradientBoostingClassifier(max_iter=50, random_state=options.seed)
    model = PromisedSetClassifier(make_pipeline(TableEncoder(scale=False), trees), random_state=options.seed)
    found = assess(model, *load_storms(), random_state=options.seed)
    names = {MODEL: "Promised, adapted", FIXED: "Promised", BASELINE: "ERM"}
    reports = {names[name]: report for name, report in found.unseen.items()}
    typer.echo(summary_table(reports, model.target_recall, width=text_width()))
    title = "Atlantic storms in new seasons"
    write_domain_page(options.html, reports, model.target_recall, title=title, verdict=found.verdict_lines)
    say_page(options.html)
    say("With your own table: domaincover fit TABLE --label COLUMN --domain COLUMN --out model")
    if sys.stdout.isatty():
        webbrowser.open(options.html.resolve().as_uri())
