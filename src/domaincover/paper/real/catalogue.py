"""The real data sets by name."""

from __future__ import annotations

from pathlib import Path

from domaincover.datasets.dataset_table import DatasetTable
from domaincover.errors import InputError, suggestion
from domaincover.paper.real.audiomnist import AUDIOMNIST
from domaincover.paper.real.malaria import MALARIA
from domaincover.paper.real.product_reviews import REVIEWS
from domaincover.paper.real.real_data import RealData
from domaincover.paper.real.rotated_digits import ROTATED_DIGITS
from domaincover.paper.real.wages import US_WAGES
from domaincover.paper.real.wisdm import WISDM

REAL: dict[str, RealData] = {
    data.name: data for data in (AUDIOMNIST, MALARIA, WISDM, ROTATED_DIGITS, REVIEWS, US_WAGES)
}


def read_real(name: str, folder: str | Path | None = None, *, cache: str | Path | None = None) -> DatasetTable:
    """Return examples, labels and domains of a real data set that a folder holds, or an installed package.

    Parameters
    ----------
    name : str
        "audiomnist", "malaria", "wisdm", "rotated-digits", "reviews" or "wages".
    folder : path or None
        The folder of the release, or one that holds it; None takes the data from the package that carries them.
    cache : path or None
        A folder for decoded images and sounds, which makes the next call fast.
    """
    if name not in REAL:
        meant = suggestion(name, REAL, f"there are {', '.join(REAL)}.")
        raise InputError(f"no real data set is called {name!r}; {meant}")
    data, place = REAL[name], None if folder is None else Path(folder)
    if not data.is_available(place):
        raise InputError(f"{name}: {data.missing(place)}")
    return data.read(data.find(place), None if cache is None else Path(cache))
