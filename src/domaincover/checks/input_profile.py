"""Whether new rows look like those of training, column by column: missing, unknown, out of range, in another unit.

Each domain of training is compared with the others, as a new domain is with all of them. A statistic counts in units of
the largest deviation that another domain has, so that what differs between domains anyway is no alarm, and a domain's
largest ratio over all columns is ranked among those of training: in a new domain that is drawn alike, an alarm comes
with probability `ALARMS` at most, from 19 domains on.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.checks.column_profile import (
    ColumnProfile,
    DomainStatistics,
    largest_of_others,
    profile_from,
    profile_of,
)
from domaincover.data.columns import Kind
from domaincover.errors import InputError

ALARMS = 0.05
FEWEST_ROWS, FEWEST_DOMAINS = 30, 5
MOST_DOMAINS = 300
BEYOND_ALL = 2.0  # times the highest ratio of training: told however many domains are compared
FLOORS = {"missing": 0.02, "location": 0.1, "spread": 0.1, "outside": 0.02, "unknown": 0.02, "shares": 0.05}
AROUND_MEDIAN = ("missing", "location", "spread")  # the others are deviations already
ALL_DOMAINS = "all domains"

Values = NDArray[np.float64]


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
        columns = tuple(profile_of(X[name], kind) for name, kind in kinds.items() if kind != "ignored")
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
            numbers = {name: plain[name] for name in cls._fields if name != "columns"}
            found = {name: np.asarray(value, np.float64).reshape(-1 if n else 0) for name, value in numbers.items()}
            if any(len(found[name]) != n for name in cls._fields[1:6]) or any(
                len(found[name]) != 1 for name in cls._fields[6:]
            ):
                raise ValueError("its numbers do not fit its columns")
            scalars = {name: float(found[name][0]) for name in cls._fields[6:]}
            arrays = {name: found[name] for name in cls._fields[1:6]}
            return cls(columns, **arrays, **{**scalars, "n_domains": int(scalars["n_domains"])})  # type: ignore[arg-type]
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
        is_missing = np.array([name == "missing" for column in self.columns for name in column.statistics])
        is_rare = (1 + self.share_empty * self.n_domains) / (self.n_domains + 1) <= max(
            ALARMS, 1 / (self.n_domains + 1)
        )
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
    parts: list[DomainStatistics] = [
        column.by_domain(values, codes, n_domains, among_themselves=among_themselves)
        for column, values in zip(columns, own, strict=True)
    ]
    errors = np.concatenate([part.errors for part in parts], axis=1)
    return np.concatenate([part.values for part in parts], axis=1), _floors(columns) + 2 * errors
