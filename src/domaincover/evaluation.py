"""The domain × label table and its reductions, from which all reported numbers come."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.criteria import (
    SMALLEST_SAVING,
    Criterion,
    Sets,
    TargetRecall,
    checked_codes,
    covers,
    criterion_for,
    every_label,
    hits_needed,
    set_sizes,
    share,
    size_by_lot,
)
from domaincover.data.dataset import Coded, cell_of, chosen_cell_size, code_names, count_cells, texts
from domaincover.errors import InputError, check_choice
from domaincover.options import SizedRows, ThresholdKind
from domaincover.terminal.text import listed

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

ROWS_AT_ONCE = 2**16


@dataclass(frozen=True)
class Summary:
    """Reductions over domains: medians and quartiles of min recall and mean set size, and the share at target.

    `share_by_noise` is the share at target that chance alone (binomial noise) would give if no domain differed from
    another: every cell's true recall at its label's mean over domains. `set_size_by_lot` is the median size of sets
    that are drawn by lot with the same recalls, out of `n_labels`.
    """

    n_domains: int
    target_recall: float | dict[str, float]
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
    set_size_by_lot: float
    n_labels: int

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers by name."""
        return asdict(self)


class Tallies(NamedTuple):
    """Examples and covered ones by cell, and sets by domain and size.

    A report depends on its rows through these counts only, so those of several parts of a table are added.
    """

    n_by_cell: NDArray[np.int64]
    hits_by_cell: NDArray[np.int64]
    n_by_size: NDArray[np.int64]

    @classmethod
    def zeros(cls, n_domains: int, n_labels: int) -> Tallies:
        """Return the counts of no rows."""
        return cls(*(np.zeros((n_domains, width), dtype=np.int64) for width in (n_labels, n_labels, n_labels + 1)))

    def add(self, other: Tallies, domains: NDArray[np.int64]) -> None:
        """Add the counts of other rows, whose domains have these codes here; several may have the same."""
        for own, more in zip(self, other, strict=True):
            np.add.at(own, domains, more)

    def of(self, domains: Any) -> Tallies:
        """Return the counts of some domains (numbers or a mask), in the given order."""
        return Tallies(*(counts[domains] for counts in self))


@dataclass(frozen=True, eq=False)
class DomainReport:
    """The counts of every domain with examples, and what they say: recall and n by label, set sizes.

    A label that is absent from a domain, or has fewer examples there than `min_cell_size`, has recall NaN. `left_out`
    are the domains without a label that counts. For sets of a `PromisedSetClassifier`, `thresholds` is "adapted" (to
    each domain's rows) or "fixed". `criterion` says what a domain has to reach; None is every label's recall.
    """

    domain_names: tuple[Hashable, ...]
    label_names: tuple[Hashable, ...]
    tallies: Tallies
    thresholds: ThresholdKind | None = None
    min_cell_size: int = 1
    left_out: tuple[Hashable, ...] = ()
    criterion: Criterion | None = None

    @property
    def n_by_label(self) -> NDArray[np.int64]:
        """The number of examples of each label in each domain."""
        return self.tallies.n_by_cell

    @property
    def n(self) -> NDArray[np.int64]:
        """The number of examples of each domain."""
        return self.n_by_label.sum(axis=1)

    @property
    def recall(self) -> NDArray[np.float64]:
        """The recall of each label in each domain, NaN where it does not count."""
        recall = share(self.tallies.hits_by_cell, self.n_by_label)
        return np.where(self.n_by_label >= self.min_cell_size, recall, np.nan)

    @property
    def coverage(self) -> NDArray[np.float64]:
        """The share of each domain's examples whose set holds their label, in small cells too."""
        return share(self.tallies.hits_by_cell.sum(axis=1), self.n)

    @property
    def set_size(self) -> NDArray[np.float64]:
        """The mean number of labels in each domain's sets."""
        return self._over_sets(self.tallies.n_by_size @ np.arange(self.tallies.n_by_size.shape[1]))

    @property
    def empty_rate(self) -> NDArray[np.float64]:
        """The share of each domain's sets without a label."""
        return self._over_sets(self.tallies.n_by_size[:, 0])

    @property
    def single_rate(self) -> NDArray[np.float64]:
        """The share of each domain's sets with one label."""
        return self._over_sets(self.tallies.n_by_size[:, 1])

    def _over_sets(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return share(counts, self.tallies.n_by_size.sum(axis=1))

    @property
    def sets_by_size(self) -> NDArray[np.int64]:
        """The number of sets with 0, 1, … labels over all domains."""
        return self.tallies.n_by_size.sum(axis=0)

    @property
    def is_coverage(self) -> bool:
        """Whether a domain has to reach a coverage, rather than every label's recall."""
        return self._counted.is_coverage

    @property
    def _counted(self) -> Criterion:
        """What counts, with a target or without."""
        return self.criterion or every_label(len(self.label_names))

    @property
    def group_recall(self) -> NDArray[np.float64]:
        """The recall of what counts, domains × groups: of constrained labels, or of all examples with coverage."""
        return self.coverage[:, None] if self.is_coverage else self.recall[:, self._counted.constrained]

    @property
    def group_n(self) -> NDArray[np.int64]:
        """The number of examples that each of `group_recall` rests on."""
        return self._counted.group_counts(self.n_by_label)

    @property
    def group_hits(self) -> NDArray[np.int64]:
        """How many of the examples of `group_n` have their label in their set."""
        return self._counted.group_counts(self.tallies.hits_by_cell)

    @property
    def min_recall(self) -> NDArray[np.float64]:
        """The smallest recall over the constrained labels that a domain has; its coverage, if that is the criterion."""
        recall = self.group_recall
        return np.where(np.isnan(recall), np.inf, recall).min(axis=1)

    @property
    def size_by_lot(self) -> NDArray[np.float64]:
        """The size, by domain, of sets drawn by lot with the same recalls.

        There, each label is in a set with a probability of its recall, whatever the example. Where a label does not
        count in a domain, its mean recall over domains stands for it, or else the domain's coverage.
        """
        recall = self.recall
        known = ~np.isnan(recall)
        of_label = share(np.where(known, recall, 0).sum(axis=0), known.sum(axis=0))
        recall = np.where(known, recall, of_label)
        recall = np.where(np.isnan(recall), self.coverage[:, None], recall)  # of a label that counts nowhere
        return np.asarray(size_by_lot(len(self.label_names), recall.mean(axis=1)))

    @property
    def is_useless(self) -> bool:
        """Whether sets are hardly smaller than those drawn by lot with the same recalls, in the median domain."""
        return bool(np.median(self.set_size - (1 - SMALLEST_SAVING) * self.size_by_lot) > 0)

    def under(self, target_recall: TargetRecall | None = None) -> DomainReport:
        """Return the report with this target, a number or a mapping by label, in its criterion; None is its own.

        Domains in which no label with a target counts are in `left_out`.
        """
        if target_recall is None or (self.criterion is not None and self.criterion.given == target_recall):
            return self
        judged = replace(self, criterion=criterion_for(target_recall, self.label_names, self._counted.name))
        if not isinstance(target_recall, Mapping):
            return judged
        does_count = ~np.isnan(judged.group_recall).all(axis=1)
        if not does_count.any():
            raise InputError("no domain has enough examples of a label with a target; lower min_cell_size.")
        without = tuple(self.domain_names[row] for row in np.flatnonzero(~does_count))
        return replace(judged.subset(does_count), left_out=(*self.left_out, *without)) if without else judged

    def at_target(self, target_recall: TargetRecall | None = None) -> NDArray[np.bool_]:
        """Return for each domain whether all that counts there is at its target."""
        return self.under(target_recall).margin >= 0

    @property
    def margin(self) -> NDArray[np.float64]:
        """By how much a domain is above its target, negative where it misses: the smallest over all that counts."""
        above = self.group_recall - self.judged_by.group_targets
        return np.where(np.isnan(above), np.inf, above).min(axis=1)

    @property
    def judged_by(self) -> Criterion:
        """The criterion of a report with a target (`under`)."""
        if self.criterion is None:
            raise InputError("this report has no target yet; give one, such as 0.9.")
        return self.criterion

    def not_counted(self) -> str | None:
        """Return in a line the labels that count in no domain and the domains left out; None where all count."""
        texts_of_labels = texts(self.label_names)
        labels = [texts_of_labels[k] for k in np.flatnonzero(np.isnan(self.recall).all(axis=0))]
        said = [
            f"{what}{'' if len(names) == 1 else 's'} {listed(names, 5)}"
            for what, names in (("label", labels), ("domain", texts(self.left_out)))
            if names
        ]
        if not said:
            return None
        rows = "a row" if self.min_cell_size == 1 else f"{self.min_cell_size} rows"
        label = "a label" if self._counted.constrained.all() else "a label with a target"
        return f"Not counted, for want of {rows} of {label} in a domain: {'; '.join(said)}."

    def subset(self, rows: Any) -> DomainReport:
        """Return the given domains (row numbers or a mask) in the given order."""
        names = np.arange(len(self.domain_names))[rows]
        return replace(self, domain_names=tuple(self.domain_names[k] for k in names), tallies=self.tallies.of(rows))

    def share_by_noise(self, target_recall: TargetRecall | None = None) -> float:
        """Return the share at target expected from chance alone, if domains did not differ."""
        from scipy.special import betainc

        judged = self.under(target_recall)
        recall, n = judged.group_recall, judged.group_n
        mean_recall = np.nanmean(np.where(np.isnan(recall).all(axis=0), 1.0, recall), axis=0)
        needed = hits_needed(n, judged.judged_by.group_targets)
        # P(Binomial(n, p) ≥ k) = I_p(k, n − k + 1); scipy.stats takes as long to import as half of torch
        reaches = np.where(needed > 0, betainc(np.maximum(needed, 1), n - needed + 1, mean_recall), 1.0)
        return float(np.where(np.isnan(recall), 1.0, reaches).prod(axis=1).mean())

    def summary(self, target_recall: TargetRecall | None = None) -> Summary:
        """Reduce the table over domains; `target_recall` is a number, a mapping by label, or None for its own."""
        judged = self.under(target_recall)
        worst, p10, q25, median, q75 = np.quantile(judged.min_recall, [0, 0.1, 0.25, 0.5, 0.75])
        size_q25, size_median, size_q75 = np.quantile(judged.set_size, [0.25, 0.5, 0.75])
        return Summary(
            n_domains=len(judged.domain_names),
            target_recall=judged.judged_by.plain(self.label_names),
            min_recall=float(median),
            min_recall_q25=float(q25),
            min_recall_q75=float(q75),
            min_recall_p10=float(p10),
            min_recall_worst=float(worst),
            set_size=float(size_median),
            set_size_q25=float(size_q25),
            set_size_q75=float(size_q75),
            share_at_target=float((judged.margin >= 0).mean()),
            share_by_noise=judged.share_by_noise(),
            set_size_by_lot=float(np.median(judged.size_by_lot)),
            n_labels=len(self.label_names),
        )

    def records(self) -> list[dict[str, Any]]:
        """Return one record per domain, with recall by label name (None if absent)."""
        recalls = self.recall.astype(object)
        recalls[np.isnan(self.recall)] = None
        labels, measures = texts(self.label_names), self._measures()
        return [
            {
                "domain": name,
                **{measure: values[row].item() for measure, values in measures.items()},
                "recall": dict(zip(labels, recalls[row], strict=True)),
            }
            for row, name in enumerate(texts(self.domain_names))
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a DataFrame indexed by domain, with columns `recall[label]` and `n[label]`."""
        import pandas as pd

        columns: dict[str, Any] = dict(self._measures())
        columns |= {f"recall[{name}]": self.recall[:, k] for k, name in enumerate(texts(self.label_names))}
        columns |= {f"n[{name}]": self.n_by_label[:, k] for k, name in enumerate(texts(self.label_names))}
        return pd.DataFrame(columns, index=pd.Index(self.domain_names, name="domain", tupleize_cols=False))

    def _measures(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in ("n", "min_recall", "set_size", "empty_rate", "single_rate")}

    def plot(
        self,
        target_recall: TargetRecall | None = None,
        *,
        name: str = "model",
        baseline: Mapping[str, DomainReport] | None = None,
        title: str = "Recall by domain",
    ) -> alt.HConcatChart:
        """Return an Altair chart of recall and set size by domain, worst domain first.

        Without a target, it is that of the model whose report this is. `baseline` adds the min recall and set size of
        another method on the same domains, under its name. Save the chart with `report.plot().save("domains.png")`.
        """
        from domaincover.report.charts import domain_plot

        others = baseline or {}
        if name in others:
            raise InputError(f"the baseline has the report's own name, {name!r}; give another name.")
        return domain_plot({name: self, **others}, self.under(target_recall).judged_by.given, title)

    def __str__(self) -> str:
        """Return a table of the domains, worst first, and what it says in sentences."""
        from domaincover.report.domain_table import report_text

        return report_text(self)

    def _repr_html_(self) -> str:
        """Return the headline and the table for a notebook, worst domain first; names are escaped."""
        from domaincover.report.domain_table import report_html

        return report_html(self)


def domain_report(
    sets: Sets,
    labels: Any,
    domains: Any,
    label_names: Sequence[Hashable] | None = None,
    domain_names: Sequence[Hashable] | None = None,
    min_cell_size: int | None = None,
    criterion: Criterion | None = None,
    *,
    sized_rows: SizedRows = "all",
) -> DomainReport:
    """Build the table from sets and the label and domain of each row.

    Without names, the columns of the sets are the sorted labels, as in `classes_`, and all must occur. `label_names`
    names the columns, and `domain_names` the domains: whole numbers are then codes, positions among the names.

    Cells with fewer than `min_cell_size` examples do not count, and domains without a cell that counts are left out.
    None is 20, or 1 with a warning where no cell has 20. With a `criterion`, constrained labels decide which domains
    count; with coverage, it is the number of a domain's examples. Set sizes and the rates of empty and single-label
    sets are means over all examples of a domain, or, with `sized_rows="counted"`, over those in cells that count.
    """
    check_choice("sized_rows", sized_rows, get_args(SizedRows))
    sets = np.asarray(sets)
    if sets.dtype != bool or sets.ndim != 2 or (label_names is not None and sets.shape[1] != len(label_names)):
        n_labels = "" if label_names is None else f"{len(label_names)} "
        raise InputError(
            f"sets must be booleans, examples × {n_labels}labels, got {sets.dtype} of shape {sets.shape}; "
            "compare scores with thresholds first."
        )
    if label_names is None or np.asarray(labels).dtype.kind not in "iu":
        labels, label_names = _coded_labels(labels, label_names, *sets.shape)
    if domain_names is None:
        domains, domain_names = code_names(domains, "domains", len(sets))
    n_domains = len(domain_names)
    labels = checked_codes(labels, "label", len(sets), len(label_names))
    domains = checked_codes(domains, "domain", len(sets), n_domains)
    tallies = tallied(sets, labels, domains, n_domains)
    counting = criterion or every_label(len(label_names))
    if sized_rows == "counted" and not counting.is_coverage:  # with which all rows count
        min_cell_size = chosen_cell_size(min_cell_size, counting.group_counts(tallies.n_by_cell))
        counted = (tallies.n_by_cell >= min_cell_size)[domains, labels]
        of_counted = tallied(sets[counted], labels[counted], domains[counted], n_domains)
        tallies = tallies._replace(n_by_size=of_counted.n_by_size)
    return report_of_tallies(tallies, tuple(label_names), tuple(domain_names), min_cell_size, criterion)


def _coded_labels(labels: Any, names: Sequence[Hashable] | None, n_rows: int, n_labels: int) -> Coded:
    """Return labels as positions among the names of the columns, which are otherwise the labels that occur."""
    coded = code_names(labels, "labels", n_rows)
    position = {name: k for k, name in enumerate(coded.names if names is None else names)}
    if len(position) != n_labels:
        raise InputError(
            f"{n_labels} columns of sets need as many labels, and {len(position)} occur; give label_names, the labels "
            "of the columns in order."
        )
    if unknown := [name for name in coded.names if name not in position]:
        raise InputError(f"labels hold {unknown[0]!r}, which label_names do not: {list(position)}.")
    positions = np.array([position[name] for name in coded.names], dtype=np.int64)
    return Coded(positions[coded.codes], tuple(position))


def report_of_tallies(
    tallies: Tallies,
    label_names: tuple[Hashable, ...],
    domain_names: tuple[Hashable, ...],
    min_cell_size: int | None = None,
    criterion: Criterion | None = None,
) -> DomainReport:
    """Build the table from counts; the other parameters are those of `domain_report`."""
    by_group = (criterion or every_label(len(label_names))).group_counts(tallies.n_by_cell)
    min_cell_size = chosen_cell_size(min_cell_size, by_group)
    does_count = (by_group >= min_cell_size).any(axis=1)
    kept = np.flatnonzero(does_count)
    if len(kept) == 0:
        raise InputError("there are no examples, so there is nothing to report.")
    left_out = np.flatnonzero(~does_count & (tallies.n_by_cell.sum(axis=1) > 0))
    return DomainReport(
        domain_names=tuple(domain_names[k] for k in kept),
        label_names=label_names,
        tallies=tallies.of(kept),
        min_cell_size=min_cell_size,
        left_out=tuple(domain_names[k] for k in left_out),
        criterion=criterion,
    )


def tallied(sets: Sets, labels: NDArray[np.int64], domains: NDArray[np.int64], n_domains: int) -> Tallies:
    """Count in blocks, so that temporaries stay in the processor's cache and memory does not grow with the rows.

    A block has at least as many rows as there are cells, so that adding the tables costs no more than counting.
    """
    n_labels = sets.shape[1]
    n_rows = max(ROWS_AT_ONCE, n_domains * n_labels)
    cells = np.zeros((2, n_domains, n_labels), dtype=np.int64)
    sizes = np.zeros((n_domains, n_labels + 1), dtype=np.int64)
    for start in range(0, len(sets), n_rows):
        block = slice(start, start + n_rows)
        cell, size = cell_of(domains[block], labels[block], n_labels), set_sizes(sets[block])
        hit = covers(sets[block], labels[block])
        cells += [np.bincount(codes, minlength=cells[0].size).reshape(cells[0].shape) for codes in (cell, cell[hit])]
        sizes += count_cells(domains[block], size, n_domains, n_labels + 1)
    return Tallies(cells[0], cells[1], sizes)
