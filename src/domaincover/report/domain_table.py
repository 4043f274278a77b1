"""Recall by domain as text for a terminal: worst domain first, within the given width."""

import io
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from domaincover.criteria import TargetRecall
from domaincover.evaluation import DomainReport
from domaincover.report.domain_headline import claim_in_words, n_at_target, size_text, target_in_words
from domaincover.report.domain_reports import (
    Reports,
    all_targets,
    bound_text,
    label_targets,
    lowest_labels,
    recall_text,
    shortened,
    worst_first,
)
from domaincover.report.readable import percent
from domaincover.report.text_tables import console_on

if TYPE_CHECKING:
    from rich.console import JustifyMethod, RenderableType

BELOW = "▼"
MOST_LABEL_COLUMNS = 6
LONGEST_HEAD = 12
SHORTEST_NAME = 8
GAP = 2
BY_LOT = "By\nlot"


class TableColumn(NamedTuple):
    """One column of text: names may be shortened down to `least` characters, numbers never."""

    head: str
    texts: list[str]
    is_name: bool = False

    @property
    def width(self) -> int:
        """The characters that the longest text takes."""
        from rich.cells import cell_len

        return max(map(cell_len, [*self.head.split("\n"), *self.texts]))

    def fitted(self, width: int) -> list[str]:
        """Return the texts, names shortened to a width."""
        names = list(dict.fromkeys(self.texts))
        short = dict(zip(names, shortened(names, width), strict=True)) if self.is_name else {}
        return [short.get(text, text) for text in self.texts]

    @property
    def least(self) -> int:
        """The characters that the column needs."""
        return min(self.width, SHORTEST_NAME) if self.is_name else self.width


def domain_table(
    reports: Reports, target_recall: TargetRecall, *, width: int = 110, color: bool = False, most_rows: int | None = 20
) -> str:
    """Return one row per domain, worst first; what does not fit the width is left out or shortened with "…"."""
    shown = worst_first(reports, target_recall)
    model = next(iter(shown.values()))
    n_rows = len(model.domain_names) if most_rows is None else max(most_rows, 1)
    columns = _domain_columns(shown, target_recall, n_rows)
    n_first = 3 if model.is_coverage else 4
    with_labels = [*columns[:n_first], *_label_columns(model, target_recall, n_rows), *columns[n_first:]]
    without_n = _without(columns, "n")
    fitting = _first_to_fit(width, with_labels, columns, without_n, _without(without_n, BY_LOT))
    notes = [_rest(model, n_rows, target_recall)] if n_rows < len(model.domain_names) else []
    notes.append(f"{BELOW} below the target of {target_in_words(target_recall)}")
    return _printed(fitting, notes, width, color)


def summary_table(reports: Reports, target_recall: TargetRecall, *, width: int = 110, color: bool = False) -> str:
    """Return one row per method: min recall and set size over domains, the share at target and by chance alone."""
    shown = worst_first(reports, target_recall)
    rows = [summary_texts(report, target_recall) for report in shown.values()]
    columns = [TableColumn("Method", list(shown), is_name=True)]
    columns += [TableColumn("\n".join(head.rsplit(" ", 1)), [row[head] for row in rows]) for head in rows[0]]
    without_percentile = _without(columns, "10th\npercentile")
    without_chance = _without(without_percentile, "By chance\nalone")
    fitting = _first_to_fit(width, columns, without_percentile, without_chance, _without(without_chance, BY_LOT))
    notes = [f"at target: {claim_in_words(next(iter(shown.values())), target_recall)}"]
    notes += ["by chance alone: if no domain differed from another"] if fitting[-1] is columns[-1] else []
    by_lot = ["by lot: the size of sets drawn by lot with the same recall"]
    notes += by_lot if any(column.head == BY_LOT for column in fitting) else []
    return _printed(fitting, ["; ".join(notes)], width, color)


def summary_texts(report: DomainReport, target_recall: TargetRecall) -> dict[str, str]:
    """Return the formatted reductions over domains, by column head."""
    report, targets = report.under(target_recall), all_targets(target_recall)
    summary = report.summary(target_recall)
    return {
        "Median coverage" if report.is_coverage else "Median min recall": recall_text(summary.min_recall, targets),
        "10th percentile": recall_text(summary.min_recall_p10, targets),
        "Worst domain": recall_text(summary.min_recall_worst, targets),
        "Median set size": size_text(report),
        "By lot": f"{summary.set_size_by_lot:.2f}",
        "Domains at target": f"{n_at_target(report, target_recall)} of {summary.n_domains}, "
        + percent(summary.share_at_target),
        "By chance alone": percent(summary.share_by_noise),
    }


def _domain_columns(shown: dict[str, DomainReport], target_recall: TargetRecall, n_rows: int) -> list[TableColumn]:
    (_, model), *others = shown.items()
    targets = all_targets(target_recall)

    def column(
        head: str, values: Iterable[object], text: Callable[..., str] = str, is_name: bool = False
    ) -> TableColumn:
        return TableColumn(head, [text(value) for value in list(values)[:n_rows]], is_name)

    def marked(report: DomainReport) -> list[str]:
        known = zip(report.min_recall, report.at_target(target_recall), strict=True)
        return [f"{' ' if reached else BELOW} {recall_text(value, targets)}" for value, reached in known]

    what = "coverage" if model.is_coverage else "min recall"
    of_label = [] if model.is_coverage else [model.label_names[label] for label in lowest_labels(model)]
    return [
        column("Domain", model.domain_names, is_name=True),
        column("n", model.n),
        column("\n".join(what.capitalize().split(" ")), marked(model)),
        *([column("of label", of_label, is_name=True)] if of_label else []),
        column(f"Size\nof {len(model.label_names)}", model.set_size, "{:.2f}".format),
        column(BY_LOT, model.size_by_lot, "{:.2f}".format),
        *(column(f"{_short_name(name, other, model)}\n{what}", marked(other)) for name, other in others),
    ]


def _short_name(name: str, other: DomainReport, model: DomainReport) -> str:
    """Return the head of another method's column; the model's own fixed thresholds need no name beside adapted ones."""
    is_same_model = (model.thresholds, other.thresholds) == ("adapted", "fixed")
    return "Fixed" if is_same_model else shortened([name], LONGEST_HEAD)[0]


def _label_columns(model: DomainReport, target_recall: TargetRecall, n_rows: int) -> list[TableColumn]:
    labels = [str(name) for name in model.label_names]
    if len(labels) > MOST_LABEL_COLUMNS:
        return []
    return [
        TableColumn(f"Recall\n{name}", [recall_text(recall, [target]) for recall in recalls[:n_rows]])
        for name, recalls, target in zip(
            shortened(labels, LONGEST_HEAD), model.recall.T, label_targets(model, target_recall), strict=True
        )
    ]


def _first_to_fit(width: int, *choices: list[TableColumn]) -> list[TableColumn]:
    """Return the first choice of columns that fits the width, or else the last."""
    return next((choice for choice in choices if _total(column.least for column in choice) <= width), choices[-1])


def _without(columns: list[TableColumn], head: str) -> list[TableColumn]:
    return [column for column in columns if column.head != head]


def _rest(model: DomainReport, n_rows: int, target_recall: TargetRecall) -> str:
    """Return the number of domains not shown, and a lower bound of their min recall."""
    n_more, lowest = len(model.domain_names) - n_rows, float(model.min_recall[n_rows:].min())
    bound = bound_text(lowest, all_targets(target_recall))
    n_below = int((~model.at_target(target_recall)[n_rows:]).sum())
    below = f", {n_below} of them below the target" if n_below and n_more > 1 else ""
    what = "coverage" if model.is_coverage else "min recall"
    return f"… and {n_more} more {'domain' if n_more == 1 else 'domains, all'} with {what} ≥ {bound}{below}"


def _total(widths: Iterable[int]) -> int:
    shown = list(widths)
    return sum(shown) + GAP * (len(shown) - 1)


def _widths(columns: list[TableColumn], width: int) -> list[int]:
    """Return the width of each column: names share the space that numbers leave, from the left."""
    widths = [column.least for column in columns]
    for place, column in enumerate(columns):
        widths[place] += max(0, min(column.width - column.least, width - _total(widths)))
    return widths


def _printed(columns: list[TableColumn], notes: list[str], width: int, color: bool) -> str:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    widths = _widths(columns, width)
    for column, column_width in zip(columns, widths, strict=True):
        justify: JustifyMethod = "left" if column.is_name else "right"
        table.add_column(Text(column.head), width=column_width, justify=justify, overflow="ellipsis", no_wrap=True)
    texts = [column.fitted(column_width) for column, column_width in zip(columns, widths, strict=True)]
    for row in zip(*texts, strict=True):
        table.add_row(*(Text(text, style="bold red" if text.startswith(BELOW) else "") for text in row))
    text = io.StringIO()
    console = console_on(text, max(width, _total(widths)), color)
    lines: list[RenderableType] = [Text(note, style="dim") for note in notes]
    console.print(table, *lines, sep="\n")
    return text.getvalue()
