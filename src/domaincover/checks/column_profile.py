"""What is kept of a training column, and how its values in a domain differ from it, in a few statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.columns import Categories, Kind, category_text, read_days, read_numbers

UNKNOWN, EMPTY = -1, -2  # codes of categories
OTHER_UNIT = 4.0  # times the usual size of values
SMALLEST_SPREAD = 1e-3
Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]


class DomainStatistics(NamedTuple):
    """Statistics of one column in each domain, domains × statistics, and their standard errors; NaN says nothing."""

    values: Numbers
    errors: Numbers


@dataclass(frozen=True)
class NumberProfile:
    """What is kept of a column of numbers, booleans or dates."""

    name: str
    kind: Kind
    median: float
    scale: float  # mean absolute deviation from the median
    lowest: float
    highest: float
    size: float  # median of absolute values

    statistics: ClassVar = ("missing", "location", "spread", "outside")

    @classmethod
    def of(cls, column: pd.Series[Any], kind: Kind) -> Self:
        """Return the profile of a training column."""
        known = _numbers(column, kind)
        known = known[~np.isnan(known)]
        if not len(known):
            return cls(str(column.name), kind, 0.0, 1.0, 0.0, 0.0, 0.0)
        median = float(np.median(known))
        scale = float(np.abs(known - median).mean()) or abs(median) or 1.0
        size = float(np.median(np.abs(known)))
        return cls(str(column.name), kind, median, scale, float(known.min()), float(known.max()), size)

    def read(self, column: pd.Series[Any]) -> Numbers:
        """Return a column's values as numbers, NaN where missing."""
        return _numbers(column, self.kind)

    def by_domain(self, values: Numbers, codes: Codes, n_domains: int, *, among_themselves: bool) -> DomainStatistics:
        """Return the share missing, location and spread on a bent scale, and the share out of range, by domain.

        A domain of training is compared with the range of the others (`among_themselves`).
        """
        is_known = ~np.isnan(values)
        known, own = values[is_known], codes[is_known]
        n_rows, counts = (np.maximum(np.bincount(part, minlength=n_domains), 1) for part in (codes, own))
        bent = np.arcsinh((known - self.median) / self.scale)
        location = np.bincount(own, bent, minlength=n_domains) / counts
        variance = np.bincount(own, (bent - location[own]) ** 2, minlength=n_domains) / counts
        spread = np.log(np.sqrt(variance) + SMALLEST_SPREAD)
        low, high = np.full(n_domains, self.lowest), np.full(n_domains, self.highest)
        if among_themselves:
            low, high = np.full(n_domains, np.inf), np.full(n_domains, -np.inf)
            np.minimum.at(low, own, known)
            np.maximum.at(high, own, known)
            low, high = -largest_of_others(-low), largest_of_others(high)
        outside = np.bincount(own[(known < low[own]) | (known > high[own])], minlength=n_domains) / counts
        missing = np.bincount(codes[~is_known], minlength=n_domains) / n_rows
        found = np.stack([missing, location, spread, outside], axis=1)
        found[missing == 1, 1:3] = np.nan
        errors = [1 / np.sqrt(n_rows), np.sqrt(variance / counts), np.sqrt(0.5 / counts), 1 / np.sqrt(n_rows)]
        return DomainStatistics(found, np.stack(errors, axis=1))

    def in_words(self, statistic: str, values: Numbers) -> str:
        """Say how values differ from training in a statistic."""
        known = values[~np.isnan(values)]
        if statistic == "missing" or not len(known):
            return f"is missing in {_percent(np.isnan(values))} of the rows"
        if known.min() == known.max():
            return f"has the same value in all rows, {self._shown(known[0])}"
        size = float(np.median(np.abs(known)))
        if self.kind == "number" and min(size, self.size) > 0:
            factor = size / self.size
            if max(factor, 1 / factor) >= OTHER_UNIT:
                about = f"{float(f'{max(factor, 1 / factor):.2g}'):,g}"
                times = f"{about} times those" if factor > 1 else f"1/{about} of those"
                return f"may be in another unit: its values are {times} of training"
        is_outside = (known < self.lowest) | (known > self.highest)
        if statistic == "outside" or is_outside.mean() >= 0.5:
            usual = f"{self._shown(self.lowest)} to {self._shown(self.highest)}"
            return f"is out of its range in training, {usual}, in {_percent(is_outside)} of the rows"
        middle = float(np.median(known))
        if statistic == "location":
            return f"has the median {self._shown(middle)}, in training {self._shown(self.median)}"
        return f"varies {np.abs(known - middle).mean() / self.scale:.2g} times as much as in training"

    def _shown(self, value: float) -> str:
        if self.kind == "date":
            return str(np.datetime64("1970-01-01") + np.timedelta64(int(value), "D"))
        return f"{value:.4g}"


@dataclass(frozen=True)
class CategoryProfile:
    """What is kept of a column of categories: the most frequent, and their shares."""

    name: str
    levels: tuple[str, ...]
    shares: tuple[float, ...]

    statistics: ClassVar = ("missing", "unknown", "shares")

    @classmethod
    def of(cls, column: pd.Series[Any], most: int = 50) -> Self:
        """Return the profile of a training column."""
        levels = tuple(level for level in Categories.of(column, most).levels if level is not None)
        own = cls(str(column.name), levels, ()).read(column)
        return cls(str(column.name), levels, tuple((_counts(own, len(levels)) / max(len(own), 1)).tolist()))

    def read(self, column: pd.Series[Any]) -> Codes:
        """Return the codes of a column's categories."""
        place = {level: k for k, level in enumerate(self.levels)}
        codes = column.astype(object).map(category_text, na_action="ignore").map(place).fillna(UNKNOWN)
        return np.asarray(codes.where(column.notna(), EMPTY), dtype=np.int64)

    def by_domain(self, values: Codes, codes: Codes, n_domains: int, *, among_themselves: bool) -> DomainStatistics:
        """Return the shares missing and unknown, and the distance of the shares of categories, by domain."""
        n_levels, seen = len(self.levels), values >= 0
        n_rows = np.maximum(np.bincount(codes, minlength=n_domains), 1)
        missing, unknown = (np.bincount(codes[values == code], minlength=n_domains) for code in (EMPTY, UNKNOWN))
        table = _counts(codes[seen] * n_levels + values[seen], n_domains * n_levels).reshape(n_domains, n_levels)
        others = table.sum(axis=0) - table if among_themselves else np.tile(self.shares, (n_domains, 1))
        unknown = unknown + np.where(others > 0, 0, table).sum(axis=1)
        known = np.maximum(n_rows - missing, 1)[:, None]
        usual = others / np.maximum(others.sum(axis=1, keepdims=True), 1e-12)
        distance = np.abs(table / known - usual).sum(axis=1) / 2 * (table.sum(axis=1) > 0)
        noise = np.sqrt(usual * (1 - usual) / known).sum(axis=1) / 2
        found = [missing / n_rows, unknown / n_rows, distance]
        return DomainStatistics(
            np.stack(found, axis=1), np.stack([1 / np.sqrt(n_rows), 1 / np.sqrt(n_rows), noise], axis=1)
        )

    def in_words(self, statistic: str, values: Codes) -> str:
        """Say how categories differ from training in a statistic."""
        if statistic == "missing":
            return f"is missing in {_percent(values == EMPTY)} of the rows"
        if statistic == "unknown" or not (values >= 0).any():
            return f"has categories that are rare or unknown in training in {_percent(values == UNKNOWN)} of the rows"
        shares = _counts(values[values >= 0], len(self.levels)) / np.count_nonzero(values >= 0)
        k = int(np.abs(shares - self.shares).argmax())
        usual = f"in training in {100 * self.shares[k]:.0f} %"
        return f"is {self.levels[k]!r} in {100 * shares[k]:.0f} % of the rows, {usual}"


ColumnProfile = NumberProfile | CategoryProfile


def profile_of(column: pd.Series[Any], kind: Kind) -> ColumnProfile:
    """Return what is kept of a training column."""
    return CategoryProfile.of(column) if kind == "category" else NumberProfile.of(column, kind)


def profile_from(content: Mapping[str, Any]) -> ColumnProfile:
    """Return a profile from its fields as plain data."""
    if "levels" not in content:
        return NumberProfile(**content)
    return CategoryProfile(str(content["name"]), tuple(content["levels"]), tuple(map(float, content["shares"])))


def largest_of_others(values: Numbers) -> Numbers:
    """Return for each row the largest value of the other rows, column by column."""
    order = np.argsort(values, axis=0)
    first, second = (np.take_along_axis(values, order[-k][None], axis=0) for k in (1, 2))
    places = np.arange(len(values)).reshape(-1, *[1] * (values.ndim - 1))
    return np.where(places == order[-1], second, first)


def _numbers(column: pd.Series[Any], kind: Kind) -> Numbers:
    return np.asarray(read_days(column) if kind == "date" else read_numbers(column), dtype=np.float64)


def _counts(codes: Codes, n_codes: int) -> NDArray[np.int64]:
    """Return how often each code occurs, without those of missing and unknown categories."""
    return np.bincount(codes[codes >= 0], minlength=n_codes)


def _percent(which: NDArray[np.bool_]) -> str:
    return f"{100 * which.mean():.0f} %"
