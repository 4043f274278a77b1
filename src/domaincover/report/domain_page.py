"""An HTML page on a set-valued model's results by domain: set sizes, a chart, and a table to sort and search."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from domaincover.criteria import TargetRecall
from domaincover.evaluation import DomainReport
from domaincover.files import write_whole
from domaincover.promises.certificates import Certificate
from domaincover.report.certificate_block import certificate_block
from domaincover.report.domain_adaptation import DomainAdaptation
from domaincover.report.domain_chart import (
    MOST_ROWS,
    domain_chart,
    domain_chart_data,
    marks_in_words,
    note_on_rest,
    overview_chart,
    threshold_chart,
)
from domaincover.report.domain_headline import summary_lines, target_in_words
from domaincover.report.domain_reports import (
    Reports,
    all_targets,
    label_targets,
    lowest_labels,
    recall_text,
    worst_first,
    worst_order,
)
from domaincover.report.domain_rows import DomainChartData
from domaincover.report.domain_table import summary_texts
from domaincover.report.readable import ABSENT, percent
from domaincover.report.size_histogram import size_histogram
from domaincover.report.template import rendered

LEAST_ROWS_TO_SEARCH = 15
MOST_LABELS_IN_PRINT = 6


class Cell(NamedTuple):
    """A table cell; numbers are sorted by value, and a recall below the target is marked."""

    text: str
    value: float | None = None
    below: bool = False


class PageColumn(NamedTuple):
    """A head and the cells below it; the columns of single labels may be left out in print."""

    head: str
    cells: list[Cell]
    is_text: bool = False
    of_label: bool = False


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
    adaptation: DomainAdaptation | None = None,
) -> None:
    """Write the page as one file that needs no network; `kind` is a word for the domains, such as "unseen".

    A certificate of the same domains is shown in its own block, with notes on its model. An `adaptation`, in
    the order of the reports' domains, adds a chart of thresholds and the p-value of each domain.
    """
    shown = worst_first(reports, target_recall)
    model = next(iter(shown.values()))
    headline, *lines = summary_lines(_spoken_of(reports), target_recall, kind=kind)
    data = domain_chart_data(reports, target_recall)
    if adaptation is not None:
        adaptation = adaptation.subset(worst_order(next(iter(reports.values())), target_recall))
    page = rendered(
        "domain_page.html",
        title=title,
        headline=headline,
        notes=[*lines, *notes],
        sizes=size_histogram(model),
        summaries={name: summary_texts(report, target_recall) for name, report in shown.items()},
        certificate=None if certificate is None else certificate_block(certificate, certificate_notes),
        target=target_in_words(target_recall),
        measure="coverage" if model.is_coverage else "min recall",
        ascending=not isinstance(target_recall, Mapping),  # by the measure; by the distance to each label's target
        charts=domain_chart_specs(data, adaptation),
        caption=" ".join([*note_on_rest(data), *marks_in_words(data)]),
        most_rows=MOST_ROWS,
        columns=domain_columns(shown, target_recall, adaptation),
        n_domains=len(model.domain_names),
        searchable=len(model.domain_names) >= LEAST_ROWS_TO_SEARCH,
        wide=len(model.label_names) > MOST_LABELS_IN_PRINT,
        level=None if adaptation is None else f"{adaptation.level:.2g}",
        settings=settings or {},
    )
    write_whole(Path(path), page)


def _spoken_of(reports: Reports) -> Reports:
    """Return what the first sentence is about: not the same model with its other thresholds, which the table has."""
    (first_name, first), *others = reports.items()
    return {first_name: first} | {name: report for name, report in others if report.thresholds is None}


def domain_chart_specs(data: DomainChartData, adaptation: DomainAdaptation | None = None) -> dict[str, dict[str, Any]]:
    """Return the charts of the page by name; the overview only if not every domain has a row."""
    drawn = data.worst(MOST_ROWS)
    specs = {"domains": domain_chart(drawn).to_dict()}
    if adaptation is not None:
        specs["thresholds"] = threshold_chart(drawn, adaptation.subset(slice(MOST_ROWS))).to_dict()
    return {"overview": overview_chart(data).to_dict()} | specs if len(data.domains) > MOST_ROWS else specs


def domain_columns(
    shown: Mapping[str, DomainReport], target_recall: TargetRecall, adaptation: DomainAdaptation | None = None
) -> list[PageColumn]:
    """Return the full table of domains, column by column, worst domain first."""
    (_, model), *others = shown.items()
    lowest = lowest_labels(model)
    n_lowest = model.n_by_label[range(len(lowest)), lowest]
    targets = label_targets(model, target_recall)
    of_lowest = [
        PageColumn("of label", [Cell(str(model.label_names[label])) for label in lowest], is_text=True),
        PageColumn("from examples", [Cell(str(n), int(n)) for n in n_lowest]),
    ]

    every, measure = all_targets(target_recall), "coverage" if model.is_coverage else "min recall"

    def reached(report: DomainReport) -> list[Cell]:
        known = zip(report.min_recall, report.at_target(target_recall), strict=True)
        return [Cell(recall_text(value, every), round(float(value), 6), not is_at) for value, is_at in known]

    def sizes(values: Any) -> list[Cell]:
        return [Cell(f"{size:.2f}", round(float(size), 6)) for size in values]

    def recalls(values: Any, target: float) -> list[Cell]:
        return [_recall_cell(float(value), target) for value in values]

    return [
        PageColumn("Domain", [Cell(str(name)) for name in model.domain_names], is_text=True),
        PageColumn("Examples", [Cell(str(n), int(n)) for n in model.n]),
        PageColumn(measure.capitalize(), reached(model)),
        *([] if model.is_coverage else of_lowest),
        PageColumn(f"Set size of {len(model.label_names)}", sizes(model.set_size)),
        PageColumn("By lot", sizes(model.size_by_lot)),
        PageColumn("One label", [Cell(percent(rate), float(rate)) for rate in model.single_rate]),
        PageColumn("Empty sets", [Cell(percent(rate), float(rate)) for rate in model.empty_rate]),
        *(PageColumn(f"{measure.capitalize()} of {name}", reached(other)) for name, other in others),
        *([] if adaptation is None else _adaptation_columns(adaptation)),
        *(
            PageColumn(f"Recall of {name}", recalls(column, target), of_label=True)
            for name, column, target in zip(model.label_names, model.recall.T, targets, strict=True)
        ),
    ]


def _adaptation_columns(adaptation: DomainAdaptation) -> list[PageColumn]:
    """Return the p-values, the unusual ones marked, and the mean shifts of thresholds."""
    p_values = [
        Cell(ABSENT) if np.isnan(p) else Cell(f"{p:.2g}", round(float(p), 6), bool(p <= adaptation.level))
        for p in adaptation.p_values
    ]
    shifts = [Cell(f"{shift:+.2f}", round(float(shift), 6)) for shift in adaptation.mean_shift]
    return [PageColumn("p-value", p_values), PageColumn("Thresholds moved by", shifts)]


def _recall_cell(recall: float, target_recall: float) -> Cell:
    text = recall_text(recall, [target_recall])
    return Cell(text) if recall != recall else Cell(text, round(recall, 6), recall < target_recall)  # NaN is absent
