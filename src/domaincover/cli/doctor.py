"""The command `doctor`: check the installation."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from domaincover.terminal.messages import text_width

if TYPE_CHECKING:
    from domaincover.cli.installation import Findings, Package

PURPOSES = {
    "train": "training of networks",
    "data": "data sets of the examples and studies",
    "images": "networks on images",
    "text": "networks on texts",
    "excel": "Excel tables (.xlsx)",
    "onnx": "export of models of tables",
    "accelerate": "mixed precision, several processes",
    "dask": "studies on a cluster: --scheduler",
    "trackers": "--tracker tensorboard, mlflow, wandb",
}
NOT_WORKING = 1
MARKS = {"good": ("✓", "green"), "absent": ("-", "dim"), "note": ("!", "yellow"), "bad": ("✗", "red")}
PLAIN_MARKS = {"good": "ok", "absent": "-", "note": "!", "bad": "NO"}  # for encodings without these characters


def doctor(
    format: Annotated[Literal["text", "json"], typer.Option(help="Output format; json is for bug reports.")] = "text",  # noqa: A002
) -> None:
    """Check the installation: versions, devices, optional packages, folders, and a smoke run from data to a report.

    No files are kept. In the JSON, your home folder is written as ~.

    Example: domaincover doctor
    """
    from domaincover.cli.installation import check_installation

    findings = check_installation()
    if format == "json":
        typer.echo(json.dumps(findings.to_dict(), indent=2))
    else:
        _show(findings)
    if findings.problems:
        raise typer.Exit(NOT_WORKING)


def _show(findings: Findings) -> None:
    """Print the findings, each with a mark, and a verdict."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(width=text_width(), highlight=False)
    parts = {
        f"domaincover {findings.environment['domaincover']}": _basics(findings),
        "Optional": [_extra(name, packages) for name, packages in findings.extras.items()],
        f"Smoke run, {findings.seconds:.1f} seconds": [
            ("bad" if fault else "good", step, fault) for step, fault in findings.smoke_run.items()
        ],
    }
    for title, lines in parts.items():
        table = Table(box=None, pad_edge=False, show_header=False)
        for state, *texts in lines:
            table.add_row(_mark(state), *map(escape, texts))
        console.print(title, style="bold")
        console.print(table)
    for problem in findings.problems:
        console.print(f"Problem: {problem}.", style="red", markup=False)
    console.print(_verdict(findings), markup=False)


def _mark(state: str) -> str:
    mark, color = MARKS[state]
    try:
        mark.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        mark = PLAIN_MARKS[state]
    return f"  [{color}]{mark}[/]"


def _basics(findings: Findings) -> Iterator[tuple[str, str, str]]:
    """Yield state, name and text of each requirement."""
    about, fits = findings.environment, all(package.fits for package in findings.required)
    memory = "" if about["memory"] is None else f", {about['memory'] / 2**30:.0f} GB of memory"
    yield "good", "Python", f"{about['python']} on {about['platform']}"
    yield "good", "machine", f"{about['cores']} cores{memory}"
    state = "absent" if not findings.devices else "bad" if "fault" in findings.devices else "good"
    yield state, "devices", _devices(findings.devices)
    is_utf8 = all("utf" in name.lower() for name in findings.encodings.values())
    encodings = ", ".join(f"{name} for {what}" for what, name in findings.encodings.items())
    yield "good" if is_utf8 else "note", "encoding", encodings + ("" if is_utf8 else "; PYTHONUTF8=1 makes it UTF-8")
    yield "good" if fits else "bad", "packages", _versions(findings.required)
    for folder in findings.folders:
        can = "writable" if folder.writable else "not writable"
        yield "good" if folder.writable else "note", folder.what, f"{can}, {folder.free / 1e9:.1f} GB free"


def _extra(name: str, packages: Sequence[Package]) -> tuple[str, str, str, str]:
    """Return state, name, purpose and packages of an extra, or how to install it."""
    missing = [package.name for package in packages if not package.fits]
    about = f"without {', '.join(missing)}: pip install 'domaincover[{name}]'" if missing else _versions(packages)
    return "absent" if missing else "good", name, PURPOSES.get(name, ""), about


def _devices(devices: Mapping[str, Any]) -> str:
    if not devices:
        return "without torch no network is trained; models of tables predict"
    if "fault" in devices:
        return f"torch cannot be imported: {devices['fault']}"
    found = [f"CPU with {devices['threads']} threads", *devices["cuda"], *(["MPS"] if devices["mps"] else [])]
    return ", ".join(found) + ("" if len(found) > 1 else "; no GPU")


def _versions(packages: Iterable[Package]) -> str:
    return ", ".join(f"{package.name} {package.version or 'missing'}" for package in packages)


def _verdict(findings: Findings) -> str:
    if findings.problems:
        return "The installation does not work: see the problems above."
    missing = [name for name, packages in findings.extras.items() if not all(package.fits for package in packages)]
    also = f" Optional extras not installed: {', '.join(missing)}." if missing else ""
    return f"The installation works.{also}"
