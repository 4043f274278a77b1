import numpy as np
import pytest
import sklearn
from crepes import WrapClassifier
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from domaincover import ConformalSetClassifier, ERMClassifier, InputError, SetCoverClassifier
from domaincover.criteria import hits_needed
from domaincover.thresholds import pooled_thresholds, robust_thresholds
from tests.recall import recall_by_cell

ROUNDED = {"rtol": 2.0**-40, "atol": 0}  # of scores in double precision

RULES = {"robust": robust_thresholds, "pooled": pooled_thresholds}
NAMES = np.array(["cat", "dog", "owl"])
both_rules = pytest.mark.parametrize("rule", RULES)


def made_up(n_domains=8, n_per_domain=60, n_labels=3, seed=0):
    """Labels apart along one feature, domains shifted along another."""
    rng = np.random.default_rng(seed)
    domains = np.repeat(np.arange(n_domains), n_per_domain)
    labels = rng.integers(n_labels, size=len(domains))
    X = rng.normal(size=(len(domains), 3))
    X[:, 0] += labels + rng.normal(size=n_domains)[domains] / 2
    X[:, 1] += domains
    return X, labels, domains


X, Y, DOMAINS = made_up()


def conformal(estimator=None, rule="robust", **settings):
    estimator = LogisticRegression() if estimator is None else estimator
    return ConformalSetClassifier(estimator, rule, **{"random_state": 0, "min_cell_size": 1} | settings)


@both_rules
def test_thresholds_from_training_data_are_those_of_its_scores(rule):
    model = conformal(rule=rule, calibration="training-data").fit(X, NAMES[Y], domains=DOMAINS)
    scores = LogisticRegression().fit(X, Y).predict_proba(X)
    expected = RULES[rule](scores, Y, DOMAINS, 0.9)
    assert np.allclose(model.thresholds_, expected, **ROUNDED)
    assert np.array_equal(model.predict_set(X), scores >= expected)


@both_rules
def test_thresholds_from_domains_held_out_are_those_of_their_scores(rule):
    model = conformal(rule=rule).fit(X, NAMES[Y], domains=DOMAINS)
    calibrates = np.isin(DOMAINS, model.calibration_domains_)
    scores = LogisticRegression().fit(X[~calibrates], Y[~calibrates]).predict_proba(X)
    expected = RULES[rule](scores[calibrates], Y[calibrates], DOMAINS[calibrates], 0.9)
    assert np.allclose(model.thresholds_, expected, **ROUNDED)
    assert np.array_equal(model.predict_set(X), scores >= expected)


def test_robust_sets_are_at_target_in_every_calibration_cell():
    model = conformal(target_recall=0.8).fit(X, Y, domains=DOMAINS)
    rows = np.isin(DOMAINS, model.calibration_domains_)
    assert (model.domain_report(X[rows], Y[rows], DOMAINS[rows]).min_recall >= 0.8).all()


@pytest.mark.parametrize(("share", "n_expected"), [(0.25, 2), (0.5, 4), (0.01, 1), (0.99, 7)])
def test_the_share_of_domains_asked_for_calibrates_and_at_least_one_trains(share, n_expected):
    model = conformal(calibration_domains=share).fit(X, Y, domains=NAMES[0] + DOMAINS.astype(str).astype(object))
    assert len(set(model.calibration_domains_)) == n_expected
    assert set(model.calibration_domains_) < set(model.domains_)


def test_another_random_state_calibrates_on_other_domains():
    drawn = {tuple(conformal(random_state=seed).fit(X, Y, domains=DOMAINS).calibration_domains_) for seed in range(9)}
    assert len(drawn) > 1


def test_rows_of_every_label_calibrate_where_there_is_one_domain():
    model = conformal(KNeighborsClassifier(), calibration_domains=0.25).fit(X, Y)
    assert model.estimator_.n_samples_fit_ == pytest.approx(0.75 * len(X), abs=2)
    assert model.calibration_domains_.tolist() == ["all"]
    trained_on = np.bincount(model.estimator_.classes_[model.estimator_._y])
    np.testing.assert_allclose(trained_on, 0.75 * np.bincount(Y), atol=1)


def test_a_fitted_estimator_is_left_as_it_is():
    estimator = LogisticRegression().fit(X, Y)
    before = estimator.coef_.copy()
    other, labels, domains = made_up(seed=1)
    model = conformal(estimator, calibration="prefit").fit(other, labels, domains=domains)
    assert model.estimator_ is estimator
    assert np.array_equal(estimator.coef_, before)
    expected = robust_thresholds(estimator.predict_proba(other), labels, domains, 0.9)
    assert np.allclose(model.thresholds_, expected, **ROUNDED)
    assert model.calibration_domains_.tolist() == list(range(8))


def test_fit_leaves_the_estimator_given_unfitted():
    estimator = LogisticRegression()
    conformal(estimator).fit(X, Y, domains=DOMAINS)
    assert not hasattr(estimator, "coef_")


def test_prefit_wants_a_fitted_estimator():
    with pytest.raises(NotFittedError, match="LogisticRegression instance is not fitted"):
        conformal(calibration="prefit").fit(X, Y)


def test_labels_that_a_fitted_estimator_does_not_know_are_refused():
    estimator = LogisticRegression().fit(X, NAMES[Y % 2])
    with pytest.raises(InputError, match=r"labels that training did not: 'owl'; the model knows \['cat', 'dog'\]"):
        conformal(estimator, calibration="prefit").fit(X, NAMES[Y])


def test_a_label_of_a_fitted_estimator_without_calibration_examples_is_in_every_set():
    estimator = LogisticRegression().fit(X, NAMES[Y])
    with pytest.warns(UserWarning, match=r"label\(s\) 'owl'; they will be in every set"):
        model = conformal(estimator, calibration="prefit").fit(X[Y < 2], NAMES[Y[Y < 2]])
    assert model.predict_set(X)[:, 2].all()


def test_a_frozen_estimator_is_calibrated_and_not_fitted():
    estimator = LogisticRegression().fit(X, Y)
    model = conformal(FrozenEstimator(estimator)).fit(X + 1, Y, domains=DOMAINS)
    rows = np.isin(DOMAINS, model.calibration_domains_)
    expected = robust_thresholds(estimator.predict_proba(X[rows] + 1), Y[rows], DOMAINS[rows], 0.9)
    assert np.allclose(model.thresholds_, expected, **ROUNDED)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_an_estimator_with_decision_values_only_has_a_score_per_label(n_labels):
    labels = Y % n_labels
    model = conformal(LinearSVC(), calibration="training-data").fit(X, labels, domains=DOMAINS)
    decision = LinearSVC().fit(X, labels).decision_function(X)
    scores = np.column_stack([-decision, decision]) if n_labels == 2 else decision
    assert np.allclose(model.label_scores(X), scores, **ROUNDED)
    assert np.allclose(model.thresholds_, robust_thresholds(scores, labels, DOMAINS, 0.9), **ROUNDED)


@pytest.mark.parametrize("kind", [ERMClassifier, SetCoverClassifier])
def test_our_own_classifiers_get_the_domains_that_they_train_on(kind):
    model = conformal(kind(epochs=2, random_state=0)).fit(X, Y, domains=DOMAINS)
    assert sorted([*model.estimator_.domains_, *model.calibration_domains_]) == list(range(8))
    assert np.array_equal(model.label_scores(X), model.estimator_.label_scores(X))


def test_our_own_classifier_at_the_end_of_a_pipeline_gets_domains():
    inside = make_pipeline(StandardScaler(), SetCoverClassifier(epochs=2, random_state=0))
    model = conformal(inside).fit(X, Y, domains=DOMAINS)
    assert sorted([*model.estimator_[-1].domains_, *model.calibration_domains_]) == list(range(8))


@pytest.mark.parametrize("searched", [False, True])
def test_our_own_classifier_gets_domains_that_it_requests_by_metadata_routing(searched):
    own = SetCoverClassifier(epochs=2, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        own.set_fit_request(domains=True).set_score_request(domains=True)
        inside = GridSearchCV(own, {"hidden": [4]}, cv=2) if searched else make_pipeline(StandardScaler(), own)
        model = conformal(inside).fit(X, Y, domains=DOMAINS)
    trained = model.estimator_.best_estimator_ if searched else model.estimator_[-1]
    assert sorted([*trained.domains_, *model.calibration_domains_]) == list(range(8))


def test_with_metadata_routing_a_pipeline_of_ours_gets_its_domains_without_a_request():
    inside = make_pipeline(StandardScaler(), SetCoverClassifier(epochs=2))
    with sklearn.config_context(enable_metadata_routing=True):
        model = conformal(inside).fit(X, Y, domains=DOMAINS)
    assert set(model.estimator_[-1].domains_) == set(model.fit_domains_)
    assert len(model.training_domains_) > 1


def test_a_label_of_one_domain_trains_and_calibrates_by_some_of_its_rows():
    labels = np.where(DOMAINS == 0, NAMES[Y], NAMES[Y % 2])  # "owl" occurs in domain 0 alone
    for seed in range(5):
        model = conformal(random_state=seed).fit(X, labels, domains=DOMAINS)
        assert model.estimator_.classes_.tolist() == ["cat", "dog", "owl"]
        assert 0 in model.training_domains_
        assert np.isfinite(model.thresholds_).all()


def test_a_label_that_the_estimator_does_not_know_is_in_every_set():
    known = Y < 2
    model = conformal(FrozenEstimator(LogisticRegression().fit(X[known], NAMES[Y[known]])), calibration="training-data")
    model.fit(X, NAMES[Y], domains=DOMAINS)
    assert model.classes_.tolist() == ["cat", "dog", "owl"]
    assert model.predict_set(X)[:, 2].all()
    assert set(model.predict(X)) <= {"cat", "dog"}


def test_a_label_without_calibration_examples_warns_by_name_and_is_in_every_set():
    model = conformal(LogisticRegression().fit(X, NAMES[Y]), calibration="prefit")
    with pytest.warns(UserWarning, match=r"examples of label\(s\) 'owl'; they will be in every set"):
        model.fit(X[Y < 2], NAMES[Y[Y < 2]], domains=DOMAINS[Y < 2])
    assert model.predict_set(X)[:, 2].all()


@pytest.mark.parametrize("n_labels", [3, 4])
def test_scores_of_pairs_of_labels_are_refused(n_labels):
    labels = np.arange(len(X)) % n_labels
    with pytest.raises(InputError, match=r"SVC\.decision_function must return one score per label"):
        conformal(SVC(decision_function_shape="ovo")).fit(X, labels, domains=DOMAINS)


@both_rules
def test_small_cells_of_a_label_calibrate_as_one(rule):
    rows = (DOMAINS > 3) | (np.arange(len(Y)) % 6 == 0)  # domains 0 to 3 have three examples of a label, or so
    few, labels, domains = X[rows], Y[rows], DOMAINS[rows]
    model = conformal(rule=rule, calibration="training-data", min_cell_size=10).fit(few, labels, domains=domains)
    assert np.bincount(domains * 3 + labels)[12:].min() >= 10 > np.bincount(domains * 3 + labels)[:12].max()
    merged = np.where(domains < 4, 0, domains)
    assert np.array_equal(model.thresholds_, RULES[rule](model.label_scores(few), labels, merged, 0.9))


@both_rules
def test_small_cells_can_be_left_out_of_calibration(rule):
    rows = (DOMAINS > 3) | (np.arange(len(Y)) % 6 == 0)
    few, labels, domains = X[rows], Y[rows], DOMAINS[rows]
    settings = {"rule": rule, "calibration": "training-data", "min_cell_size": 10, "small_cells": "omit"}
    model = conformal(**settings).fit(few, labels, domains=domains)
    large = domains > 3
    expected = RULES[rule](model.label_scores(few)[large], labels[large], domains[large], 0.9)
    assert np.allclose(model.thresholds_, expected, **ROUNDED)
    pooled = conformal(**settings | {"small_cells": "pool"}).fit(few, labels, domains=domains)
    assert not np.array_equal(model.thresholds_, pooled.thresholds_)


def test_a_label_whose_cells_are_all_left_out_is_in_every_set_with_a_warning():
    rare = (Y < 2) | (np.arange(len(Y)) % 4 == 0)
    model = conformal(calibration="training-data", min_cell_size=11, small_cells="omit")
    with pytest.warns(UserWarning, match=r"examples of label\(s\) 'owl'; they will be in every set"):
        model.fit(X[rare], NAMES[Y[rare]], domains=DOMAINS[rare])
    assert model.predict_set(X)[:, 2].all()
    with pytest.warns(UserWarning, match=r"'cat', 'dog', 'owl'"):
        model.set_params(min_cell_size=10_000).fit(X, NAMES[Y], domains=DOMAINS)
    assert model.predict_set(X).all()


def test_another_use_of_small_cells_is_refused():
    with pytest.raises(InputError, match="small_cells must be one of 'pool', 'omit', got 'drop'"):
        conformal(small_cells="drop").fit(X, Y, domains=DOMAINS)


def test_cells_of_the_smallest_size_calibrate_alone():
    n = int(np.bincount(DOMAINS * 3 + Y).min())
    alone, at_size, above = (
        conformal(calibration="training-data", min_cell_size=size).fit(X, Y, domains=DOMAINS) for size in (1, n, 10_000)
    )
    assert np.array_equal(alone.thresholds_, at_size.thresholds_)
    assert np.array_equal(above.thresholds_, robust_thresholds(above.label_scores(X), Y, np.zeros_like(Y), 0.9))


def test_the_single_rule_is_the_most_likely_label_of_an_estimator_fitted_on_all_rows():
    model = conformal(rule="single").fit(X, NAMES[Y], domains=DOMAINS)
    plain = LogisticRegression().fit(X, NAMES[Y])
    assert np.array_equal(model.predict_set(X), plain.predict(X)[:, None] == NAMES)
    assert np.array_equal(model.predict(X), plain.predict(X))


def test_the_single_rule_forgets_the_thresholds_of_an_earlier_fit():
    model = conformal().fit(X, Y, domains=DOMAINS).set_params(rule="single").fit(X, Y, domains=DOMAINS)
    assert not hasattr(model, "thresholds_")
    assert not hasattr(model, "calibration_domains_")


def test_sparse_examples_give_the_sets_of_dense_ones():
    dense = conformal().fit(X, Y, domains=DOMAINS)
    model = conformal().fit(sparse.csr_array(X), Y, domains=DOMAINS)
    assert np.array_equal(model.calibration_domains_, dense.calibration_domains_)
    np.testing.assert_allclose(model.thresholds_, dense.thresholds_, atol=1e-4)  # two ways of the same sums
    assert model.predict_set(sparse.csr_array(X)).shape == (len(X), 3)


@pytest.mark.parametrize("kind", [list, np.array])
def test_texts_reach_a_vectorizer_as_they_are(kind):
    texts = kind([f"{NAMES[label]} seen in place {domain}" for label, domain in zip(Y, DOMAINS, strict=True)])
    model = conformal(make_pipeline(TfidfVectorizer(), LogisticRegression())).fit(texts, NAMES[Y], domains=DOMAINS)
    assert model.domain_report(texts, NAMES[Y], DOMAINS).summary(0.9).min_recall_worst == 1
    assert not hasattr(model, "n_features_in_")
    assert not hasattr(model, "feature_names_in_")


def test_parameters_of_the_estimator_are_reached_through_it():
    model = conformal().set_params(estimator__C=0.01).fit(X, Y, domains=DOMAINS)
    assert model.estimator_.C == 0.01


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "firm"}, "'order', 'single', got 'firm'"),
        ({"calibration": "none"}, "'prefit', 'training-data', got 'none'"),
        ({"calibration_domains": 1.0}, "calibration_domains is a share of the domains between 0 and 1, got 1"),
        ({"calibration_domains": 0.0}, "calibration_domains is a share of the domains between 0 and 1, got 0"),
        (
            {"calibration_domains": 0.5, "calibration": "prefit"},
            "calibration_domains has no effect with calibration='pre",
        ),
        ({"calibration_domains": 0.5, "calibration": "training-data"}, "no effect with calibration='training-data'"),
        ({"target_recall": 90}, "between 0 and 1, got 90"),
        ({"estimator": StandardScaler()}, "StandardScaler has neither predict_proba nor decision_function"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        conformal(**settings).fit(X, Y, domains=DOMAINS)


def test_weights_are_refused_where_no_estimator_is_fitted():
    model = conformal(LogisticRegression().fit(X, Y), calibration="prefit")
    with pytest.raises(InputError, match=r"^sample_weight has no effect with calibration='prefit'.*leave it out\.$"):
        model.fit(X, Y, domains=DOMAINS, sample_weight=np.ones(len(X)))


def minus_probability(probabilities, classes=None, y=None):
    """Our score as crepes' nonconformity; its own hinge, 1 − p, would round small probabilities to ties."""
    return -probabilities if y is None else -probabilities[np.arange(len(y)), np.searchsorted(classes, y)]


@pytest.mark.parametrize("estimator", [GaussianNB(), DecisionTreeClassifier(max_depth=2)], ids=["distinct", "tied"])
@pytest.mark.parametrize("n", [9, 10, 31, 100, 400])
@pytest.mark.parametrize("target", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_the_sets_of_one_domain_are_those_of_crepes_at_the_equivalent_level(estimator, n, target):
    # Of a label's n calibration scores at least h = ceil(target · n) must reach the threshold, so it is the h-th
    # highest. A test score s reaches that if and only if fewer than h calibration scores are above s, that is if at
    # least n − h + 1 are s or lower. crepes puts the label into the set if (#{calibration scores ≤ s} + 1) / (n + 1)
    # is at least ε: the same sets for every ε above (n − h + 1) / (n + 1) up to (n − h + 2) / (n + 1). We take the
    # middle, where rounding does no harm. (Conformal prediction has ε = 1 − target, hence h = ceil(target · (n + 1)).)
    train, calibrate, test = (made_up(1, size, seed=seed) for seed, size in enumerate((300, n, 200)))
    fitted = clone(estimator).fit(train[0], train[1])
    ours = conformal(fitted, calibration="prefit", target_recall=target).fit(*calibrate[:2]).predict_set(test[0])
    theirs = WrapClassifier(fitted).calibrate(*calibrate[:2], class_cond=True, nc=minus_probability)
    for label, n_of_label in enumerate(np.bincount(calibrate[1])):
        level = (n_of_label - hits_needed(n_of_label, target) + 1.5) / (n_of_label + 1)
        sets = theirs.predict_set(test[0], labels=False, confidence=1 - level, smoothing=False)
        assert np.array_equal(ours[:, label], sets[:, label].astype(bool))


@pytest.mark.slow
def test_recall_in_one_domain_is_on_average_what_the_order_statistic_gives():
    # The h-th highest of n exchangeable scores is reached by a new one with probability h / (n + 1).
    target, n, hits = 0.9, 40, []
    for seed in range(300):
        X, labels, domains = made_up(1, 3 * n + 300, seed=seed)
        scores = X  # three features as the scores of three labels
        first = np.concatenate([np.flatnonzero(labels == k)[:n] for k in range(3)])
        rest = np.setdiff1d(np.arange(len(labels)), first)
        thresholds = robust_thresholds(scores[first], labels[first], domains[first], target)
        hits.append(recall_by_cell(scores[rest] >= thresholds, labels[rest], domains[rest], 1))
    expected = hits_needed(n, target) / (n + 1)
    error = np.std(hits) / np.sqrt(len(hits) * 3)
    assert np.mean(hits) == pytest.approx(expected, abs=4 * error)
