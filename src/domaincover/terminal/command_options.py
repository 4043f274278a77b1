"""Commands whose arguments and options are the fields of a frozen dataclass.

Typer reads the parameters of a function. A command with dozens of options would list them in its signature and pass
them on one by one; here they are declared once, as fields, and arrive as one object. Commands, options and choices are
completed by typer, paths by the shell; names by what this module gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import MISSING, field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

Options = TypeVar("Options")
Completion = Callable[[typer.Context, str], list[str]]
PARAMETER = "typer parameter"  # the key of a field's metadata
REQUIRED = MISSING


def argument(about: str, metavar: str, default: Any = REQUIRED, **more: Any) -> Any:
    """Return a field for an argument of a command."""
    return _field(default, typer.Argument(metavar=metavar, help=about, show_default=False, **more))


def option(about: str, default: Any = None, *names: str, **more: Any) -> Any:
    """Return a field for an option, which has the name of the field unless others are given."""
    return _field(default, typer.Option(..., *names, help=about, **more))


def _field(default: Any, parameter: Any) -> Any:
    return field(default=default, metadata={PARAMETER: parameter})


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


def _parameters(options: Any) -> Iterator[Parameter]:
    hints = get_type_hints(options)
    for one in fields(options):
        hint = hints[one.name]
        if is_dataclass(hint):
            yield from _parameters(hint)
            continue
        about = copy(one.metadata[PARAMETER])
        about.rich_help_panel = getattr(options, "panel", about.rich_help_panel)
        if hint is bool and not about.param_decls:  # typer would add an option for False
            about.param_decls = (f"--{one.name.replace('_', '-')}",)
        default = Parameter.empty if one.default is REQUIRED else one.default
        yield Parameter(one.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, about])


def _made(options: type[Options], given: Mapping[str, Any]) -> Options:
    hints = get_type_hints(options)
    values = {
        one.name: _made(hints[one.name], given) if is_dataclass(hints[one.name]) else given[one.name]
        for one in fields(options)  # type: ignore[arg-type]
    }
    return options(**values)


def one_of(names: Callable[[], Iterable[str]]) -> Completion:
    """Complete one name."""
    return lambda ctx, incomplete: [name for name in names() if name.startswith(incomplete)]  # noqa: ARG005
