"""What `doctor` checks: versions, devices, folders, and a smoke run from data to a report."""

from __future__ import annotations

import locale
import os
import platform
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domaincover.data.feature_cache import default_cache_folder, home_folder
from domaincover.errors import one_line
from domaincover.terminal.processes import n_cores

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from domaincover.data.dataset import DomainDataset
    from domaincover.estimators.base import SetClassifier

FOR_DEVELOPERS = ("benchmarks", "dev", "docs")


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
        return packages + [
            f"the smoke run could not {step}: {fault}" for step, fault in self.smoke_run.items() if fault
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return all findings for JSON."""
        return {**asdict(self), "problems": self.problems}


def check_installation() -> Findings:
    """Check what domaincover requires and can use, and do a smoke run."""
    from packaging.requirements import Requirement

    asked = [Requirement(text) for text in requires("domaincover") or ()]
    extras = dict.fromkeys(extra for one in asked if (extra := _extra_of(one)) not in ("", *FOR_DEVELOPERS))
    began = time.perf_counter()
    smoke_run = dict(_smoke_run())
    return Findings(
        environment=_environment(),
        encodings={"files": locale.getpreferredencoding(False), "standard output": sys.stdout.encoding},
        devices=_devices(),
        required=[_package(one) for one in asked if not _extra_of(one)],
        extras={extra: [_package(one) for one in asked if _extra_of(one) == extra] for extra in extras},
        folders=[_folder("current folder", Path.cwd()), _folder("cache of features", default_cache_folder())],
        smoke_run=smoke_run,
        seconds=round(time.perf_counter() - began, 1),
    )


def _environment() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    return {
        "domaincover": version("domaincover"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "cores": n_cores(),
        "memory": memory,
    }


def _devices() -> dict[str, Any]:
    if not _is_installed("torch"):
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


def _is_installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def _package(requirement: Requirement) -> Package:
    try:
        here = version(requirement.name)
    except PackageNotFoundError:
        here = None
    fits = here is not None and requirement.specifier.contains(here, prereleases=True)
    return Package(requirement.name, str(requirement.specifier), here, fits)


def _folder(what: str, path: Path) -> Folder:
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    return Folder(what, there.is_dir() and os.access(there, os.W_OK | os.X_OK), shutil.disk_usage(there).free)


def _smoke_run() -> Iterator[tuple[str, str]]:
    """Go from data to a page in a temporary folder; yield each step and its error, up to the first error."""
    try:
        place = tempfile.TemporaryDirectory(prefix="domaincover-")
    except OSError as error:
        yield "make a temporary folder", _one_line(error)
        return
    with place as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so small a run does not converge
        made: dict[str, Any] = {"folder": Path(folder)}
        for name, step in STEPS.items():
            try:
                made |= step(**made)
            except Exception as error:  # any error is a finding
                yield name, _one_line(error)
                return
            yield name, ""


def _draw_data(**_: Any) -> dict[str, Any]:
    import numpy as np

    from domaincover.data.synthetic import GaussianDomains

    return {"data": GaussianDomains.of_paper(4).sample(6, 60, np.random.default_rng(0))}


def _fit(data: DomainDataset, **_: Any) -> dict[str, Any]:
    from domaincover.estimators.recipes import make_classifier

    has_torch = _is_installed("torch")
    training = {"epochs": 3} if has_torch else {}
    chosen: tuple[Any, Any] = ("set-cover", "mlp") if has_torch else ("robust", "boosting")
    model: Any = make_classifier(*chosen, training=training, random_state=0)
    return {"model": model.fit(data.examples, data.labels, domains=data.domains)}


def _save_and_load(model: SetClassifier, folder: Path, **_: Any) -> dict[str, Any]:
    from domaincover.saving.models import load, save

    save(model, folder / "model")
    return {"loaded": load(folder / "model")}


def _predict(data: DomainDataset, model: SetClassifier, loaded: SetClassifier, **_: Any) -> dict[str, Any]:
    if not (model.predict_set(data.examples) == loaded.predict_set(data.examples)).all():
        raise RuntimeError("the loaded model predicts other sets than the saved one")
    return {}


def _report(data: DomainDataset, loaded: SetClassifier, folder: Path, **_: Any) -> dict[str, Any]:
    from domaincover.report.domain_page import write_domain_page

    report = loaded.domain_report(data.examples, data.labels, data.domains)
    write_domain_page(folder / "page.html", {"set-cover": report}, 0.9, title="Smoke run")
    return {}


STEPS: dict[str, Callable[..., dict[str, Any]]] = {
    "draw data": _draw_data,
    "fit a model": _fit,
    "save and load it": _save_and_load,
    "predict the same sets": _predict,
    "write a report": _report,
}


def _one_line(error: BaseException) -> str:
    """Return an error without the name of the home folder, which is private."""
    return one_line(error).replace(str(home_folder()), "~")
