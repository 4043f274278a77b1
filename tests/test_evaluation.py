import json

import numpy as np
import pytest

from domaincover import InputError, domain_report, evaluation
from domaincover.criteria import criterion_for
from tests.recall import recall_by_cell

LABELS, DOMAINS = ("cat", "dog", "owl"), ("north", "south", "empty")


def report(sets, labels, domains, min_cell_size=1):
    sets = np.array(sets, bool)
    return domain_report(sets, np.array(labels), np.array(domains), LABELS, DOMAINS, min_cell_size)


@pytest.fixture
def small():
    """North has a cat covered and one missed, and a dog covered; south an owl covered by a full set."""
    sets = [[1, 0, 0], [0, 0, 0], [0, 1, 1], [1, 1, 1]]
    return report(sets, [0, 0, 1, 2], [0, 0, 0, 1])


def random_report(rng, recall, n_domains=200, n=400, n_labels=3):
    """Domains whose true recalls are given, one row or one per domain."""
    labels = np.tile(np.arange(n_labels), n_domains * n)
    domains = np.repeat(np.arange(n_domains), n * n_labels)
    sets = np.zeros((len(labels), n_labels), bool)
    truth = np.broadcast_to(recall, (n_domains, n_labels))
    sets[np.arange(len(labels)), labels] = rng.random(len(labels)) < truth[domains, labels]
    return domain_report(sets, labels, domains, tuple(range(n_labels)), tuple(range(n_domains)))


def test_recall_by_domain_and_label_is_nan_where_a_label_is_absent(small):
    assert np.array_equal(small.recall, [[0.5, 1.0, np.nan], [np.nan, np.nan, 1.0]], equal_nan=True)
    assert small.n_by_label.tolist() == [[2, 1, 0], [0, 0, 1]]


def test_counting_in_blocks_gives_what_counting_at_once_gives(monkeypatch):
    monkeypatch.setattr(evaluation, "ROWS_AT_ONCE", 7)
    rng = np.random.default_rng(0)
    sets, labels, domains = rng.random((100, 3)) < 0.5, rng.integers(3, size=100), rng.integers(2, size=100)
    found = domain_report(sets, labels, domains, LABELS, DOMAINS[:2], min_cell_size=1)
    assert np.array_equal(found.recall, recall_by_cell(sets, labels, domains, 2), equal_nan=True)
    assert found.set_size.tolist() == [sets[domains == k].sum() / (domains == k).sum() for k in range(2)]


def test_min_recall_skips_absent_labels(small):
    assert small.min_recall.tolist() == [0.5, 1.0]


def test_sizes_and_rates_are_means_over_a_domains_examples(small):
    assert small.set_size.tolist() == [1.0, 3.0]
    assert small.empty_rate.tolist() == pytest.approx([1 / 3, 0])
    assert small.single_rate.tolist() == pytest.approx([1 / 3, 0])


def test_sizes_over_counted_rows_leave_out_the_rows_of_small_cells():
    sets, labels, domains = [[1, 0, 0], [0, 0, 0], [0, 1, 1], [1, 1, 1], [1, 1, 0]], [0, 0, 1, 2, 2], [0, 0, 0, 1, 1]
    arrays = np.array(sets, bool), np.array(labels), np.array(domains)
    over_all, counted = (
        domain_report(*arrays, LABELS, DOMAINS, min_cell_size=2, sized_rows=rows) for rows in ("all", "counted")
    )
    assert over_all.set_size.tolist() == [1.0, 2.5]
    assert counted.set_size.tolist() == [0.5, 2.5]  # without the only dog of the north
    assert counted.empty_rate.tolist() == [0.5, 0.0]
    assert counted.single_rate.tolist() == [0.5, 0.0]
    for name in ("recall", "n_by_label", "coverage"):
        assert np.array_equal(getattr(over_all, name), getattr(counted, name), equal_nan=True)


def test_with_coverage_all_rows_of_a_domain_that_counts_are_sized():
    sets, labels, domains = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]], bool), np.array([0, 0, 1]), np.zeros(3, int)
    coverage = criterion_for(0.9, LABELS, "coverage")
    found = domain_report(sets, labels, domains, LABELS, ("one",), 2, coverage, sized_rows="counted")
    assert found.set_size.tolist() == [2.0]


def test_other_rows_to_size_are_refused():
    with pytest.raises(InputError, match="sized_rows must be one of 'all', 'counted', got 'some'"):
        domain_report(np.ones((1, 3), bool), np.array([0]), np.array([0]), LABELS, ("a",), sized_rows="some")


def test_a_domain_without_examples_is_left_out(small):
    assert small.domain_names == ("north", "south")


def test_small_cells_do_not_count_but_their_examples_stay_in_the_size():
    found = report([[1, 0, 0], [1, 0, 0], [1, 1, 1]], [0, 0, 1], [0, 0, 0], min_cell_size=2)
    assert np.array_equal(found.recall, [[1.0, np.nan, np.nan]], equal_nan=True)
    assert found.set_size.tolist() == pytest.approx([5 / 3])


def test_names_stand_in_the_frame_and_the_records(small):
    frame = small.to_frame()
    assert list(frame.index) == ["north", "south"]
    assert frame.loc["north", "recall[cat]"] == 0.5
    assert frame.loc["south", "n[owl]"] == 1
    records = json.loads(json.dumps(small.records(), allow_nan=False))
    assert records[0]["recall"] == {"cat": 0.5, "dog": 1.0, "owl": None}
    assert (records[1]["domain"], records[1]["n"]) == ("south", 1)


def test_a_summary_reduces_over_domains_by_medians_and_quantiles():
    rng = np.random.default_rng(0)
    found = random_report(rng, rng.uniform(0.8, 1.0, (200, 3)))
    summary = found.summary(0.9)
    assert summary.min_recall == np.median(found.min_recall)
    assert summary.min_recall_p10 == np.quantile(found.min_recall, 0.1)
    assert summary.min_recall_worst == found.min_recall.min()
    assert (summary.set_size_q25, summary.set_size_q75) == tuple(np.quantile(found.set_size, [0.25, 0.75]))
    assert summary.share_at_target == np.mean(found.min_recall >= 0.9)
    assert summary.n_domains == 200


def test_min_recall_at_exactly_the_target_counts_as_reached():
    sets = np.zeros((20, 3), bool)
    sets[:18, 0] = True
    found = report(sets, np.zeros(20, int), np.zeros(20, int))
    assert found.summary(0.9).share_at_target == 1


@pytest.mark.parametrize("recall", [0.9, 0.91, 0.89, [0.95, 0.9, 0.92]])
def test_where_domains_do_not_differ_the_share_at_target_is_that_of_noise(recall):
    found = random_report(np.random.default_rng(1), recall, n_domains=2_000)
    by_noise = found.share_by_noise(0.9)
    # The share is binomial; the noise share moves with the estimated mean recalls, whose error is 0.3 / sqrt(800,000),
    # by at most sqrt(n) · 0.4 / 0.3 per unit (normal density at its peak) for each of three labels.
    of_share = np.sqrt(by_noise * (1 - by_noise) / 2_000)
    of_noise_share = np.sqrt(3) * np.sqrt(400) * 0.4 / 0.3 * 0.3 / np.sqrt(800_000)
    assert abs(found.summary(0.9).share_at_target - by_noise) < 4 * np.hypot(of_share, of_noise_share)


def test_where_domains_differ_noise_explains_less():
    rng = np.random.default_rng(2)
    found = random_report(rng, rng.uniform(0.85, 1.0, (200, 1)) * np.ones(3))
    summary = found.summary(0.9)
    # a third of the domains truly miss 0.9, while a recall of 0.925 everywhere reaches it in 0.97 of the cells
    assert summary.share_by_noise == pytest.approx(0.97**3, abs=0.05)
    assert summary.share_at_target == pytest.approx(2 / 3, abs=4 * np.sqrt(2 / 9 / 200))


def test_a_label_that_no_domain_has_does_not_count_in_the_noise_share():
    found = report([[1, 0, 0], [0, 1, 0]], [0, 1], [0, 1])
    assert found.share_by_noise(0.9) == 1


def test_a_target_of_ninety_is_refused(small):
    with pytest.raises(InputError, match="between 0 and 1, got 90; write 90 % as"):
        small.summary(90)


@pytest.mark.parametrize(
    ("sets", "labels", "domains", "message"),
    [
        (np.ones((2, 3)), [0, 1], [0, 0], "booleans, examples × 3 labels, got float64 .* compare scores"),
        (np.ones((2, 2), bool), [0, 1], [0, 0], r"3 labels, got bool of shape \(2, 2\)"),
        (np.ones((2, 3), bool), [0, 3], [0, 0], "label codes run from 0 to 3, but there are 3"),
        (np.ones((2, 3), bool), [0, 1], [0, -1], "domain codes run from -1 to 0"),
        (np.ones((2, 3), bool), ["cat", "cow"], [0, 0], r"labels hold 'cow', .*: \['cat', 'dog', 'owl'\]"),
        (np.ones((2, 3), bool), [0, 1], ["north", "south"], "domains must be codes"),
    ],
)
def test_what_is_no_set_or_code_is_refused(sets, labels, domains, message):
    with pytest.raises(InputError, match=message):
        domain_report(sets, labels, domains, LABELS, DOMAINS)


def test_without_names_a_report_takes_those_of_the_rows():
    rng = np.random.default_rng(0)
    sets, labels, domains = rng.random((600, 3)) < 0.8, np.arange(600) % 3, np.arange(600) // 200
    names, places = np.array(["owl", "dog", "cat"]), np.array(["north", "south", "east"])
    by_code = domain_report(sets, labels, domains, tuple(names), tuple(places)).to_frame()
    in_order = domain_report(sets[:, ::-1], names[labels], places[domains]).to_frame()
    named = domain_report(sets, names[labels], places[domains], label_names=list(names)).to_frame()
    for found in (in_order, named):
        assert found.loc[by_code.index, by_code.columns].equals(by_code)


def test_without_names_every_column_needs_a_label():
    with pytest.raises(InputError, match="3 columns of sets need as many labels, and 2 occur; give label_names"):
        domain_report(np.ones((2, 3), bool), [1, 2], ["north", "north"])
    with pytest.raises(InputError, match=r"examples × labels, got float64 of shape \(2, 3\)"):
        domain_report(np.ones((2, 3)), [1, 2], ["north", "north"])


def test_a_report_without_a_cell_that_counts_is_refused():
    with pytest.raises(InputError, match=r"no label has 100 examples in a domain \(at most 1\); lower min_cell_size"):
        report(np.ones((2, 3)), [0, 1], [0, 1], min_cell_size=100)


def test_labels_that_read_alike_keep_a_column_each():
    found = domain_report(np.eye(2, dtype=bool), [0, 1], [0, 0], (1, "1"), ("only",), min_cell_size=1)
    assert {"recall[1]", "recall['1']"} <= set(found.to_frame().columns)
    assert found.records()[0]["recall"] == {"1": 1.0, "'1'": 1.0}


@pytest.mark.parametrize("rows", [[1, 0], np.array([False, True])])
def test_a_subset_holds_the_given_domains_in_the_given_order(small, rows):
    found = small.subset(rows)
    assert found.domain_names == tuple(np.array(small.domain_names)[rows])
    assert found.label_names == small.label_names
    for name in ("n_by_label", "recall", "set_size", "empty_rate", "single_rate", "min_recall"):
        assert np.array_equal(getattr(found, name), getattr(small, name)[rows], equal_nan=True)


# Beside sets drawn by lot


def drawn_by_lot(shares, n=20_000, n_domains=3, seed=0):
    """Return the report of sets in which each label is with a probability of its own, whatever the example."""
    rng = np.random.default_rng(seed)
    sets = rng.random((n, len(shares))) < shares
    labels, domains = rng.integers(len(shares), size=n), rng.integers(n_domains, size=n)
    names = tuple(range(len(shares))), tuple(range(n_domains))
    return domain_report(sets, labels, domains, *names, min_cell_size=1)


def test_sets_that_do_not_look_at_the_example_have_the_size_by_lot():
    shares = np.array([0.95, 0.5, 0.8, 0.1])
    report = drawn_by_lot(shares)
    # The recall of each label comes from about 20,000 / 12 rows, its share in sets from 20,000 / 3.
    error = np.sqrt((shares * (1 - shares) * (12 + 3) / 20_000).sum())
    assert np.abs(report.size_by_lot - report.set_size).max() < 4 * error
    assert report.is_useless


@pytest.mark.parametrize("constant", [[True] * 3, [True, False, True]])
def test_the_same_set_for_every_example_is_useless_whatever_it_holds(constant):
    report = drawn_by_lot(np.array(constant, float), n=300)
    assert report.size_by_lot.tolist() == [sum(constant)] * 3
    assert report.is_useless


def test_sets_of_the_true_label_are_not_useless():
    labels, domains = np.arange(60) % 3, np.arange(60) % 2
    report = domain_report(np.eye(3, dtype=bool)[labels], labels, domains, (0, 1, 2), ("a", "b"), min_cell_size=1)
    assert report.size_by_lot.tolist() == [3, 3]
    assert not report.is_useless


def test_a_label_that_a_domain_lacks_has_its_recall_elsewhere_by_lot():
    labels, domains = np.array([0, 1, 0, 0]), np.array([0, 0, 1, 1])
    sets = np.array([[True, True], [True, False], [True, False], [True, False]])
    report = domain_report(sets, labels, domains, ("x", "y"), ("a", "b"), min_cell_size=1)
    assert report.size_by_lot.tolist() == [1, 1]


def test_the_summary_has_the_size_by_lot_and_the_number_of_labels():
    summary = drawn_by_lot(np.ones(4), n=300).summary(0.9)
    assert (summary.set_size_by_lot, summary.n_labels) == (4, 4)


def test_sets_are_counted_by_domain_and_size():
    rng = np.random.default_rng(0)
    sets, labels, domains = rng.random((500, 4)) < 0.4, rng.integers(0, 4, 500), rng.integers(0, 3, 500)
    found = domain_report(sets, labels, domains, tuple("abcd"), ("x", "y", "z"))
    expected = [[int((sets[domains == d].sum(axis=1) == size).sum()) for size in range(5)] for d in range(3)]
    assert found.tallies.n_by_size.tolist() == expected
    assert found.subset([2, 0]).tallies.n_by_size.tolist() == [expected[2], expected[0]]
    assert found.sets_by_size.tolist() == np.sum(expected, axis=0).tolist()


def test_a_report_prints_its_domains_worst_first_and_how_large_sets_are(small):
    lines = str(small).splitlines()
    order = np.argsort(small.min_recall, kind="stable")
    assert [line.split()[0] for line in lines[2 : 2 + len(order)]] == [str(small.domain_names[k]) for k in order]
    assert lines[-1].startswith(f"Labels per set ({small.n.sum()} sets): ")


def test_where_no_label_counts_the_coverage_stands_for_recalls():
    labels, domains = np.arange(60) % 3, np.arange(60) % 2
    sets = np.ones((60, 3), dtype=bool)
    sets[:6] = False
    coverage = criterion_for(0.8, (0, 1, 2), "coverage")
    report = domain_report(sets, labels, domains, (0, 1, 2), ("a", "b"), min_cell_size=25, criterion=coverage)
    assert np.isnan(report.recall).all()
    assert report.size_by_lot.tolist() == pytest.approx([2.7, 2.7])
    assert report.is_useless


def unlike():
    """Return a report of three domains, the last of which lacks the label 0 and has the largest sets."""
    sets = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [1, 1], [1, 1]], bool)
    return domain_report(sets, np.array([0, 1, 0, 1, 1, 1]), np.arange(6) // 2, ("a", "b"), ("x", "y", "z"), 1)


def test_a_summary_is_over_the_same_domains_in_all_its_numbers():
    given, target = unlike(), {"a": 0.9}
    summary, kept = given.summary(target), given.subset([0, 1])
    assert (summary.n_domains, summary.set_size, summary.set_size_q75) == (2, 1, 1)
    assert summary.to_dict() == kept.summary(target).to_dict()


def test_a_domain_without_a_label_that_has_a_target_is_named_as_not_counted():
    found = unlike().under({"a": 0.9})
    assert found.left_out == ("z",)
    assert found.not_counted() == "Not counted, for want of a row of a label with a target in a domain: domain z."


def test_a_domain_is_as_far_from_its_target_as_the_label_that_is_farthest_below():
    report = random_report(np.random.default_rng(0), 0.9, n_domains=50)
    own = {"0": 0.95, "2": 0.8}
    expected = [min(row[0] - 0.95, row[2] - 0.8) for row in report.recall]
    assert report.under(own).margin.tolist() == expected
    assert (report.at_target(own) == (report.under(own).margin >= 0)).all()
