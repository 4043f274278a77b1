"""Shell completion of names. Commands, options and choices are completed by typer, paths by the shell."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import typer

Completion = Callable[[typer.Context, str], list[str]]


def with_commas(names: Callable[[], Iterable[str]]) -> Completion:
    """Complete the last of several names separated by commas; names given before are not offered again."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:  # noqa: ARG001
        before = incomplete.rpartition(",")[0]
        given = before.split(",") if before else []
        return [",".join([*given, name]) for name in names() if name not in given]

    return complete


def one_of(names: Callable[[], Iterable[str]]) -> Completion:
    """Complete one name."""
    return lambda ctx, incomplete: [name for name in names() if name.startswith(incomplete)]  # noqa: ARG005
