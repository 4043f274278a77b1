"""`min_cell_size` has one meaning: a cell counts if it has at least that many examples, wherever it is asked."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from domaincover import ConformalSetClassifier
from domaincover.calibration.rules import (
    cell_thresholds,
    hierarchical_thresholds,
    joint_thresholds,
    order_thresholds,
    pooled_thresholds,
    robust_thresholds,
)
from domaincover.data.dataset import DomainDataset, drop_small_cells, merge_small_cells
from domaincover.errors import InputError
from domaincover.evaluation import domain_report
from tests.calibration.small_data import quietly

N = 7
# Three domains of one label, with N + 1, N and N − 1 examples.
DOMAINS = np.repeat([0, 1, 2], [N + 1, N, N - 1])
LABELS = np.zeros(len(DOMAINS), int)
SCORES = np.zeros((len(DOMAINS), 1))


def calibrating(rule, *promise, scores=(2.0, 1.0, 1.5), **options):
    """Return how to tell the domains that count for a rule: those that give its threshold by themselves."""

    def threshold(n_domains, **size):
        rows = n_domains > DOMAINS
        given = np.array(scores)[DOMAINS[rows], None], LABELS[rows], DOMAINS[rows]
        return float(quietly(rule, *given, *promise, **options, **size)[0])

    alone = {threshold(n_domains): list(range(n_domains)) for n_domains in (1, 2, 3)}
    assert len(alone) == 3
    return lambda min_cell_size: alone[threshold(3, min_cell_size=min_cell_size)]


def reported(min_cell_size):
    report = domain_report(SCORES >= 0, LABELS, DOMAINS, ("only",), (0, 1, 2), min_cell_size)
    return list(report.domain_names)


def calibrated_cells(min_cell_size):
    return np.flatnonzero(np.isfinite(cell_thresholds(SCORES, LABELS, DOMAINS, 0.9, min_cell_size)[:, 0])).tolist()


def kept_rows(min_cell_size):
    data = DomainDataset(SCORES, LABELS, DOMAINS, ("only",), (0, 1, 2))
    return np.unique(DOMAINS[drop_small_cells(data, np.arange(len(DOMAINS)), min_cell_size)]).tolist()


def cells_left_alone(min_cell_size):
    merged = merge_small_cells(DOMAINS, LABELS, 3, 1, min_cell_size)
    return np.unique(merged[merged < 3]).tolist()


DOORS = {
    "domain_report": reported,
    "cell_thresholds": calibrated_cells,
    "drop_small_cells": kept_rows,
    "merge_small_cells": cells_left_alone,
    "robust": calibrating(robust_thresholds, 0.99, scores=(0.0, -1.0, -2.0)),
    "pooled": calibrating(pooled_thresholds, 0.99, scores=(0.0, -1.0, -2.0)),
    "order": calibrating(order_thresholds, 0.5, 0.5),
    "joint": calibrating(joint_thresholds, 0.5, 0.5),
    "hierarchical": calibrating(hierarchical_thresholds, 0.5),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_cell_of_exactly_the_minimum_size_counts_and_one_example_fewer_does_not(door):
    counting = DOORS[door]
    assert counting(1) == [0, 1, 2]
    assert counting(N - 1) == [0, 1, 2]
    assert counting(N) == [0, 1]
    assert counting(N + 1) == [0]


@pytest.mark.parametrize("door", sorted(set(DOORS) - {"drop_small_cells", "merge_small_cells"}))
def test_a_minimum_size_below_one_is_rejected(door):
    with pytest.raises(InputError, match="min_cell_size must be at least 1, got 0"):
        DOORS[door](0)


def test_a_fitted_model_and_its_promise_count_the_same_cells_as_the_function():
    X, y = np.zeros((len(DOMAINS) * 2, 1)), np.repeat(["only", "other"], len(DOMAINS))
    domains = np.tile(DOMAINS, 2)
    scorer = LogisticRegression().fit(X, y)
    for n, expected in ((N - 1, [0, 1, 2]), (N, [0, 1]), (N + 1, [0])):
        model = ConformalSetClassifier(scorer, "order", calibration="prefit", domain_confidence=0.5, min_cell_size=n)
        model.fit(X, y, domains=domains)
        assert list(model.domain_report(X, y, domains, min_cell_size=n).domain_names) == expected
        assert model.calibration_domains_.tolist() == expected


# One default: 20, and 1 with a line where no cell has 20.


def domains_of(sizes):
    """Return zeros to learn from, and two labels in domains with so many examples of each."""
    domains = np.repeat(np.arange(len(sizes)), 2 * np.array(sizes))
    return np.zeros((len(domains), 1)), np.array(["ill", "well"])[np.arange(len(domains)) % 2], domains


def scorer_on(sizes, **settings):
    X, y, domains = domains_of(sizes)
    return ConformalSetClassifier(LogisticRegression(), "single", **settings).fit(X, y, domains=domains)


def test_by_default_reports_count_cells_from_twenty_examples_on():
    X, y, domains = domains_of([19, 20, 21])
    for report in (
        scorer_on([20]).domain_report(X, y, domains),
        domain_report(np.ones((len(y), 2), bool), (y == "well").astype(int), domains, ("ill", "well"), (0, 1, 2)),
    ):
        assert report.domain_names == (1, 2)
        assert (report.min_cell_size, report.left_out) == (20, (0,))
        assert report.not_counted() == "Not counted, for want of 20 rows of a label in a domain: domain 0."


def test_by_default_reports_count_what_the_model_counts():
    X, y, domains = domains_of([19, 20, 21])
    report = scorer_on([20], min_cell_size=21).domain_report(X, y, domains)
    assert (report.domain_names, report.min_cell_size) == ((2,), 21)


def test_where_no_cell_has_twenty_all_count_with_a_line():
    X, y, domains = domains_of([3, 19])
    with pytest.warns(UserWarning, match=r"no label has 20 examples in a domain \(at most 19\), so cells of any size"):
        report = scorer_on([20]).domain_report(X, y, domains)
    assert (report.domain_names, report.min_cell_size) == ((0, 1), 1)
    assert report.not_counted() is None


def test_a_size_that_was_asked_for_is_not_replaced():
    X, y, domains = domains_of([3, 19])
    with pytest.raises(InputError, match=r"no label has 20 examples in a domain \(at most 19\); lower min_cell_size"):
        scorer_on([20]).domain_report(X, y, domains, min_cell_size=20)


def test_labels_that_count_nowhere_are_named():
    sets, labels, domains = np.ones((50, 3), bool), np.repeat([0, 1, 2], [24, 25, 1]), np.zeros(50, int)
    report = domain_report(sets, labels, domains, ("mild", "severe", "rare"), ("only",))
    assert report.not_counted() == "Not counted, for want of 20 rows of a label in a domain: label rare."
