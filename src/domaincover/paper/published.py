"""The paper's published numbers, with the table they come from."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def published_results() -> pd.DataFrame:
    """Return the paper's min recall, set size and share at target in unseen domains."""
    return _read("results.csv")


def published_times() -> pd.DataFrame:
    """Return the paper's training times in minutes."""
    return _read("times.csv")


def _read(name: str) -> pd.DataFrame:
    import pandas as pd

    with (files("domaincover.paper") / "experiments" / name).open(encoding="utf-8") as text:
        return pd.read_csv(text)
