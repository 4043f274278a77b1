"""WISDM activities (Weiss et al., 2019; UCI 507): windows of 10 s of a watch's accelerometer, as released.

arff_files/watch/accel/data_1600_accel_watch.arff has 91 features of each window of person 1600. The release's 18
activities are grouped into five, since many people have only a few windows of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.tables.table import reading
from domaincover.datasets import DatasetTable
from domaincover.errors import InputError
from domaincover.paper.real.contents import Contents, names_in

FILE = re.compile(r"data_(\d+)_accel_watch\.arff")
ATTRIBUTE = re.compile(r"""@attribute\s+("[^"]*"|'[^']*'|\S+)""", re.IGNORECASE)
GROUPS = {
    "locomotion": "ABC",  # walking, jogging, stairs
    "still": "DE",  # sitting, standing
    "hand": "FGQRS",  # typing, teeth, writing, clapping, folding
    "eating": "HIJKL",  # soup, chips, pasta, drinking, sandwich
    "ball": "MOP",  # kicking, catch, dribbling
}
LABEL_OF = {letter: label for label, letters in GROUPS.items() for letter in letters}
ACTIVITY, PERSON = "ACTIVITY", "class"
UNKNOWN = "?"  # ARFF's missing value


class Windows(NamedTuple):
    """The windows of one person: features, activities, and what is wrong with the other lines."""

    names: list[str]
    features: NDArray[np.float32]
    activities: list[str]
    faults: list[str]


def locate(folder: Path) -> Path | None:
    """Return the folder with a file per person: the given one, or where it lies in the release."""
    for place in ("arff_files/watch/accel", "wisdm-dataset/arff_files/watch/accel", "watch/accel", "."):
        if any(FILE.fullmatch(name) for name in names_in(folder / place)):
            return folder / place
    return None


def load(place: Path, cache: Path | None = None) -> Contents:  # noqa: ARG001 - it is read within seconds
    """Read the windows of all persons; the label is the group of the activity, the domain the person."""
    blocks: list[pd.DataFrame] = []
    labels: list[str] = []
    persons: list[str] = []
    faults: list[str] = []
    columns: list[str] | None = None
    for name in names_in(place):
        if not (found := FILE.fullmatch(name)):
            continue
        path = place / name
        try:
            windows = read_windows(path, found[1])
        except InputError as error:
            faults.append(str(error))
            continue
        faults += windows.faults
        if windows.names != (columns := columns or windows.names):
            faults.append(f"{path} has other features than the files before it")
        elif windows.activities:
            blocks.append(pd.DataFrame(windows.features, columns=windows.names))
            labels += [LABEL_OF[activity] for activity in windows.activities]
            persons += [found[1]] * len(windows.activities)
        elif not windows.faults:
            faults.append(f"{path} has no window of person {found[1]}")
    X = pd.concat(blocks, ignore_index=True) if blocks else pd.DataFrame()
    return Contents(DatasetTable(X, np.array(labels, dtype=str), np.array(persons, dtype=str)), tuple(faults))


def read_windows(path: Path, person: str) -> Windows:
    """Read the file of one person; lines that cannot be used are faults that name them."""
    with reading(path):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    names = [found[1].strip("\"'") for line in lines if (found := ATTRIBUTE.match(line.strip()))]
    start = next((number for number, line in enumerate(lines) if line.strip().lower() == "@data"), None)
    if start is None or not {ACTIVITY, PERSON} <= {*names}:
        raise InputError(f"{path} is not an ARFF file with the attributes {ACTIVITY} and {PERSON}, and @data")
    activity, owner = names.index(ACTIVITY), names.index(PERSON)
    numeric = [column for column in range(len(names)) if column not in (activity, owner)]
    faults: list[str] = []
    usable: list[list[str]] = []
    where: list[int] = []
    for number, fields in _rows(lines, start + 1):
        if len(fields) != len(names):
            faults.append(f"{path}:{number} has {len(fields)} fields, its header {len(names)}")
        elif fields[activity] not in LABEL_OF:
            faults.append(f"{path}:{number}: {ACTIVITY} is {fields[activity]!r}, which is none of {''.join(LABEL_OF)}")
        elif fields[owner] != person:
            faults.append(f"{path}:{number}: {PERSON} is {fields[owner]!r} in the file of person {person}")
        else:
            usable.append(fields)
            where.append(number)
    texts = np.array(usable, dtype=object).reshape(len(usable), len(names))
    numbers = _as_numbers(texts[:, numeric])
    wrong = ~np.isfinite(numbers) & (texts[:, numeric] != UNKNOWN)
    for row, column in zip(*np.nonzero(wrong), strict=True):
        fault = f"{names[numeric[column]]} is {texts[row, numeric[column]]!r}, which is not a number"
        faults.append(f"{path}:{where[row]}: {fault}")
    kept = ~wrong.any(axis=1)
    return Windows([names[column] for column in numeric], numbers[kept], texts[kept, activity].tolist(), faults)


def _rows(lines: list[str], start: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of each line of data; a percent sign starts a comment."""
    for number, line in enumerate(lines[start:], start=start + 1):
        if (content := line.strip()) and not content.startswith("%"):
            yield number, [field.strip().strip("\"'") for field in content.split(",")]


def _as_numbers(texts: NDArray[np.object_]) -> NDArray[np.float32]:
    """Return numbers, NaN for texts that are none."""
    try:
        return texts.astype(np.float32)
    except ValueError:
        flat = pd.to_numeric(pd.Series(texts.ravel(), dtype=object), errors="coerce")
        return flat.to_numpy(np.float32).reshape(texts.shape)
