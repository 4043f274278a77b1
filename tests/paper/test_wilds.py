"""Readers of the four WILDS folders, against folders with a known answer."""

import csv
import os

import numpy as np
import pandas as pd
import pytest

from domaincover import InputError
from domaincover.data.dataset import drop_small_cells
from domaincover.paper.catalogue import CATALOGUE
from domaincover.paper.commands import data_check
from domaincover.paper.commands.data_check import checked_lines, missing_images
from domaincover.paper.real import wilds
from domaincover.paper.study_datasets import as_dataset
from domaincover.study import read_wilds
from tests.paper.wilds_folders import BUILDERS, TRAP_TEXTS, build_amazon, build_fmow, build_iwildcam

NAMES = list(BUILDERS)
IMAGES = NAMES[:3]
SMALL = {"camelyon17": {"size": 8}, "fmow": {"size": 8}}
TABLES = {
    "camelyon17": "metadata.csv",
    "fmow": "rgb_metadata.csv",
    "iwildcam": "metadata.csv",
    "amazon": "reviews.csv",
}


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def build(tmp_path, rng):
    def built(name, **options):
        return BUILDERS[name](tmp_path, rng, **{**SMALL.get(name, {}), **options})

    return built


def edit(path, change):
    """Rewrite a table, all of it as text, after a change to its frame."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    change(frame)
    frame.to_csv(path, index=False, quoting=csv.QUOTE_ALL)


def set_value(column, row, value):
    def change(frame):
        frame.loc[row, column] = value

    return change


def domain_names(name, folder):
    return as_dataset(read_wilds(name, folder)).domain_names


@pytest.mark.parametrize("name", NAMES)
def test_examples_labels_and_domains_are_those_of_the_release_in_its_order(build, name):
    built = build(name, n_domains=12)
    X, y, domains = read_wilds(name, built.folder)
    assert (X.tolist(), y.tolist(), domains.tolist()) == (built.sources, built.labels, built.domains)
    assert domain_names(name, built.folder) == tuple(sorted(set(built.domains)))


@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_used_or_left_out_for_a_reason(build, name):
    built = build(name)
    table, _, left_out = CATALOGUE[name].examine(built.folder)
    assert left_out == built.left_out
    assert built.n_rows == len(table.X) + sum(left_out.values())


@pytest.mark.parametrize("name", IMAGES)
def test_images_are_absolute_paths_of_files_even_from_a_relative_folder(build, name, monkeypatch):
    built = build(name)
    monkeypatch.chdir(built.folder.parent)
    assert all(os.path.isabs(source) and os.path.isfile(source) for source in read_wilds(name, ".").X)


@pytest.mark.parametrize("name", IMAGES)
def test_images_are_not_opened(build, name):
    built = build(name)
    for source in built.sources:
        os.truncate(source, 0)
    assert not missing_images(read_wilds(name, built.folder).X)


# Traps


def test_sequestered_images_are_counted_in_the_numbers_of_the_others(tmp_path, rng):
    built = build_fmow(tmp_path, rng, size=8)
    used = read_wilds("fmow", built.folder).X[4:]
    number = int(used[0].removesuffix(".png").rpartition("_")[2])
    edit(built.folder / "rgb_metadata.csv", set_value("split", slice(0, number - 1), "seq"))
    assert read_wilds("fmow", built.folder).X.tolist() == used.tolist()


@pytest.mark.parametrize(
    ("timestamp", "year"),
    [
        ("2016-12-31T23:59:59.999Z", 2016),
        ("2017-01-01T00:00:00Z", 2017),
        ("2017-01-01T00:30:00+01:00", 2016),
        ("2011-03-04T05:06:07.1Z", 2011),
    ],
)
def test_the_year_of_an_image_is_that_of_universal_time(tmp_path, rng, timestamp, year):
    built = build_fmow(tmp_path, rng, size=8)
    edit(built.folder / "rgb_metadata.csv", lambda frame: frame.__setitem__("timestamp", timestamp))
    assert {name.split()[1] for name in domain_names("fmow", built.folder)} == {str(year)}


@pytest.mark.parametrize("country", ["XKX", "ATA", ""])
def test_a_country_without_a_region_belongs_to_others(tmp_path, rng, country):
    built = build_fmow(tmp_path, rng, size=8)
    edit(built.folder / "rgb_metadata.csv", lambda frame: frame.__setitem__("country_code", country))
    assert {name.split()[0] for name in domain_names("fmow", built.folder)} == {"Other"}


@pytest.mark.parametrize(
    ("name", "file", "columns"),
    [
        ("camelyon17", "metadata.csv", ["node", "x_coord", "y_coord", "tumor"]),
        ("iwildcam", "metadata.csv", ["y", "location_remapped"]),
        ("amazon", "splits/user.csv", ["split"]),
        ("amazon", "reviews.csv", ["overall"]),
    ],
)
def test_whole_numbers_written_as_decimals_are_the_same_numbers(build, name, file, columns):
    built = build(name)
    before = read_wilds(name, built.folder)

    def as_decimals(frame):
        frame[columns] = frame[columns].astype(float).astype(str)

    edit(built.folder / file, as_decimals)
    after = read_wilds(name, built.folder)
    for found in (before, after):
        assert [part.tolist() for part in found] == [built.sources, built.labels, built.domains]


@pytest.mark.parametrize("value", ["0.5", "nan", "1e300"])
def test_another_number_where_a_whole_one_stands_is_refused_with_its_row(tmp_path, rng, value):
    built = build_amazon(tmp_path, rng)
    edit(built.folder / "splits" / "user.csv", set_value("split", 3, value))
    fault = "user.csv: column 'split' is not a whole number in 1 row, first in row 4 below the header; copy"
    with pytest.raises(InputError, match=fault):
        read_wilds("amazon", built.folder)


def test_animals_have_the_names_that_the_folder_gives_them(tmp_path, rng):
    data = read_wilds("iwildcam", build_iwildcam(tmp_path, rng, names=True).folder)
    assert tuple(data.y.categories) == ("empty", "tayassu pecari", "NA")


@pytest.mark.parametrize(
    ("categories", "names"),
    [
        ({"y": [0, 1, 147], "name": ["nothing", "x", "z"]}, ("nothing", "146", "z")),
        ({"y": [0, 146, 147], "name": ["empty", "bird", "bird"]}, ("empty", "146", "147")),
        ({"id": [0, 146, 147], "name": ["empty", "bird", "cat"]}, ("empty", "146", "147")),
    ],
)
def test_an_animal_without_a_name_of_its_own_has_its_number(tmp_path, rng, categories, names):
    built = build_iwildcam(tmp_path, rng)
    pd.DataFrame(categories).to_csv(built.folder / "categories.csv", index=False)
    assert tuple(read_wilds("iwildcam", built.folder).y.categories) == names


@pytest.mark.parametrize("bytes_at_once", [1 << 24, 400])
def test_texts_arrive_as_they_were_written(tmp_path, rng, monkeypatch, bytes_at_once):
    monkeypatch.setattr(wilds, "BYTES_AT_ONCE", bytes_at_once)  # rows go on from block to block
    built = build_amazon(tmp_path, rng)
    texts = read_wilds("amazon", built.folder).X
    assert texts.tolist() == built.sources
    assert set(TRAP_TEXTS) <= set(texts)
    assert all(type(text) is str for text in texts)


def test_rows_in_no_split_may_hold_anything(tmp_path, rng):
    built = build_amazon(tmp_path, rng)
    unused = pd.read_csv(built.folder / "splits" / "user.csv")["split"] == -1
    edit(built.folder / "reviews.csv", set_value("overall", np.asarray(unused), "0.0"))
    assert read_wilds("amazon", built.folder).X.tolist() == built.sources


# What is missing on the disk


def test_images_that_are_not_on_the_disk_are_told(build):
    built = build("camelyon17")
    lost = [0, 3, 7]
    for row in lost:
        os.remove(built.sources[row])
    missing = missing_images(read_wilds("camelyon17", built.folder).X)
    assert missing == [built.sources[row] for row in lost]


@pytest.mark.parametrize("is_file", [False, True])
def test_without_the_folder_of_images_all_are_missing(build, is_file):
    built = build("iwildcam")
    (built.folder / "train").rename(built.folder / "elsewhere")
    if is_file:
        (built.folder / "train").touch()
    assert missing_images(read_wilds("iwildcam", built.folder).X) == built.sources


def test_a_folder_that_cannot_be_listed_is_named(build, monkeypatch):
    paths = read_wilds("fmow", build("fmow").folder).X

    def denied(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(data_check.os, "listdir", denied)
    with pytest.raises(InputError, match=r"cannot list .*/images: Permission denied\."):
        missing_images(paths)


# Counts


def test_cells_are_dropped_as_the_split_drops_them(build):
    counts = np.array([[5, 2], [3, 0], [1, 2], [9, 4]])
    folder = build("camelyon17", n_domains=4, per_cell=counts).folder
    lines, data = checked_lines(CATALOGUE["camelyon17"], folder, 3), as_dataset(read_wilds("camelyon17", folder))
    kept = drop_small_cells(data, np.arange(len(data)), 3)
    assert len(kept) == 5 + 3 + 9 + 4
    assert len(np.unique(data.domains[kept])) == 3
    rows = [line.split() for line in lines]
    assert ["all", "26", "4", "4", "3", "21"] in rows
    assert ["tumor", "8", "3", "1", "2", "4"] in rows
    assert lines[-2].startswith("Domains left: 3, NOT ENOUGH")


@pytest.mark.parametrize(("n_domains", "enough"), [(40, "enough"), (39, "NOT ENOUGH")])
def test_domains_are_enough_if_the_paper_could_draw_its_own(build, n_domains, enough):
    folder = build("camelyon17", n_domains=n_domains, per_cell=1).folder
    assert f"Domains left: {n_domains}, {enough} for" in "\n".join(checked_lines(CATALOGUE["camelyon17"], folder, 1))


def test_an_unknown_name_is_answered_with_those_there_are(tmp_path):
    with pytest.raises(InputError, match="no data set of 'wilds' is called 'cifar'; there are camelyon17, fmow"):
        read_wilds("cifar", tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_an_absent_folder_is_described_with_where_it_was_looked_for(tmp_path, name):
    with pytest.raises(InputError) as refused:
        read_wilds(name, tmp_path / "nowhere")
    message = str(refused.value)
    assert all(file in message for file in CATALOGUE[name].files)
    assert str(tmp_path / "nowhere" / CATALOGUE[name].released_as) in message
    assert "download host of WILDS has been unreachable" in message
    assert "\n" not in message


@pytest.mark.parametrize(("name", "second"), [("fmow", "country_code_mapping.csv"), ("amazon", "splits/user.csv")])
def test_a_release_with_a_table_short_is_refused(build, name, second):
    built = build(name)
    (built.folder / second).unlink()
    with pytest.raises(InputError, match=f"has {TABLES[name]} but not {second}; copy the rest of"):
        read_wilds(name, built.folder)


def test_the_folder_of_another_data_set_is_told_by_its_columns(build):
    folder = build("camelyon17").folder
    with pytest.raises(InputError, match=r"metadata.csv has no column 'filename'; it has patient, node, .* another"):
        read_wilds("iwildcam", folder)


@pytest.mark.parametrize(
    ("name", "column", "value", "message"),
    [
        ("camelyon17", "tumor", "2", "column 'tumor' is neither 0 nor 1 in 1 row, first in row 4 below the header"),
        ("camelyon17", "tumor", "", "column 'tumor' is not a whole number in 1 row, first in row 4 below the header"),
        ("camelyon17", "patient", "", "column 'patient' is empty in 1 row, first in row 4 below the header"),
        ("iwildcam", "y", "cat", "column 'y' is not a whole number in 1 row, first in row 4 below the header"),
        ("iwildcam", "filename", "", "column 'filename' is empty in 1 row, first in row 4"),
        ("amazon", "overall", "6.0", "column 'overall' is not 1, 2, 3, 4 or 5 in 1 row, first in row 4 below"),
        ("amazon", "overall", "3.5", "column 'overall' is not 1, 2, 3, 4 or 5 in 1 row, first in row 4 below"),
        ("amazon", "overall", "five", "column 'overall' is not 1, 2, 3, 4 or 5 in 1 row, first in row 4 below"),
        ("amazon", "reviewerID", "", "column 'reviewerID' is empty in 1 row, first in row 4 below the header"),
    ],
)
def test_a_faulty_value_is_named_with_its_file_column_and_row(build, name, column, value, message):
    built = build(name, **{"amazon": {"n_unused": 0}}.get(name, {}))
    edit(built.folder / TABLES[name], set_value(column, 3, value))
    with pytest.raises(InputError) as refused:
        read_wilds(name, built.folder)
    assert f"{built.folder / TABLES[name]}: {message}" in str(refused.value)


@pytest.mark.parametrize("timestamp", ["", "yesterday", "2016-13-01T00:00:00Z"])
def test_a_time_that_is_none_is_named_with_its_row(tmp_path, rng, timestamp):
    built = build_fmow(tmp_path, rng, size=8)
    row = int(built.sources[2].removesuffix(".png").rpartition("_")[2])
    edit(built.folder / "rgb_metadata.csv", set_value("timestamp", row, timestamp))
    with pytest.raises(InputError, match=f"column 'timestamp' .* in 1 row, first in row {row + 1} below the header"):
        read_wilds("fmow", built.folder)


@pytest.mark.parametrize("n_rows", [10, 68])
def test_reviews_and_their_splits_must_have_as_many_rows(tmp_path, rng, n_rows):
    built = build_amazon(tmp_path, rng)
    path = built.folder / "splits" / "user.csv"
    splits = pd.read_csv(path)
    splits.loc[np.arange(n_rows) % len(splits)].to_csv(path, index=False)
    with pytest.raises(InputError, match=rf"reviews.csv has 67 rows and .*user.csv has {n_rows}, but they must match"):
        read_wilds("amazon", built.folder)


def test_a_release_without_an_example_that_is_used_is_refused(tmp_path, rng):
    built = build_iwildcam(tmp_path, rng)
    edit(built.folder / "metadata.csv", lambda frame: frame.__setitem__("y", "9"))
    with pytest.raises(InputError, match=r"no usable example of iwildcam: 39 other labels; copy"):
        read_wilds("iwildcam", built.folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no column 'filename'; it has none"),
        (b"filename,y,location_remapped\n", "has columns but no rows"),
        (b"filename,y,location_remapped\na.jpg,0,1\nb.jpg,0\n", "has 2 fields in row 2 below the header, its header 3"),
        (b"filename,y,location_remapped\na.jpg,0,1\n\xff.jpg,0,1\n", "is not UTF-8 text in row 2 below the header"),
        (b'filename,y,location_remapped\n"a.jpg,0,1\n', "has 1 fields in row 1 below the header, its header 3"),
    ],
)
def test_a_damaged_table_is_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "metadata.csv").write_bytes(content)
    with pytest.raises(InputError) as refused:
        read_wilds("iwildcam", tmp_path)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_row_that_does_not_fit_a_block_is_refused_in_one_line(tmp_path, rng, monkeypatch):
    built = build_amazon(tmp_path, rng)
    edit(built.folder / "reviews.csv", set_value("reviewText", 30, "long " * 1000))
    monkeypatch.setattr(wilds, "BYTES_AT_ONCE", 1000)
    with pytest.raises(InputError, match=r"reviews.csv cannot be read as CSV: [^\n]*$"):
        read_wilds("amazon", built.folder)
