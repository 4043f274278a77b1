import io
import sys
from importlib.metadata import requires, version

import numpy as np
import pytest
import torch

from domaincover.cli import doctor

NEEDED = ["numpy>=2.0", 'nonesuch>=1; extra == "images"', 'numpy>=2.0; extra == "data"', 'nonesuch; extra == "dev"']


@pytest.fixture
def needing(monkeypatch):
    """Check the given packages."""

    def need(needed):
        monkeypatch.setattr(doctor, "requires", lambda _: needed)

    return need


def test_every_required_package_is_named_with_its_version(here):
    needed = [one.split(">")[0] for one in requires("domaincover") if "extra" not in one]
    code, printed, _ = here("doctor")
    assert code == 0
    words = " ".join(printed.split())
    assert f"domaincover {version('domaincover')}: {', '.join(f'{name} {version(name)}' for name in needed)}" in words


def test_the_doctor_ends_well_where_only_optional_packages_are_missing(here, needing):
    needing(NEEDED)
    code, printed, told = here("doctor")
    assert (code, told) == (0, "")
    assert " -  images: without nonesuch: pip install 'domaincover[images]'" in printed
    assert "dev:" not in printed, "packages of developers are not an extra"
    assert printed.endswith("The installation works.\n")


@pytest.mark.parametrize(("needed", "here_is"), [("nonesuch", "none"), ("numpy>=999", np.__version__)])
def test_a_needed_package_that_is_missing_or_too_old_is_a_problem(here, needing, needed, here_is):
    needing([needed])
    code, printed, _ = here("doctor")
    assert code == doctor.NOT_WORKING
    assert f"NO  packages: {needed} is required, {here_is} is installed" in printed
    assert printed.endswith("The installation does not work: see what is marked NO.\n")


def test_torch_that_cannot_be_imported_is_told(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    code, printed, _ = here("doctor")
    assert code == doctor.NOT_WORKING
    assert "torch cannot be imported" in printed


def test_devices_are_named_in_a_line(here, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: f"GPU {number}")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert "CPU with 4 threads, GPU 0, MPS" in here("doctor")[1]


def test_an_encoding_that_is_not_utf8_is_told_with_what_makes_it_so(monkeypatch):
    written = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", written)
    doctor.doctor()
    written.seek(0)
    text = written.read()
    assert "ok  Python" in text
    assert " !  standard output: latin-1; PYTHONUTF8=1" in text
