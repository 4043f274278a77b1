"""What a shell offers at TAB for names and columns.

Commands, options and choices are typer's, paths the shell's own. Nothing here loads torch.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path

import typer

from domaincover.errors import InputError

Completion = Callable[[typer.Context, str], list[str]]


def with_commas(names: Callable[[], Iterable[str]]) -> Completion:
    """Complete the last of several names with commas between them; those given before are not offered again."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:  # noqa: ARG001
        before = incomplete.rpartition(",")[0]
        given = before.split(",") if before else []
        return [",".join([*given, name]) for name in names() if name not in given]

    return complete


def one_of(names: Callable[[], Iterable[str]]) -> Completion:
    """Complete one name."""
    return lambda ctx, incomplete: [name for name in names() if name.startswith(incomplete)]  # noqa: ARG005


def columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a column of the table that stands before; a name that a shell would take apart is not offered."""
    given = [ctx.params.get("table"), *ctx.args]  # an option without its value keeps arguments from being told apart
    table = next((Path(path) for path in given if path is not None and Path(path).is_file()), None)
    if table is None:
        return []

    from domaincover.data.tables import open_table

    try:
        names = open_table(table).columns
    except InputError:  # the command itself will say it
        return []
    return [name for name in names if name.startswith(incomplete) and shlex.quote(name) == name]


def experiments() -> list[str]:
    """Return the paper's experiments, and the name for all of them, without reading any."""
    folder = files("domaincover.paper") / "experiments"
    names = [path.name for path in folder.iterdir() if path.name.endswith(".toml")]
    return [*sorted(name.removesuffix(".toml") for name in names), "all"]


def methods() -> list[str]:
    """Return the methods of studies, and the names for several of them."""
    from domaincover.paper.methods import GROUPS, METHODS

    return [*METHODS, *GROUPS]


def datasets() -> list[str]:
    """Return the data sets of studies, and the names for several of them."""
    from domaincover.paper.datasets import DATASET_GROUPS

    return list(dict.fromkeys([*DATASET_GROUPS, *(name for group in DATASET_GROUPS.values() for name in group)]))


def wilds() -> list[str]:
    """Return the data sets of WILDS."""
    from domaincover.paper.wilds.hyperparameters import PAPER

    return list(PAPER)


def trackers() -> list[str]:
    """Return the places where a training can tell how it goes."""
    from domaincover.options import TRACKERS

    return list(TRACKERS)


def image_networks() -> list[str]:
    """Return the networks that need no folder."""
    return ["resnet-18"]


def devices() -> list[str]:
    """Return where a network can be trained, whether this machine has it or not."""
    return ["auto", "cpu", "cuda", "mps"]


def covariances() -> list[str]:
    """Return the kinds of the paper's synthetic domains."""
    return ["shared", "random"]
