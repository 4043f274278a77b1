"""An HTML page on a set-valued model's results by domain: set sizes, statistics, and a table to sort and search."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from domaincover.criteria import TargetRecall
from domaincover.evaluation import DomainReport
from domaincover.files import write_whole
from domaincover.predictors.adapted_domains import AdaptedDomains
from domaincover.promises.certificates import Certificate
from domaincover.report.certificate_page import certified
from domaincover.report.domain_headline import summary_lines, target_in_words
from domaincover.report.domain_reports import (
    Reports,
    all_targets,
    label_targets,
    measure_of,
    size_bars,
    track_start,
    worst_first,
    worst_order,
)
from domaincover.report.domain_table import domain_columns, summary_texts
from domaincover.report.readable import recall_text
from domaincover.report.template import rendered

LEAST_ROWS_TO_SEARCH = 15
MOST_LABELS_IN_PRINT = 6


def write_domain_page(
    path: Path,
    reports: Reports,
    target_recall: TargetRecall,
    *,
    title: str,
    notes: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    kind: str = "unseen",
    certificate: Certificate | None = None,
    certificate_notes: Sequence[str] = (),
    adaptation: AdaptedDomains | None = None,
    label_gain: pd.DataFrame | None = None,
    verdict: Sequence[str] = (),
    by: str | None = None,
    groups: Mapping[str, DomainReport] | None = None,
) -> None:
    """Write the page as one file that needs no network; `kind` is a word for the domains, such as "unseen".

    It begins with the `verdict` on a promise (`verdict_lines`). The reports of `groups` of rows, told apart by a column
    `by`, have a row each in a table of their own.

    A certificate of the same domains is shown in its own block, with notes on its model. An `adaptation`, in
    the order of the reports' domains, adds the thresholds and the p-value of each domain, and a `label_gain` set size
    and share at target by number of labels of a domain.
    """
    shown = worst_first(reports, target_recall)
    model = next(iter(shown.values()))
    headline, *lines = summary_lines(_spoken_of(reports), target_recall, kind=kind)
    marks, targets = _marks(shown), all_targets(model)
    if adaptation is not None:
        adaptation = adaptation.subset(worst_order(next(iter(reports.values())), target_recall))
    page = rendered(
        "domain_page.html",
        title=title,
        verdict=list(verdict),
        headline=headline,
        notes=[*lines, *notes],
        sizes=size_bars(model),
        label_gain=None if label_gain is None or len(label_gain) < 2 else label_gain.reset_index().to_dict("records"),
        summaries={name: summary_texts(report) for name, report in shown.items()},
        by=by,
        groups={name: summary_texts(report.under(target_recall)) for name, report in (groups or {}).items()},
        certificate=None if certificate is None else certified(certificate, certificate_notes),
        target=target_in_words(target_recall),
        measure=measure_of(model),
        ascending=not isinstance(target_recall, Mapping),  # by the measure; by the distance to each label's target
        columns=domain_columns(shown, adaptation),
        marks=marks,
        low=track_start(min(place for of_domain in marks for _, place, _ in of_domain), targets),
        targets=targets,
        baseline=list(shown)[1] if len(shown) > 1 else None,
        n_domains=len(model.domain_names),
        searchable=len(model.domain_names) >= LEAST_ROWS_TO_SEARCH,
        wide=len(model.label_names) > MOST_LABELS_IN_PRINT,
        level=None if adaptation is None else f"{adaptation.level:.2g}",
        settings=settings or {},
    )
    write_whole(Path(path), page)


def _marks(shown: Mapping[str, DomainReport]) -> list[list[tuple[str, float, str]]]:
    """Return the marks of each domain's chart: their look, the recall where they stand, and what they are."""
    (_, model), *others = shown.items()
    targets, every, measure = label_targets(model), all_targets(model), measure_of(model)
    rows = []
    for row in range(len(model.domain_names)):
        of_labels = zip(model.label_names, model.recall[row], targets, model.n_by_label[row], strict=True)
        marks = [
            ("dot miss" if recall < target else "dot", float(recall), f"{name}: {recall_text(recall, every)} (n = {n})")
            for name, recall, target, n in of_labels
            if not np.isnan(recall)
        ]
        if model.is_coverage:
            value = float(model.coverage[row])
            marks.append(("line", value, f"{measure}: {recall_text(value, every)}"))
        for name, other in others[:1]:
            value = float(other.min_recall[row])
            marks.append(("ring", value, f"{measure} of {name}: {recall_text(value, every)}"))
        rows.append(marks)
    return rows


def _spoken_of(reports: Reports) -> Reports:
    """Return what the first sentence is about: not the same model with its other thresholds, which the table has."""
    (first_name, first), *others = reports.items()
    return {first_name: first} | {name: report for name, report in others if report.thresholds is None}
