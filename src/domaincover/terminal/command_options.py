"""Commands whose arguments and options are the fields of a frozen dataclass.

Typer reads the parameters of a function. A command with dozens of options would list them in its signature and pass
them on one by one; here they are declared once, as fields with typer's annotations, and arrive as one object. Commands,
options and choices are completed by typer, paths by the shell; names by what this module gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import typer

Options = TypeVar("Options")
Completion = Callable[[typer.Context, str], list[str]]


def takes(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Turn a function that takes an options object into a typer command.

    A field whose type is itself a dataclass stands for all fields of that dataclass. The options of a dataclass with a
    `panel` stand in a panel of this name in the help.
    """

    def decorate(command: Callable[[Options], None]) -> Callable[..., None]:
        @wraps(command)
        def called(**given: Any) -> None:
            command(_made(options, given))

        parameters = list(_parameters(options))
        called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return decorate


def _parameters(options: type) -> Iterator[Parameter]:
    hints = get_type_hints(options, include_extras=True)
    for field in fields(options):
        if is_dataclass(hints[field.name]):
            yield from _parameters(hints[field.name])
            continue
        default = Parameter.empty if field.default is MISSING else field.default
        hint, about = get_args(hints[field.name])
        if hasattr(options, "panel"):
            about = copy(about)
            about.rich_help_panel = options.panel
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, about])


def _made(options: type[Options], given: Mapping[str, Any]) -> Options:
    hints = get_type_hints(options)
    values = {
        field.name: _made(hints[field.name], given) if is_dataclass(hints[field.name]) else given[field.name]
        for field in fields(options)  # type: ignore[arg-type]
    }
    return options(**values)


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
