"""Errors that a user can fix."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

LONGEST = 300  # characters of another package's message


class InputError(ValueError):
    """Invalid input; the message says in one line what is wrong, where, and what to do."""


def check_installed(package: str, what: str, extra: str) -> None:
    """Raise if a package is not installed, without importing it."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise InputError(f"{what} need {package}, which is not installed: pip install 'domaincover[{extra}]'.")


@contextmanager
def torch_needed_for(what: str) -> Iterator[None]:
    """Say what torch is needed for, where it is imported and not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise InputError(f"{what} needs torch: pip install 'domaincover[train]'.") from None


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Suggest the closest known name, or return `otherwise` if none is close.

    >>> suggestion("storm", ["votes", "storms"])
    'did you mean storms?'
    """
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]}?" if near else otherwise


def check_choice(name: str, value: Any, known: Iterable[Any]) -> None:
    """Raise if a value is none of those known, with the closest of them.

    >>> check_choice("rule", "robsut", ["robust", "pooled"])
    Traceback (most recent call last):
    domaincover.errors.InputError: rule must be one of 'robust', 'pooled', got 'robsut'; did you mean robust?
    """
    choices = list(known)
    if value not in choices:
        meant = suggestion(str(value), (choice for choice in choices if isinstance(choice, str)))
        listed = ", ".join(map(repr, choices))
        raise InputError(f"{name} must be one of {listed}, got {value!r}{f'; {meant}' if meant else '.'}")


def one_line(error: BaseException) -> str:
    """Return an error's type and message in one line.

    >>> one_line(KeyError("a"))
    "KeyError: 'a'"
    """
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return said if len(said) <= LONGEST else f"{said[:LONGEST].rstrip()} …"
