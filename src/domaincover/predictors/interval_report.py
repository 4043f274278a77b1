"""The report on intervals: coverage and width by domain, in the form of the report on sets."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from html import escape
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from domaincover.criteria import criterion_for
from domaincover.data.dataset import texts
from domaincover.errors import InputError
from domaincover.evaluation import DomainReport, Tallies
from domaincover.terminal.text import counted, table_lines, wrapped

INSIDE = "value"
MOST_ROWS, WIDTH = 30, 100


@dataclass(frozen=True, eq=False)
class IntervalReport(DomainReport):
    """Coverage of every domain, with the mean width of its intervals where sets have a size.

    `own_width` is the width of the interval that a domain's own values would need, `below` and `above` are the shares
    of values under and over their intervals.
    """

    widths: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    own_width: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    below: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    above: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @property
    def set_size(self) -> NDArray[np.float64]:
        """The mean width of each domain's intervals."""
        return self.widths

    @property
    def size_by_lot(self) -> NDArray[np.float64]:
        """The width that each domain's own values would need."""
        return self.own_width

    @property
    def is_useless(self) -> bool:
        """Whether intervals are as wide as if nothing were known of a row but its domain, in the median domain."""
        return bool(np.median(self.widths - self.own_width) > 0)

    def __str__(self) -> str:
        order = np.argsort(self.coverage, kind="stable")
        columns = [self.n, self.coverage, self.widths, self.own_width, self.below, self.above]
        formats = ["{:,}", "{:.3f}", "{:.3g}", "{:.3g}", "{:.3f}", "{:.3f}"]
        names = texts(self.domain_names)
        rows = [
            [names[k], *(how.format(column[k]) for how, column in zip(formats, columns, strict=True))]
            for k in order[:MOST_ROWS]
        ]
        heads = ["domain", "rows", "coverage", "width", "own width", "below", "above"]
        n_more = len(order) - len(rows)
        more = [f"… and {n_more} more domains"] if n_more else []
        return "\n".join([*table_lines(heads, rows, 1, WIDTH), *more, "", *wrapped(self.in_words, WIDTH)])

    @property
    def in_words(self) -> str:
        """How many domains are at target, and how wide their intervals are."""
        target, n_at_target = self.judged_by.given, int(self.at_target().sum())
        return (
            f"In {n_at_target} of {counted(len(self.domain_names), 'domain')} the coverage is at least {target:g}. "
            f"Intervals are {np.median(self.widths):.3g} wide at the median; {np.median(self.own_width):.3g} would do "
            "if a domain's values were known, but nothing of its rows."
        )

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def subset(self, rows: Any) -> Self:
        """Return the given domains (row numbers or a mask) in the given order."""
        from dataclasses import replace

        own = {name: getattr(self, name)[rows] for name in ("widths", "own_width", "below", "above")}
        return replace(super().subset(rows), **own)  # type: ignore[return-value]

    def _measures(self) -> dict[str, NDArray[Any]]:
        return {
            "n": self.n,
            "coverage": self.coverage,
            "width": self.widths,
            "own_width": self.own_width,
            "below": self.below,
            "above": self.above,
        }


def interval_report(
    intervals: NDArray[np.float64],
    values: NDArray[np.float64],
    domains: NDArray[np.int64],
    domain_names: tuple[Hashable, ...],
    target_coverage: float,
    min_domain_size: int = 1,
) -> IntervalReport:
    """Report on intervals (rows × 2), values and domain codes; domains with fewer rows than the size are left out."""
    n_domains = len(domain_names)
    low, high = intervals[:, 0], intervals[:, 1]
    n_rows = np.bincount(domains, minlength=n_domains)
    under, over = (np.bincount(domains[which], minlength=n_domains) for which in (values < low, values > high))
    hits = n_rows - under - over
    counts = np.maximum(n_rows, 1)
    kept = np.flatnonzero(n_rows >= max(min_domain_size, 1))
    if not len(kept):
        raise InputError(f"no domain has {min_domain_size} rows or more, so there is nothing to report.")
    tallies = Tallies(n_rows[:, None], hits[:, None], np.stack([np.zeros_like(n_rows), n_rows], axis=1))
    return IntervalReport(
        domain_names=tuple(domain_names[k] for k in kept),
        label_names=(INSIDE,),
        tallies=tallies.of(kept),
        min_cell_size=min_domain_size,
        left_out=tuple(domain_names[k] for k in np.flatnonzero((n_rows > 0) & (n_rows < max(min_domain_size, 1)))),
        criterion=criterion_for(target_coverage, (INSIDE,), "coverage"),
        widths=(np.bincount(domains, high - low, minlength=n_domains) / counts)[kept],
        own_width=_own_widths(values, domains, n_rows, target_coverage)[kept],
        below=(under / counts)[kept],
        above=(over / counts)[kept],
    )


def _own_widths(
    values: NDArray[np.float64], domains: NDArray[np.int64], n_rows: NDArray[np.int64], target: float
) -> NDArray[np.float64]:
    """Return the distance between the outer quantiles of each domain's values that leave the target between them."""
    ordered = values[np.lexsort([values, domains])]
    starts, last = np.cumsum(n_rows) - n_rows, np.maximum(n_rows - 1, 0)
    cut = np.floor((1 - target) / 2 * last).astype(np.int64)
    low = np.minimum(starts + cut, len(ordered) - 1)
    return np.asarray(ordered[np.minimum(starts + last - cut, len(ordered) - 1)] - ordered[low])
