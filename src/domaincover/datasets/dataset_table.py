"""What a loader returns."""

from typing import Any, NamedTuple


class DatasetTable(NamedTuple):
    """Features, labels and domains, a row each."""

    X: Any
    y: Any
    domains: Any
