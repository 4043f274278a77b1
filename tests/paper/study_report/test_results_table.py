"""Results are checked once on their way into a report."""

import numpy as np
import pytest

from domaincover.paper.published import published as paper
from domaincover.paper.study_report import results_table
from domaincover.paper.study_report.figures import figure_files
from domaincover.paper.study_report.page import write_page
from domaincover.paper.study_report.results_text import format_results

from .made_up import full_study, published_numbers, results_of


@pytest.fixture
def checks(monkeypatch):
    """The names of the tables that were checked, in order."""
    names, check = [], results_table._checked

    def counting(table, columns, name):
        names.append(name)
        return check(table, columns, name)

    monkeypatch.setattr(results_table, "_checked", counting)
    return names


@pytest.fixture(scope="module")
def study():
    domains = full_study(np.random.default_rng(0), datasets=("synthetic-10",), n_seeds=2, n_domains=5)
    return results_of(domains), domains


@pytest.fixture(scope="module")
def published():
    return published_numbers("synthetic-10", ["erm", "set-cover"])


def test_a_page_checks_each_table_once(study, checks, tmp_path):
    write_page(*study, tmp_path / "page.html", published=paper())
    assert checks == ["results", "domains"]


def test_figures_check_each_table_once(study, checks, tmp_path):
    figure_files(*study, tmp_path, "svg", kinds=["share", "curves"])
    assert checks == ["results", "domains"]


@pytest.mark.parametrize("style", ["table", "csv", "md", "latex", "json"])
def test_a_table_checks_the_results_once(study, published, checks, style):
    format_results(study[0], style, published=published)
    assert checks == ["results"]
