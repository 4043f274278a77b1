"""Rivals hold what they promise themselves, or agree with a reference; `benchmarks.rivals` compares them with ours."""

import numpy as np
import pytest

from benchmarks import rival_rules as rules
from benchmarks.rival_rules import Rows
from benchmarks.rivals import dunn_simulation, in_seen_domains, judged, mdcp_simulation

pytestmark = pytest.mark.no_cover


def drawn(rng, n_domains=20, n_rows=200, shift=0.0, shares=(0.5, 0.3, 0.2), hidden=0.0):
    """Return rows of a classifier that knows the truth; domains differ by `hidden` in what it does not see."""
    labels = rng.choice(3, size=n_domains * n_rows, p=shares)
    domains = np.repeat(np.arange(n_domains), n_rows)
    x = 1.5 * np.eye(3)[labels] + rng.normal(size=(len(labels), 3)) + shift
    x[:, :1] += hidden * rng.normal(size=(n_domains, 1))[domains]
    odds = np.exp(1.5 * x) * np.array([0.5, 0.3, 0.2])
    probabilities = odds / odds.sum(axis=1, keepdims=True)
    return Rows(np.log(probabilities), labels, domains, x, probabilities)


def recalls(margins, rows):
    held = rules.own_of(margins, rows.labels) >= 0
    return np.array([held[rows.labels == label].mean() for label in range(3)])


@pytest.mark.parametrize(
    "rule", [rules.by_row, rules.pooled_cdfs, rules.hierarchical, rules.covariate_shift, rules.by_likely_domain]
)
def test_each_label_is_recalled_where_rows_are_exchangeable(rule):
    rng = np.random.default_rng(0)
    calibration, new = drawn(rng), drawn(rng)
    margins = rule(calibration, new)
    assert (recalls(margins, new) > 0.88).all()
    assert (margins >= 0).mean() < 0.9


def test_weights_repair_a_shift_of_the_features():
    rng = np.random.default_rng(1)
    rows = drawn(rng, n_rows=800)
    steep = 1 / (1 + np.exp(-2 * rows.features[:, 0]))  # how likely a row is to be met in the new domain
    is_new = rng.random(len(steep)) < 0.5
    kept = rng.random(len(steep)) < np.where(is_new, 1 - steep, steep)
    calibration, new = (
        rows.of(kept & ~is_new),
        rows.of(kept & is_new)._replace(domains=np.zeros((kept & is_new).sum(), int)),
    )
    plain, weighted = (recalls(rule(calibration, new), new) for rule in (rules.by_row, rules.covariate_shift))
    assert plain.min() < 0.85
    assert weighted.min() > 0.88


def test_weights_repair_a_shift_of_the_labels():
    rng = np.random.default_rng(2)
    calibration, new = drawn(rng), drawn(rng, n_domains=1, n_rows=4000, shares=(0.1, 0.3, 0.6))
    np.testing.assert_allclose(rules.em_weights(calibration.labels, new.probabilities), [0.2, 1, 3], rtol=0.15)
    held = rules.own_of(rules.label_shift(calibration, new), new.labels) >= 0
    assert held.mean() == pytest.approx(0.9, abs=0.015)


def test_a_quarter_of_the_weight_is_left_to_a_heavy_new_row():
    scores, weights = np.array([3.0, 2.0, 1.0]), np.ones(3)
    # 0.9 · (3 + 0.1) = 2.79 takes all three, 0.9 · (3 + 1) = 3.6 is more than there is
    assert rules.weighted_thresholds(scores, weights, np.array([0.1, 1.0])).tolist() == [1.0, rules.LOWEST]


def test_the_worst_source_is_the_largest_p_value():
    rng = np.random.default_rng(3)
    calibration, new = drawn(rng, n_domains=4, hidden=0.5), drawn(rng, n_domains=1)
    p_values = np.zeros_like(new.scores)
    for domain, label in np.ndindex(4, 3):
        own = calibration.scores[(calibration.domains == domain) & (calibration.labels == label), label]
        p = (1 + (own <= new.scores[:, [label]]).sum(axis=1)) / (len(own) + 1)
        p_values[:, label] = np.maximum(p_values[:, label], p)
    np.testing.assert_array_equal(rules.worst_source(calibration, new) >= 0, p_values > 0.1)


@pytest.mark.parametrize("rule", [rules.order_statistic, rules.resized])
def test_nine_in_ten_new_domains_hold_a_label(rule):
    held = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        calibration, new = drawn(rng, hidden=0.5), drawn(rng, hidden=0.5)
        found = rules.own_of(rule(calibration, new), new.labels) >= 0
        held += [found[part & (new.labels == 0)].mean() >= 0.9 for part in new.parts()]
    assert np.mean(held) > 0.84


def test_sets_grow_with_entropy_and_never_shrink():
    rng = np.random.default_rng(4)
    calibration, new = drawn(rng), drawn(rng)
    flat = np.full((len(new.labels), 3), 1 / 3)
    plain = rules.log_probabilities(new.probabilities) - rules.conformal_threshold(
        rules.own_of(rules.log_probabilities(calibration.probabilities), calibration.labels)
    )
    margins = rules.entropy_scaled(calibration, new)
    assert (margins >= plain).all()
    grown = rules.entropy_scaled(calibration, new._replace(probabilities=flat)) - rules.log_probabilities(flat)
    assert grown.max() - (plain - rules.log_probabilities(new.probabilities)).max() == pytest.approx(
        2 * np.log(np.log(3))
    )


@pytest.mark.parametrize(("rule", "least"), [(rules.few_shot, 0.88), (rules.meta_pac, 0.9), (rules.audited, 0.88)])
def test_rules_with_labels_cover_rows_of_new_domains(rule, least):
    rng = np.random.default_rng(5)
    calibration, new = drawn(rng, hidden=0.7), drawn(rng, n_domains=40, hidden=0.7)
    taught = rule(calibration, 60, rng)
    covered = []
    for part in new.parts():
        domain = new.of(part)
        known = np.arange(200) < 100
        few = domain.of(known)._replace(labels=np.where(np.arange(100) < 60, domain.labels[known], -1))
        later = domain.of(~known)
        covered.append((rules.own_of(taught(few, later), later.labels) >= 0).mean())
    assert np.mean(covered) > least
    assert np.mean(covered) < 1


def test_binomial_bounds_allow_what_they_say(monkeypatch):
    monkeypatch.setattr(rules, "PAC_CONFIDENCE", 0.9)
    assert [rules.binomial_misses(n, 0.1) for n in (21, 22, 37, 38)] == [-1, 0, 0, 1]  # 0.9 ** 22 < 0.1


def test_conditional_sets_of_seen_domains_are_those_of_mapie():
    pytest.importorskip("cvxpy")
    conditional = pytest.importorskip("mapie.conditional_conformal_prediction")
    rng = np.random.default_rng(6)
    calibration, new = drawn(rng, n_domains=3, n_rows=99, hidden=1.0), drawn(rng, n_domains=3, n_rows=4, hidden=1.0)
    one_label = [rows._replace(labels=np.zeros_like(rows.labels)) for rows in (calibration, new)]
    ours = rules.by_seen_domain(*one_label)[:, 0] >= 0
    theirs = conditional._ConditionalConformalMixin()
    theirs._init_conditional(lambda x: np.eye(3)[x[:, 0].astype(int)], False, True, None, 0)
    theirs._conformalize_conditional(calibration.domains[:, None], -calibration.scores[:, 0])
    cutoffs = [theirs._predict_conditional_cutoff(0.9, np.array([[domain]])) for domain in new.domains]
    np.testing.assert_array_equal(-new.scores[:, 0] <= np.array(cutoffs) + 1e-9, ours)


def test_seen_domains_are_judged_on_other_rows():
    found = {row["method"]: row for row in in_seen_domains(drawn(np.random.default_rng(7), hidden=1.0), 0)}
    assert found["**joint**"]["share"] > found["split conformal, by label"]["share"]


def test_equal_share_is_where_nine_in_ten_domains_are_at_target():
    rows = drawn(np.random.default_rng(8), n_domains=10, hidden=1.0)
    figures = judged(rules.by_row(rows, rows), rows)
    assert figures["share"] < 0.9
    assert figures["at_share"] > figures["size"]


def test_weights_of_sources_make_smaller_sets_that_hold_every_source():
    found = mdcp_simulation(4)
    assert found.loc["split conformal, all rows", "worst"] < 0.88
    assert (found.loc[["max-p, one scorer", "MDCP, weighted scorers"], "worst"] > 0.89).all()
    assert found.loc["MDCP, weighted scorers", "size"] < found.loc["max-p, one scorer", "size"]


def test_pooled_cdfs_are_as_wide_as_published():
    found = dunn_simulation(200).loc["CDF pooling (Dunn)"]
    assert found["covered"] == pytest.approx(0.896, abs=0.015)  # 1,000 repeats of theirs, on one row each
    assert found["size"] == pytest.approx(4.671, abs=0.2)
