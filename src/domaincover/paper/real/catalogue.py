"""The real data sets by name."""

from __future__ import annotations

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
