"""domaincover data check, in this process."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

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
    check = json.loads(here("data", "check", "amazon", tmp_path, "--format", "json")[1])
    assert (check["cells_kept"], check["cells_dropped"], check["examples_kept"]) == (2, 1, 202)
    assert [label["cells_kept"] for label in check["labels"]] == [1, 0, 0, 0, 1]


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


def test_json_says_where_the_folder_is_and_what_is_missing(here, tmp_path, rng):
    built = build_camelyon17(tmp_path, rng, size=8)
    os.remove(built.sources[0])
    check = json.loads(here("data", "check", "camelyon17", tmp_path, "--format", "json")[1])
    assert check["folder"] == str(built.folder)
    assert check["missing"] == 1
    assert check["first_missing"] == [os.path.relpath(built.sources[0], built.folder)]
    assert check["enough_domains"] is False


def test_a_release_that_is_not_there_is_refused(refused, tmp_path):
    refused("The public download host of WILDS has been unreachable", "data", "check", "amazon", tmp_path)


def test_an_unknown_data_set_is_refused(refused, tmp_path):
    refused("unknown WILDS dataset 'mnist': choose one of camelyon17", "data", "check", "mnist", tmp_path)


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
