"""The real data sets by name."""

from __future__ import annotations

from domaincover.paper.real.audiomnist import AUDIOMNIST
from domaincover.paper.real.real_data import RealData

REAL: dict[str, RealData] = {data.name: data for data in (AUDIOMNIST,)}
