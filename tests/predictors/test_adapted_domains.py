"""What the page and the warnings show of thresholds that adapt to domains."""

import json

import numpy as np
import pytest

from domaincover.predictors.domain_record import AdaptedDomains, unusual_domains
from domaincover.report.domain_reports import worst_first, worst_order
from domaincover.report.domain_table import domain_columns
from tests.report.made_up_domains import report

FIXED = np.array([-1.0, -np.inf, 0.5])


def adaptation(n_domains, level=0.05):
    """Return thresholds that are told apart by their domain; the second label is in every set."""
    moved = np.arange(n_domains)[:, None] * 0.1
    return AdaptedDomains(FIXED + moved, (np.arange(n_domains) + 1) / 100, FIXED, level)


def test_a_label_in_every_set_has_no_shift_and_does_not_count_in_the_mean():
    moved = adaptation(3)
    assert np.isnan(moved.shift[:, 1]).all()
    assert moved.mean_shift == pytest.approx([0, 0.1, 0.2])
    record = moved.records(["cat", "dog", "owl"])[2]
    assert record["threshold_shift_by_label"] == pytest.approx({"cat": 0.2, "dog": None, "owl": 0.2})
    json.dumps(record, allow_nan=False)


def test_the_table_of_the_page_has_every_domain_s_own_p_value():
    reports = {"model": report([[0.99] * 3, [0.8] * 3, [0.9] * 3], ["a", "b", "c"])}
    moved = adaptation(3, level=0.02).subset(worst_order(reports["model"], 0.9))
    columns = {column.head: column.cells for column in domain_columns(worst_first(reports, 0.9), moved)}
    assert [cell.text for cell in columns["Domain"]] == ["b", "c", "a"]
    assert [cell.text for cell in columns["p-value"]] == ["0.02", "0.03", "0.01"]
    assert [cell.below for cell in columns["p-value"]] == [True, False, True]
    assert [cell.text for cell in columns["Thresholds moved by"]] == ["+0.10", "+0.20", "+0.00"]


def test_the_warning_names_the_most_unusual_domains_and_counts_the_others():
    names, p_values = [f"ward {k}" for k in range(10)], np.arange(1, 11) / 100
    found = unusual_domains(names, p_values[::-1], 0.07)
    assert found.startswith(
        "7 of 10 domains are unlike those that calibrated (p ≤ 0.07; 7 % are so by chance): ward 9 ("
    )
    assert "ward 5 (p = 0.05), … and 2 more. The promise" in found
    assert unusual_domains(names, p_values + 0.07, 0.07) is None
    assert unusual_domains(["a\nb"], np.array([0.01]), 0.05).startswith("1 of 1 domain is unlike")
    assert "\n" not in unusual_domains(["a\nb"], np.array([0.01]), 0.05)


def test_a_percent_sign_in_a_name_stays_as_it_is():
    assert "50% ward (p" in unusual_domains(["50% ward"], np.array([0.01]), 0.05)
