import io
import json
import sys
import tempfile
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import numpy as np
import pytest
import torch

from domaincover.cli import doctor
from domaincover.saving import models

PYPROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
NEEDED = ["numpy>=2.0", 'nonesuch>=1; extra == "images"', 'numpy>=2.0; extra == "data"', 'ruff; extra == "dev"']


@pytest.fixture(scope="module")
def examined():
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        findings = doctor.check_installation()
        assert list(Path(folder).iterdir()) == [], "nothing is left on the disk"
    return findings


@pytest.fixture
def without_smoke_run(monkeypatch):
    """Check the given packages only; the smoke run has tests of its own."""

    def needing(needed=NEEDED, steps=()):
        monkeypatch.setattr(doctor, "requires", lambda _: needed)
        monkeypatch.setattr(doctor, "smoke_steps", lambda: iter(steps))

    needing()
    return needing


def test_a_working_installation_goes_from_data_to_a_report(examined):
    steps = ["make a temporary folder", "draw data", "fit a model", "save and load it", "predict the same sets"]
    run = [finding for finding in examined if finding.part == "Smoke run"]
    assert [finding.what for finding in run] == [*steps, "write a report"]
    assert "bad" not in {finding.state for finding in examined}


def test_every_required_package_is_named_with_its_version(examined):
    needed = [one.split(">")[0] for one in requires("domaincover") if "extra" not in one]
    (named,) = [finding.text for finding in examined if finding.what == "packages"]
    assert named == ", ".join(f"{name} {version(name)}" for name in needed)


def test_every_extra_of_the_project_has_a_purpose():
    assert {*doctor.PURPOSES, *doctor.FOR_DEVELOPERS} == set(PYPROJECT["project"]["optional-dependencies"])


@pytest.mark.usefixtures("without_smoke_run")
def test_the_doctor_ends_well_where_only_optional_packages_are_missing(here):
    code, printed, told = here("doctor")
    assert (code, told) == (0, "")
    assert "without nonesuch: pip install 'domaincover[images]'" in printed
    assert "ruff" not in printed, "packages of developers are not an extra"
    assert printed.endswith("The installation works. Optional extras not installed: images.\n")


@pytest.mark.parametrize(("needed", "here_is"), [("nonesuch", "none"), ("numpy>=999", np.__version__)])
def test_a_needed_package_that_is_missing_or_too_old_is_a_problem(here, without_smoke_run, needed, here_is):
    without_smoke_run([needed])
    code, printed, _ = here("doctor")
    assert code == doctor.NOT_WORKING
    assert f"NO  packages           {needed} is required, {here_is} is installed" in printed
    assert printed.endswith("The installation does not work: see what is marked NO.\n")


def test_a_failing_smoke_run_is_reported_in_one_line_and_stops(here, without_smoke_run):
    def steps():
        yield "draw data"
        raise OSError("no\nroom")
        yield "fit a model"

    without_smoke_run(steps=steps())
    code, printed, _ = here("doctor")
    assert code == doctor.NOT_WORKING
    assert "NO  draw data  OSError: no room" in printed
    assert "fit a model" not in printed


def test_a_model_that_changes_by_saving_fails_the_smoke_run(monkeypatch):
    def load(folder):
        loaded = saved(folder)
        loaded.thresholds_ = loaded.thresholds_ + np.inf
        return loaded

    saved = models.load
    monkeypatch.setattr(models, "load", load)
    (problem,) = [finding for finding in doctor.check_installation() if finding.state == "bad"]
    assert problem.what == "predict the same sets"
    assert "RuntimeError: the loaded model predicts other sets" in problem.text


@pytest.mark.usefixtures("without_smoke_run")
def test_torch_that_cannot_be_imported_is_told(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    code, printed, _ = here("doctor")
    assert code == doctor.NOT_WORKING
    assert "torch cannot be imported" in printed


@pytest.mark.usefixtures("without_smoke_run")
def test_devices_are_named_in_a_line(here, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: f"GPU {number}")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert "CPU with 4 threads, GPU 0, MPS" in here("doctor")[1]


def test_a_folder_that_is_not_there_yet_can_be_written_if_it_can_be_made(tmp_path):
    (tmp_path / "file").touch()
    states = [doctor._folder("", "cache", tmp_path / above / "cache").state for above in ("file", "new")]
    assert states == ["note", "good"]


@pytest.mark.usefixtures("without_smoke_run")
def test_a_folder_that_cannot_be_written_is_no_problem(here, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DOMAINCOVER_CACHE", str(tmp_path / "file" / "cache"))
    code, printed, _ = here("doctor")
    assert code == 0
    assert "not writable" in printed


def test_the_json_holds_all_and_nothing_personal(here, without_smoke_run, monkeypatch, tmp_path):
    def steps():
        yield "draw data"
        raise OSError(f"cannot read {tmp_path}/alice/secret.csv")

    without_smoke_run(steps=steps())
    for name, folder in (("HOME", ""), ("USERPROFILE", ""), ("DOMAINCOVER_CACHE", "cache")):
        monkeypatch.setenv(name, str(tmp_path / "alice" / folder))
    code, printed, _ = here("doctor", "--format", "json")
    assert code == doctor.NOT_WORKING
    found = json.loads(printed)
    assert found["works"] is False
    last = {"part": "Smoke run", "state": "bad", "what": "draw data", "text": "OSError: cannot read ~/secret.csv"}
    assert found["findings"][-1] == last
    assert "alice" not in printed
    assert str(tmp_path) not in printed


@pytest.mark.usefixtures("without_smoke_run")
def test_an_encoding_that_is_not_utf8_is_told_with_what_makes_it_so(monkeypatch):
    written = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", written)
    doctor.doctor(style="text")
    written.seek(0)
    text = written.read()
    assert "  ok  Python" in text
    assert "  !   encoding" in text
    assert "PYTHONUTF8=1" in text
