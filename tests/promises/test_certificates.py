"""Certificates: exact intervals, promises that hold by repetition, and what is refused."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm

from domaincover import DomainReport, InputError, certify
from domaincover.calibration.adaptation import self_calibrated_thresholds
from domaincover.evaluation import Tallies
from domaincover.promises.certificates import lower_bound, seen_among, upper_bound

NAN = np.nan
TARGET = 0.9


def report(hits, n, names=None, labels=None):
    """Return a report from the hits of every cell (domains × labels); a cell with n = 0 is absent."""
    hits = np.asarray(hits)
    n = np.broadcast_to(n, hits.shape)
    n_by_size = np.eye(hits.shape[1] + 1, dtype=int)[1] * n.sum(axis=1)[:, None]
    return DomainReport(
        domain_names=tuple(names or range(len(hits))),
        label_names=tuple(labels or (f"label {k}" for k in range(hits.shape[1]))),
        tallies=Tallies(n, hits, n_by_size),
    )


def perfect(n_domains, n_labels=2, n=100, **options):
    return report(np.full((n_domains, n_labels), n), n, **options)


# Intervals


@pytest.mark.parametrize("n", [1, 2, 7, 25, 400])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_the_interval_is_the_exact_one_of_scipy(n, confidence):
    each_side = (1 + confidence) / 2
    for k in range(0, n + 1, max(1, n // 25)):
        expected = binomtest(k, n).proportion_ci(confidence, method="exact")
        found = lower_bound(k, n, each_side), upper_bound(k, n, each_side)
        assert found == (pytest.approx(expected.low, abs=1e-9), pytest.approx(expected.high, abs=1e-9))


@pytest.mark.parametrize("n", [2, 9, 25])
@pytest.mark.parametrize("p", [0.01, 0.3, 0.5, 0.76, 0.9, 0.99])
def test_every_bound_covers_the_truth_with_the_confidence_asked_by_enumeration(n, p):
    k, probabilities = np.arange(n + 1), binom.pmf(np.arange(n + 1), n, p)
    low, high = lower_bound(k, n, 0.95), upper_bound(k, n, 0.95)
    both = (lower_bound(k, n, 0.975) <= p) & (p <= upper_bound(k, n, 0.975))
    for covered in (low <= p, p <= high, both):
        assert probabilities[covered].sum() >= 0.95 - 1e-12


def test_where_all_domains_are_at_target_the_bound_is_a_root_of_the_error():
    found = certify(perfect(25), TARGET, confidence=0.95)
    assert found.domains.next_at_least == pytest.approx(0.05 ** (1 / 25))
    assert found.domains.high == 1


def test_where_no_domain_is_at_target_nothing_is_promised():
    found = certify(report(np.zeros((8, 2)), 50), TARGET)
    assert (found.domains.low, found.domains.next_at_least, found.domains.next_truly_at_least) == (0, 0, 0)
    assert "nothing can be promised" in " ".join(found.text().split())


# What is counted


def test_domains_count_by_their_min_recall_and_labels_by_their_own():
    found = certify(report([[90, 90], [89, 100], [100, 89], [95, 91]], 100), TARGET)
    assert (found.domains.n_at_target, found.domains.n_domains, found.domains.share) == (2, 4, 0.5)
    assert [(label.n_at_target, label.n_domains) for label in found.labels.values()] == [(3, 4), (3, 4)]


def test_labels_count_over_the_domains_that_have_them():
    found = certify(report([[100, 0], [100, 80], [100, 95]], [[100, 0], [100, 100], [100, 100]]), TARGET)
    assert found.labels["label 1"].n_domains == 2
    assert found.labels["label 1"].n_at_target == 1
    assert found.domains.n_at_target == 2


def test_a_label_in_no_domain_has_no_share_and_no_promise():
    found = certify(report([[100, 0], [100, 0]], [[100, 0], [100, 0]]), TARGET).labels["label 1"]
    assert (found.n_domains, found.share, found.low, found.high) == (0, None, 0, 1)
    assert (found.next_at_least, found.next_truly_at_least) == (0, 0)


def test_a_cell_too_small_to_count_is_not_tested():
    n = np.array([[100, 19], [100, 100], [100, 100]])
    found = certify(dataclasses.replace(report(n, n), min_cell_size=20), TARGET)
    assert found.n_examples == 500
    assert found.domains.n_shown == 3
    assert found.labels["label 1"].n_domains == 2


def test_the_smallest_cell_and_the_share_by_noise_are_told():
    given_report = report([[90, 30], [80, 40]], [[100, 33], [100, 44]])
    found = certify(given_report, TARGET)
    assert found.smallest_cell == 33
    assert found.share_by_noise == given_report.share_by_noise(TARGET)


def test_every_domain_is_shown_undecided_or_shown_below():
    found = certify(report([[100, 100], [90, 90], [50, 100]], 100), TARGET).domains
    assert (found.n_shown, found.n_undecided, found.n_shown_below) == (1, 1, 1)


def test_a_domain_that_is_not_truly_at_target_is_shown_at_it_with_the_row_error_at_most():
    n, every = 60, np.arange(61)
    hits = np.column_stack([every, np.full(61, n), np.full(61, n)])  # one label is in doubt, the others are perfect
    for beta in (0.2, 0.05, 0.01):
        found = certify(report(hits, n), TARGET, row_error=beta)
        least_shown = n + 1 - found.domains.n_shown
        assert binom.sf(least_shown - 1, n, TARGET) <= beta < binom.sf(least_shown - 2, n, TARGET)


@pytest.mark.parametrize("n_labels", [1, 3, 10])
def test_a_domain_that_is_just_at_target_is_shown_below_it_with_the_row_error_at_most(n_labels):
    n, every = 200, np.arange(201)
    hits = np.column_stack([every, *[np.full(201, n)] * (n_labels - 1)])
    found = certify(report(hits, n), TARGET, row_error=0.05)
    of_one_label = binom.cdf(found.domains.n_shown_below - 1, n, TARGET)
    assert 0 < 1 - (1 - of_one_label) ** n_labels <= 0.05


def test_a_recall_that_is_one_on_few_rows_shows_nothing():
    assert certify(perfect(10, n=28), TARGET).domains.n_shown == 0
    assert certify(perfect(10, n=29), TARGET).domains.n_shown == 10  # 0.9^29 < 0.05 < 0.9^28


# Promises by repetition


def repeated(rng, p, n_repeats, n_domains=20, n_labels=3):
    """Return certificates where a domain is truly at target with probability p, and just below in one label if not.

    Domains at target have perfect recall, so that as many as can be are shown; cells differ in size, some are absent.
    """
    certificates = []
    for _ in range(n_repeats):
        n = rng.integers(40, 400, (n_domains, n_labels)) * (rng.random((n_domains, n_labels)) < 0.8)
        n[:, 0] = 200
        truth = np.ones((n_domains, n_labels))
        truth[rng.random(n_domains) >= p, 0] = TARGET - 1e-9
        certificates.append(certify(report(rng.binomial(n, truth), n), TARGET, confidence=0.9))
    return certificates


@pytest.fixture(scope="module")
def certificates():
    return repeated(np.random.default_rng(0), p=0.7, n_repeats=1000)


def least_coverage(n_repeats, confidence):
    return confidence - 3 * np.sqrt(confidence * (1 - confidence) / n_repeats)


def test_the_bound_on_true_recall_holds_as_often_as_it_says(certificates):
    bounds = np.array([found.domains.next_truly_at_least for found in certificates])
    assert np.mean(bounds <= 0.7) >= least_coverage(len(bounds), 0.9)
    assert bounds.mean() > 0.4  # and it says something: 14 of 20 shown would give 0.5


def test_the_bound_on_the_count_holds_as_often_as_it_says(certificates):
    bounds = np.array([found.domains.next_at_least for found in certificates])
    counted = 0.7 + 0.3 * binom.sf(179, 200, TARGET - 1e-9)
    assert np.mean(bounds <= counted) >= least_coverage(len(bounds), 0.9)


def test_the_bound_on_the_count_alone_would_promise_too_much_about_true_recall(certificates):
    bounds = np.array([found.domains.next_at_least for found in certificates])
    assert np.mean(bounds <= 0.7) < least_coverage(len(bounds), 0.9)


def test_the_bound_of_each_label_holds_as_often_as_it_says(certificates):
    bounds = np.array([found.labels["label 0"].next_truly_at_least for found in certificates])
    assert np.mean(bounds <= 0.7) >= least_coverage(len(bounds), 0.9)


@pytest.mark.parametrize("are_disjoint", [False, True])
def test_rows_that_set_their_threshold_cannot_show_that_it_is_low_enough(are_disjoint):
    """Scores are normal, thresholds lie .2 below the tenth percentile of a domain's rows: few are truly too high."""
    rng, n_domains, n = np.random.default_rng(0), 20_000, 200
    scores = rng.normal(size=(n_domains, n, 1))
    domains = np.repeat(np.arange(n_domains), n)
    evidence = self_calibrated_thresholds(scores.reshape(-1, 1), np.ones((scores.size, 1)), domains, TARGET)[:, 0]
    counted = rng.normal(size=scores.shape) if are_disjoint else scores
    hits = (counted[:, :, 0] >= evidence[:, None] - 0.2).sum(axis=1)
    truly_below = norm.sf(evidence - 0.2) < TARGET
    found = certify(report(hits[truly_below, None], n), TARGET, row_error=0.05).domains
    shown, error = found.n_shown / found.n_domains, np.sqrt(0.05 * 0.95 / found.n_domains)
    assert found.n_domains > 400
    assert shown <= 0.05 + 4 * error if are_disjoint else shown > 0.05 + 4 * error


def test_nothing_is_said_about_true_recall_where_the_rows_counted_set_the_thresholds():
    adapted = dataclasses.replace(perfect(25), thresholds="adapted")
    found = certify(adapted, TARGET)
    for one in (found.domains, *found.labels.values()):
        assert (one.n_shown, one.n_undecided, one.n_shown_below, one.next_truly_at_least) == (None,) * 4
        assert one.next_at_least == certify(perfect(25), TARGET).domains.next_at_least
    words = " ".join(found.text().split())
    assert "Nothing is said about true recall here" in words
    assert "truly" not in words
    assert "its true" not in found.in_one_line()
    assert found.to_dict()["domains"]["n_shown"] is None


@given(st.integers(0, 2**32), st.floats(0.5, 0.99), st.floats(0.5, 0.99))
def test_true_recall_is_never_promised_with_more_than_the_count(seed, target, confidence):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 200, (6, 2))
    found = certify(report(rng.binomial(n, rng.uniform(0.8, 1, (6, 2))), n), target, confidence=confidence)
    for one in (found.domains, *found.labels.values()):
        assert 0 <= one.next_truly_at_least <= one.next_at_least <= one.share <= 1
        assert one.low <= one.next_at_least
        assert one.low <= one.share <= one.high
        assert one.n_shown <= one.n_at_target
        assert one.n_shown + one.n_undecided + one.n_shown_below == one.n_domains


def test_more_confidence_promises_less():
    bounds = [certify(perfect(12), TARGET, confidence=c, row_error=0.05) for c in (0.8, 0.9, 0.95, 0.99)]
    for name in ("next_at_least", "next_truly_at_least", "low"):
        values = [getattr(found.domains, name) for found in bounds]
        assert values == sorted(values, reverse=True)


# What it refuses


@pytest.mark.parametrize("seen", [[7], ["7"], [7.0], np.array([7, 8]), [np.float64(7)], {"7 ", "x"}])
@pytest.mark.parametrize("name", [7, "7", 7.0])
def test_a_domain_seen_in_training_is_refused_whether_number_or_text(name, seen):
    with pytest.raises(
        InputError, match=r"1 of 2 domains were seen in training \(7(\.0)?\); a certificate is about new"
    ):
        certify(perfect(2, names=[name, "north"]), TARGET, seen_domains=seen)


def test_of_many_seen_domains_a_few_are_named():
    with pytest.raises(InputError, match=r"9 of 9 domains were seen in training \(0, 1, 2, 3, 4, … and 4 more\)"):
        certify(perfect(9), TARGET, seen_domains=range(20))


def test_domains_that_only_look_alike_are_not_taken_for_seen():
    assert seen_among(["07", "7a", True, 7.5, "North"], [7, "1", "7", "north"]) == [False] * 5


def test_new_domains_pass_beside_seen_ones():
    assert certify(perfect(2, names=["a", "b"]), TARGET, seen_domains=["c"]).domains.n_domains == 2


def test_one_domain_is_refused():
    with pytest.raises(InputError, match=r"the report has one domain, north; .* at least two"):
        certify(perfect(1, names=["north"]), TARGET)


@pytest.mark.parametrize("name", ["confidence", "row_error"])
@pytest.mark.parametrize("value", [0, 1, 95, -1, NAN])
def test_what_is_no_share_is_refused(name, value):
    message = rf"{name.replace('_', ' ')} must lie between 0 and 1, got {value}; write 95 % as 0.95"
    with pytest.raises(InputError, match=message):
        certify(perfect(2), TARGET, **{name: value})


@pytest.mark.parametrize("target", [0, 1, 90, NAN])
def test_a_target_that_is_no_share_is_refused(target):
    with pytest.raises(InputError, match="target recall must lie between 0 and 1"):
        certify(perfect(2), target)


# How it is told


@pytest.fixture
def told():
    n = [[100, 0], [100, 100], [100, 100], [100, 0]]
    return certify(report([[100, 0], [95, 80], [100, 100], [85, 0]], n), TARGET)


def test_it_is_strict_json(told):
    plain = json.loads(json.dumps(told.to_dict(), allow_nan=False))
    assert plain == told.to_dict()
    assert plain["domains"]["n_at_target"] == 2
    assert list(plain["labels"]) == ["label 0", "label 1"]


def test_the_text_names_counts_bounds_and_what_it_rests_on(told):
    text = " ".join(str(told).split())
    assert "2 of 4 domains had every label caught at least 90 % of the time." in text
    assert "With 95 % confidence, the next domain will be at target with a probability of at least 0.09" in text
    assert "the model saw none of them in training" in text
    assert "The smallest recall counted rests on 100 examples." in text


def test_domains_are_called_new_only_where_the_model_is_known_not_to_have_seen_them():
    given = report(np.full((12, 2), 95), np.full((12, 2), 100))
    asserted, checked = certify(given, 0.9).text(200), certify(given, 0.9, seen_domains=[99]).text(200)
    assert "whether the model has seen any of them in training was not checked" in asserted.splitlines()[0]
    assert "12 of 12 domains had" in asserted
    assert checked.startswith("From 12 domains that the model has not seen,")
    assert "12 of 12 new domains had" in checked


@pytest.mark.parametrize(
    ("thresholds", "words"),
    [
        ("adapted", ", with thresholds adapted to the rows of each domain that has enough."),
        ("fixed", ", with fixed thresholds."),
    ],
)
def test_the_certificate_says_which_thresholds_it_is_about(thresholds, words):
    found = certify(
        dataclasses.replace(report(np.full((12, 2), 95), np.full((12, 2), 100)), thresholds=thresholds), 0.9
    )
    assert found.to_dict()["thresholds"] == thresholds
    assert words in found.text(width=250).splitlines()[0]


@pytest.mark.parametrize("width", [60, 100])
def test_no_sentence_is_wider_than_asked(told, width):
    table = [line for line in told.text(width).splitlines() if line.startswith("label")]
    assert len(table) == 3
    assert all(len(line) <= width for line in told.text(width).splitlines() if line not in table)


def test_a_bound_is_never_rounded_up():
    found = certify(perfect(25), TARGET)  # 0.8870…
    assert "probability of at least 0.88 " in " ".join(found.text().split())
    assert "86 % to 100 %" in found.text()


def test_a_bound_that_rounds_to_nothing_is_not_told_as_a_number():
    few_rows = report([[60, 60]] * 2 + [[54, 60]] * 38, 60)
    found = certify(few_rows, TARGET, row_error=0.005)
    assert 0 < found.domains.next_truly_at_least < 0.01
    assert "too few to say whether the next domain's true recalls are all at target" in " ".join(found.text().split())


def test_one_line_says_both_bounds():
    line = certify(perfect(25), TARGET).in_one_line()
    assert "\n" not in line
    assert "at least 0.88" in line


def test_one_line_does_not_promise_a_bound_of_nothing():
    few_rows, none = certify(perfect(25, n=28), TARGET), certify(report(np.zeros((8, 2)), 50), TARGET)
    assert "too few to say whether the next domain's true recalls are all at target" in few_rows.in_one_line()
    assert "nothing can be promised" in none.in_one_line()
    assert "0.00" not in few_rows.in_one_line() + none.in_one_line()


def test_absent_and_small_labels_are_among_what_it_does_not_say(told):
    assert "a label that a domain lacks, or has too few rows of" in " ".join(told.text().split())


def test_names_that_would_break_the_table_are_made_printable():
    found = certify(perfect(3, labels=["a\nb\x1b[31m", "x" * 50]), TARGET)
    assert "\x1b" not in found.text()
    assert "a b [31m" in found.text()
    assert "x" * 20 in found.text()
    assert "x" * 30 not in found.text()


def test_one_shown_domain_and_one_example_are_told_in_the_singular():
    text = " ".join(certify(report([[100, 1], [1, 1]], [[100, 0], [1, 1]]), TARGET).text().split())
    assert "1 domain is shown at target" in text
    assert "rests on 1 example." in text
