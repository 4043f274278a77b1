"""How reports are shown by `print` and in notebooks: sentences, a table, and a small chart."""

from __future__ import annotations

from html import escape

import numpy as np

from domaincover.criteria import TargetRecall
from domaincover.evaluation import DomainReport, sizes_in_words
from domaincover.report.domain_headline import summary_lines
from domaincover.report.domain_reports import Reports, all_targets, recall_text, shortened, shown_names, worst_order
from domaincover.report.domain_table import domain_table, summary_texts

MOST_ROWS = 30
WIDTH, ROW, LEFT, RIGHT, TOP = 620, 22, 230, 12, 18
LONGEST_NAME = 38  # characters beside the chart


def report_text(report: DomainReport) -> str:
    """Return the domains worst first, how large sets are, and the headline if the report has a target."""
    sizes = sizes_in_words(report.sets_by_size)
    if report.criterion is None:
        table = report.to_frame().sort_values("min_recall", kind="stable").to_string(max_rows=MOST_ROWS)
        return "\n".join([table, sizes])
    target, reports = report.criterion.given, {"model": report}
    lines = [*summary_lines(reports, target, kind=""), sizes, *filter(None, [report.not_counted()])]
    return "\n".join([domain_table(reports, target), *lines])


def report_html(report: DomainReport) -> str:
    """Return the small chart, if the report has a target, and the table, worst domain first; names are escaped."""
    if report.criterion is None:
        return _domains_html(report)
    target, reports = report.criterion.given, {"model": report}
    headline = escape(summary_lines(reports, target, kind="")[0])
    return f"<p>{headline}</p>{small_chart(reports, target)}{_domains_html(report)}"


def reports_html(reports: Reports, target_recall: TargetRecall) -> str:
    """Return a small chart, a table with a row for each method, and the first one's domains; names are escaped."""
    import pandas as pd

    rows = {name: summary_texts(report, target_recall) for name, report in reports.items()}
    summary = pd.DataFrame(rows).T.to_html()
    return f"{small_chart(reports, target_recall)}{summary}{_domains_html(next(iter(reports.values())))}"


def _domains_html(report: DomainReport) -> str:
    frame, targets = report.to_frame(), []
    if report.criterion is None:
        frame = frame.sort_values("min_recall", kind="stable")
    else:
        target = report.criterion.given
        frame, targets = frame.iloc[worst_order(report, target)], all_targets(target)
    return frame.to_html(float_format=lambda value: recall_text(value, targets), na_rep="–", max_rows=MOST_ROWS)


def small_chart(reports: Reports, target_recall: TargetRecall) -> str:
    """Return an SVG with a row for each method: a dot for each domain's min recall, filled below the target."""
    reports = {name: report.under(target_recall) for name, report in reports.items()}
    target = all_targets(target_recall)[-1]
    lowest = min(float(report.min_recall.min()) for report in reports.values())
    start = np.floor(10 * min(lowest, target - 0.1)) / 10
    height = TOP + ROW * len(reports) + 18

    def across(value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (value - start) / (1 - start), 1)

    what = "coverage" if next(iter(reports.values())).is_coverage else "min recall"
    ends = f'<text x="{LEFT}" y="{height - 4}">{start:g}</text>'
    ends += f'<text x="{WIDTH - RIGHT}" y="{height - 4}" text-anchor="end">1</text>'
    line = (
        f'<path d="M{across(target)} {TOP - 4}V{height - 16}" stroke="currentColor"/>'
        f'<text x="{across(target)}" y="{TOP - 7}" text-anchor="middle">target {target:g}</text>'
    )
    rows = []
    names = shortened(shown_names(list(reports)), LONGEST_NAME)
    for k, (name, report) in enumerate(zip(names, reports.values(), strict=True)):
        y = TOP + ROW * k + ROW // 2
        rows.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        for recall, is_at in zip(report.min_recall, report.at_target(target_recall), strict=True):
            fill = 'fill="none" stroke="currentColor"' if is_at else 'fill="#d03b3b" stroke="#d03b3b"'
            rows.append(f'<circle cx="{across(recall)}" cy="{y}" r="4" {fill} opacity="0.7"/>')
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" style="max-width:100%;font:11px sans-serif" '
        f'fill="currentColor" role="img" aria-label="{what} by domain">'
        f'<text x="{LEFT - 10}" y="{TOP - 7}" text-anchor="end">{what} by domain</text>'
        f"{line}{''.join(rows)}{ends}</svg>"
    )
