"""Atlantic storms by season, in the package: no download and no further package.

`storms.parquet` has a record of every storm every six hours, 1979 to 2022: facts of HURDAT2, the best-track database of
the US National Hurricane Center (NOAA), which is in the public domain. The records were taken from `storms` of R's
dplyr (MIT licence), without the second record that some hours have, of the minute of landfall.
"""

from importlib.resources import files
from io import BytesIO

from domaincover.datasets.dataset_table import DatasetTable

KINDS = {"hurricane": "hurricane", "tropical storm": "storm", "subtropical storm": "storm"}
STATE = ["wind", "pressure", "lat", "long"]


def load_storms() -> DatasetTable:
    """Load what an Atlantic storm is 24 hours later, by its state now; domains are hurricane seasons.

    There are 18,446 rows, three labels ("hurricane", "storm" and "weaker") and 44 domains, the years 1979 to 2022. The
    features are wind (knots), pressure (millibars), place and kind of the storm, how these numbers changed in
    twelve hours, and the day of the year. The data are in the package: NOAA's HURDAT2, public domain.

    Returns
    -------
    X : DataFrame
    y : Series
    domains : Series

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
