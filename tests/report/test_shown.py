"""What `print` and notebooks show of a report."""

from dataclasses import replace

import pytest

from domaincover import InputError
from domaincover.criteria import criterion_for
from domaincover.report.domain_table import reports_html

from .made_up_domains import LABELS, report

HOSTILE = "<script>alert(1)</script>"


def judged(recalls, target=0.9, **options):
    return replace(report(recalls, **options), criterion=criterion_for(target, LABELS))


def test_a_printed_report_has_its_domains_worst_first_and_the_headline():
    text = str(judged([[0.95, 1, 1], [0.6, 1, 1]]))
    assert text.index("ward 1") < text.index("ward 0")
    assert "In 1 of 2 domains every label's recall is at least 90 %" in text
    assert "unseen" not in text


def test_a_printed_report_without_a_target_is_its_table():
    text = str(report([[0.95, 1, 1], [0.6, 1, 1]]))
    assert "recall[cat]" in text
    assert text.index("ward 1") < text.index("ward 0")


def test_a_report_plots_at_the_target_of_its_model():
    spec = judged([[0.95, 1, 1], [0.6, 1, 1]], target=0.8).plot().to_dict()
    assert {"target": 0.8} in [row for rows in spec["datasets"].values() for row in rows]


def test_a_report_without_a_target_does_not_guess_one_to_plot():
    with pytest.raises(InputError, match=r"no target yet; give one, such as 0.9"):
        report([[0.95, 1, 1]]).plot()


def test_in_a_notebook_a_report_has_headline_and_table_with_names_escaped():
    text = judged([[0.95] * 3, [0.5, 1, 1]], names=["fine", HOSTILE])._repr_html_()
    assert text.startswith("<p>In 1 of 2 domains")
    assert text.count("<table") == 1
    assert "<script" not in text
    assert "alert(1)" in text


def test_names_of_methods_are_escaped_in_the_summary():
    text = reports_html({HOSTILE: judged([[0.95] * 3])}, 0.9)
    assert "<script" not in text
    assert "&lt;script" in text
