"""Print what the examples have in common: how the sets and a single-label model did in domains that neither has seen."""

import argparse
from pathlib import Path

from domaincover.estimators.assessment import Assessment
from domaincover.report.domain_chart import domain_figure
from domaincover.report.domain_headline import summary_lines
from domaincover.report.domain_table import domain_table, summary_table


def show(assessment: Assessment, title: str) -> None:
    """Print the table of unseen domains, the summary and the diagnosis; draw the figure if `--figure PATH` is given."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--figure", type=Path, help="also draw the domains: .png, .svg or .pdf")
    figure = parser.parse_args().figure
    reports = {"set-cover": assessment.unseen["model"], "erm": assessment.unseen["ERM"]}
    target = assessment.target_recall
    print(f"{title}\n")
    print(domain_table(reports, target, most_rows=10))
    print(summary_table(reports, target))
    print("\n".join([*summary_lines(reports, target), str(assessment.diagnosis)]))
    if figure is not None:
        domain_figure(reports, target, figure, title=title)
