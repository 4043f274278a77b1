import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domaincover import domain_report
from domaincover.report.domain_adaptation import DomainAdaptation
from domaincover.report.domain_bars import bin_edges, recall_bins, size_bins, size_histogram, threshold_tracks
from domaincover.report.domain_chart import domain_chart_data
from domaincover.report.template import templates

from .made_up_domains import random_reports, report


def counted(sizes, n_labels):
    """Return a report of one domain whose sets have the given sizes."""
    sets = np.arange(n_labels) < np.asarray(sizes)[:, None]
    labels = np.zeros(len(sizes), dtype=np.int64)
    return domain_report(sets, labels, labels, tuple(range(n_labels)), ("here",), min_cell_size=1)


def test_bars_are_the_shares_of_all_sets_with_that_of_one_label_marked():
    bars = size_histogram(counted([0, 1, 1, 1, 1, 1, 1, 2, 2, 3], 3))
    assert [(bar.name, bar.n, bar.share) for bar in bars] == [
        ("0", 1, 0.1),
        ("1", 6, 0.6),
        ("2", 2, 0.2),
        ("3", 1, 0.1),
    ]
    assert [bar.length for bar in bars] == pytest.approx([1 / 6, 1, 1 / 3, 1 / 6])
    assert [bar.name for bar in bars if bar.is_marked] == ["1"]


def test_a_share_that_is_not_nothing_never_says_nought():
    percentage = templates().filters["percentage"]
    assert [percentage(bar.share) for bar in size_histogram(counted([1] * 999 + [2], 2))] == ["100", "<1"]
    assert percentage(0.0) == "0"


@pytest.mark.parametrize("n_labels", [1, 2, 9, 10, 50, 300])
def test_every_set_is_in_one_bar_and_bars_are_few(n_labels):
    bins = size_bins(np.ones(n_labels + 1, dtype=np.int64))
    assert [size for low, high in bins for size in range(low, high + 1)] == list(range(n_labels + 1))
    assert len(bins) <= 11


def test_every_domain_of_every_method_is_in_one_bin_of_recalls_and_misses_are_marked():
    reports = random_reports(np.random.default_rng(0), 365)
    bins = recall_bins(reports, [0.9])
    assert [sum(bar.n for bar in bars) for bars in bins.values()] == [365, 365]
    for name, bars in bins.items():
        assert sum(bar.n for bar in bars if bar.is_marked) == int((reports[name].min_recall < 0.9).sum())


def test_a_recall_at_the_target_is_not_in_a_bin_below_it():
    at, below = report([[0.9, 1, 1]]), report([[0.8999, 1, 1]], n=10_000)
    bars = recall_bins({"at": at, "below": below}, [0.9])
    assert [next(bar.is_marked for bar in own if bar.n) for own in bars.values()] == [False, True]


@given(st.floats(0, 1), st.lists(st.floats(0.01, 0.99).map(lambda t: round(t, 3)), min_size=1, max_size=3))
def test_bins_reach_from_the_lowest_recall_to_one_and_end_at_every_target(lowest, targets):
    edges = bin_edges(lowest, targets)
    assert edges[0] <= lowest
    assert edges[-1] == 1
    assert set(targets) <= set(edges)
    assert edges == sorted(set(edges))
    assert len(edges) <= 11 + len(targets)


def adapted(thresholds, fixed):
    thresholds = np.array(thresholds, float)
    return DomainAdaptation(thresholds, np.array(fixed, float), np.full(len(thresholds), 0.5), 0.05)


def test_a_track_has_a_mark_for_every_threshold_and_a_line_for_every_fixed_one():
    data = domain_chart_data({"model": report([[0.9] * 3, [0.95] * 3], ["a", "b"])}, 0.9)
    tracks = threshold_tracks(data, adapted([[-1, -np.inf, 0.5], [-2, -np.inf, 1.5]], [-1, -np.inf, 0.5]))
    assert [mark.words for mark in tracks["fixed"]] == ["cat: -1.00, fixed", "owl: 0.50, fixed"]
    assert [mark.words for mark in tracks["by_domain"]["b"]] == [
        "cat: -2.00, moved by -1.00",
        "owl: 1.50, moved by +1.00",
    ]
    places = [tracks["low"] + mark.place * (tracks["high"] - tracks["low"]) for mark in tracks["by_domain"]["b"]]
    assert places == pytest.approx([-2, 1.5])
    assert all(0 < mark.place < 1 for marks in tracks["by_domain"].values() for mark in marks)


def test_where_every_label_is_in_every_set_the_tracks_are_empty():
    data = domain_chart_data({"model": report([[1.0] * 3], ["a"])}, 0.9)
    tracks = threshold_tracks(data, adapted([[-np.inf] * 3], [-np.inf] * 3))
    assert (tracks["fixed"], tracks["by_domain"]) == ([], {"a": []})
    assert tracks["low"] < tracks["high"]
