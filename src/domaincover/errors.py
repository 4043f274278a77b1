"""What a user can fix."""

from collections.abc import Iterable


class InputError(ValueError):
    """Bad input: the message names what was wrong, where, and what to do, in one line."""


def check_installed(package: str, what: str, extra: str) -> None:
    """Refuse, before any work is done, what needs a package that is not here; nothing is imported."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise InputError(f"{what} need a package that is not here, {package}: pip install 'domaincover[{extra}]'.")


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Ask whether the nearest of the known names was meant, or say something else where none is near.

    >>> suggestion("storm", ["votes", "storms"])
    'did you mean storms?'
    """
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]}?" if near else otherwise


def one_line(error: BaseException) -> str:
    """Return an error's kind and message in one line.

    >>> one_line(KeyError("a"))
    "KeyError: 'a'"
    """
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
