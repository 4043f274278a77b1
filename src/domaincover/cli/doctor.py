"""The command `doctor`: check the installation: versions, devices and threads, and what each extra needs."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING, NamedTuple

import typer

from domaincover.errors import one_line
from domaincover.terminal.messages import text_width
from domaincover.terminal.processes import n_cores
from domaincover.terminal.text import wrapped

if TYPE_CHECKING:
    from packaging.requirements import Requirement

FOR_DEVELOPERS = ("benchmarks", "dev", "docs")
NOT_WORKING = 1
GOOD, ABSENT, NOTE, BAD = "ok", "-", "!", "NO"


class Checked(NamedTuple):
    """What was found of one thing; it goes into bug reports, so no folder is named in it."""

    mark: str
    what: str
    text: str


def doctor() -> None:
    """Check the installation: versions, devices and threads, and what each extra needs.

    Example: domaincover doctor
    """
    found = [*_machine(), _devices(), *_packages()]
    works = all(one.mark != BAD for one in found)
    for one in found:
        lines = wrapped(f"{one.what}: {one.text}", text_width(), f"{one.mark:>2}  ", " " * 4)
        typer.echo("\n".join(lines))
    typer.echo(f"The installation {'works' if works else 'does not work: see what is marked NO'}.")
    if not works:
        raise typer.Exit(NOT_WORKING)


def _machine() -> Iterator[Checked]:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Checked(GOOD, "Python", f"{python} on {platform.platform(aliased=True)}, {n_cores()} cores")
    if "utf" not in (encoding := sys.stdout.encoding).lower():
        yield Checked(NOTE, "standard output", f"{encoding}; PYTHONUTF8=1 makes it UTF-8")


def _devices() -> Checked:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a library that torch loads is corrupt or missing
        if _installed("torch") is None:
            return Checked(ABSENT, "devices", "without torch no network is trained; models of tables predict")
        return Checked(BAD, "devices", f"torch cannot be imported: {one_line(error)}")
    found = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    found += ["MPS"] if torch.backends.mps.is_available() else []
    threads = f"CPU with {torch.get_num_threads()} threads"
    return Checked(GOOD, "devices", ", ".join([threads, *(found or ["no GPU"])]))


def _packages() -> Iterator[Checked]:
    """Find what domaincover itself requires, and then what each extra does."""
    from packaging.requirements import Requirement

    by_extra: dict[str, list[Requirement]] = {"": []}
    for asked in map(Requirement, requires("domaincover") or ()):
        extra = re.search('extra == "(.+?)"', str(asked.marker))
        by_extra.setdefault(extra[1] if extra else "", []).append(asked)
    for name, needed in by_extra.items():
        here = {asked.name: _installed(asked.name) for asked in needed}
        wrong = [asked for asked in needed if not _fits(asked, here[asked.name])]
        if not wrong:
            versions = ", ".join(f"{package} {found}" for package, found in here.items())
            yield Checked(GOOD, name or f"domaincover {version('domaincover')}", versions)
        elif not name:
            told = (f"{asked} is required, {here[asked.name] or 'none'} is installed" for asked in wrong)
            yield Checked(BAD, "packages", "; ".join(told))
        elif name not in FOR_DEVELOPERS:
            without = ", ".join(asked.name for asked in wrong)
            yield Checked(ABSENT, name, f"without {without}: pip install 'domaincover[{name}]'")


def _fits(asked: Requirement, here: str | None) -> bool:
    return here is not None and asked.specifier.contains(here, prereleases=True)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
