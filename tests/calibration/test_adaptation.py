"""Thresholds that adapt: fixed where nothing is known, as promised by repetition, and never much larger sets."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from domaincover import InputError
from domaincover.calibration.adaptation import rounded_down, self_calibrated_thresholds
from domaincover.calibration.adaptation_fit import ScoredRows, fit_adaptive_thresholds, random_ranks, shrunken_slope
from domaincover.thresholds import cell_thresholds, joint_thresholds
from tests.calibration.literal import exact
from tests.calibration.shifted_domains import (
    Scene,
    domain_thresholds,
    draw,
    hits_and_domains,
    repeated,
    share_and_error,
)
from tests.calibration.small_data import DECIMALS, quietly
from tests.deep import deep

SHIFTED = draw(25, 300, 3, 0.6, np.random.default_rng(0))
RULE = fit_adaptive_thresholds(SHIFTED, 0.9, 0.9, min_cell_size=10)


# What it comes down to


def test_without_evidence_it_is_the_joint_rule_on_scores_counted_from_their_level():
    levels = SHIFTED.scores - RULE.level[0]
    joint = joint_thresholds(levels, SHIFTED.labels, SHIFTED.domains, 0.9, 0.9, 10)
    assert np.allclose(RULE.fixed, RULE.level[0] + joint)
    assert RULE.n_rows.tolist() == [0, 30, 100, 300]
    assert RULE.slope[0] == 0


def test_a_label_that_differs_much_between_domains_does_not_lower_the_others_alike():
    rng = np.random.default_rng(0)
    domains, labels = np.repeat(np.arange(25), 200), np.tile([0, 1], 2500)
    moved = np.stack([0.1 * rng.normal(size=25), 4.0 * rng.exponential(size=25)], axis=1)  # by domain and label
    scores = rng.normal(size=(5000, 2)) + moved[domains]
    rule = fit_adaptive_thresholds(ScoredRows(scores, np.full((5000, 2), 0.5), labels, domains), 0.9, 0.9)
    asked = cell_thresholds(scores, labels, domains, 0.9)
    from_means = asked[:, 0].mean() - (asked[:, 1].mean() - np.sort(asked[:, 1])[1])
    assert rule.fixed[0] > from_means + 1


def test_thresholds_are_not_rounded_above_the_scores_that_they_stand_for():
    # A tree gives many rows the same score: a threshold one rounding above it would lose them all.
    asked, base = 5 * np.random.default_rng(0).normal(size=(2, 1000))
    found = rounded_down(base, asked - base)
    assert (base + (asked - base) > asked).any()
    assert (found <= asked).all()
    assert np.allclose(found, asked, rtol=0, atol=1e-13)
    assert np.isneginf(rounded_down(base, np.full(1000, -np.inf))).all()


def test_an_empty_domain_and_a_handful_of_rows_get_the_fixed_thresholds():
    nothing = SHIFTED.of(np.zeros(len(SHIFTED.domains), bool))
    assert np.array_equal(domain_thresholds(RULE, nothing, 2), [RULE.fixed] * 2)
    few = SHIFTED.of(np.arange(len(SHIFTED.domains)) < 29)
    assert np.array_equal(domain_thresholds(RULE, few), [RULE.fixed])


def test_thresholds_move_with_the_self_calibrated_ones():
    evidence = RULE.centre[-1] + np.array([[0.0, 0.0, 0.0], [-1.0, 0.0, np.nan]])
    found = RULE.of_evidence(evidence, np.array([300, 10**6]))
    assert RULE.slope[-1] > 0.5
    assert np.allclose(found[0], RULE.level[-1] + RULE.offset[-1])
    assert np.allclose(found[1] - found[0], [-RULE.slope[-1], 0, 0])  # nothing known of a label moves nothing


def test_evidence_counts_as_no_higher_than_in_calibration():
    # A strange domain may look easy, and raised thresholds would lose its labels.
    at_most, far_above = RULE.of_evidence(np.stack([RULE.highest[-1], RULE.highest[-1] + 50]), np.array([300, 300]))
    assert np.array_equal(at_most, far_above)
    below = RULE.of_evidence(RULE.highest[-1:] - 50, np.array([300]))
    assert (below < at_most).all()


def test_calibration_domains_are_at_target_but_for_those_passed_over():
    thresholds = domain_thresholds(RULE, SHIFTED)
    margins = SHIFTED.scores - thresholds[SHIFTED.domains]
    covered = margins[np.arange(len(margins)), SHIFTED.labels] >= -1e-12
    cells = SHIFTED.domains * 3 + SHIFTED.labels
    recall = (np.bincount(cells, covered) / np.bincount(cells)).reshape(-1, 3)
    assert np.count_nonzero(recall.min(axis=1) < 0.9) <= 1  # k = 2 of 26


def test_the_same_generator_gives_the_same_thresholds():
    again = fit_adaptive_thresholds(SHIFTED, 0.9, 0.9, min_cell_size=10, rng=np.random.default_rng(0))
    assert all(np.array_equal(*pair) for pair in zip(RULE, again, strict=True))


def test_probabilities_that_are_noise_leave_thresholds_fixed():
    rng = np.random.default_rng(1)
    noise = rng.random(SHIFTED.probabilities.shape)
    rows = ScoredRows(SHIFTED.scores, noise, SHIFTED.labels, SHIFTED.domains)
    still = draw(25, 300, 3, 0.0, rng)
    for each in (rows, still):
        rule = fit_adaptive_thresholds(each, 0.9, 0.9, min_cell_size=10, recall_on="later rows")
        found = domain_thresholds(rule, each)
        sizes = [(each.scores >= thresholds).sum() for thresholds in (found[each.domains], rule.fixed)]
        assert sizes[0] <= 1.01 * sizes[1]


@pytest.mark.parametrize(
    ("known", "wanted", "slope"), [([0, 0], [1, 2], 0), ([-1, 1], [1, -1], 0), ([-1, 1], [-2, 2], 2), ([], [], 0)]
)
def test_the_slope_is_that_of_least_squares_and_never_negative(known, wanted, slope):
    shape = 1, len(known), 1
    found = shrunken_slope(np.reshape(known, shape).astype(float), np.reshape(wanted, shape).astype(float))
    assert found == pytest.approx(slope)


def test_a_slope_that_may_be_chance_is_drawn_to_zero():
    rng = np.random.default_rng(0)
    known = rng.normal(size=(300, 1, 20, 2))
    slopes = np.array([shrunken_slope(each, rng.normal(size=each.shape)) for each in known])
    plain = np.array([(each * rng.normal(size=each.shape)).sum() / (each**2).sum() for each in known])
    assert (slopes == 0).mean() > 0.7
    assert (slopes**2).mean() < 0.5 * (plain**2).mean()


# Awkward input


def test_unknown_rows_to_promise_on_are_rejected():
    with pytest.raises(InputError, match=r"recall_on must be one of 'rows given', 'later rows', got 'all'\."):
        fit_adaptive_thresholds(SHIFTED, 0.9, 0.9, recall_on="all")


def test_too_few_domains_are_rejected_by_name():
    few = SHIFTED.of(SHIFTED.domains < 8)
    with pytest.raises(InputError, match="takes 9 calibration domains, and there are 8"):
        fit_adaptive_thresholds(few, 0.9, 0.9)
    rule = quietly(fit_adaptive_thresholds, few, 0.9, 0.9, on_infeasible="widen")
    assert np.isneginf(domain_thresholds(rule, few)).all()


def test_scores_of_minus_infinity_and_constant_scores_give_thresholds_that_hold():
    for scores in (np.where(SHIFTED.scores < 0, -np.inf, SHIFTED.scores), np.zeros_like(SHIFTED.scores)):
        rows = ScoredRows(scores, SHIFTED.probabilities, SHIFTED.labels, SHIFTED.domains)
        rule = fit_adaptive_thresholds(rows, 0.9, 0.9, min_cell_size=10)
        thresholds = domain_thresholds(rule, rows)
        assert not np.isnan(thresholds).any()
        covered = ~(rows.scores < thresholds[rows.domains])[np.arange(len(rows.labels)), rows.labels]
        cells = rows.domains * 3 + rows.labels
        assert (
            np.count_nonzero((np.bincount(cells, covered) / np.bincount(cells)).reshape(-1, 3).min(axis=1) < 0.9) <= 1
        )


def test_domains_of_one_label_and_labels_that_training_domains_lack_are_taken():
    one_label = SHIFTED.of(SHIFTED.labels == SHIFTED.domains % 3)
    rule = quietly(fit_adaptive_thresholds, one_label, 0.9, 0.8, min_cell_size=10)
    assert np.isfinite(rule.fixed).all()
    lacking = SHIFTED.of(SHIFTED.labels != 2)
    rule = fit_adaptive_thresholds(SHIFTED, 0.9, 0.9, training=lacking, min_cell_size=10)
    assert np.isfinite(domain_thresholds(rule, SHIFTED)).all()


# Rare labels


def with_a_rare_label(n_domains_with):
    return SHIFTED.of((SHIFTED.labels != 2) | (SHIFTED.domains < n_domains_with))


def test_a_pooled_rare_label_is_held_by_its_own_cells_and_leaves_the_promise_to_the_others_as_it_is():
    rows = with_a_rare_label(5)
    widened = quietly(fit_adaptive_thresholds, rows, 0.9, 0.9, min_cell_size=10, on_infeasible="widen")
    with pytest.warns(
        UserWarning, match=r"label\(s\) 2 are in 5, .*; they are not promised with the others, but pooled"
    ):
        pooled = fit_adaptive_thresholds(rows, 0.9, 0.9, min_cell_size=10, on_infeasible="pool")
    assert np.array_equal(pooled.fixed[:2], widened.fixed[:2])
    assert np.isneginf(widened.fixed[2])
    assert np.isfinite(pooled.offset[:, 2]).all()
    own = rows.scores[rows.labels == 2, 2]
    of = rows.domains[rows.labels == 2]
    recall = np.bincount(of, own >= pooled.fixed[2]) / np.bincount(of)
    assert (recall >= 0.9).all()


def test_joint_pools_a_rare_label_in_the_same_way():
    rows = with_a_rare_label(5)
    data = rows.scores, rows.labels, rows.domains
    widened = quietly(joint_thresholds, *data, 0.9, 0.9, 10, on_infeasible="widen")
    pooled = quietly(joint_thresholds, *data, 0.9, 0.9, 10, on_infeasible="pool")
    assert np.array_equal(pooled[:2], widened[:2])
    own = np.sort(rows.scores[rows.labels == 2, 2])
    assert pooled[2] <= own[len(own) - int(np.ceil(0.9 * (len(own) + 1)))]


def test_a_rare_label_with_small_cells_only_is_held_by_all_its_rows_and_one_with_too_few_rows_is_in_every_set():
    scores = np.tile(np.arange(100.0)[:, None], (1, 2))
    labels, domains = np.zeros(100, int), np.arange(100) % 20
    labels[:9] = 1  # one row in each of nine domains
    rare = quietly(joint_thresholds, scores, labels, domains, 0.9, 0.9, 3, on_infeasible="pool")
    assert rare[1] == 0.0  # the lowest of nine
    labels[0] = 0
    rare = quietly(joint_thresholds, scores, labels, domains, 0.9, 0.9, 3, on_infeasible="pool")
    assert np.isneginf(rare[1])


# Validity by repetition: the new domains of one repetition share a calibration, so errors are clustered by repetition


def check(found, confidence):
    assert found.share >= confidence - 4 * found.standard_error


@pytest.mark.slow
@pytest.mark.parametrize(
    "scene",
    [
        Scene(batch=30),
        Scene(batch=40, shift=0.1),
        *deep(Scene(batch=200), Scene(batch=100, recall_on="later rows")),
        Scene(n_labels=10, n_rows=300, batch=100, confidence=0.8),
    ],
)
def test_the_promise_is_kept(scene):
    found = repeated(scene, 40 if scene.n_labels == 2 else 15)
    check(found, scene.confidence)
    if scene.batch == scene.n_rows:  # recall on a part of a domain is noisier than the fixed thresholds allow for
        assert found.size <= 1.01 * found.fixed_size


@pytest.mark.deep
@pytest.mark.parametrize("confidence", [0.8, 0.9])
@pytest.mark.parametrize("n_labels", [2, 10])
@pytest.mark.parametrize("recall_on", ["rows given", "later rows"])
@pytest.mark.parametrize("batch", [30, 100, 300, 600])
@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_the_promise_is_kept_for_any_batch(confidence, n_labels, recall_on, batch, shift):
    if recall_on == "later rows" and batch > 300:
        pytest.skip("no rows are left to come later")
    scene = Scene(n_labels, confidence, 600, batch, shift, recall_on)
    found = repeated(scene, 60 if n_labels == 2 else 20)
    check(found, confidence)
    if batch == scene.n_rows:  # 64 cases of few repetitions: four standard errors, as for the share
        assert found.size <= 1.01 * found.fixed_size + 4 * found.size_error


@pytest.mark.slow
def test_the_promise_is_kept_for_domains_of_different_sizes():
    rng = np.random.default_rng(0)
    at_target = []
    for _ in range(40):
        training, calibration, new = (draw(n, rng.choice([20, 60, 200], n), 2, 0.2, rng) for n in (19, 19, 20))
        rule = fit_adaptive_thresholds(calibration, 0.9, 0.9, training=training, min_cell_size=10, rng=rng)
        thresholds = domain_thresholds(rule, new)
        at_target.append(hits_and_domains(new, thresholds))
    share, error = share_and_error(at_target)
    assert share >= 0.9 - 4 * error


def test_each_calibration_domain_is_held_by_the_entry_of_its_own_size():
    sizes = np.repeat([20, 200], [13, 26])
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows = draw(39, sizes, 3, 0.5, rng)
        is_hard = (sizes[rows.domains] == 20) & (rows.domains % 2 == 0)  # so each size alone would pass over others
        rows = rows._replace(scores=rows.scores - is_hard[:, None])
        rule = fit_adaptive_thresholds(rows, 0.9, 0.9, min_cell_size=2, rng=np.random.default_rng(seed))
        thresholds = domain_thresholds(rule, rows)
        hits, n_domains = hits_and_domains(rows, thresholds, min_cell_size=2)
        assert hits >= n_domains - 3  # k = 4 of 40, so three domains are passed over


def with_a_hard_label(n_domains, share, rng):
    """Draw domains of which some have a third label, which is very hard in three of ten of these."""
    rows = draw(n_domains, 90, 3, 0.3, rng)
    rows = rows.of((rows.labels != 2) | (rng.random(n_domains) < share)[rows.domains])
    is_hard = (rng.random(n_domains) < 0.3)[rows.domains] & (rows.labels == 2)
    return rows._replace(scores=rows.scores - 10 * is_hard[:, None])


@pytest.mark.slow
@pytest.mark.parametrize(("recall_on", "share"), [("rows given", 0.12), ("later rows", 0.2)])
def test_a_label_that_few_domains_have_is_at_target_where_it_occurs(recall_on, share):
    rng = np.random.default_rng(0)
    everywhere, adapted, fixed = [], [], []
    for _ in range(25):
        training, calibration, new = (with_a_hard_label(n, p, rng) for n, p in ((40, 0.5), (100, share), (20, 1.0)))
        options = {"training": training, "recall_on": recall_on, "on_infeasible": "pool"}
        rule = quietly(fit_adaptive_thresholds, calibration, 0.9, 0.9, min_cell_size=10, rng=rng, **options)
        if np.count_nonzero(np.bincount(calibration.domains[calibration.labels == 2], minlength=100) >= 10) < 9:
            continue  # in too few domains for the confidence
        n_rows = np.full(len(new.domains), 10**6) if recall_on == "rows given" else np.full(len(new.domains), 30)
        given = random_ranks(new.domains, rng) < n_rows
        counted = new if recall_on == "rows given" else new.of(~given)
        thresholds = domain_thresholds(rule, new.of(given))
        adapted.append(hits_and_domains(counted, thresholds, [2]))
        fixed.append(hits_and_domains(new, np.tile(rule.fixed, (20, 1)), [2]))
        alike = with_a_hard_label(20, share, rng)
        everywhere.append(hits_and_domains(alike, np.tile(rule.fixed, (20, 1))))
    for found in (everywhere, adapted, fixed):
        share, error = share_and_error(found)
        assert share >= 0.9 - 4 * error


@pytest.mark.slow
def test_without_shift_adapted_sets_are_not_larger_than_fixed_ones():
    found = repeated(Scene(shift=0.0), 30)
    assert found.size <= 1.01 * found.fixed_size


SCORES = (-np.inf, -2.5, 0.0, 0.5, 3.0, np.inf)


@st.composite
def unlabelled_rows(draw):
    """Draw few distinct scores, eighths as probabilities, and domains in any order, some without rows."""
    n = draw(st.integers(0, 40))
    scores = draw(hnp.arrays(np.float32, (n, 2), elements=st.sampled_from(SCORES)))
    eighths = draw(hnp.arrays(np.int64, (n, 2), elements=st.integers(0, 8)))
    domains = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 5)))
    return scores, eighths / 8, domains


def literal(scores, probabilities, domains, target, n_domains):
    """Return the largest score at and above which the target share of the probability lies, in exact fractions."""
    found = np.full((n_domains, scores.shape[1]), np.nan)
    for domain in range(n_domains):
        for label in range(scores.shape[1]):
            rows = [
                (float(s), Fraction(float(p)))
                for s, p in zip(scores[domains == domain, label], probabilities[domains == domain, label], strict=True)
            ]
            total = sum(p for _, p in rows)
            holding = [t for t, _ in rows if sum(p for s, p in rows if s >= t) >= exact(target) * total]
            if total > 0:
                found[domain, label] = max(holding)
    return found


@given(unlabelled_rows(), DECIMALS)
def test_a_self_calibrated_threshold_is_its_definition(rows, target):
    found = self_calibrated_thresholds(*rows, target, n_domains=6)
    assert np.array_equal(found, literal(*rows, target, 6), equal_nan=True)


@given(unlabelled_rows(), DECIMALS)
def test_certain_probabilities_give_the_thresholds_of_the_labels(rows, target):
    scores, _, domains = rows
    labels = np.arange(len(scores)) % 2
    found = self_calibrated_thresholds(scores, np.eye(2)[labels], domains, target, n_domains=6)
    expected = np.full((6, 2), np.inf)
    of_cells = cell_thresholds(scores, labels, domains, target)
    expected[: len(of_cells)] = of_cells
    has_rows = np.bincount(domains * 2 + labels, minlength=12).reshape(6, 2) > 0
    assert np.array_equal(found[has_rows], expected[has_rows])
    assert np.isnan(found[~has_rows]).all()


def test_the_order_of_rows_and_the_sizes_of_the_other_domains_do_not_matter():
    rng = np.random.default_rng(0)
    domains = np.repeat(np.arange(8), [1, 2, 3, 40, 41, 400, 5000, 0])
    scores = rng.normal(size=(len(domains), 3)).astype(np.float32)
    probabilities = rng.random((len(domains), 3)).astype(np.float32)
    alone = [
        self_calibrated_thresholds(
            scores[domains == each], probabilities[domains == each], 0 * domains[domains == each], 0.9, 1
        )[0]
        for each in range(8)
    ]
    shuffled = rng.permutation(len(domains))
    found = self_calibrated_thresholds(scores[shuffled], probabilities[shuffled], domains[shuffled], 0.9, 8)
    assert np.array_equal(found, alone, equal_nan=True)


def test_single_and_double_precision_agree():
    rng = np.random.default_rng(0)
    scores, probabilities = rng.normal(size=(2, 500, 2)).astype(np.float32)
    rows = scores, np.abs(probabilities), rng.integers(0, 4, 500)
    in_double = rows[0].astype(float), rows[1].astype(float), rows[2]
    assert np.array_equal(self_calibrated_thresholds(*rows, 0.9), self_calibrated_thresholds(*in_double, 0.9))


def test_a_constant_score_is_the_threshold_and_one_row_gives_its_score():
    found = self_calibrated_thresholds(np.full((5, 1), 2.0), np.full((5, 1), 0.2), np.array([0, 0, 0, 0, 1]), 0.9)
    assert found.tolist() == [[2.0], [2.0]]


def test_a_row_with_nan_does_not_count_for_that_label():
    scores = np.array([[5.0, 1.0], [1.0, np.nan], [0.0, 0.0]])
    probabilities = np.array([[0.5, 0.5], [0.5, 0.9], [np.nan, 0.5]])
    found = self_calibrated_thresholds(scores, probabilities, np.zeros(3, int), 0.5)
    assert found.tolist() == [[5.0, 1.0]]
    assert np.isnan(self_calibrated_thresholds(scores * np.nan, probabilities, np.zeros(3, int), 0.5)).all()


def test_without_rows_or_probability_nothing_is_known():
    nothing = np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0, int)
    assert self_calibrated_thresholds(*nothing, 0.9).shape == (0, 2)
    assert np.isnan(self_calibrated_thresholds(*nothing, 0.9, n_domains=3)).all()
    assert np.isnan(self_calibrated_thresholds(np.ones((2, 1)), np.zeros((2, 1)), np.zeros(2, int), 0.9)).all()


@pytest.mark.parametrize(
    ("scores", "probabilities", "domains", "message"),
    [
        (np.zeros(3), np.zeros(3), np.zeros(3, int), "scores must be numbers, examples × labels"),
        (np.zeros((3, 2)), np.zeros((3, 1)), np.zeros(3, int), r"shape of the scores, \(3, 2\), got"),
        (np.zeros((3, 2)), np.full((3, 2), -0.1), np.zeros(3, int), "probabilities must not be negative"),
        (np.zeros((3, 2)), np.ones((3, 2)), np.zeros(2, int), "one domain for each of 3"),
        (np.zeros((3, 2)), np.ones((3, 2)), np.array([0, 1, 10**9]), "codes count from 0"),
    ],
)
def test_bad_rows_are_rejected(scores, probabilities, domains, message):
    with pytest.raises(InputError, match=message):
        self_calibrated_thresholds(scores, probabilities, domains, 0.9)
