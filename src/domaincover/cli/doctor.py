"""The command `doctor`: check the installation: versions, devices, folders, and a smoke run from data to a report."""

from __future__ import annotations

import json
import locale
import os
import platform
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from domaincover.errors import one_line
from domaincover.terminal.messages import text_width
from domaincover.terminal.processes import n_cores

if TYPE_CHECKING:
    from packaging.requirements import Requirement

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
FOR_DEVELOPERS = ("benchmarks", "dev", "docs")
NOT_WORKING = 1
MARKS = {"good": "[green]ok[/]", "absent": "[dim]-[/]", "note": "[yellow]![/]", "bad": "[red]NO[/]"}


def doctor(
    format: Annotated[Literal["text", "json"], typer.Option(help="Output format; json is for bug reports.")] = "text",  # noqa: A002
) -> None:
    """Check the installation: versions, devices, optional packages, folders, and a smoke run from data to a report.

    No files are kept. In the JSON, your home folder is written as ~.

    Example: domaincover doctor
    """
    findings = check_installation()
    if format == "json":
        typer.echo(json.dumps({**asdict(findings), "problems": findings.problems}, indent=2))
    else:
        _show(findings)
    if findings.problems:
        raise typer.Exit(NOT_WORKING)


@dataclass(frozen=True)
class Package:
    """A required package, and the installed version; None if it is missing."""

    name: str
    wanted: str
    version: str | None
    fits: bool


@dataclass(frozen=True)
class Folder:
    """Whether a folder is writable, and its free bytes."""

    what: str
    writable: bool
    free: int


@dataclass(frozen=True)
class Findings:
    """All findings; they go into bug reports, so the home folder is not named in them."""

    environment: dict[str, Any]
    encodings: dict[str, str]
    devices: dict[str, Any]
    required: list[Package]
    extras: dict[str, list[Package]]
    folders: list[Folder]
    smoke_run: dict[str, str]  # error by step, empty if it passed; steps after an error are absent
    seconds: float  # of the smoke run

    @property
    def problems(self) -> list[str]:
        """What keeps domaincover from working, one line each."""
        packages = [
            f"{p.name}{p.wanted} is required, {p.version or 'none'} is installed" for p in self.required if not p.fits
        ]
        faults = [f"the smoke run could not {step}: {fault}" for step, fault in self.smoke_run.items() if fault]
        return packages + faults


def check_installation() -> Findings:
    """Check what domaincover requires and can use, and do a smoke run."""
    from packaging.requirements import Requirement

    from domaincover.data.feature_cache import default_cache_folder

    asked = [Requirement(text) for text in requires("domaincover") or ()]
    by_extra: dict[str, list[Package]] = {}
    for one in asked:
        by_extra.setdefault(_extra_of(one), []).append(_package(one))
    began = time.perf_counter()
    smoke_run = _faults_of(smoke_steps())
    return Findings(
        environment={
            "domaincover": version("domaincover"),
            "python": f"{platform.python_implementation()} {platform.python_version()}",
            "platform": f"{platform.system()} {platform.release()}, {platform.machine()}",
            "cores": n_cores(),
            "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None,
        },
        encodings={"files": locale.getpreferredencoding(False), "standard output": sys.stdout.encoding},
        devices=_devices(),
        required=by_extra.pop("", []),
        extras={extra: packages for extra, packages in by_extra.items() if extra not in FOR_DEVELOPERS},
        folders=[_folder("current folder", Path.cwd()), _folder("cache of features", default_cache_folder())],
        smoke_run=smoke_run,
        seconds=round(time.perf_counter() - began, 1),
    )


def _devices() -> dict[str, Any]:
    if _installed("torch") is None:
        return {}
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a library that torch loads is corrupt or missing
        return {"fault": _one_line(error)}
    return {
        "threads": torch.get_num_threads(),
        "cuda": [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())],
        "mps": torch.backends.mps.is_available(),
    }


def _extra_of(requirement: Requirement) -> str:
    """Return the extra that requires a package, or nothing if domaincover itself does."""
    found = re.search('extra == "(.+?)"', str(requirement.marker))
    return found[1] if found else ""


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _package(requirement: Requirement) -> Package:
    here = _installed(requirement.name)
    fits = here is not None and requirement.specifier.contains(here, prereleases=True)
    return Package(requirement.name, str(requirement.specifier), here, fits)


def _folder(what: str, path: Path) -> Folder:
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    return Folder(what, there.is_dir() and os.access(there, os.W_OK | os.X_OK), shutil.disk_usage(there).free)


def smoke_steps() -> Iterator[str]:
    """Go from data to a page in a temporary folder; yield the name of each step before it is done."""
    yield "make a temporary folder"
    with tempfile.TemporaryDirectory(prefix="domaincover-") as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so small a run does not converge
        yield "draw data"
        import numpy as np

        from domaincover.data.synthetic import GaussianDomains

        data = GaussianDomains.of_paper(4).sample(6, 60, np.random.default_rng(0))
        yield "fit a model"
        from domaincover.estimators.recipes import make_classifier

        has_torch = _installed("torch") is not None
        training = {"epochs": 3} if has_torch else {}
        chosen: tuple[Any, Any] = ("set-cover", "mlp") if has_torch else ("robust", "boosting")
        model: Any = make_classifier(*chosen, training=training, random_state=0)
        model.fit(data.examples, data.labels, domains=data.domains)
        yield "save and load it"
        from domaincover.saving.models import load, save

        save(model, Path(name) / "model")
        loaded = load(Path(name) / "model")
        yield "predict the same sets"
        if not (model.predict_set(data.examples) == loaded.predict_set(data.examples)).all():
            raise RuntimeError("the loaded model predicts other sets than the saved one")
        yield "write a report"
        from domaincover.report.domain_page import write_domain_page

        report = model.domain_report(data.examples, data.labels, data.domains)
        write_domain_page(Path(name) / "page.html", {"set-cover": report}, 0.9, title="Smoke run")


def _faults_of(steps: Iterator[str]) -> dict[str, str]:
    """Do the steps up to the first error; return the error of each, empty if it passed."""
    found, step = {}, ""
    try:
        for step in steps:
            found[step] = ""
    except Exception as error:  # any error is a finding
        found[step] = _one_line(error)
    return found


def _one_line(error: BaseException) -> str:
    """Return an error without the name of the home folder, which is private."""
    from domaincover.data.feature_cache import home_folder

    return one_line(error).replace(str(home_folder()), "~")


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
            table.add_row(f"  {MARKS[state]}", *map(escape, texts))
        console.print(title, style="bold")
        console.print(table)
    for problem in findings.problems:
        console.print(f"Problem: {problem}.", style="red", markup=False)
    missing = [name for name, packages in findings.extras.items() if not all(package.fits for package in packages)]
    also = f" Optional extras not installed: {', '.join(missing)}." if missing else ""
    verdict = "does not work: see the problems above." if findings.problems else f"works.{also}"
    console.print(f"The installation {verdict}", markup=False)


def _basics(findings: Findings) -> Iterator[tuple[str, str, str]]:
    """Yield state, name and text of each requirement."""
    about, devices, fits = findings.environment, findings.devices, all(package.fits for package in findings.required)
    memory = "" if about["memory"] is None else f", {about['memory'] / 2**30:.0f} GB of memory"
    yield "good", "Python", f"{about['python']} on {about['platform']}"
    yield "good", "machine", f"{about['cores']} cores{memory}"
    if not devices:
        yield "absent", "devices", "without torch no network is trained; models of tables predict"
    elif "fault" in devices:
        yield "bad", "devices", f"torch cannot be imported: {devices['fault']}"
    else:
        found = [*devices["cuda"], *(["MPS"] if devices["mps"] else [])]
        with_gpu = f", {', '.join(found)}" if found else "; no GPU"
        yield "good", "devices", f"CPU with {devices['threads']} threads{with_gpu}"
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


def _versions(packages: Iterable[Package]) -> str:
    return ", ".join(f"{package.name} {package.version or 'missing'}" for package in packages)
