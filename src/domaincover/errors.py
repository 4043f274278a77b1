"""What a user can fix."""


class InputError(ValueError):
    """Bad input: the message names what was wrong, where, and what to do, in one line."""


def check_installed(package: str, what: str, extra: str) -> None:
    """Refuse, before any work is done, what needs a package that is not here; nothing is imported."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise InputError(f"{what} need a package that is not here, {package}: pip install 'domaincover[{extra}]'.")
