"""The command `doctor`: check the installation: versions, devices, folders, and a smoke run from data to a report."""

from __future__ import annotations

import locale
import math
import os
import platform
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import typer

from domaincover.cli.arguments import output_format
from domaincover.cli.outputs import print_json
from domaincover.errors import one_line
from domaincover.terminal.command_options import takes
from domaincover.terminal.messages import text_width
from domaincover.terminal.processes import memory_of_machine, n_cores

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PURPOSES = {
    "train": "training of networks",
    "data": "data sets of the examples and studies",
    "images": "networks on images",
    "text": "networks on texts",
    "onnx": "export of models of tables",
    "accelerate": "mixed precision, several processes",
    "dask": "studies on a cluster: --scheduler",
    "trackers": "--tracker tensorboard, mlflow, wandb",
}
FOR_DEVELOPERS = ("benchmarks", "dev", "docs")
NOT_WORKING = 1
MARKS = {"good": "[green]ok[/]", "absent": "[dim]-[/]", "note": "[yellow]![/]", "bad": "[red]NO[/]"}
OPTIONAL = "Optional"
State = Literal["good", "absent", "note", "bad"]


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """Options of `doctor`."""

    style: Literal["text", "json"] = output_format("text")


class Checked(NamedTuple):
    """What was found of one thing; it goes into bug reports, so the home folder is not named in it."""

    part: str
    state: State
    what: str
    text: str


@takes(DoctorOptions)
def doctor(options: DoctorOptions) -> None:
    """Check the installation: versions, devices, optional packages, folders, and a smoke run from data to a report.

    No files are kept. In the JSON, your home folder is written as ~.

    Example: domaincover doctor
    """
    findings = check_installation()
    works = all(finding.state != "bad" for finding in findings)
    if options.style == "json":
        print_json({"works": works, "findings": [finding._asdict() for finding in findings]})
    else:
        _show(findings, works)
    if not works:
        raise typer.Exit(NOT_WORKING)


def check_installation() -> list[Checked]:
    """Check what domaincover requires and can use, and do a smoke run."""
    from domaincover.data.feature_cache import default_cache_folder

    here, *optional = _packages()
    folders = {"current folder": Path.cwd(), "cache of features": default_cache_folder()}
    basics = [*_machine(here.part), _devices(here.part), here]
    return [*basics, *(_folder(here.part, *each) for each in folders.items()), *optional, *_findings_of(smoke_steps())]


def _machine(part: str) -> Iterator[Checked]:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Checked(part, "good", "Python", f"{python} on {platform.system()} {platform.release()}, {platform.machine()}")
    memory = memory_of_machine()
    size = f", {memory / 2**30:.0f} GB of memory" if memory < math.inf else ""
    yield Checked(part, "good", "machine", f"{n_cores()} cores{size}")
    encodings = {"files": locale.getpreferredencoding(False), "standard output": sys.stdout.encoding}
    named = ", ".join(f"{name} for {what}" for what, name in encodings.items())
    is_utf8 = all("utf" in name.lower() for name in encodings.values())
    remedy = "" if is_utf8 else "; PYTHONUTF8=1 makes it UTF-8"
    yield Checked(part, "good" if is_utf8 else "note", "encoding", named + remedy)


def _devices(part: str) -> Checked:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a library that torch loads is corrupt or missing
        if _installed("torch") is None:
            without = "without torch no network is trained; models of tables predict"
            return Checked(part, "absent", "devices", without)
        return Checked(part, "bad", "devices", f"torch cannot be imported: {_one_line(error)}")
    found = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    found += ["MPS"] if torch.backends.mps.is_available() else []
    threads = f"CPU with {torch.get_num_threads()} threads"
    return Checked(part, "good", "devices", ", ".join([threads, *found]) if found else f"{threads}; no GPU")


def _packages() -> Iterator[Checked]:
    """Find what domaincover itself requires, and then what each extra does."""
    from packaging.requirements import Requirement

    by_extra: dict[str, list[Requirement]] = {"": []}
    for asked in map(Requirement, requires("domaincover") or ()):
        extra = re.search('extra == "(.+?)"', str(asked.marker))
        by_extra.setdefault(extra[1] if extra else "", []).append(asked)
    for name, needed in by_extra.items():
        here = {asked.name: _installed(asked.name) for asked in needed}
        missing = [asked for asked in needed if not _fits(asked, here[asked.name])]
        versions = ", ".join(f"{package} {found}" for package, found in here.items())
        if not name:
            wrong = [f"{asked} is required, {here[asked.name] or 'none'} is installed" for asked in missing]
            state: State = "bad" if missing else "good"
            yield Checked(f"domaincover {version('domaincover')}", state, "packages", "; ".join(wrong) or versions)
        elif name not in FOR_DEVELOPERS:
            without = ", ".join(asked.name for asked in missing)
            about = f"without {without}: pip install 'domaincover[{name}]'" if missing else versions
            yield Checked(OPTIONAL, "absent" if missing else "good", name, f"{PURPOSES.get(name, '')}: {about}")


def _fits(asked: Requirement, here: str | None) -> bool:
    return here is not None and asked.specifier.contains(here, prereleases=True)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _folder(part: str, what: str, path: Path) -> Checked:
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    free = f"{shutil.disk_usage(there).free / 1e9:.1f} GB free"
    return Checked(
        part, *(("good", what, f"writable, {free}") if writable else ("note", what, f"not writable, {free}"))
    )


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


def _findings_of(steps: Iterator[str]) -> list[Checked]:
    """Do the steps of the smoke run up to the first error."""
    found: list[Checked] = []
    try:
        found.extend(Checked("Smoke run", "good", step, "") for step in steps)
    except Exception as error:  # any error is a finding
        found[-1] = found[-1]._replace(state="bad", text=_one_line(error))
    return found


def _one_line(error: BaseException) -> str:
    """Return an error without the name of the home folder, which is private."""
    from domaincover.data.feature_cache import home_folder

    return one_line(error).replace(str(home_folder()), "~")


def _show(findings: Sequence[Checked], works: bool) -> None:
    """Print the findings, each with a mark, and a verdict."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(width=text_width(), highlight=False)
    for part, those in groupby(findings, lambda finding: finding.part):
        table = Table(box=None, pad_edge=False, show_header=False)
        for finding in those:
            table.add_row(f"  {MARKS[finding.state]}", finding.what, escape(finding.text))
        console.print(part, style="bold")
        console.print(table)
    missing = [finding.what for finding in findings if finding.part == OPTIONAL and finding.state == "absent"]
    also = f" Optional extras not installed: {', '.join(missing)}." if missing else ""
    verdict = f"works.{also}" if works else "does not work: see what is marked NO."
    console.print(f"The installation {verdict}", markup=False)
