"""The paper: its tables and figures in their order, and its published numbers."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from domaincover.paper.authors_code import AUTHORS_MARK

if TYPE_CHECKING:
    import pandas as pd

QUICK_MARK = "quick run: not the paper's setting"
FIVE = ("erm", "pooled-train", "pooled-held-out", "robust", "set-cover")
WILDS_MISSING = "not run: needs the WILDS folders"


def note_on(config: Mapping[str, Any]) -> str:
    """Return what must be said wherever results of runs with this configuration stand, or an empty text."""
    marks = {"quick": QUICK_MARK, "as_authors": AUTHORS_MARK}
    return "; ".join(mark for name, mark in marks.items() if config.get(name))


def is_quotable(notes: pd.Series) -> pd.Series:
    """Return which results may stand beside the paper's numbers, by their notes: none of a quick run."""
    return notes.isin(["", AUTHORS_MARK])


class Exhibit(NamedTuple):
    """A table or figure of the paper: its name and place, what it compares, and the experiment that reproduces it."""

    name: str
    title: str
    place: str
    kind: str  # a kind of figure, or "results" or "times" for a table
    datasets: tuple[str, ...]
    methods: tuple[str, ...] = FIVE
    target_recalls: tuple[float, ...] = (0.9,)
    experiment: str = ""
    ours: tuple[str, ...] = ("set-cover-best",)  # methods that stand beside the paper's

    @property
    def slug(self) -> str:
        """The name as part of an address or a file's name, such as figure-1."""
        return self.name.lower().replace(" ", "-")


class Published(NamedTuple):
    """A paper with its exhibits and numbers; a study that does not reproduce one has none."""

    title: str
    authors: tuple[str, ...]
    venue: str
    exhibits: tuple[Exhibit, ...]
    results: pd.DataFrame  # min recall, set size and share at target in unseen domains
    times: pd.DataFrame  # minutes of training
    n_labels: Mapping[str, int]  # by data set


def published() -> Published:
    """Return the paper."""
    content = tomllib.loads((files("domaincover.paper") / "contents.toml").read_text(encoding="utf-8"))
    exhibits = tuple(Exhibit(**{name: _fixed(value) for name, value in row.items()}) for row in content["exhibit"])
    return Published(
        content["title"],
        tuple(content["authors"]),
        content["venue"],
        exhibits,
        _read("results.csv"),
        _read("times.csv"),
        content["labels"],
    )


def _fixed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _read(name: str) -> pd.DataFrame:
    import pandas as pd

    with (files("domaincover.paper") / "experiments" / name).open(encoding="utf-8") as text:
        return pd.read_csv(text)
