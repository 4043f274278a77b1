"""Real tables to try things on: features, labels and domains, each in one call."""

from domaincover.datasets.rdatasets_tables import load_flights, load_votes
from domaincover.datasets.storm_seasons import load_storms

__all__ = ["load_flights", "load_storms", "load_votes"]
