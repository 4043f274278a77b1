"""Real data sets that are read as tables or texts: activities of persons, product reviews, and wages by state.

WISDM activities (Weiss et al., 2019; UCI 507): windows of 10 s of a watch's accelerometer, as released.

arff_files/watch/accel/data_1600_accel_watch.arff has 91 features of each window of person 1600. The release's 18
activities are grouped into five, since many people have only a few windows of each.

The FDU multi-task review corpus (Liu et al., 2017): reviews of 16 kinds of product, as released.

books.task.train and books.task.test have a review per line: 1 (positive) or 0 (negative), a tab, and the text. Both
files are read; texts without label (books.task.unlabel) are not. Some lines are UTF-8, others Windows-1252.

US wages by state: the survey data (CPS of 2013 to 2015) that the package taxcalc carries as cps.csv.gz.

A row is a tax filing unit that nobody else claims as dependent, its head 18 to 70 years old. The label is its yearly
wages: low below 15,000 dollars, high from 50,000. Features are ages, household, benefits and income other than wages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.tables.table import reading
from domaincover.datasets import DatasetTable
from domaincover.errors import InputError
from domaincover.paper.real.contents import Contents, names_in, packaged_file, reject_rows

PERSON_FILE = re.compile(r"data_(\d+)_accel_watch\.arff")
ATTRIBUTE = re.compile(r"""@attribute\s+("[^"]*"|'[^']*'|\S+)""", re.IGNORECASE)
ACTIVITIES = {
    "locomotion": "ABC",  # walking, jogging, stairs
    "still": "DE",  # sitting, standing
    "hand": "FGQRS",  # typing, teeth, writing, clapping, folding
    "eating": "HIJKL",  # soup, chips, pasta, drinking, sandwich
    "ball": "MOP",  # kicking, catch, dribbling
}
LABEL_OF = {letter: label for label, letters in ACTIVITIES.items() for letter in letters}
ACTIVITY, PERSON = "ACTIVITY", "class"
UNKNOWN = "?"  # ARFF's missing value
PRODUCTS = (
    *("MR", "apparel", "baby", "books", "camera_photo", "dvd", "electronics", "health_personal_care", "imdb"),
    *("kitchen_housewares", "magazines", "music", "software", "sports_outdoors", "toys_games", "video"),
)
REVIEW_FILES = {f"{name}.task.{part}": name for name, part in product(PRODUCTS, ("train", "test"))}
SENTIMENTS = {b"0": "neg", b"1": "pos"}
SURVEY = "cps.csv.gz"
WAGES, STATE, IS_DEPENDENT = "e00200", "fips", "DSI"
HOUSEHOLD = ["age_head", "age_spouse", "MARS", "XTOT", "nu18", "nu13", "nu06", "n1820", "n21", "n24"]
HOUSEHOLD += ["elderly_dependents", "blind_head"]
INCOME = ["e02400", "e02300", "e00300", "e00600"]  # social security, unemployment, interest, dividends
YEAR = "FLPDYR"
BENEFITS = [f"{name}_ben" for name in ("mcaid", "mcare", "ssi", "snap", "tanf", "vet", "wic", "housing")]
LEVELS = {"low": -np.inf, "mid": 15_000, "high": 50_000}  # each from here on


def locate_wisdm(folder: Path) -> Path | None:
    """Return the folder with a file per person: the given one, or where it lies in the release."""
    for place in ("arff_files/watch/accel", "wisdm-dataset/arff_files/watch/accel", "watch/accel", "."):
        if any(PERSON_FILE.fullmatch(name) for name in names_in(folder / place)):
            return folder / place
    return None


def load_wisdm(place: Path, cache: Path | None = None) -> Contents:  # noqa: ARG001 - it is read within seconds
    """Read the windows of all persons; the label is the group of the activity, the domain the person."""
    parts: list[DatasetTable] = []
    for name in names_in(place):
        if not (found := PERSON_FILE.fullmatch(name)):
            continue
        part = read_windows(place / name, found[1])
        if parts and [*part.X] != [*parts[0].X]:
            raise InputError(f"{place / name} has other features than the files before it.")
        parts.append(part)
    X = pd.concat([part.X for part in parts], ignore_index=True)
    return Contents(
        DatasetTable(X, np.concatenate([part.y for part in parts]), np.concatenate([part.domains for part in parts]))
    )


def read_windows(path: Path, person: str) -> DatasetTable:
    """Read the windows of one person; a line that cannot be used raises an error that names it."""
    with reading(path):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    names = [found[1].strip("\"'") for line in lines if (found := ATTRIBUTE.match(line.strip()))]
    start = next((number for number, line in enumerate(lines) if line.strip().lower() == "@data"), None)
    if start is None or not {ACTIVITY, PERSON} <= {*names}:
        raise InputError(f"{path} is not an ARFF file with the attributes {ACTIVITY} and {PERSON}, and @data.")
    activity, owner = names.index(ACTIVITY), names.index(PERSON)
    rows = dict(_rows(lines, start + 1))
    if not rows:
        raise InputError(f"{path} has no window of person {person}; copy it again.")
    for number, fields in rows.items():
        if len(fields) != len(names):
            raise InputError(f"{path}:{number} has {len(fields)} fields, its header {len(names)}.")
        if fields[activity] not in LABEL_OF:
            known = "".join(LABEL_OF)
            raise InputError(f"{path}:{number}: {ACTIVITY} is {fields[activity]!r}, which is none of {known}.")
        if fields[owner] != person:
            raise InputError(f"{path}:{number}: {PERSON} is {fields[owner]!r} in the file of person {person}.")
    table = pd.DataFrame([*rows.values()], index=[*rows], columns=names, dtype=object)
    texts = table.drop(columns=[ACTIVITY, PERSON])
    numbers = _as_numbers(texts.to_numpy())
    wrong = ~np.isfinite(numbers) & (texts.to_numpy() != UNKNOWN)
    for row, column in np.argwhere(wrong)[:1]:
        what = f"{texts.columns[column]} is {texts.iloc[row, column]!r}"
        raise InputError(f"{path}:{texts.index[row]}: {what}, which is not a number.")
    labels = np.array([LABEL_OF[letter] for letter in table[ACTIVITY]], dtype=str)
    return DatasetTable(pd.DataFrame(numbers, columns=texts.columns), labels, np.full(len(labels), person))


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


def locate_reviews(folder: Path) -> Path | None:
    """Return the folder with the files of products: the given one, or where copies of the corpus have it."""
    for place in (folder, folder / "mtl-dataset", folder / "fdu-mtl", folder / "data" / "fdu-mtl"):
        if any(os.path.isfile(place / file) for file in REVIEW_FILES):
            return place
    return None


def load_reviews(place: Path, cache: Path | None = None) -> Contents:  # noqa: ARG001 - it is read within a second
    """Read all reviews with labels; the domain is the kind of product."""
    texts: list[str] = []
    labels: list[str] = []
    products: list[str] = []
    present = [file for file in REVIEW_FILES if os.path.isfile(place / file)]
    for file in present:
        path = place / file
        with reading(path):
            content = path.read_bytes()
        for number, line in enumerate(content.split(b"\n"), start=1):
            label, tab, text = line.rstrip(b"\r").partition(b"\t")
            if label in SENTIMENTS and tab:  # one review of the release is empty
                texts.append(decoded(text))
                labels.append(SENTIMENTS[label])
                products.append(REVIEW_FILES[file])
            elif line.strip():
                start = decoded(line[:20])
                raise InputError(f"{path}:{number} is not 0 or 1, a tab and a text, but starts with {start!r}.")
    missing = tuple(file for file in REVIEW_FILES if file not in present)
    table = DatasetTable(np.array(texts, dtype=object), np.array(labels, dtype=str), np.array(products, dtype=str))
    return Contents(table, missing)


def decoded(text: bytes) -> str:
    """Return a text that is UTF-8 or, if it is not, Windows-1252."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("cp1252", errors="replace")


def locate_wages(folder: Path) -> Path | None:
    """Return the file in a folder."""
    return folder / SURVEY if os.path.isfile(folder / SURVEY) else None


def load_wages(place: Path, cache: Path | None = None) -> Contents:  # noqa: ARG001 - it is read within seconds
    """Read the survey from its file."""
    return Contents(read_survey(place))


def packaged_wages() -> DatasetTable:
    """Read the survey that the package carries."""
    return read_survey(packaged_file("taxcalc", SURVEY))


def read_survey(path: Path) -> DatasetTable:
    """Return features, the level of wages, and the state by its FIPS number."""
    columns = [*HOUSEHOLD, *INCOME, YEAR, *BENEFITS, WAGES, STATE, IS_DEPENDENT]
    with reading(path):
        if absent := [name for name in columns if name not in pd.read_csv(path, nrows=0).columns]:
            raise InputError(f"{path} has no column {absent[0]!r}; copy it again from the package taxcalc.")
        survey = pd.read_csv(path, usecols=columns)
    for name in columns:
        wrong = pd.to_numeric(survey[name], errors="coerce").isna().to_numpy()
        reject_rows(wrong, path, f"column {name!r} is not a number")
    survey = survey[survey["age_head"].between(18, 70) & (survey[IS_DEPENDENT] == 0)].reset_index(drop=True)
    has_benefits = (survey[BENEFITS] > 0).astype(int).add_prefix("has_")
    label = np.array([*LEVELS])[np.searchsorted([*LEVELS.values()], survey[WAGES].to_numpy(), side="right") - 1]
    return DatasetTable(survey[[*HOUSEHOLD, *INCOME, YEAR]].join(has_benefits), label, survey[STATE].to_numpy())
