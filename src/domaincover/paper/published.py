"""The paper's own numbers, kept as data with the table that they are from."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def published_results() -> pd.DataFrame:
    """Return min recall, set size and share at target in unseen domains as the paper gives them."""
    return _read("results.csv")


def published_times() -> pd.DataFrame:
    """Return the paper's training times in minutes."""
    return _read("times.csv")


def _read(name: str) -> pd.DataFrame:
    import pandas as pd

    with (files("domaincover.paper") / "experiments" / name).open(encoding="utf-8") as text:
        return pd.read_csv(text)
