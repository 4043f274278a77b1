"""Tables of domains and of methods: their columns, and both as text for a terminal, within the given width."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from domaincover.criteria import TargetRecall
from domaincover.evaluation import DomainReport
from domaincover.predictors.domain_record import AdaptedDomains
from domaincover.report.domain_reports import (
    Reports,
    all_targets,
    claim_in_words,
    label_targets,
    lowest,
    measure_of,
    n_at_target,
    size_text,
    sizes_in_words,
    summary_lines,
    target_in_words,
    worst_first,
    worst_order,
)
from domaincover.report.readable import ABSENT, bound_text, percent, recall_text, shortened, shown_names
from domaincover.terminal.text import TextColumn, fitted, table_of, total, written

BELOW = "▼"
MOST_LABEL_COLUMNS = 6
MOST_ROWS = 30  # of a printed report or a notebook
LONGEST_HEAD = 12
SHORTEST_NAME = 8
PERCENTILE, BY_CHANCE, BY_LOT = "10th percentile", "By chance alone", "By lot"
SUMMARY_TURNS = {PERCENTILE: 1, BY_CHANCE: 2, BY_LOT: 3}
SUMMARY_NOTES = {
    BY_CHANCE: "by chance alone: if no domain differed from another",
    BY_LOT: "by lot: the size of sets drawn by lot with the same recall",
}


class Cell(NamedTuple):
    """A table cell; numbers are sorted by value, and what is below its target is marked (None: it has no target)."""

    text: str
    value: float | None = None
    below: bool | None = None


class DomainColumn(NamedTuple):
    """A column of the table of domains: its head on a page, and in a terminal, where some columns have no place."""

    head: str
    cells: list[Cell]
    short_head: str | None = None
    is_text: bool = False
    of_label: bool = False
    turn: int = 0  # in which a terminal that is too narrow leaves it out


def domain_columns(shown: Mapping[str, DomainReport], adaptation: AdaptedDomains | None = None) -> list[DomainColumn]:
    """Return the full table of domains, column by column, of reports under a target."""
    (_, model), *others = shown.items()
    measure = "worst recall" if isinstance(model.judged_by.given, Mapping) else measure_of(model)
    n_labels = len(model.label_names)
    what, worst = measure.capitalize(), lowest(model.recall - model.judged_by.targets)
    rows = range(len(worst))
    short = shortened([str(name) for name in model.label_names], LONGEST_HEAD)
    targets, every = label_targets(model), all_targets(model)

    def reached(report: DomainReport) -> list[Cell]:
        own = lowest(report.recall - report.judged_by.targets)
        values = report.coverage if report.is_coverage else report.recall[rows, own]
        known = zip(values, report.at_target(), strict=True)
        return [Cell(recall_text(value, every), round(float(value), 6), not is_at) for value, is_at in known]

    of_lowest = [
        DomainColumn("of label", _names([model.label_names[label] for label in worst]), "of label", is_text=True),
        DomainColumn("from examples", _numbers(model.n_by_label[rows, worst], "{}")),
    ]
    return [
        DomainColumn("Domain", _names(model.domain_names), "Domain", is_text=True),
        DomainColumn("Examples", _numbers(model.n, "{}"), "n", turn=2),
        DomainColumn(what, reached(model), _on_two_lines(what)),
        *([] if model.is_coverage else of_lowest),
        DomainColumn(f"Set size of {n_labels}", _numbers(model.set_size, "{:.2f}"), f"Size\nof {n_labels}"),
        DomainColumn(BY_LOT, _numbers(model.size_by_lot, "{:.2f}"), _on_two_lines(BY_LOT), turn=3),
        DomainColumn("One label", [Cell(percent(rate), float(rate)) for rate in model.single_rate]),
        DomainColumn("Empty sets", [Cell(percent(rate), float(rate)) for rate in model.empty_rate]),
        *(
            DomainColumn(f"{what} of {name}", reached(other), f"{_short(name, other, model)}\n{measure}")
            for name, other in others
        ),
        *([] if adaptation is None else _adaptation_columns(adaptation)),
        *(
            DomainColumn(f"Recall of {name}", _recalls(recalls, target), f"Recall\n{short_name}", of_label=True, turn=1)
            for name, short_name, recalls, target in zip(model.label_names, short, model.recall.T, targets, strict=True)
        ),
    ]


def domain_table(
    reports: Reports, target_recall: TargetRecall, *, width: int = 110, color: bool = False, most_rows: int | None = 20
) -> str:
    """Return one row per domain, worst first; what does not fit the width is left out or shortened with "…"."""
    shown = worst_first(reports, target_recall)
    model = next(iter(shown.values()))
    n_domains = len(model.domain_names)
    n_rows = n_domains if most_rows is None else min(max(most_rows, 1), n_domains)
    columns = [column for column in domain_columns(shown) if column.short_head is not None]
    of_labels = [_in_terminal(column, n_rows) for column in columns if column.of_label]
    others = [_in_terminal(column, n_rows) for column in columns if not column.of_label]
    n_first = 3 if model.is_coverage else 4
    wide = of_labels if len(of_labels) <= MOST_LABEL_COLUMNS else []
    notes = [_rest(model, n_rows)] if n_rows < n_domains else []
    notes.append(f"{BELOW} below the target of {target_in_words(target_recall)}")
    return _with_notes(fitted([*others[:n_first], *wide, *others[n_first:]], width), notes, width, color)


def report_text(report: DomainReport) -> str:
    """Return the domains worst first, how large sets are, and the headline if the report has a target."""
    sizes = sizes_in_words(report.sets_by_size)
    if report.criterion is None:
        table = report.to_frame().sort_values("min_recall", kind="stable").to_string(max_rows=MOST_ROWS)
        return "\n".join([table, sizes])
    target, reports = report.criterion.given, {"model": report}
    lines = [*summary_lines(reports, target, kind=""), sizes, *filter(None, [report.not_counted()])]
    return "\n".join([domain_table(reports, target), *lines])


def report_html(report: DomainReport, summary: str = "") -> str:
    """Return a summary, or else the headline, and the domains, worst first, for a notebook; names are escaped."""
    frame, targets = report.to_frame(), []
    if report.criterion is None:
        frame = frame.sort_values("min_recall", kind="stable")
    else:
        frame, targets = frame.iloc[worst_order(report)], all_targets(report)
        summary = summary or f"<p>{escape(summary_lines({'model': report}, report.criterion.given, kind='')[0])}</p>"
    table = frame.to_html(float_format=lambda value: recall_text(value, targets), na_rep=ABSENT, max_rows=MOST_ROWS)
    return f"{summary}{table}"


def reports_html(reports: Reports, target_recall: TargetRecall) -> str:
    """Return a table with a row for each method, and the first one's domains; names are escaped."""
    rows = {name: summary_texts(report.under(target_recall)) for name, report in reports.items()}
    return report_html(next(iter(reports.values())), pd.DataFrame(rows).T.to_html())


def summary_table(reports: Reports, target_recall: TargetRecall, *, width: int = 110, color: bool = False) -> str:
    """Return one row per method: min recall and set size over domains, the share at target and by chance alone."""
    shown = worst_first(reports, target_recall)
    return _summaries("Method", shown, width, color)


def group_table(by: str, groups: Reports, target_recall: TargetRecall, *, width: int = 110, color: bool = False) -> str:
    """Return one row per group of rows, such as each sex, over the domains in which it counts."""
    if not groups:
        return f"No group of {by} has rows enough of a label in any domain.\n"
    named = zip(shown_names(list(groups)), groups.values(), strict=True)
    return _summaries(by, {name: report.under(target_recall) for name, report in named}, width, color)


def _summaries(first: str, shown: Reports, width: int, color: bool) -> str:
    rows = [summary_texts(report) for report in shown.values()]
    columns = [TextColumn(first, list(shown), is_text=True, least=SHORTEST_NAME)]
    columns += [
        TextColumn(_on_two_lines(head), [row[head] for row in rows], turn=SUMMARY_TURNS.get(head, 0))
        for head in rows[0]
    ]
    fitting = fitted(columns, width)
    heads = [column.head for column, _ in fitting]
    notes = [f"at target: {claim_in_words(next(iter(shown.values())))}"]
    notes += [note for head, note in SUMMARY_NOTES.items() if _on_two_lines(head) in heads]
    return _with_notes(fitting, ["; ".join(notes)], width, color)


def summary_texts(report: DomainReport) -> dict[str, str]:
    """Return the formatted reductions over domains, by column head."""
    summary, targets = report.summary(), all_targets(report)
    return {
        f"Median {measure_of(report)}": recall_text(summary.min_recall, targets),
        PERCENTILE: recall_text(summary.min_recall_p10, targets),
        "Worst domain": recall_text(summary.min_recall_worst, targets),
        "Median set size": size_text(report),
        BY_LOT: f"{summary.set_size_by_lot:.2f}",
        "Domains at target": f"{n_at_target(report)} of {summary.n_domains}, " + percent(summary.share_at_target),
        BY_CHANCE: percent(summary.share_by_noise),
    }


def _on_two_lines(head: str) -> str:
    return "\n".join(head.rsplit(" ", 1))


def _names(names: Sequence[Any]) -> list[Cell]:
    return [Cell(str(name)) for name in names]


def _numbers(values: Any, form: str) -> list[Cell]:
    return [Cell(form.format(value), round(float(value), 6)) for value in values]


def _recalls(recalls: Any, target: float) -> list[Cell]:
    """Return the recalls of one label; NaN is absent and sorts as nothing."""
    texts = [recall_text(recall, [target]) for recall in recalls]
    return [
        Cell(text) if np.isnan(recall) else Cell(text, round(float(recall), 6), bool(recall < target))
        for text, recall in zip(texts, recalls, strict=True)
    ]


def _adaptation_columns(adaptation: AdaptedDomains) -> list[DomainColumn]:
    """Return the p-values, the unusual ones marked, and the mean shifts of thresholds."""
    p_values = [
        Cell(ABSENT) if np.isnan(p) else Cell(f"{p:.2g}", round(float(p), 6), bool(p <= adaptation.level))
        for p in adaptation.p_values
    ]
    return [
        DomainColumn("p-value", p_values),
        DomainColumn("Thresholds moved by", _numbers(adaptation.mean_shift, "{:+.2f}")),
    ]


def _short(name: str, other: DomainReport, model: DomainReport) -> str:
    """Return the head of another method's column; the model's own fixed thresholds need no name beside adapted ones."""
    is_same_model = (model.thresholds, other.thresholds) == ("adapted", "fixed")
    return "Fixed" if is_same_model else shortened([name], LONGEST_HEAD)[0]


def _in_terminal(column: DomainColumn, n_rows: int) -> TextColumn:
    """Return the first rows of a column; of all but single labels' recalls, those below the target have a mark."""
    cells = column.cells[:n_rows]
    head, least = column.short_head or column.head, SHORTEST_NAME if column.is_text else None
    if column.of_label or cells[0].below is None:
        return TextColumn(head, [cell.text for cell in cells], column.is_text, least, turn=column.turn)
    texts = [f"{BELOW if cell.below else ' '} {cell.text}" for cell in cells]
    return TextColumn(head, texts, styles=["bold red" if cell.below else "" for cell in cells])


def _rest(model: DomainReport, n_rows: int) -> str:
    """Return the number of domains not shown, and a lower bound of their min recall."""
    n_more = len(model.domain_names) - n_rows
    bound = bound_text(float(model.min_recall[n_rows:].min()), all_targets(model))
    n_below = int((~model.at_target()[n_rows:]).sum())
    below = f", {n_below} of them below the target" if n_below and n_more > 1 else ""
    more = "domain" if n_more == 1 else "domains, all"
    return f"… and {n_more} more {more} with {measure_of(model)} ≥ {bound}{below}"


def _with_notes(fitting: list[tuple[TextColumn, int]], notes: list[str], width: int, color: bool) -> str:
    from rich.text import Text

    named = [(_shortened(column, column_width), column_width) for column, column_width in fitting]
    n_rows = len(fitting[0][0].texts)
    whole = max(width, total(column_width for _, column_width in fitting))
    return written([table_of(named, range(n_rows)), *(Text(note, style="dim") for note in notes)], whole, color)


def _shortened(column: TextColumn, width: int) -> TextColumn:
    """Return a column of names with each shortened to the width, the same one in the same way."""
    if not column.is_text:
        return column
    names = list(dict.fromkeys(column.texts))
    short = dict(zip(names, shortened(names, width), strict=True))
    return column._replace(texts=[short[name] for name in column.texts])
