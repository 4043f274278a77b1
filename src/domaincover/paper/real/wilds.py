"""File formats of the four released WILDS datasets.

Koh et al. (2021) describe them; Bandi et al. (2018), Christie et al. (2018), Beery et al. (2020) and Ni et al. (2019)
collected them. The official splits are pooled, since the paper draws its domains at random. Tables are CSV files with
texts of several lines in quotes, and "NA" as a text; they are read as texts, in blocks.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from domaincover.data.tables.table import reading
from domaincover.datasets import DatasetTable
from domaincover.errors import InputError
from domaincover.paper.real.contents import Contents, reject_rows

FMOW_LABELS = ("crop_field", "place_of_worship", "recreational_facility")  # 11, 36 and 42 of the release's 62
IWILDCAM_LABELS = (0, 146, 147)
IWILDCAM_EMPTY = 0
STARS = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
NO_REGION = "Other"  # the WILDS package's region of countries that are not in the mapping
NOT_IN_SPLIT = -1
TEXT = pa.large_string()  # the reviews exceed the 2 GB of plain strings
BYTES_AT_ONCE = 1 << 24  # a single review must fit
LARGEST_WHOLE = 2**53  # up to which every whole number is a float
Texts = NDArray[np.object_]


def load_camelyon17(root: Path, cache: Path | None = None) -> Contents:  # noqa: ARG001 - images are not opened
    """Read tissue patches: the label is normal or tumor, the domain the patient, a text such as "004"."""
    path = root / "metadata.csv"
    table = read_columns(path, ("patient", "node", "x_coord", "y_coord", "tumor"))
    _reject_empty(table["patient"], path, "patient")
    labels, node, x, y = (_whole(table[name], path, name) for name in ("tumor", "node", "x_coord", "y_coord"))
    reject_rows((labels != 0) & (labels != 1), path, "column 'tumor' is neither 0 nor 1")
    scan = _joined("patient_", table["patient"], "_node_", node)
    files = _joined(f"{root}/patches/", scan, "/patch_", scan, "_x_", x, "_y_", y, ".png")
    return _contents(files, labels, ("normal", "tumor"), table["patient"])


def load_fmow(root: Path, cache: Path | None = None) -> Contents:  # noqa: ARG001 - images are not opened
    """Read satellite images of three land uses; the domain is a region and year, such as "Asia 2016"."""
    path = root / "rgb_metadata.csv"
    table = read_columns(path, ("split", "category", "country_code", "timestamp"))
    _reject_empty(table["split"], path, "split")
    sequestered, label = table["split"] == "seq", pd.Index(FMOW_LABELS).get_indexer(pd.Index(table["category"]))
    rows = np.flatnonzero(~sequestered & (label >= 0))  # images are numbered over all rows, including sequestered ones
    left_out = {
        "sequestered (split seq)": int(sequestered.sum()),
        "other labels": int((~sequestered & (label < 0)).sum()),
    }
    sources = _joined(f"{root}/images/rgb_img_", rows, ".png")
    region = _regions(table["country_code"][rows], root / "country_code_mapping.csv")
    year = _years(table["timestamp"][rows], rows, path)
    return _contents(sources, label[rows], FMOW_LABELS, region + " " + year, left_out)


def load_iwildcam(root: Path, cache: Path | None = None) -> Contents:  # noqa: ARG001 - images are not opened
    """Read camera-trap images, empty or with one of the two most frequent animals; the domain is the camera."""
    path = root / "metadata.csv"
    table = read_columns(path, ("filename", "y", "location_remapped"))
    _reject_empty(table["filename"], path, "filename")
    label = pd.Index(IWILDCAM_LABELS).get_indexer(pd.Index(_whole(table["y"], path, "y")))
    domains, is_used = _whole(table["location_remapped"], path, "location_remapped"), label >= 0
    files = _joined(f"{root}/train/", table["filename"][is_used])  # for every split
    left_out = {"other labels": int((~is_used).sum())}
    return _contents(files, label[is_used], _animal_names(root / "categories.csv"), domains[is_used], left_out)


def load_amazon(root: Path, cache: Path | None = None) -> Contents:  # noqa: ARG001 - images are not opened
    """Read product reviews: the label is the number of stars, the domain the reviewer."""
    path, path_of_split = root / "reviews.csv", root / "splits" / "user.csv"
    in_split = _whole(read_columns(path_of_split, ("split",))["split"], path_of_split, "split") != NOT_IN_SPLIT
    names = ("reviewText", "overall", "reviewerID")
    blocks, n_rows = [], 0
    for block in read_blocks(path, names):  # most reviews belong to no split and are skipped
        used = np.zeros(len(block), dtype=bool)
        flags = in_split[n_rows : n_rows + len(block)]
        used[: len(flags)] = flags
        blocks.append(block.filter(pa.array(used)))
        n_rows += len(block)
    if n_rows != len(in_split):
        raise InputError(
            f"{path} has {n_rows:,} rows and {path_of_split} has {len(in_split):,}, but they must match row by row; "
            "one of them is truncated or of another version: copy both again."
        )
    text, stars, reviewer = _arrays(blocks, names).values()
    rows = np.flatnonzero(in_split)
    number = np.asarray(pd.to_numeric(pd.Series(stars), errors="coerce"))
    reject_rows(~np.isin(number, np.arange(1, 6)), path, "column 'overall' is not 1, 2, 3, 4 or 5", rows)
    _reject_empty(reviewer, path, "reviewerID", rows)
    left_out = {f"in no split (split {NOT_IN_SPLIT})": n_rows - len(rows)}
    return _contents(text, number.astype(np.int64) - 1, STARS, reviewer, left_out)


def read_columns(path: Path, names: Sequence[str]) -> dict[str, Texts]:
    """Read some columns of a file as texts."""
    columns = _arrays(list(read_blocks(path, names)), names)
    if len(columns[names[0]]) == 0:
        raise InputError(f"{path} has columns but no rows; copy it again.")
    return columns


def read_blocks(path: Path, names: Sequence[str]) -> Iterator[Any]:
    """Read some columns of a file as texts in blocks, with bounded memory."""
    present = column_names(path)
    for name in names:
        if name not in present:
            has = ", ".join(filter(None, present[:12])) or "none"
            raise InputError(f"{path} has no column {name!r}; it has {has}, and may be of another dataset.")
    conversion = arrow_csv.ConvertOptions(
        include_columns=list(names), column_types=dict.fromkeys(names, TEXT), strings_can_be_null=False
    )
    reads = arrow_csv.ReadOptions(block_size=BYTES_AT_ONCE, use_threads=False)  # or errors would not name the row
    with reading(path):
        try:
            with arrow_csv.open_csv(path, reads, arrow_csv.ParseOptions(newlines_in_values=True), conversion) as blocks:
                yield from blocks
        except pa.ArrowInvalid as error:
            raise _in_words(path, str(error)) from None


def column_names(path: Path) -> list[str]:
    """Return the column names in a file's header."""
    with reading(path), path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        return next(csv.reader(file), [])


def _in_words(path: Path, fault: str) -> InputError:
    """Return Arrow's fault in our words."""
    found = re.search(r"Row #(\d+)", fault)
    where = f" in row {int(found[1]) - 1} below the header" if found else ""  # Arrow counts the header
    if "UTF8" in fault:
        return InputError(f"{path} is not UTF-8 text{where}; copy it again.")
    if found := re.search(r"Expected (\d+) columns, got (\d+)", fault):
        return InputError(f"{path} has {found[2]} fields{where}, its header {found[1]}; copy it again.")
    return InputError(f"{path} cannot be read as CSV: {' '.join(fault.split())[:200]}.")


def _arrays(blocks: Sequence[Any], names: Sequence[str]) -> dict[str, Texts]:
    table = pa.Table.from_batches(blocks, pa.schema([(name, TEXT) for name in names]))
    return {name: table[name].to_numpy() for name in names}


def _whole(texts: Texts, path: Path, name: str) -> NDArray[np.int64]:
    """Return whole numbers, which may be written as decimals, as 3.0; reject others."""
    numbers = np.asarray(pd.to_numeric(pd.Series(texts), errors="coerce"), dtype=float)
    is_whole = (np.abs(numbers) <= LARGEST_WHOLE) & (numbers == np.rint(numbers))
    reject_rows(~is_whole, path, f"column {name!r} is not a whole number")
    return numbers.astype(np.int64)


def _reject_empty(texts: Texts, path: Path, name: str, rows: NDArray[np.int64] | None = None) -> None:
    reject_rows(texts == "", path, f"column {name!r} is empty", rows)


def _contents(
    sources: Texts,
    codes: NDArray[Any],
    label_names: tuple[str, ...],
    domains: NDArray[Any],
    left_out: Mapping[str, int] = MappingProxyType({}),
) -> Contents:
    """Return paths or texts with their labels, which keep the order of their names, and domains."""
    labels = pd.Categorical.from_codes(codes.astype(np.int64), pd.Index(label_names), ordered=True)
    return Contents(DatasetTable(sources, labels, domains), left_out=left_out)


def _joined(*parts: Any) -> Texts:
    """Concatenate texts and columns of texts or numbers, row by row."""
    columns = [pa.scalar(part, TEXT) if isinstance(part, str) else pa.array(part).cast(TEXT) for part in parts]
    joined: Texts = pc.binary_join_element_wise(*columns, pa.scalar("", TEXT)).to_numpy(zero_copy_only=False)
    return joined


def _regions(countries: Texts, path: Path) -> Texts:
    """Return each country's region; "Other" if it is not in the mapping, as for a few territories."""
    codes, regions = read_columns(path, ("alpha-3", "region")).values()
    region_of = {code: region for code, region in zip(codes, regions, strict=True) if region}
    return np.asarray(pd.Series(countries, dtype=object).map(region_of).fillna(NO_REGION), dtype=object)


def _years(timestamps: Texts, rows: NDArray[np.int64], path: Path) -> Texts:
    """Return the year of each timestamp in UTC; only some timestamps have milliseconds."""
    times = pd.to_datetime(pd.Series(timestamps, dtype=object), format="ISO8601", utc=True, errors="coerce")
    reject_rows(np.asarray(times.isna()), path, "column 'timestamp' is not an ISO 8601 timestamp", rows)
    return np.asarray(times.dt.year.astype(str), dtype=object)


def _animal_names(path: Path) -> tuple[str, ...]:
    """Return the labels' names if the folder has them, or else the numbers in the metadata."""
    numbers = tuple("empty" if label == IWILDCAM_EMPTY else str(label) for label in IWILDCAM_LABELS)
    if not path.is_file() or not {"y", "name"} <= {*column_names(path)}:
        return numbers
    table = read_columns(path, ("y", "name"))
    name_of = dict(zip(_whole(table["y"], path, "y"), table["name"], strict=True))
    names = tuple(str(name_of.get(label, number)) for label, number in zip(IWILDCAM_LABELS, numbers, strict=True))
    return names if len(set(names)) == len(names) else numbers
