"""How reports are shown by `print` and in notebooks: sentences and a table."""

from __future__ import annotations

from html import escape

from domaincover.criteria import TargetRecall
from domaincover.evaluation import DomainReport, sizes_in_words
from domaincover.report.domain_headline import summary_lines
from domaincover.report.domain_reports import Reports, all_targets, worst_order
from domaincover.report.domain_table import domain_table, summary_texts
from domaincover.report.readable import ABSENT, recall_text

MOST_ROWS = 30


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
    """Return the headline, if the report has a target, and the table, worst domain first; names are escaped."""
    if report.criterion is None:
        return _domains_html(report)
    headline = summary_lines({"model": report}, report.criterion.given, kind="")[0]
    return f"<p>{escape(headline)}</p>{_domains_html(report)}"


def reports_html(reports: Reports, target_recall: TargetRecall) -> str:
    """Return a table with a row for each method, and the first one's domains; names are escaped."""
    import pandas as pd

    rows = {name: summary_texts(report.under(target_recall)) for name, report in reports.items()}
    return f"{pd.DataFrame(rows).T.to_html()}{_domains_html(next(iter(reports.values())))}"


def _domains_html(report: DomainReport) -> str:
    frame, targets = report.to_frame(), []
    if report.criterion is None:
        frame = frame.sort_values("min_recall", kind="stable")
    else:
        frame, targets = frame.iloc[worst_order(report)], all_targets(report)
    return frame.to_html(float_format=lambda value: recall_text(value, targets), na_rep=ABSENT, max_rows=MOST_ROWS)
