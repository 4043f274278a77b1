"""US wages by state: the survey data (CPS of 2013 to 2015) that the package taxcalc carries as cps.csv.gz.

A row is a tax filing unit that nobody else claims as dependent, its head 18 to 70 years old. The label is its yearly
wages: low below 15,000 dollars, high from 50,000. Features are ages, household, benefits and income other than wages.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from domaincover.data.tables.table import reading
from domaincover.datasets import DatasetTable
from domaincover.errors import InputError
from domaincover.paper.real.contents import Contents, packaged_file, reject_rows

PACKAGE, FILE = "taxcalc", "cps.csv.gz"
WAGES, STATE, IS_DEPENDENT = "e00200", "fips", "DSI"
HOUSEHOLD = ["age_head", "age_spouse", "MARS", "XTOT", "nu18", "nu13", "nu06", "n1820", "n21", "n24"]
HOUSEHOLD += ["elderly_dependents", "blind_head"]
INCOME = ["e02400", "e02300", "e00300", "e00600"]  # social security, unemployment, interest, dividends
YEAR = "FLPDYR"
BENEFITS = [f"{name}_ben" for name in ("mcaid", "mcare", "ssi", "snap", "tanf", "vet", "wic", "housing")]
LEVELS = {"low": -np.inf, "mid": 15_000, "high": 50_000}  # each from here on


def locate(folder: Path) -> Path | None:
    """Return the file in a folder."""
    return folder / FILE if os.path.isfile(folder / FILE) else None


def load(place: Path, cache: Path | None = None) -> Contents:  # noqa: ARG001 - it is read within seconds
    """Read the survey from its file."""
    return Contents(read_survey(place))


def read_packaged() -> DatasetTable:
    """Read the survey that the package carries."""
    return read_survey(packaged_file(PACKAGE, FILE))


def read_survey(path: Path) -> DatasetTable:
    """Return features, the level of wages, and the state by its FIPS number."""
    columns = [*HOUSEHOLD, *INCOME, YEAR, *BENEFITS, WAGES, STATE, IS_DEPENDENT]
    with reading(path):
        if absent := [name for name in columns if name not in pd.read_csv(path, nrows=0).columns]:
            raise InputError(f"{path} has no column {absent[0]!r}; copy it again from the package {PACKAGE}.")
        survey = pd.read_csv(path, usecols=columns)
    for name in columns:
        wrong = pd.to_numeric(survey[name], errors="coerce").isna().to_numpy()
        reject_rows(wrong, path, f"column {name!r} is not a number")
    survey = survey[survey["age_head"].between(18, 70) & (survey[IS_DEPENDENT] == 0)].reset_index(drop=True)
    has_benefits = (survey[BENEFITS] > 0).astype(int).add_prefix("has_")
    label = np.array([*LEVELS])[np.searchsorted([*LEVELS.values()], survey[WAGES].to_numpy(), side="right") - 1]
    return DatasetTable(survey[[*HOUSEHOLD, *INCOME, YEAR]].join(has_benefits), label, survey[STATE].to_numpy())
