"""Whether new rows look like those of training, column by column: missing, unknown, out of range, in another unit.

Each domain of training is compared with the others, as a new domain is with all of them. A statistic counts in units of
the largest deviation that another domain has, so that what differs between domains anyway is no alarm, and a domain's
largest ratio over all columns is ranked among those of training: in a new domain that is drawn alike, an alarm comes
with probability `ALARMS` at most, from 19 domains on.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.columns import Categories, Kind, category_text, read_days, read_numbers
from domaincover.errors import InputError

ALARMS = 0.05
FEWEST_ROWS, FEWEST_DOMAINS = 30, 5
MOST_DOMAINS = 300
BEYOND_ALL = 2.0  # times the highest ratio of training: told however many domains are compared
FLOORS = {"missing": 0.02, "location": 0.1, "spread": 0.1, "outside": 0.02, "unknown": 0.02, "shares": 0.05}
AROUND_MEDIAN = ("missing", "location", "spread")  # the others are deviations already
ALL_DOMAINS = "all domains"
ARRAYS = ("centre", "largest", "mean", "deviation", "share_empty")

Values = NDArray[np.float64]
UNKNOWN, EMPTY = -1, -2  # codes of categories
OTHER_UNIT = 4.0  # times the usual size of values
SMALLEST_SPREAD = 1e-3
Codes = NDArray[np.int64]
Statistics = tuple[Values, Values]  # domains × statistics, NaN where nothing is known, and their standard errors


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

    def read(self, column: pd.Series[Any]) -> Values:
        """Return a column's values as numbers, NaN where missing."""
        return _numbers(column, self.kind)

    def by_domain(self, values: Values, codes: Codes, n_domains: int, *, among_themselves: bool) -> Statistics:
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
        return found, np.stack(errors, axis=1)

    def in_words(self, statistic: str, values: Values) -> str:
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

    def by_domain(self, values: Codes, codes: Codes, n_domains: int, *, among_themselves: bool) -> Statistics:
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
        errors = [1 / np.sqrt(n_rows), 1 / np.sqrt(n_rows), noise]
        return np.stack(found, axis=1), np.stack(errors, axis=1)

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


def profile_from(content: Mapping[str, Any]) -> ColumnProfile:
    """Return a profile from its fields as plain data."""
    if "levels" not in content:
        return NumberProfile(**content)
    return CategoryProfile(str(content["name"]), tuple(content["levels"]), tuple(map(float, content["shares"])))


def largest_of_others(values: Values) -> Values:
    """Return for each row the largest value of the other rows, column by column."""
    order = np.argsort(values, axis=0)
    first, second = (np.take_along_axis(values, order[-k][None], axis=0) for k in (1, 2))
    places = np.arange(len(values)).reshape(-1, *[1] * (values.ndim - 1))
    return np.where(places == order[-1], second, first)


def _numbers(column: pd.Series[Any], kind: Kind) -> Values:
    return np.asarray(read_days(column) if kind == "date" else read_numbers(column), dtype=np.float64)


def _counts(codes: Codes, n_codes: int) -> NDArray[np.int64]:
    """Return how often each code occurs, without those of missing and unknown categories."""
    return np.bincount(codes[codes >= 0], minlength=n_codes)


def _percent(which: NDArray[np.bool_]) -> str:
    return f"{100 * which.mean():.0f} %"


class Difference(NamedTuple):
    """How one column of a domain differs from training; the ratio is above 1 beyond every domain of training."""

    domain: str
    column: str
    what: str
    ratio: float

    def __str__(self) -> str:
        where = "" if self.domain == ALL_DOMAINS else f" in domain {self.domain}"
        return f"column {self.column!r} {self.what}{where}"


class InputProfile(NamedTuple):
    """What is kept of the columns of training; arrays have a number for each statistic of each column."""

    columns: tuple[ColumnProfile, ...]
    centre: Values
    largest: Values  # deviation from the centre in the domains of training
    mean: Values  # over the domains of training
    deviation: Values
    share_empty: Values  # of the domains of training, in which nothing else than missing values is found
    highest_ratio: float
    alarm_ratio: float
    n_domains: int

    @classmethod
    def learn(cls, X: pd.DataFrame, domains: Any, kinds: Mapping[Any, Kind]) -> InputProfile | None:
        """Return the profile of a training table with columns of these kinds; None if it has too few domains."""
        names, codes = _codes(domains, len(X))
        large = np.flatnonzero(np.bincount(codes, minlength=len(names)) >= FEWEST_ROWS)
        chosen = large[np.linspace(0, len(large) - 1, min(len(large), MOST_DOMAINS)).astype(int)]
        columns = tuple(
            CategoryProfile.of(X[name]) if kind == "category" else NumberProfile.of(X[name], kind)
            for name, kind in kinds.items()
            if kind != "ignored"
        )
        if len(chosen) < FEWEST_DOMAINS or not columns:
            return None
        place = np.full(len(names), -1)
        place[chosen] = np.arange(len(chosen))
        is_chosen = place[codes] >= 0
        own = [column.read(X[column.name])[is_chosen] for column in columns]
        values, slack = _statistics(columns, own, place[codes][is_chosen], len(chosen), among_themselves=True)
        around = np.array([name in AROUND_MEDIAN for column in columns for name in column.statistics])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a column that is empty in all domains
            centre = np.where(around, np.nan_to_num(np.nanmedian(values, axis=0)), 0.0)
            others = np.stack([np.nanmedian(np.delete(values, e, axis=0), axis=0) for e in range(len(values))])
        deviations = np.nan_to_num(np.abs(values - np.where(around, others, 0.0)))
        ratios = np.sort((deviations / (largest_of_others(deviations) + slack)).max(axis=1))
        rank = int(np.ceil((1 - ALARMS) * (len(ratios) + 1)))
        alarm = ratios[rank - 1] if rank <= len(ratios) else 1.5 * ratios[-1]
        known = np.where(np.isnan(values), centre, values)
        return cls(
            columns,
            centre=centre,
            largest=deviations.max(axis=0),
            mean=known.mean(axis=0),
            deviation=known.std(axis=0, ddof=1),
            share_empty=(values == 1).mean(axis=0),
            highest_ratio=float(ratios[-1]),
            alarm_ratio=float(max(alarm, 1.0)),
            n_domains=len(chosen),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        plain = {name: np.asarray(value).tolist() for name, value in self._asdict().items() if name != "columns"}
        return {**plain, "columns": [asdict(column) for column in self.columns]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> InputProfile:
        """Return the profile that `to_dict` wrote."""
        try:
            columns = tuple(map(profile_from, plain["columns"]))
            n = sum(len(column.statistics) for column in columns)
            arrays = {name: np.asarray(plain[name], np.float64) for name in ARRAYS}
            if any(array.shape != (n,) for array in arrays.values()):
                raise ValueError("its numbers do not fit its columns")
            highest, alarm = float(plain["highest_ratio"]), float(plain["alarm_ratio"])
            return cls(columns, **arrays, highest_ratio=highest, alarm_ratio=alarm, n_domains=int(plain["n_domains"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the model's profile of its training columns is corrupt: {error}.") from None

    def differences(self, X: pd.DataFrame, domains: Any = None) -> tuple[Difference, ...]:
        """Return how domains differ from training more than its own domains do, the worst first.

        Without domains all rows are compared as one. Nothing is said of a domain with fewer than `FEWEST_ROWS` rows.
        What differs in all domains alike is told once, of all of them.
        """
        names, codes = _codes(domains, len(X))
        is_large = np.bincount(codes, minlength=len(names)) >= FEWEST_ROWS
        if not is_large.any():
            return ()
        own = [column.read(X[column.name]) for column in self.columns]
        values, slack = _statistics(self.columns, own, codes, len(names))
        ratios = np.nan_to_num(np.abs(values - self.centre)) / (self.largest + slack) * is_large[:, None]
        shifted = self._shifted(values[is_large])
        counts = ((ratios > self.alarm_ratio) & self._alarms(ratios)) | (self._is_empty(values) & is_large[:, None])
        counts &= ~shifted
        found = [
            self._told(name, ratios[e] * counts[e], own, codes == e) for e, name in enumerate(names) if counts[e].any()
        ]
        found.append(self._told(ALL_DOMAINS, ratios[is_large].mean(axis=0) * shifted, own, is_large[codes]))
        return tuple(sorted(chain.from_iterable(found), key=lambda difference: -difference.ratio))

    def _alarms(self, ratios: Values) -> NDArray[np.bool_]:
        """Return the domains to tell of, as a column: of many, some have an alarm by chance."""
        from scipy.special import bdtr  # scipy.stats takes as long to import as half of torch

        worst = ratios.max(axis=1, keepdims=True)
        alarms, n_compared = worst > self.alarm_ratio, np.count_nonzero(worst)
        by_chance = 0 if n_compared <= 1 else np.argmax(bdtr(np.arange(n_compared), n_compared, ALARMS) >= 1 - ALARMS)
        return alarms if alarms.sum() > by_chance else worst > BEYOND_ALL * max(self.highest_ratio, self.alarm_ratio)

    def _is_empty(self, values: Values) -> NDArray[np.bool_]:
        """Return which domains lack a column that hardly any domain of training lacks."""
        n = self.n_domains + 1
        is_missing = np.array([name == "missing" for column in self.columns for name in column.statistics])
        is_rare = 1 + self.share_empty * self.n_domains <= max(ALARMS * n, 1)
        return is_missing & is_rare & (values == 1)

    def _shifted(self, values: Values) -> NDArray[np.bool_]:
        """Return the statistics whose mean over domains is not that of training: a t-test (Welch) of each."""
        from scipy.special import stdtr

        n = len(values)
        if n < FEWEST_DOMAINS:
            return np.zeros(len(self.mean), dtype=bool)
        values, floors = np.where(np.isnan(values), self.mean, values), _floors(self.columns)
        own, new = (
            np.maximum(deviation, floors) ** 2 / count
            for deviation, count in ((self.deviation, self.n_domains), (values.std(axis=0, ddof=1), n))
        )
        freedom = (own + new) ** 2 / (own**2 / (self.n_domains - 1) + new**2 / (n - 1))
        p_values = 2 * stdtr(freedom, -np.abs(values.mean(axis=0) - self.mean) / np.sqrt(own + new))
        return np.asarray(p_values * len(self.mean) <= ALARMS / 5)

    def _told(self, domain: str, ratios: Values, own: Sequence[Any], rows: NDArray[np.bool_]) -> list[Difference]:
        """Return a line for each column with a ratio above 0, about its highest one."""
        of_statistic = [(k, name) for k, column in enumerate(self.columns) for name in column.statistics]
        worst = dict[int, int]()
        for j in np.argsort(-ratios)[: np.count_nonzero(ratios)].tolist():
            worst.setdefault(of_statistic[j][0], j)
        columns = self.columns
        return [
            Difference(domain, columns[k].name, columns[k].in_words(of_statistic[j][1], own[k][rows]), float(ratios[j]))
            for k, j in worst.items()
        ]


def _codes(domains: Any, n_rows: int) -> tuple[list[str], NDArray[np.int64]]:
    if domains is None:
        return [ALL_DOMAINS], np.zeros(n_rows, np.int64)
    codes, names = pd.factorize(np.asarray(domains, dtype=object).astype(str))
    return list(map(str, names)), codes.astype(np.int64)


def _floors(columns: Sequence[ColumnProfile]) -> Values:
    return np.array([FLOORS[name] for column in columns for name in column.statistics])


def _statistics(
    columns: Sequence[ColumnProfile],
    own: Sequence[Any],
    codes: NDArray[np.int64],
    n_domains: int,
    *,
    among_themselves: bool = False,
) -> tuple[Values, Values]:
    """Return the statistics of all columns, domains × statistics, and by how much chance alone may move each."""
    parts: list[Statistics] = [
        column.by_domain(values, codes, n_domains, among_themselves=among_themselves)
        for column, values in zip(columns, own, strict=True)
    ]
    values, errors = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    return values, _floors(columns) + 2 * errors
