"""Criteria: what a domain has to reach, in rules, reports, certificates and training, against literal counts."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from domaincover import (
    ConformalSetClassifier,
    ERMClassifier,
    GaussianDomains,
    InputError,
    PromisedSetClassifier,
    SetCoverClassifier,
    assess,
    certify,
    load,
)
from domaincover.calibration.adaptation import self_calibrated_thresholds
from domaincover.calibration.adaptation_fit import ScoredRows, fit_adaptive_thresholds
from domaincover.calibration.rules import (
    cell_thresholds,
    hierarchical_thresholds,
    joint_thresholds,
    order_thresholds,
    pooled_thresholds,
    robust_thresholds,
)
from domaincover.criteria import (
    check_target_recall,
    covers,
    criterion_for,
    free_thresholds,
    hits_needed,
    is_hardly_better_than_lot,
    set_sizes,
    sets_from_scores,
    single_label_sets,
    size_by_lot,
    targets_among,
)
from domaincover.data.dataset import count_cells
from domaincover.evaluation import domain_report
from domaincover.promises.certificates import lower_bound
from domaincover.report.domain_reports import summary_lines
from domaincover.report.domain_table import domain_table, summary_table
from domaincover.report.pages import write_domain_page
from domaincover.scoring import min_recall_scorer, share_at_target_scorer
from domaincover.training.objectives import SetCoverLoss


@given(
    st.integers(1, 10_000),
    st.one_of(st.floats(0.001, 0.999), st.integers(1, 999).map(lambda k: k / 1000)),
)
def test_hits_needed_is_the_smallest_count_whose_share_reaches_the_target(n, target):
    needed = int(hits_needed(n, target))
    assert needed / n >= target
    assert (needed - 1) / n < target


def test_no_hit_is_needed_where_there_is_no_example():
    assert hits_needed(np.array([0, 10]), 0.9).tolist() == [0, 9]


@pytest.mark.parametrize("target", [90, 1.0, 0.0, -0.1, float("nan")])
def test_target_recall_outside_zero_one_is_refused(target):
    with pytest.raises(InputError, match=f"between 0 and 1, got {target:g}"):
        check_target_recall(target)


def test_a_label_is_in_the_set_when_its_score_equals_the_threshold():
    sets = sets_from_scores(np.array([[1.0, 2.0], [0.9, 2.1]]), np.array([1.0, 2.1]))
    assert sets.tolist() == [[True, False], [False, True]]


def test_single_label_sets_hold_the_first_of_the_highest_scores():
    assert single_label_sets(np.array([[1.0, 3.0, 3.0], [4.0, 0.0, 0.0]])).tolist() == [
        [False, True, False],
        [True, False, False],
    ]


def test_sizes_and_coverage_are_read_off_the_sets():
    sets = np.array([[True, True, False], [False, False, False]])
    assert set_sizes(sets).tolist() == [2, 0]
    assert set_sizes(np.ones((2, 300), bool)).tolist() == [300, 300]
    assert set_sizes(sets[:, ::2]).tolist() == [1, 0]
    assert covers(sets, np.array([1, 1])).tolist() == [True, False]


def test_sets_by_lot_have_the_size_and_recall_of_their_probability():
    rng = np.random.default_rng(0)
    sets = rng.random((20_000, 4)) < 0.8
    labels = rng.integers(4, size=len(sets))
    error = 4 * np.sqrt(0.8 * 0.2 / len(sets))  # four standard errors of a share, twice that of a size of four labels
    assert abs(covers(sets, labels).mean() - 0.8) < error
    assert abs(set_sizes(sets).mean() - size_by_lot(4, 0.8)) < 2 * error
    assert is_hardly_better_than_lot(set_sizes(sets).mean(), size_by_lot(4, covers(sets, labels).mean()))


def test_sets_that_save_more_than_a_tenth_are_better_than_by_lot():
    np.testing.assert_array_equal(is_hardly_better_than_lot([1.61, 1.63], 1.8), [False, True])


NAMES = ("sick", "unsure", "well")
BY_LABEL = {"sick": 0.95, "well": 0.7}
COVERAGE = criterion_for(0.8, NAMES, "coverage")
CHOSEN = criterion_for(BY_LABEL, NAMES)


def scored_rows(n_domains=25, n_rows=80, seed=0):
    """Return scores of three labels, labels and domains, with ties."""
    rng = np.random.default_rng(seed)
    domains = np.repeat(np.arange(n_domains), n_rows)
    labels = rng.choice(3, size=len(domains), p=[0.3, 0.2, 0.5])
    scores = rng.normal(size=(len(domains), 3)) + 2 * np.eye(3)[labels] + rng.normal(size=n_domains)[domains, None]
    return scores.round(2), labels, domains


def recalls(scores, labels, domains, thresholds, label=None):
    """Return by domain the share of rows, of one label or of all, whose own score reaches its label's threshold."""
    hit = scores[np.arange(len(labels)), labels] >= np.asarray(thresholds)[labels]
    of = [(domains == domain) & ((labels == label) if label is not None else True) for domain in np.unique(domains)]
    return np.array([hit[rows].mean() for rows in of])


def raised(thresholds, label=None):
    """Return thresholds of one label, or of all, raised by less than the step between scores."""
    step = np.zeros(3)
    step[slice(None) if label is None else label] = 0.005
    return thresholds + step


def test_a_number_is_the_target_of_every_label():
    found = criterion_for(0.9, NAMES)
    assert found.targets.tolist() == [0.9] * 3
    assert found.group_of_label.tolist() == [0, 1, 2]


def test_a_label_left_out_of_a_mapping_is_in_no_group():
    assert CHOSEN.group_of_label.tolist() == [0, -1, 1]
    assert CHOSEN.group_targets.tolist() == [0.95, 0.7]
    assert CHOSEN.group_names(NAMES) == ["sick", "well"]


def test_a_mapping_may_name_labels_by_their_text():
    assert criterion_for({"1": 0.8}, (0, 1)).targets.tolist()[1] == 0.8


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("recall", 0.9, "criterion must be one of 'min-recall', 'coverage', got 'recall'"),
        ("coverage", {"sick": 0.9}, "counts all labels together and has one target"),
        ("min-recall", {}, "names no label"),
        ("min-recall", {"sick": 95}, "must lie between 0 and 1, got 95"),
        ("min-recall", {"ill": 0.9}, "names 'ill', which is none of the labels: 'sick', 'unsure', 'well'"),
        ("coverage", 0, "must lie between 0 and 1"),
    ],
)
def test_what_is_no_criterion_is_refused(name, target, message):
    with pytest.raises(InputError, match=message):
        criterion_for(target, NAMES, name)


RULES = (robust_thresholds, pooled_thresholds, hierarchical_thresholds)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_with_one_target_for_all_labels_is_the_rule_with_that_number(rule):
    rows = scored_rows()
    assert np.array_equal(rule(*rows, criterion_for(0.85, NAMES)), rule(*rows, 0.85))


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_with_targets_by_label_gives_each_label_what_its_own_target_gives(rule):
    rows = scored_rows()
    found = rule(*rows, CHOSEN)
    assert found[0] == rule(*rows, 0.95)[0]
    assert found[2] == rule(*rows, 0.7)[2]


def test_order_and_joint_thresholds_by_label_are_those_of_the_order_of_domains():
    rows = scored_rows()
    found = order_thresholds(*rows, CHOSEN, 0.9)
    assert found[0] == order_thresholds(*rows, 0.95, 0.9)[0]
    assert found[2] == order_thresholds(*rows, 0.7, 0.9)[2]
    lowest = np.minimum(cell_thresholds(*rows, 0.95)[:, 0], cell_thresholds(*rows, 0.7)[:, 2])
    joint = joint_thresholds(*rows, CHOSEN, 0.9)
    assert joint[0] == joint[2] == np.sort(lowest)[1]  # ⌊0.1 · 26⌋ = 2nd lowest of 25


@pytest.mark.parametrize("rule", RULES)
def test_an_unconstrained_label_is_in_as_many_sets_as_there_are_rows_of_it(rule):
    scores, labels, domains = scored_rows()
    scores = scores + np.random.default_rng(1).uniform(0, 1e-6, scores.shape)  # without ties
    threshold = rule(scores, labels, domains, CHOSEN)[1]
    assert np.count_nonzero(scores[:, 1] >= threshold) == np.count_nonzero(labels == 1)


def test_a_label_without_rows_is_in_every_set_if_it_is_unconstrained():
    assert np.isneginf(free_thresholds(np.zeros((4, 2)), np.zeros(4, int))[1])
    assert np.isneginf(free_thresholds(np.empty((0, 2)), np.empty(0, int))).all()


def test_robust_coverage_is_the_highest_common_threshold_with_every_domain_at_target():
    rows = scored_rows()
    found = robust_thresholds(*rows, COVERAGE)
    assert len(set(found)) == 1
    assert recalls(*rows, found).min() >= 0.8
    assert recalls(*rows, raised(found)).min() < 0.8


def test_pooled_coverage_is_the_highest_common_threshold_at_target_on_average():
    rows = scored_rows()
    found = pooled_thresholds(*rows, COVERAGE)
    assert recalls(*rows, found).mean() >= 0.8 > recalls(*rows, raised(found)).mean()


def test_hierarchical_coverage_counts_one_more_domain_that_is_missed():
    rows = scored_rows()
    found = hierarchical_thresholds(*rows, COVERAGE)
    assert recalls(*rows, found).sum() >= 0.8 * 26 - 1e-9 > recalls(*rows, raised(found)).sum()


@pytest.mark.parametrize("rule", [order_thresholds, joint_thresholds])
def test_order_and_joint_coverage_leave_out_as_many_domains_as_the_confidence_allows(rule):
    rows = scored_rows()
    found = rule(*rows, COVERAGE, 0.9)
    assert np.count_nonzero(recalls(*rows, found) < 0.8) <= 1
    assert np.count_nonzero(recalls(*rows, raised(found)) < 0.8) == 2


def test_a_rare_label_does_not_make_a_promise_of_coverage_infeasible():
    scores, labels, domains = scored_rows()
    labels = np.where((labels == 1) & (domains > 2), 2, labels)
    with pytest.raises(InputError, match="are in 3"):
        joint_thresholds(scores, labels, domains, 0.8, 0.9)
    assert np.isfinite(joint_thresholds(scores, labels, domains, COVERAGE, 0.9)).all()


def test_too_few_domains_are_reported_for_the_label_whose_target_takes_more():
    rows = scored_rows(n_domains=6)
    with pytest.raises(InputError, match=r"0.95 takes 19 .*'sick'"):
        hierarchical_thresholds(*rows, criterion_for({"sick": 0.95, "well": 0.5}, NAMES), label_names=NAMES)


def test_a_criterion_of_other_labels_is_refused():
    with pytest.raises(InputError, match="the criterion has 2 labels, but scores have 3"):
        robust_thresholds(*scored_rows(), criterion_for(0.9, ("a", "b")))


def softmax(scores):
    raised = np.exp(scores)
    return raised / raised.sum(axis=1, keepdims=True)


def test_self_calibrated_coverage_is_the_highest_threshold_with_enough_mass_above():
    scores, _, domains = scored_rows(n_domains=4)
    probabilities = softmax(scores)
    found = self_calibrated_thresholds(scores, probabilities, domains, COVERAGE)
    for domain in range(4):
        own, mass = scores[domains == domain], probabilities[domains == domain]
        reached = [mass[own >= t].sum() / mass.sum() for t in (found[domain, 0], found[domain, 0] + 0.005)]
        assert reached[0] >= 0.8 - 1e-9 > reached[1]


def test_self_calibrated_thresholds_by_label_are_those_of_each_target():
    scores, _, domains = scored_rows(n_domains=4)
    given = scores, softmax(scores), domains
    found = self_calibrated_thresholds(*given, CHOSEN)
    assert np.array_equal(found[:, 0], self_calibrated_thresholds(*given, 0.95)[:, 0])
    assert np.array_equal(found[:, 1], self_calibrated_thresholds(*given, 0.7)[:, 2])


@pytest.mark.parametrize("criterion", [COVERAGE, CHOSEN])
def test_fixed_thresholds_of_an_adaptation_leave_out_as_many_domains_as_the_confidence_allows(criterion):
    scores, labels, domains = scored_rows()
    rows = ScoredRows(scores, softmax(scores), labels, domains)
    fixed = fit_adaptive_thresholds(rows, criterion, 0.9).fixed
    by_label = criterion.by_label(fixed, -np.inf)
    missed = np.zeros(25, dtype=bool)
    for label, target in [(None, 0.8)] if criterion.is_coverage else [(0, 0.95), (2, 0.7)]:
        missed |= recalls(scores, labels, domains, by_label, label) < target
    assert np.count_nonzero(missed) == 1  # the second lowest of 25 is kept


def some_sets(seed=0):
    rng = np.random.default_rng(seed)
    scores, labels, domains = scored_rows(n_domains=8, n_rows=120, seed=seed)
    return scores >= rng.normal(0.3, 0.3, size=(8, 1))[domains], labels, domains


def reported(criterion, min_cell_size=20):
    return domain_report(*some_sets(), NAMES, tuple("abcdefgh"), min_cell_size, criterion)


def test_a_report_under_coverage_compares_the_share_of_covered_rows():
    sets, labels, domains = some_sets()
    hit = sets[np.arange(len(labels)), labels]
    literal = np.array([hit[domains == domain].mean() for domain in range(8)])
    report = reported(COVERAGE)
    assert np.array_equal(report.min_recall, literal)
    assert report.summary(0.8).share_at_target == (literal >= 0.8).mean()


def test_coverage_counts_rows_of_cells_that_are_too_small_to_count():
    report = reported(COVERAGE, min_cell_size=110)
    assert np.isnan(report.recall).all()
    assert np.array_equal(report.min_recall, reported(COVERAGE).min_recall)


def test_a_report_by_label_compares_each_label_with_its_own_target():
    report = reported(CHOSEN)
    literal = (report.recall[:, 0] >= 0.95) & (report.recall[:, 2] >= 0.7)
    assert np.array_equal(report.at_target(BY_LABEL), literal)
    assert np.array_equal(report.min_recall, report.recall[:, [0, 2]].min(axis=1))
    assert report.summary(BY_LABEL).target_recall == BY_LABEL


def test_a_report_takes_another_target_than_its_model_had():
    report = reported(CHOSEN)
    assert np.array_equal(report.at_target(0.8), (report.recall >= 0.8).all(axis=1))


def test_a_report_without_a_target_says_so():
    with pytest.raises(InputError, match="has no target yet"):
        _ = reported(None).judged_by


def test_chance_alone_is_computed_from_what_is_constrained():
    from scipy.stats import binom

    report = reported(COVERAGE)
    literal = binom.sf(np.ceil(0.8 * report.n) - 1, report.n, report.coverage.mean()).mean()
    assert report.share_by_noise(0.8) == pytest.approx(literal)


def test_a_certificate_of_coverage_counts_covered_rows_and_says_so():
    report = reported(COVERAGE)
    found = certify(report, 0.8)
    assert found.domains.n_at_target == np.count_nonzero(report.coverage >= 0.8)
    shown = lower_bound(np.rint(report.coverage * report.n), report.n, 0.95) >= 0.8
    assert found.domains.n_shown == np.count_nonzero(shown)
    assert found.labels == {}
    assert "the labels of all examples together caught at least 80 % of the time" in " ".join(str(found).split())
    assert found.to_dict()["criterion"] == "coverage"


def test_a_certificate_by_label_has_a_statement_for_each_constrained_label():
    report = reported(None)
    found = certify(report, BY_LABEL)
    assert set(found.labels) == {"sick", "well"}
    assert found.labels["sick"].n_at_target == np.count_nonzero(report.recall[:, 0] >= 0.95)
    assert found.domains.n_at_target == np.count_nonzero(report.at_target(BY_LABEL))
    assert "sick at least 95 %, well at least 70 % of the time" in " ".join(str(found).split())


@pytest.mark.parametrize(
    ("criterion", "target", "words"),
    [
        (COVERAGE, 0.8, "the coverage is at least 80 %"),
        (CHOSEN, BY_LABEL, "the recall is at least 95 % (sick) and 70 %"),
    ],
)
def test_tables_sentences_and_pages_name_the_criterion(criterion, target, words, tmp_path):
    reports = {"model": reported(criterion), "other": reported(criterion)}
    assert words in summary_table(reports, target)
    assert words in summary_lines(reports, target)[0]
    n_below = np.count_nonzero(~reports["model"].at_target(target))
    assert domain_table({"model": reports["model"]}, target).count("▼ 0.") == n_below
    certificate = certify(reports["model"], target)
    write_domain_page(tmp_path / "page.html", reports, target, title="Sets", certificate=certificate)
    assert "Coverage is the share" in (tmp_path / "page.html").read_text("utf-8") or not criterion.is_coverage


def test_a_table_of_one_domain_under_coverage_names_the_coverage():
    report = reported(COVERAGE).subset([0])
    lines = summary_lines({"model": report, "other": report}, 0.8)
    assert "the coverage of other is" in lines[0]
    assert lines[1].startswith("The lowest coverage is")


def batch(seed=0):
    rng = np.random.default_rng(seed)
    scores = torch.from_numpy(rng.normal(size=(60, 3))).float()
    return scores, torch.from_numpy(rng.integers(3, size=60)), torch.from_numpy(rng.integers(4, size=60))


def test_coverage_has_one_multiplier_per_domain_which_follows_its_covered_share():
    scores, labels, domains = batch()
    loss = SetCoverLoss(4, 3, 0.8, criterion="coverage")
    loss(scores, labels, domains)
    recall = loss.update()
    hit = (scores[torch.arange(60), labels] >= 0).double()
    literal = torch.stack([hit[domains == domain].mean() for domain in range(4)])
    assert torch.equal(recall[:, 0], literal)
    factor = 1 - (literal - 0.8)
    expected = 5 * torch.where(factor > 1, 2 * factor, factor)
    assert torch.allclose(loss.multipliers[:, 0].double(), expected)


def test_the_loss_of_coverage_weighs_every_label_of_a_domain_by_its_multiplier():
    scores, labels, domains = batch()
    loss = SetCoverLoss(4, 3, 0.8, criterion="coverage")
    loss.multipliers.copy_(torch.arange(1.0, 5.0)[:, None])
    own = torch.nn.functional.one_hot(labels, 3).bool()
    literal = (1 + scores).relu()[~own].sum() + ((1 + domains) * (1 - scores[own]).relu()).sum()
    assert loss(scores, labels, domains).item() == pytest.approx(literal.item() / 60, rel=1e-5)


def test_multipliers_of_labels_without_a_target_stay_as_they_are():
    scores, labels, domains = batch()
    loss = SetCoverLoss(4, 3, [[0.95, np.nan, 0.7]], initial_multiplier=[[2.0, 1.0, 2.0]])
    loss(scores[None], labels[None], domains[None])
    recall = loss.update()
    assert (loss.multipliers[0, :, 1] == 1).all()
    alone = SetCoverLoss(4, 3, [0.95], initial_multiplier=2.0)
    alone(scores[None], labels[None], domains[None])
    assert torch.equal(alone.update(), recall)
    assert torch.equal(alone.multipliers[0, :, 0], loss.multipliers[0, :, 0])


def test_targets_by_label_of_another_number_of_labels_are_refused():
    with pytest.raises(InputError, match="targets by label must be 3"):
        SetCoverLoss(4, 3, [[0.9, 0.8]])


DATA = GaussianDomains.of_paper(n_features=10).sample(12, 120, np.random.default_rng(0))
ROWS = (DATA.examples, np.where(DATA.labels == 0, "sick", "well"))
TWO = {"sick": 0.95, "well": 0.6}


def network(**settings):
    return SetCoverClassifier(epochs=6, hidden=8, random_state=0, **settings).fit(*ROWS, domains=DATA.domains)


def test_set_cover_with_equal_targets_by_label_is_set_cover_with_that_target():
    by_label, usual = network(target_recall={"sick": 0.8, "well": 0.8}), network(target_recall=0.8)
    assert np.array_equal(by_label.label_scores(ROWS[0]), usual.label_scores(ROWS[0]))
    assert np.array_equal(by_label.thresholds_, usual.thresholds_)


def test_set_cover_raises_the_label_with_the_higher_target():
    model = network(target_recall=TWO)
    recall = model.domain_report(*ROWS, DATA.domains).recall.mean(axis=0)
    assert recall[0] > recall[1]


def test_set_cover_leaves_the_multipliers_of_an_unconstrained_label_at_1():
    model = network(target_recall={"sick": 0.9})
    assert (model.multipliers_["well"].dropna() == 1).all()
    assert model.thresholds_[1] == 0
    assert (model.multipliers_["sick"].dropna() != 1).any()


def test_set_cover_of_coverage_has_one_multiplier_per_domain_and_one_threshold(tmp_path):
    model = network(target_recall=0.8, criterion="coverage")
    assert model.multipliers_.shape == (12, 1)
    assert len(set(model.thresholds_)) == 1
    held_out = np.isin(DATA.domains, model.held_out_domains_)
    sets = model.predict_set(ROWS[0])[held_out]
    hit = sets[np.arange(len(sets)), (ROWS[1][held_out] == "well").astype(int)]
    assert min(hit[DATA.domains[held_out] == domain].mean() for domain in model.held_out_domains_) >= 0.8
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").own_criterion.is_coverage


def test_networks_with_other_targets_by_label_train_in_one_stack():
    from domaincover.estimators.stacked_fit import fit_together

    models = [SetCoverClassifier(target, epochs=3, hidden=8, random_state=0) for target in ({"sick": 0.9}, 0.9, TWO)]
    list(fit_together(models, [(*ROWS, DATA.domains)] * 3))
    alone = SetCoverClassifier(TWO, epochs=3, hidden=8, random_state=0).fit(*ROWS, domains=DATA.domains)
    assert np.allclose(models[2].label_scores(ROWS[0]), alone.label_scores(ROWS[0]), atol=1e-4)


@pytest.mark.parametrize("rule", ["robust", "pooled", "hierarchical", "order"])
@pytest.mark.parametrize(("criterion", "target"), [("coverage", 0.8), ("min-recall", {"sick": 0.7, "well": 0.5})])
def test_conformal_sets_follow_the_criterion_on_the_calibration_domains(rule, criterion, target):
    confidence = {"domain_confidence": 0.5} if rule == "order" else {}
    model = ConformalSetClassifier(
        LogisticRegression(),
        rule,
        target_recall=target,
        criterion=criterion,
        random_state=0,
        calibration_domains=0.7,
        **confidence,
    ).fit(*ROWS, domains=DATA.domains)
    known = np.isin(DATA.domains, model.calibration_domains_)
    codes = (ROWS[1][known] == "well").astype(int)
    rows = model.label_scores(ROWS[0][known]), codes, DATA.domains[known]
    options = {"domain_confidence": 0.5} if rule == "order" else {}
    names = {"robust": robust_thresholds, "pooled": pooled_thresholds, "hierarchical": hierarchical_thresholds}
    literal = names.get(rule, order_thresholds)(*rows, criterion_for(target, ("sick", "well"), criterion), **options)
    assert np.array_equal(model.thresholds_, literal)
    promise = model.promise_ or ""
    if rule in ("hierarchical", "order"):
        assert ("the share of rows whose set holds their label" in promise) == (criterion == "coverage")


PROMISES = [("coverage", 0.8), ("min-recall", {"sick": 0.9, "well": 0.6}), ("min-recall", {"sick": 0.9})]


@pytest.mark.parametrize("calibration", ["cross-fit", "held-out-domains", "jackknife-minmax"])
@pytest.mark.parametrize(("criterion", "target"), PROMISES)
def test_promised_sets_keep_the_criterion_in_as_many_new_domains_as_promised(criterion, target, calibration):
    settings = {"target_recall": target, "criterion": criterion, "calibration": calibration}
    shares = []
    for seed in range(4):
        data = GaussianDomains.of_paper(n_features=10).sample(50, 120, np.random.default_rng(seed))
        y, is_new = np.where(data.labels == 0, "sick", "well"), data.domains >= 20
        model = PromisedSetClassifier(LogisticRegression(), domain_confidence=0.7, random_state=seed, **settings)
        model.fit(data.examples[~is_new], y[~is_new], domains=data.domains[~is_new])
        report = model.domain_report(data.examples[is_new], y[is_new], data.domains[is_new])
        shares.append(report.at_target(target).mean())
    assert np.mean(shares) >= 0.6  # 0.7, and the noise of four draws of 20 calibration domains


@pytest.mark.parametrize(("criterion", "target"), PROMISES)
def test_a_saved_promise_keeps_its_criterion(criterion, target, tmp_path):
    model = promised(criterion, target)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.promise_ == model.promise_
    assert np.array_equal(again.predict_set(ROWS[0], DATA.domains), model.predict_set(ROWS[0], DATA.domains))


def promised(criterion, target):
    return PromisedSetClassifier(
        LogisticRegression(), target_recall=target, criterion=criterion, domain_confidence=0.7, random_state=0
    ).fit(*ROWS, domains=DATA.domains)


def test_the_fixed_thresholds_of_promised_coverage_are_one_number_and_so_are_adapted_ones():
    model = promised("coverage", 0.8)
    assert len(set(model.thresholds_)) == 1
    by_domain = model.domain_thresholds(ROWS[0], DATA.domains)
    assert (by_domain["sick"] == by_domain["well"]).all()
    assert len(set(model.adapt(ROWS[0][:80]).thresholds_)) == 1


def test_adapted_thresholds_move_the_constrained_label_and_leave_the_other():
    model = promised("min-recall", {"sick": 0.9})
    adapted = model.adapt(ROWS[0][:80])
    assert adapted.thresholds_[1] == model.thresholds_[1]
    assert "not constrained: 'well'" in model.promise_


def test_a_promise_by_label_names_each_target():
    assert (
        "has recall its target or more (sick 0.9, well 0.6)"
        in promised("min-recall", {"sick": 0.9, "well": 0.6}).promise_
    )


def test_promised_equal_targets_by_label_are_the_promise_of_that_target():
    by_label, usual = promised("min-recall", {"sick": 0.8, "well": 0.8}), promised("min-recall", 0.8)
    assert np.array_equal(by_label.thresholds_, usual.thresholds_)
    assert np.array_equal(by_label.predict_set(ROWS[0], DATA.domains), usual.predict_set(ROWS[0], DATA.domains))


def test_a_prefit_estimator_is_calibrated_by_targets_of_labels_that_it_knows():
    known = DATA.domains < 3
    fitted = LogisticRegression().fit(ROWS[0][known], ROWS[1][known])
    model = PromisedSetClassifier(fitted, target_recall={"sick": 0.9}, domain_confidence=0.7, calibration="prefit")
    model.fit(ROWS[0][~known], ROWS[1][~known], domains=DATA.domains[~known])
    assert np.isfinite(model.thresholds_).all()


def test_a_fold_without_a_label_that_has_a_target_is_fitted_without_it():
    rare = np.where((DATA.domains == 3) & (np.arange(len(ROWS[1])) % 2 == 0), "rare", ROWS[1])
    inner = SetCoverClassifier({"rare": 0.9, "sick": 0.9}, epochs=2, hidden=4, random_state=0)
    model = PromisedSetClassifier(inner, target_recall={"sick": 0.9}, domain_confidence=0.7, random_state=0)
    model.fit(ROWS[0], rare, domains=DATA.domains)
    assert sorted(len(each.classes_) for each in model.estimators_) == [2, 3, 3, 3, 3]


def test_a_target_of_an_unknown_label_in_the_estimator_is_refused():
    model = PromisedSetClassifier(SetCoverClassifier({"ill": 0.9}, epochs=2), domain_confidence=0.7)
    with pytest.raises(InputError, match="names 'ill'"):
        model.fit(*ROWS, domains=DATA.domains)


def test_targets_among_labels_of_which_none_has_one_are_the_highest():
    assert targets_among({"sick": 0.9, "well": 0.8}, ["unsure"]) == 0.9
    assert targets_among({"sick": 0.9, "well": 0.8}, ["well"]) == {"well": 0.8}


def test_a_target_of_an_unknown_label_is_refused_before_training():
    model = ConformalSetClassifier(LogisticRegression(), target_recall={"ill": 0.9})
    with pytest.raises(InputError, match="names 'ill'"):
        model.fit(*ROWS, domains=DATA.domains)


@pytest.mark.parametrize(("criterion", "target"), [("coverage", 0.8), ("min-recall", TWO)])
def test_scorers_and_certificates_of_a_model_use_its_criterion(criterion, target):
    model = ERMClassifier(target_recall=target, criterion=criterion, epochs=4, hidden=8, random_state=0)
    model.fit(*ROWS, domains=DATA.domains)
    new = GaussianDomains.of_paper(n_features=10).sample(6, 120, np.random.default_rng(9))
    rows = new.examples, np.where(new.labels == 0, "sick", "well"), new.domains + 100
    report = model.domain_report(*rows)
    assert share_at_target_scorer(model, *rows) == report.at_target(target).mean()
    assert min_recall_scorer(model, *rows) == np.median(report.min_recall)
    assert model.certify(*rows).criterion == criterion


@pytest.mark.parametrize(("criterion", "target"), [("coverage", 0.8), ("min-recall", TWO)])
def test_an_assessment_compares_model_and_baseline_by_the_same_criterion(criterion, target):
    model = ConformalSetClassifier(LogisticRegression(), target_recall=target, criterion=criterion, random_state=0)
    found = assess(model, *ROWS, DATA.domains, random_state=0)
    assert {report.criterion.name for report in found.unseen.values()} == {criterion}
    content = json.loads(json.dumps(found.to_dict()))
    assert content["criterion"] == criterion
    assert content["target_recall"] == target
    assert str(found)
    assert found.plot().to_dict()


def test_an_assessment_without_a_label_in_its_training_domains_still_judges_by_its_target():
    split = assess(ERMClassifier(epochs=2, hidden=4), *ROWS, DATA.domains, random_state=0)
    unseen = split.unseen["model"].domain_names[0]
    y = np.where((DATA.domains == unseen) & (np.arange(len(ROWS[1])) % 2 == 0), "rare", ROWS[1])
    model = ConformalSetClassifier(LogisticRegression(), target_recall={"rare": 0.9, "sick": 0.9}, random_state=0)
    found = assess(model, ROWS[0], y, DATA.domains, random_state=0)
    assert not found.unseen["model"].at_target(model.target_recall)[0]


def test_counts_of_groups_are_those_of_constrained_cells():
    _, labels, domains = scored_rows(n_domains=3)
    counts = count_cells(domains, labels, 3, 3)
    assert np.array_equal(CHOSEN.group_counts(counts), counts[:, [0, 2]])
    assert COVERAGE.group_counts(counts).ravel().tolist() == [80, 80, 80]
