"""Commands for studies: paper, results, report, figures."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from domaincover.cli import completion
from domaincover.cli.live import live_view, say_outcome, say_plan
from domaincover.cli.outputs import say, warnings_in_a_line
from domaincover.cli.terminal import text_width
from domaincover.errors import InputError
from domaincover.files import writing

if TYPE_CHECKING:
    import pandas as pd

    from domaincover.paper.runner import Outcome, Workers
    from domaincover.paper.study import Study

paper = typer.Typer(
    help="Run the paper's experiments: `paper list` names them, `paper NAME…` runs some, and `paper all` every one "
    "(`paper all --help` has the options). The commands below run one kind of data, with every option.",
    no_args_is_help=True,
)

MOST_FEATURES = 2000
SOME_FAILED = 1
TableFormat = Literal["table", "md", "csv", "latex", "json"]
FigureFormat = Literal["png", "svg", "pdf"]
METHODS_HELP = (
    "Methods, with commas; paper, if not given, means erm, pooled-train, pooled-held-out, robust and set-cover, "
    "single-label means erm, irm, vrex, mmd, coral, group-dro, qrm and set-cover."
)
PENALTY_HELP = "Weight of the penalties of irm, vrex, mmd and coral; 100, 10, 1 and 1 if not given."
StudyDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="A study's directory.", show_default=False)]


@paper.command("synthetic")
def paper_synthetic(
    out: Annotated[Path, typer.Option(help="Directory of the study; finished runs in it are kept.")],
    dims: Annotated[str, typer.Option(help="Numbers of features, with commas.")] = "10,50",
    covariance: Annotated[
        str,
        typer.Option(
            help="shared, random, or both with a comma.", autocompletion=completion.with_commas(completion.covariances)
        ),
    ] = "shared,random",
    methods: Annotated[
        str, typer.Option(help=METHODS_HELP, autocompletion=completion.with_commas(completion.methods))
    ] = "",
    penalty_weight: Annotated[float | None, typer.Option(help=PENALTY_HELP)] = None,
    domain_confidence: Annotated[
        float | None, typer.Option(help="Promise this about a new domain by erm-joint and set-cover-joint; adds them.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds: 0, 1, …")] = 5,
    target_recall: Annotated[str, typer.Option(help="Target recalls, with commas.")] = "0.9",
    epochs: Annotated[int, typer.Option(help="Epochs of training.")] = 30,
    jobs: Annotated[int | None, typer.Option(help="Processes; as many as there are cores if not given.")] = None,
) -> None:
    """Compare SET-COVER with ERM and the conformal rules on the paper's synthetic domains.

    With --methods single-label, compare it with IRM, VREx, MMD, CORAL, Group DRO and QRM.

    Example: domaincover paper synthetic --dims 10 --seeds 2 --out runs/small
    """
    from domaincover.paper.datasets import synthetic_name
    from domaincover.paper.runner import Workers
    from domaincover.paper.study import Study

    check_counts(seeds, jobs)
    study = Study(
        datasets=tuple(
            synthetic_name(n_features, kind)
            for n_features in _dims(dims)
            for kind in _choices(covariance, "--covariance", ("shared", "random"))
        ),
        methods=chosen_methods(methods, domain_confidence),
        domain_confidence=0.9 if domain_confidence is None else domain_confidence,
        penalty_weight=penalty_weight,
        target_recalls=tuple(numbers(target_recall, "--target-recall", float)),
        seeds=tuple(range(seeds)),
        epochs=epochs,
    )
    leave_if_failed(carry_out([study], out, Workers(jobs or n_cores())))


def carry_out(studies: Sequence[Study], out: Path, means: Workers) -> Outcome:
    """Do what is left of studies in one directory, and say so."""
    from domaincover.paper.runner import plan_studies, run_study

    with warnings_in_a_line():
        plan = plan_studies(studies, out, say)
    here = f"in {means.n_processes} processes" if means.n_processes > 1 else "in this process"
    where = here if means.scheduler is None else f"on the cluster at {means.scheduler}"
    say_plan(plan, where, means.n_processes if means.scheduler is None else None)
    with warnings_in_a_line(), writing(out), live_view(plan) as on_progress:
        outcome = run_study(plan, out, means, on_progress)
    say_outcome(outcome, out)
    return outcome


def leave_if_failed(outcome: Outcome) -> None:
    """End with a code that tells a script that something is missing."""
    if outcome.failures:
        raise typer.Exit(SOME_FAILED)


def check_counts(seeds: int, jobs: int | None) -> None:
    """Refuse no seeds, and no processes."""
    from domaincover.paper.study import MOST_SEEDS

    if seeds < 1:
        raise InputError(f"--seeds is the number of seeds and must be at least 1, got {seeds}.")
    if seeds > MOST_SEEDS:
        raise InputError(f"--seeds must be at most {MOST_SEEDS}, got {seeds}.")
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {jobs}.")


def chosen_methods(names: str, domain_confidence: float | None) -> tuple[str, ...]:
    """Return the methods asked for, or the paper's; where a confidence is asked for, also those with a promise."""
    from domaincover.paper.methods import METHODS, study_methods

    if names:
        return study_methods(items(names, "--methods"))
    promising = [name for name, method in METHODS.items() if method.promises and domain_confidence is not None]
    return study_methods(["paper", *promising])


def results(
    directory: StudyDirectory,
    format: Annotated[TableFormat, typer.Option(help="How to print.")] = "table",  # noqa: A002
    all_splits: Annotated[
        bool, typer.Option("--all-splits", help="In a table: training and seen domains too, not only unseen ones.")
    ] = False,
) -> None:
    """Print a study's results over seeds: median min recall, median set size, share of domains at target.

    Example: domaincover results runs/synthetic --format json | jq .
    """
    from domaincover.paper.collect import collect
    from domaincover.paper.published import published_results
    from domaincover.paper.report.tables import format_results

    table = collect(directory).results
    if format in ("table", "md", "latex") and not all_splits:
        table = _only_unseen(table)
    terminal = sys.stdout.isatty()
    text = format_results(table, format, width=text_width(), color=terminal, published=published_results())
    typer.echo(text.rstrip("\n"), color=terminal or None)


def report(
    directory: StudyDirectory,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
) -> None:
    """Write a study's page: table and interactive cross-plots in one file that needs no network.

    Example: domaincover report runs/synthetic --out report.html
    """
    from domaincover.cli.products import write_study_page
    from domaincover.paper.collect import collect

    tables = collect(directory)
    with writing(out):
        write_study_page(tables, directory, out)
    typer.echo(f"The page is {out.resolve().as_uri()}", err=True)


def figures(
    directory: StudyDirectory,
    out: Annotated[Path, typer.Option(help="Directory for the figures.")],
    format: Annotated[FigureFormat, typer.Option(help="Kind of file.")] = "png",  # noqa: A002
) -> None:
    """Write a study's figures as files: cross-plots, bars of the share at target, boxes of min recall.

    Example: domaincover figures runs/synthetic --out figures --format pdf
    """
    from domaincover.paper.collect import collect
    from domaincover.paper.report.figures import figure_files

    tables = collect(directory)
    with writing(out):
        for path in figure_files(tables.results, tables.domains, out, format):
            typer.echo(path)


def _only_unseen(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["split"] == "unseen"]


def n_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _dims(text: str) -> list[int]:
    dims: list[int] = numbers(text, "--dims", int)
    for n_features in dims:
        if not 2 <= n_features <= MOST_FEATURES:
            raise InputError(f"--dims takes even numbers from 2 to {MOST_FEATURES}, got {n_features}.")
    return dims


def items(text: str, option: str) -> list[str]:
    """Return what stands between commas, each once."""
    items = list(dict.fromkeys(item.strip() for item in text.split(",") if item.strip()))
    if not items:
        raise InputError(f"{option} is empty.")
    return items


def numbers(text: str, option: str, kind: type) -> list[Any]:
    """Return the numbers between commas, each once."""
    try:
        return list(dict.fromkeys(kind(item) for item in items(text, option)))
    except ValueError:
        raise InputError(f"{option} takes numbers with commas between them, got {text!r}.") from None


def _choices(text: str, option: str, known: tuple[str, ...]) -> list[Any]:
    chosen = items(text, option)
    for item in chosen:
        if item not in known:
            raise InputError(f"{option} takes {' or '.join(known)}, got {item!r}.")
    return chosen
