"""A promised classifier adapts to the unlabelled rows of a new domain, and to a few labels."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from domaincover import GaussianDomains, InputError, PromisedSetClassifier, SetCoverClassifier, assess, load, save
from domaincover.calibration.rules import confidence_text


def shifted(n_domains=40, n_per_domain=150, n_labels=3, seed=0, shift=1.0):
    """Labels apart along one feature, each domain shifted along it."""
    rng = np.random.default_rng(seed)
    domains = np.repeat(np.arange(n_domains), n_per_domain)
    labels = rng.integers(n_labels, size=len(domains))
    X = rng.normal(size=(len(domains), 3))
    X[:, 0] += 2 * labels + shift * rng.normal(size=n_domains)[domains]
    return X, labels, domains


X, Y, DOMAINS = shifted()
NEW, NEW_Y, NEW_DOMAINS = shifted(n_domains=60, seed=1)


@pytest.fixture(scope="module")
def model():
    return PromisedSetClassifier(LogisticRegression(), random_state=0).fit(X, Y, domains=DOMAINS)


def sizes_and_share(model, thresholds):
    report = model.domain_report(NEW, NEW_Y, NEW_DOMAINS, min_cell_size=20, thresholds=thresholds)
    summary = report.summary(0.9)
    return summary.set_size, summary.share_at_target


def test_where_domains_shift_adapted_sets_are_smaller_and_the_promise_holds(model):
    (fixed, share_fixed), (adapted, share_adapted) = (sizes_and_share(model, kind) for kind in ("fixed", "adapted"))
    assert adapted < 0.95 * fixed
    tolerance = 4 * np.sqrt(0.9 * 0.1 * (1 / 60 + 1 / 41))  # four standard errors: 60 new and 41 exchangeable domains
    assert min(share_fixed, share_adapted) >= 0.9 - tolerance


def test_the_mean_of_the_fold_models_predicts(model):
    assert len(model.predictors_) == 5
    by_fold = np.mean([np.log(each.predict_proba(NEW)) for each in model.predictors_], axis=0)
    assert np.array_equal(model.predict(NEW), model.classes_[by_fold.argmax(axis=1)])


def test_a_domain_is_adapted_by_its_own_rows_only(model):
    together = model.predict_set(NEW, domains=NEW_DOMAINS)
    one = NEW_DOMAINS == 7
    assert np.array_equal(model.predict_set(NEW[one], domains=NEW_DOMAINS[one]), together[one])
    order = np.random.default_rng(0).permutation(len(NEW))
    assert np.array_equal(model.predict_set(NEW[order], domains=NEW_DOMAINS[order]), together[order])


def test_without_domains_thresholds_are_fixed(model):
    assert np.array_equal(model.predict_set(NEW), model.label_scores(NEW) >= model.thresholds_)


def test_thresholds_of_domains_are_those_of_the_sets(model):
    thresholds = model.domain_thresholds(NEW, NEW_DOMAINS)
    assert thresholds.columns.tolist() == [0, 1, 2]
    sets = model.label_scores(NEW) >= thresholds.loc[NEW_DOMAINS].to_numpy()
    assert np.array_equal(model.predict_set(NEW, domains=NEW_DOMAINS), sets)


def test_a_report_is_adapted_where_the_model_can_and_fixed_on_request(model):
    adapted = model.domain_report(NEW, NEW_Y, NEW_DOMAINS)
    assert np.array_equal(adapted.set_size, model.domain_report(NEW, NEW_Y, NEW_DOMAINS, thresholds="adapted").set_size)
    fixed = model.domain_report(NEW, NEW_Y, NEW_DOMAINS, thresholds="fixed")
    assert not np.array_equal(adapted.set_size, fixed.set_size)


def test_an_adapted_model_predicts_row_by_row_and_can_be_saved(model, tmp_path):
    ward = model.adapt(NEW[NEW_DOMAINS == 3])
    sets = ward.predict_set(NEW)
    assert np.array_equal(ward.predict_set(NEW[:1]), sets[:1])
    assert "set by 150 rows of one domain" in ward.promise
    save(ward, tmp_path / "ward")
    again = load(tmp_path / "ward")
    assert np.array_equal(again.predict_set(NEW), sets)
    assert again.adapted_ == ward.adapted_
    with pytest.raises(InputError, match="adapted to one domain already"):
        ward.predict_set(NEW, domains=NEW_DOMAINS)
    assert model.can_adapt, "the model that it came from is as it was"


def test_a_saved_model_adapts_as_before(model, tmp_path):
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict_set(NEW, domains=NEW_DOMAINS), model.predict_set(NEW, domains=NEW_DOMAINS))
    assert again.familiarity(NEW, NEW_DOMAINS).equals(model.familiarity(NEW, NEW_DOMAINS))
    assert sum(file.stat().st_size for file in (tmp_path / "model").iterdir()) < 2_000_000


def test_strange_domains_have_small_p_values_and_ordinary_ones_do_not(model):
    ordinary = model.familiarity(NEW, NEW_DOMAINS)
    assert ordinary.between(0, 1).all()
    assert (ordinary <= 0.05).mean() <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 60)
    strange = model.familiarity(NEW[:150] + np.array([15.0, 0, 0]))
    assert strange.loc["all"] <= 0.05


@pytest.mark.parametrize("estimator", [LinearSVC(), SetCoverClassifier(epochs=4, hidden=8, random_state=0)])
def test_margins_become_probabilities_by_a_link(estimator):
    model = PromisedSetClassifier(estimator, random_state=0).fit(X, Y, domains=DOMAINS)
    assert model.links_[0]["unit"] > 0
    assert model.predict_set(NEW, domains=NEW_DOMAINS).any(axis=1).mean() > 0.9


def test_held_out_domains_calibrate_what_training_domains_scale(model):
    held_out = PromisedSetClassifier(LogisticRegression(), calibration="held-out-domains", random_state=0)
    held_out.fit(X, Y, domains=DOMAINS)
    assert len(held_out.predictors_) == 1
    assert "not proved" not in held_out.promise
    assert held_out.predict_set(NEW, domains=NEW_DOMAINS).shape == model.predict_set(NEW).shape


def test_jackknife_minmax_has_fixed_thresholds_and_says_so():
    model = PromisedSetClassifier(LogisticRegression(), calibration="jackknife-minmax", random_state=0)
    model.fit(X, Y, domains=DOMAINS)
    with pytest.warns(UserWarning, match="cannot adapt"):
        sets = model.predict_set(NEW, domains=NEW_DOMAINS)
    assert np.array_equal(sets, model.predict_set(NEW))
    with pytest.raises(InputError, match="cannot adapt"):
        model.adapt(NEW)


@pytest.mark.parametrize("n_rows", [1, 5, 29])
def test_a_handful_of_rows_moves_nothing(model, n_rows):
    assert np.allclose(model.adapt(NEW[:n_rows]).thresholds_, model.thresholds_, atol=1.0)
    few = NEW[:n_rows]
    assert np.array_equal(model.predict_set(few, domains=NEW_DOMAINS[:n_rows]), model.predict_set(few))


def test_no_rows_give_no_sets(model):
    assert model.predict_set(NEW[:0], domains=NEW_DOMAINS[:0]).shape == (0, 3)
    assert model.familiarity(NEW[:0], NEW_DOMAINS[:0]).empty


def test_a_rare_label_is_promised_by_itself():
    rare = np.where((DOMAINS < 5) & (np.arange(len(X)) % 150 < 60), 3, Y)
    with pytest.warns(UserWarning, match="3"):
        model = PromisedSetClassifier(LogisticRegression(), random_state=0).fit(X, rare, domains=DOMAINS)
    assert "since too few domains have them: 3 with probability 0.833" in model.promise
    assert np.isfinite(model.thresholds_).all()


def test_too_few_domains_for_any_label_is_an_error():
    few = DOMAINS < 5
    with pytest.raises(InputError, match="takes 9 calibration domains, and there are 5"):
        PromisedSetClassifier(LogisticRegression()).fit(X[few], Y[few], domains=DOMAINS[few])


def test_without_shift_adapted_sets_are_hardly_larger():
    data = [shifted(n_domains=30, seed=seed, shift=0.0) for seed in (0, 1)]
    model = PromisedSetClassifier(LogisticRegression(), random_state=0).fit(data[0][0], data[0][1], domains=data[0][2])
    X_new, _, domains = data[1]
    fixed, adapted = model.predict_set(X_new).mean(), model.predict_set(X_new, domains=domains).mean()
    assert adapted <= 1.01 * fixed


def test_domains_too_small_to_count_later_rows_in_keep_the_fixed_thresholds():
    # Half of their rows leave no cell of 20: nothing would be asked of the thresholds, and sets would be empty.
    domains, labels = np.repeat(np.arange(30), 60), np.arange(1800) % 2
    rows = labels[:, None] + np.random.default_rng(0).normal(size=(1800, 2))
    model = PromisedSetClassifier(LogisticRegression(), random_state=0).fit(rows, labels, domains=domains)
    assert np.array_equal(model.adapt(rows[:40]).thresholds_, model.thresholds_)


def test_an_estimator_that_knows_more_labels_than_calibrate_names_rare_ones():
    fitted = LogisticRegression().fit(NEW, np.where(np.arange(len(NEW)) % 10 == 0, -1, NEW_Y))
    used = (Y != 2) | (DOMAINS < 4)
    with pytest.warns(UserWarning, match="2"):
        model = PromisedSetClassifier(fitted, calibration="prefit").fit(X[used], Y[used], domains=DOMAINS[used])
    assert model.domains_by_label_.tolist() == [0, 40, 40, 4]
    assert "since too few domains have them: 2 with probability 0.8" in model.promise
    assert "in every set, since too few domains have them: -1" in model.promise
    assert "expected but not proved" in model.promise  # the level of every label comes from the same domains


@pytest.mark.parametrize("calibration", ["cross-fit", "held-out-domains", "jackknife-minmax"])
def test_the_promise_names_rare_labels_and_those_without_a_cell_that_counts(calibration):
    labels = np.where(DOMAINS % 8 == 0, Y, Y % 2)  # 2 in five domains
    labels[np.arange(len(X)) % 150 < 5] = 3
    model = PromisedSetClassifier(LogisticRegression(), calibration=calibration, random_state=0)
    with pytest.warns(UserWarning, match="pooled"):
        model.fit(X, labels, domains=DOMAINS)
    n_with_two = model.domains_by_label_[2]
    assert 0 < n_with_two < 9
    assert f"since too few domains have them: 2 with probability {confidence_text(n_with_two)}" in model.promise
    assert "not promised, since no domain has 20 examples of it: 3" in model.promise


def test_labels_that_every_fold_lacks_one_of_do_not_spoil_the_link():
    place = np.arange(len(X)) % 150
    labels = np.where(place < 30, 10 + DOMAINS, Y)  # each of 40 labels in one domain
    with pytest.warns(UserWarning, match="pooled"):
        model = PromisedSetClassifier(LinearSVC(), random_state=0).fit(X, labels, domains=DOMAINS)
    assert np.isfinite(model.links_[0]["unit"])
    assert np.isfinite(model.thresholds_[:3]).all()


def test_a_report_says_adapted_only_where_thresholds_are(model):
    one_domain = model.domain_report(NEW[:150], NEW_Y[:150], thresholds="adapted")
    expected = model.domain_report(NEW[:150], NEW_Y[:150], NEW_DOMAINS[:150], thresholds="adapted")
    assert one_domain.summary(0.9).set_size == expected.summary(0.9).set_size
    assert one_domain.summary(0.9).set_size != model.domain_report(NEW[:150], NEW_Y[:150]).summary(0.9).set_size
    with pytest.raises(InputError, match="thresholds must be one of 'adapted', 'fixed', None, got 'own'"):
        model.domain_report(NEW, NEW_Y, NEW_DOMAINS, thresholds="own")
    fixed = PromisedSetClassifier(LogisticRegression(), calibration="jackknife-minmax").fit(X, Y, domains=DOMAINS)
    with pytest.raises(InputError, match="cannot adapt"):
        fixed.domain_report(NEW, NEW_Y, NEW_DOMAINS, thresholds="adapted")
    ward = model.adapt(NEW[:150])
    report = ward.domain_report(NEW[:150], NEW_Y[:150], NEW_DOMAINS[:150], thresholds="adapted")
    assert report.thresholds == "adapted"
    few = np.concatenate([np.flatnonzero(name == NEW_DOMAINS)[:25] for name in np.unique(NEW_DOMAINS)])
    inputs = NEW[few], NEW_Y[few], NEW_DOMAINS[few] + 1000
    assert model.domain_report(*inputs, min_cell_size=1).thresholds == "fixed"  # too few rows to move any threshold
    assert model.certify(*inputs, min_cell_size=1).domains.next_truly_at_least is not None
    assert np.array_equal(model.predict_set(NEW[few], NEW_DOMAINS[few]), model.predict_set(NEW[few]))
    assert model.familiarity(NEW[few], NEW_DOMAINS[few]).isna().all()


def test_where_no_rows_move_thresholds_an_assessment_has_them_once():
    few = np.concatenate([np.flatnonzero(name == DOMAINS)[:28] for name in np.unique(DOMAINS)])
    model = PromisedSetClassifier(LogisticRegression(), min_cell_size=1, random_state=0)
    found = assess(model, X[few], Y[few], DOMAINS[few], random_state=0)
    assert found.unseen["model"].thresholds == "fixed"
    assert "model, fixed thresholds" not in found.unseen


def test_few_rows_leave_the_fixed_thresholds_and_no_p_value(model):
    ward = model.adapt(NEW[:25])
    assert np.array_equal(ward.thresholds_, model.thresholds_)
    assert (ward.adapted_["moved"], ward.adapted_["p_value"]) == (False, None)
    assert ward.promise == model.promise
    assert ward.threshold_kind == "fixed"


def test_one_model_whose_probability_is_zero_does_not_outvote_the_others():
    """A tree's leaf without a label says seldom, not never; its zeros must not break the promise."""
    tree = DecisionTreeClassifier(min_samples_leaf=20, random_state=0)
    gaussian = GaussianDomains.of_paper(n_features=10)
    old, new = (gaussian.sample(n, 100, np.random.default_rng(seed)) for n, seed in ((40, 0), (100, 1)))
    model = PromisedSetClassifier(tree, random_state=0).fit(old.examples, old.labels, domains=old.domains)
    assert (model.lowest_ > 0.001).all()
    tolerance = 4 * np.sqrt(0.9 * 0.1 * (1 / 100 + 1 / 41))
    for kind in ("fixed", "adapted"):
        report = model.domain_report(new.examples, new.labels, new.domains, min_cell_size=20, thresholds=kind)
        assert report.summary(0.9).share_at_target >= 0.9 - tolerance
    assert (model.familiarity(new.examples, new.domains) <= 0.05).mean() <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 41)


def test_the_most_likely_label_is_that_of_the_probabilities(model):
    probabilities = model.predict_proba(NEW)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert np.array_equal(model.predict(NEW), model.classes_[probabilities.argmax(axis=1)])
