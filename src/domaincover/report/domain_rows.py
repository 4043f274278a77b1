"""Tables behind the charts of domains: domains worst first, the recall of their labels, and sorted curves."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from domaincover.criteria import TargetRecall
from domaincover.evaluation import DomainReport
from domaincover.report.domain_reports import (
    Reports,
    all_targets,
    label_targets,
    lowest_labels,
    recall_text,
    shortened,
    worst_first,
)
from domaincover.report.readable import MOST_LABELS_IN_TOOLTIP

# Colours of the methods' palette, for light and dark backgrounds; methods have no colour in these charts.
LABEL_LOOKS = (
    ("#4f87db", "circle"),
    ("#d97a24", "square"),
    ("#157630", "diamond"),
    ("#f420a4", "triangle-up"),
    ("#7c5cd6", "triangle-down"),
    ("#0d8a97", "triangle-right"),
    ("#a0622d", "triangle-left"),
    ("#7f8000", "cross"),
)
OTHER_LOOK = ("#747677", "circle")
LONGEST_ROW_NAME = 36


class DomainChartData(NamedTuple):
    """Data of the charts: a row per domain, worst first, and a row per domain and label in it.

    `looks` gives each group of labels its colour and shape: every label is its own group while there are looks
    enough, else the labels that are lowest most often are, and the others share one. `curves` has every method's
    min recalls in rising order. `groups` has the group of each of `label_names`. `measure` is what is compared with the
    target: "min recall", or "coverage".
    """

    target_recall: TargetRecall
    methods: tuple[str, ...]
    domains: pd.DataFrame
    labels: pd.DataFrame
    looks: dict[str, tuple[str, str]]
    curves: pd.DataFrame
    label_names: tuple[str, ...]
    groups: tuple[str, ...]
    measure: str = "min recall"

    @property
    def targets(self) -> list[float]:
        """The distinct targets, lowest first."""
        return all_targets(self.target_recall)

    @property
    def baseline(self) -> str | None:
        """The name of the second method, if there is one."""
        return self.methods[1] if len(self.methods) > 1 else None

    def worst(self, n_domains: int) -> "DomainChartData":
        """Return the first rows only; the curves stay whole."""
        domains = self.domains.head(n_domains)
        return self._replace(domains=domains, labels=self.labels[self.labels["domain"].isin(domains["domain"])])


def domain_chart_data(reports: Reports, target_recall: TargetRecall) -> DomainChartData:
    """Return the tables behind the charts, with every domain, drawn or not."""
    shown = worst_first(reports, target_recall)
    model, *others = shown.values()
    groups, looks = _groups_and_looks(model)
    domains = _domain_rows(model, groups, target_recall)
    if others:
        domains["baseline_min_recall"] = others[0].min_recall
        domains["baseline_set_size"] = others[0].set_size
    sizes = [report.set_size for report in (model, *others[:1])]
    domains["size_end"] = np.max(sizes, axis=0)  # the number is right of both methods' marks
    names = tuple(map(str, model.label_names))
    labels = _label_rows(model, groups)
    measure = "coverage" if model.is_coverage else "min recall"
    return DomainChartData(
        target_recall, tuple(shown), domains, labels, looks, _curves(shown), names, tuple(groups), measure
    )


def standard_error_ends(recall: Any, n: Any) -> tuple[Any, Any]:
    """Return recall ∓ one binomial standard error, by Wilson's interval, which is not empty at a recall of 0 or 1.

    >>> print("{:.3f} {:.3f}".format(*standard_error_ends(1.0, 4)))
    0.800 1.000
    """
    middle = (recall + 0.5 / n) / (1 + 1 / n)
    reach = np.sqrt(recall * (1 - recall) / n + 0.25 / n**2) / (1 + 1 / n)
    return middle - reach, middle + reach


def _domain_rows(model: DomainReport, groups: list[str], target_recall: TargetRecall) -> pd.DataFrame:
    lowest, min_recall = lowest_labels(model), model.min_recall
    n_lowest = model.n if model.is_coverage else model.n_by_label[np.arange(len(lowest)), lowest]
    label_names = ["all labels"] * len(model.label_names) if model.is_coverage else model.label_names
    low, high = standard_error_ends(min_recall, n_lowest)
    rows = {
        "row": _row_names(model),
        "domain": model.domain_names,
        "n": model.n,
        "min_recall": min_recall,
        "low": low,
        "high": high,
        "at_target": model.at_target(target_recall),
        "min_recall_text": [recall_text(recall, all_targets(target_recall)) for recall in min_recall],
        "label": [label_names[label] for label in lowest],
        "group": [groups[label] for label in lowest],
        "n_lowest": n_lowest,
        "set_size": model.set_size,
        "recalls": [_recalls_in_words(model, row, target_recall) for row in range(len(lowest))],
    }
    return pd.DataFrame(rows)


def _row_names(model: DomainReport) -> list[str]:
    return shortened([str(name) for name in model.domain_names], LONGEST_ROW_NAME)


def _label_rows(model: DomainReport, groups: list[str]) -> pd.DataFrame:
    rows, labels = np.nonzero(~np.isnan(model.recall))
    row_names = _row_names(model)
    return pd.DataFrame(
        {
            "row": [row_names[row] for row in rows],
            "domain": [model.domain_names[row] for row in rows],
            "label": [model.label_names[label] for label in labels],
            "group": [groups[label] for label in labels],
            "recall": model.recall[rows, labels],
            "n": model.n_by_label[rows, labels],
        }
    )


def _curves(shown: dict[str, DomainReport]) -> pd.DataFrame:
    n_domains = len(next(iter(shown.values())).domain_names)
    share = (np.arange(n_domains) + 1) / n_domains
    curves = [
        pd.DataFrame({"method": name, "share": share, "min_recall": np.sort(report.min_recall)})
        for name, report in shown.items()
    ]
    return pd.concat(curves, ignore_index=True)


def _groups_and_looks(model: DomainReport) -> tuple[list[str], dict[str, tuple[str, str]]]:
    labels = [str(name) for name in model.label_names]
    if len(labels) <= len(LABEL_LOOKS):
        return labels, dict(zip(labels, LABEL_LOOKS, strict=False))
    how_often = Counter(lowest_labels(model).tolist())
    usual = sorted(sorted(range(len(labels)), key=lambda label: -how_often[label])[: len(LABEL_LOOKS) - 1])
    others = f"{len(labels) - len(usual)} other labels"
    looks = dict(zip((labels[label] for label in usual), LABEL_LOOKS, strict=False)) | {others: OTHER_LOOK}
    return [name if label in usual else others for label, name in enumerate(labels)], looks


def _recalls_in_words(model: DomainReport, row: int, target_recall: TargetRecall) -> str:
    """Return each label's recall and number of examples, lowest first, labels that do not count last."""
    recalls, counts, targets = model.recall[row], model.n_by_label[row], label_targets(model, target_recall)
    texts = [
        "not counted" if np.isnan(recall) else recall_text(recall, [t])
        for recall, t in zip(recalls, targets, strict=True)
    ]
    lines = [
        f"{model.label_names[label]}: {texts[label]} (n = {counts[label]})"
        for label in np.argsort(recalls, kind="stable")[:MOST_LABELS_IN_TOOLTIP]  # NaN sorts last
    ]
    rest = len(recalls) - len(lines)
    return "\n".join([*lines, f"and {rest} more labels"] if rest else lines)
