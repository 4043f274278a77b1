"""The domain × label table and its reductions, from which all reported numbers come."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.data.cells import cell_of, check_min_cell_size
from domaincover.data.dataset import texts
from domaincover.errors import InputError
from domaincover.options import ThresholdKind
from domaincover.prediction_sets import (
    Sets,
    check_target_recall,
    checked_codes,
    covers,
    hits_needed,
    set_sizes,
    share,
)

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

ROWS_AT_ONCE = 2**16
MOST_ROWS_IN_NOTEBOOK = 30


@dataclass(frozen=True)
class Summary:
    """Reductions over domains: medians and quartiles of min recall and mean set size, and the share at target.

    `share_by_noise` is the share at target that binomial noise alone would give if no domain differed from another:
    every cell's true recall at its label's mean over domains.
    """

    n_domains: int
    target_recall: float
    min_recall: float
    min_recall_q25: float
    min_recall_q75: float
    min_recall_p10: float
    min_recall_worst: float
    set_size: float
    set_size_q25: float
    set_size_q75: float
    share_at_target: float
    share_by_noise: float

    def to_dict(self) -> dict[str, float]:
        """Return the numbers by name."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class DomainReport:
    """One row per domain with examples: recall and n by label, mean set size, empty and single-label rates.

    A label that is absent from a domain (or has too few examples there to count) has recall NaN. For sets of a
    `PromisedSetClassifier`, `thresholds` is "adapted" (to each domain's rows) or "fixed".
    """

    domain_names: tuple[Hashable, ...]
    label_names: tuple[Hashable, ...]
    n_by_label: NDArray[np.int64]
    recall: NDArray[np.float64]
    set_size: NDArray[np.float64]
    empty_rate: NDArray[np.float64]
    single_rate: NDArray[np.float64]
    thresholds: ThresholdKind | None = None

    @property
    def n(self) -> NDArray[np.int64]:
        """The number of examples of each domain."""
        return self.n_by_label.sum(axis=1)

    @property
    def min_recall(self) -> NDArray[np.float64]:
        """The smallest recall over the labels that a domain has."""
        return np.where(np.isnan(self.recall), np.inf, self.recall).min(axis=1)

    def subset(self, rows: Any) -> DomainReport:
        """Return the given domains (row numbers or a mask) in the given order."""
        names = np.arange(len(self.domain_names))[rows]
        by_domain = ("n_by_label", "recall", "set_size", "empty_rate", "single_rate")
        taken = {name: getattr(self, name)[rows] for name in by_domain}
        return replace(self, domain_names=tuple(self.domain_names[row] for row in names), **taken)

    def share_by_noise(self, target_recall: float) -> float:
        """Return the share at target expected from chance alone, if domains did not differ."""
        from scipy.stats import binom

        mean_recall = np.nanmean(np.where(np.isnan(self.recall).all(axis=0), 1.0, self.recall), axis=0)
        needed = hits_needed(self.n_by_label, target_recall)
        reaches = binom.sf(needed - 1, self.n_by_label, mean_recall)
        return float(np.where(np.isnan(self.recall), 1.0, reaches).prod(axis=1).mean())

    def summary(self, target_recall: float) -> Summary:
        """Reduce the table over domains."""
        check_target_recall(target_recall)
        min_recall = self.min_recall
        p10, q25, median, q75 = np.quantile(min_recall, [0.1, 0.25, 0.5, 0.75])
        size_q25, size_median, size_q75 = np.quantile(self.set_size, [0.25, 0.5, 0.75])
        return Summary(
            n_domains=len(self.domain_names),
            target_recall=target_recall,
            min_recall=float(median),
            min_recall_q25=float(q25),
            min_recall_q75=float(q75),
            min_recall_p10=float(p10),
            min_recall_worst=float(min_recall.min()),
            set_size=float(size_median),
            set_size_q25=float(size_q25),
            set_size_q75=float(size_q75),
            share_at_target=float((min_recall >= target_recall).mean()),
            share_by_noise=self.share_by_noise(target_recall),
        )

    def records(self) -> list[dict[str, Any]]:
        """Return one record per domain, with recall by label name (None if absent)."""
        recalls = self.recall.astype(object)
        recalls[np.isnan(self.recall)] = None
        labels = texts(self.label_names)
        return [
            {
                "domain": name,
                "n": int(n),
                "min_recall": float(min_recall),
                "set_size": float(size),
                "empty_rate": float(empty),
                "single_rate": float(single),
                "recall": dict(zip(labels, recall, strict=True)),
            }
            for name, n, min_recall, size, empty, single, recall in zip(
                texts(self.domain_names),
                self.n,
                self.min_recall,
                self.set_size,
                self.empty_rate,
                self.single_rate,
                recalls,
                strict=True,
            )
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a DataFrame indexed by domain, with columns `recall[label]` and `n[label]`."""
        import pandas as pd

        columns: dict[str, Any] = {"n": self.n, "min_recall": self.min_recall, "set_size": self.set_size}
        columns |= {"empty_rate": self.empty_rate, "single_rate": self.single_rate}
        columns |= {f"recall[{name}]": self.recall[:, k] for k, name in enumerate(texts(self.label_names))}
        columns |= {f"n[{name}]": self.n_by_label[:, k] for k, name in enumerate(texts(self.label_names))}
        return pd.DataFrame(columns, index=pd.Index(self.domain_names, name="domain", tupleize_cols=False))

    def plot(
        self,
        target_recall: float,
        *,
        name: str = "model",
        baseline: Mapping[str, DomainReport] | None = None,
        title: str = "Recall by domain",
    ) -> alt.HConcatChart:
        """Return an Altair chart of recall and set size by domain, worst domain first.

        `baseline` adds the min recall and set size of another method on the same domains, under its name. Save the
        chart with `report.plot(0.9).save("domains.png")`.
        """
        from domaincover.report.domain_chart import domain_plot

        others = baseline or {}
        if name in others:
            raise InputError(f"the baseline has the report's own name, {name!r}; give another name.")
        return domain_plot({name: self, **others}, target_recall, title)

    def _repr_html_(self) -> str:
        """Return the table for a notebook, worst domain first; names are escaped."""
        frame = self.to_frame().sort_values("min_recall", kind="stable")
        return frame.to_html(float_format="{:.3f}".format, na_rep="–", max_rows=MOST_ROWS_IN_NOTEBOOK)


def domain_report(
    sets: Sets,
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    label_names: tuple[Hashable, ...],
    domain_names: tuple[Hashable, ...],
    min_cell_size: int = 1,
) -> DomainReport:
    """Build the table from sets, label codes and domain codes.

    Cells with fewer than `min_cell_size` examples do not count, and domains without a cell that counts are left out.
    """
    check_min_cell_size(min_cell_size)
    n_domains = len(domain_names)
    sets = np.asarray(sets)
    if sets.dtype != bool or sets.ndim != 2 or sets.shape[1] != len(label_names):
        raise InputError(
            f"sets must be booleans, examples × {len(label_names)} labels, got {sets.dtype} of shape {sets.shape}; "
            "compare scores with thresholds first."
        )
    labels = checked_codes(labels, "label", len(sets), len(label_names))
    domains = checked_codes(domains, "domain", len(sets), n_domains)
    tallies = _tallies(sets, labels, domains, n_domains)
    counts = tallies.n_by_cell
    recall = np.where(counts >= min_cell_size, share(tallies.hits_by_cell, counts), np.nan)
    kept = np.flatnonzero(~np.isnan(recall).all(axis=1))
    if len(kept) == 0:
        raise InputError(f"no domain has {min_cell_size:,} or more examples of any label: there is nothing to report.")
    n = counts.sum(axis=1)
    return DomainReport(
        domain_names=tuple(domain_names[k] for k in kept),
        label_names=label_names,
        n_by_label=counts[kept],
        recall=recall[kept],
        set_size=share(tallies.labels_in_sets, n)[kept],
        empty_rate=share(tallies.empty, n)[kept],
        single_rate=share(tallies.single, n)[kept],
    )


class _Tallies(NamedTuple):
    """Examples and covered ones by cell; labels in sets, empty sets and sets of one label by domain."""

    n_by_cell: NDArray[np.int64]
    hits_by_cell: NDArray[np.int64]
    labels_in_sets: NDArray[np.int64]
    empty: NDArray[np.int64]
    single: NDArray[np.int64]


def _tallies(sets: Sets, labels: NDArray[np.int64], domains: NDArray[np.int64], n_domains: int) -> _Tallies:
    """Count in blocks, so that temporaries stay in the processor's cache and memory does not grow with the rows.

    A block has at least as many rows as there are cells, so that adding the tables costs no more than counting.
    """
    n_labels = sets.shape[1]
    n_rows = max(ROWS_AT_ONCE, n_domains * n_labels)
    cells = np.zeros((2, n_domains, n_labels), dtype=np.int64)
    sizes = np.zeros((3, n_domains), dtype=np.int64)
    for start in range(0, len(sets), n_rows):
        block = slice(start, start + n_rows)
        cell, size = cell_of(domains[block], labels[block], n_labels), set_sizes(sets[block])
        hit = covers(sets[block], labels[block])
        cells += [np.bincount(codes, minlength=cells[0].size).reshape(cells[0].shape) for codes in (cell, cell[hit])]
        sizes += [
            np.bincount(domains[block], weights=weights, minlength=n_domains).astype(np.int64)
            for weights in (size, size == 0, size == 1)
        ]
    return _Tallies(*cells, *sizes)
