"""File formats of the four released WILDS datasets.

Koh et al. (2021) describe them; Bandi et al. (2018), Christie et al. (2018), Beery et al. (2020) and Ni et al. (2019)
collected them. The official splits are pooled, since the paper draws its domains at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from domaincover.datasets import DatasetTable
from domaincover.errors import InputError
from domaincover.paper.real.contents import Contents
from domaincover.paper.real.release_columns import (
    NUMBER,
    TEXT,
    WHOLE,
    column_names,
    read_blocks,
    read_columns,
    reject_rows,
    to_array,
)

FMOW_LABELS = ("crop_field", "place_of_worship", "recreational_facility")  # 11, 36 and 42 of the release's 62
IWILDCAM_LABELS = (0, 146, 147)
IWILDCAM_EMPTY = 0
STARS = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
NO_REGION = "Other"  # the WILDS package's region of countries that are not in the mapping
NOT_IN_SPLIT = -1


def read_camelyon17(root: Path, cache: Path | None = None) -> Contents:  # noqa: ARG001 - images are not opened
    """Read tissue patches: the label is normal or tumor, the domain the patient, a text such as "004"."""
    path = root / "metadata.csv"
    table = read_columns(path, {"patient": TEXT, **dict.fromkeys(("node", "x_coord", "y_coord", "tumor"), WHOLE)})
    patient, *numbers, tumor = table.columns
    node, x, y = (pc.cast(column, TEXT) for column in numbers)
    scan = _joined("patient_", patient, "_node_", node)
    file = _joined(f"{root}/patches/", scan, "/patch_", scan, "_x_", x, "_y_", y, ".png")
    labels = to_array(tumor)
    reject_rows((labels != 0) & (labels != 1), path, "column 'tumor' is neither 0 nor 1")
    return _contents(to_array(file), labels, ("normal", "tumor"), to_array(patient))


def read_fmow(root: Path, cache: Path | None = None) -> Contents:  # noqa: ARG001 - images are not opened
    """Read satellite images of three land uses; the domain is a region and year, such as "Asia 2016"."""
    path = root / "rgb_metadata.csv"
    table = read_columns(
        path,
        {"split": TEXT, "category": TEXT, "country_code": TEXT, "timestamp": TEXT},
        may_be_empty=("category", "country_code", "timestamp"),
    )
    split, category, country, timestamp = table.columns
    sequestered = to_array(pc.equal(split, "seq"))
    label = to_array(pc.index_in(category, pa.array(FMOW_LABELS, TEXT)).fill_null(-1))
    rows = np.flatnonzero(~sequestered & (label >= 0))  # images are numbered over all rows, including sequestered ones
    left_out = {
        "sequestered (split seq)": int(sequestered.sum()),
        "other labels": int((~sequestered & (label < 0)).sum()),
    }
    sources = np.char.add(np.char.add(f"{root}/images/rgb_img_", rows.astype(str)), ".png").astype(object)
    region = _regions(to_array(country)[rows], root / "country_code_mapping.csv")
    year = _years(to_array(timestamp)[rows], rows, path)
    return _contents(sources, label[rows], FMOW_LABELS, region + " " + year, left_out)


def read_iwildcam(root: Path, cache: Path | None = None) -> Contents:  # noqa: ARG001 - images are not opened
    """Read camera-trap images, empty or with one of the two most frequent animals; the domain is the camera."""
    table = read_columns(root / "metadata.csv", {"filename": TEXT, "y": WHOLE, "location_remapped": WHOLE})
    label = to_array(pc.index_in(table["y"], pa.array(IWILDCAM_LABELS)).fill_null(-1))
    used = table.filter(pa.array(label >= 0))
    file = _joined(f"{root}/train/", used["filename"])  # for every split
    left_out = {"other labels": int((label < 0).sum())}
    names = _animal_names(root / "categories.csv")
    domains = to_array(used["location_remapped"])
    return _contents(to_array(file), label[label >= 0], names, domains, left_out)


def read_amazon(root: Path, cache: Path | None = None) -> Contents:  # noqa: ARG001 - images are not opened
    """Read product reviews: the label is the number of stars, the domain the reviewer."""
    path, path_of_split = root / "reviews.csv", root / "splits" / "user.csv"
    in_split = to_array(read_columns(path_of_split, {"split": WHOLE})["split"]) != NOT_IN_SPLIT
    kinds = {"reviewText": TEXT, "overall": NUMBER, "reviewerID": TEXT}
    blocks, n_rows = [], 0
    for block in read_blocks(path, kinds):  # most reviews belong to no split and are skipped
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
    text, stars, reviewer = map(to_array, pa.Table.from_batches(blocks, pa.schema(kinds.items())).columns)
    rows = np.flatnonzero(in_split)
    reject_rows(~np.isin(stars, np.arange(1, 6)), path, "column 'overall' is not 1, 2, 3, 4 or 5", rows)
    reject_rows(reviewer == "", path, "column 'reviewerID' is empty", rows)
    left_out = {f"in no split (split {NOT_IN_SPLIT})": n_rows - len(rows)}
    return _contents(text, stars.astype(np.int64) - 1, STARS, reviewer, left_out)


def _contents(
    sources: NDArray[np.object_],
    codes: NDArray[Any],
    label_names: tuple[str, ...],
    domains: NDArray[Any],
    left_out: Mapping[str, int] = MappingProxyType({}),
) -> Contents:
    """Return paths or texts with their labels, which keep the order of their names, and domains."""
    labels = pd.Categorical.from_codes(codes.astype(np.int64), pd.Index(label_names), ordered=True)
    return Contents(DatasetTable(sources, labels, domains), left_out=left_out)


def _joined(*parts: Any) -> Any:
    """Concatenate texts and columns of texts, row by row."""
    columns = [pa.scalar(part, TEXT) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*columns, pa.scalar("", TEXT))


def _regions(countries: NDArray[np.object_], path: Path) -> NDArray[np.object_]:
    """Return each country's region; "Other" if it is not in the mapping, as for a few territories."""
    mapping = read_columns(path, {"alpha-3": TEXT, "region": TEXT}, may_be_empty=("alpha-3", "region"))
    codes, regions = map(to_array, mapping.columns)
    region_of = {code: region for code, region in zip(codes, regions, strict=True) if region}
    return np.asarray(pd.Series(countries, dtype=object).map(region_of).fillna(NO_REGION), dtype=object)


def _years(timestamps: NDArray[np.object_], rows: NDArray[np.int64], path: Path) -> NDArray[np.object_]:
    """Return the year of each timestamp in UTC; only some timestamps have milliseconds."""
    times = pd.to_datetime(pd.Series(timestamps, dtype=object), format="ISO8601", utc=True, errors="coerce")
    reject_rows(np.asarray(times.isna()), path, "column 'timestamp' is not an ISO 8601 timestamp", rows)
    return np.asarray(times.dt.year.astype(str), dtype=object)


def _animal_names(path: Path) -> tuple[str, ...]:
    """Return the labels' names if the folder has them, or else the numbers in the metadata."""
    numbers = tuple("empty" if label == IWILDCAM_EMPTY else str(label) for label in IWILDCAM_LABELS)
    if not path.is_file() or not {"y", "name"} <= {*column_names(path)}:
        return numbers
    table = read_columns(path, {"y": WHOLE, "name": TEXT})
    name_of = dict(zip(to_array(table["y"]), to_array(table["name"]), strict=True))
    names = tuple(str(name_of.get(label, number)) for label, number in zip(IWILDCAM_LABELS, numbers, strict=True))
    return names if len(set(names)) == len(names) else numbers
