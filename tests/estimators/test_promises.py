"""What estimators promise about a new domain, and who calibrates it."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from domaincover import (
    ConformalSetClassifier,
    ERMClassifier,
    GaussianDomains,
    InputError,
    PromisedSetClassifier,
    SetCoverClassifier,
    assess,
    load,
    save,
)
from domaincover.estimators.base import Targets
from domaincover.estimators.scorer_fits import fit_on_each, plan_parts
from domaincover.thresholds import cell_thresholds, order_thresholds

pytestmark = pytest.mark.no_cover  # tests of estimators and rules count these lines

QUICK = {"epochs": 4, "hidden": 8, "random_state": 0, "min_cell_size": 5}
EXACT = ("held-out-domains", "jackknife-minmax")
EVERY_WAY = pytest.mark.parametrize("calibration", ["cross-fit", *EXACT])
NETWORKS = pytest.mark.parametrize("kind", [SetCoverClassifier, ERMClassifier])


def made_up(n_domains=24, n_per_domain=60, n_labels=3, seed=0, shift=0.5):
    """Labels apart along one feature, each domain shifted along it."""
    rng = np.random.default_rng(seed)
    domains = np.repeat(np.arange(n_domains), n_per_domain)
    labels = rng.integers(n_labels, size=len(domains))
    X = rng.normal(size=(len(domains), 3))
    X[:, 0] += 2 * labels + shift * rng.normal(size=n_domains)[domains]
    return X, labels, domains


X, Y, DOMAINS = made_up()


def conformal(estimator=None, rule="joint", confidence=0.9, **settings):
    estimator = LogisticRegression() if estimator is None else estimator
    defaults = {"random_state": 0, "min_cell_size": 1, "domain_confidence": confidence}
    if rule == "joint":
        return PromisedSetClassifier(estimator, **{"calibration": "held-out-domains"} | defaults | settings)
    return ConformalSetClassifier(estimator, rule, **defaults | settings)


def promised(network, confidence=0.9, **settings):
    """Put a promise around a network."""
    return PromisedSetClassifier(network, domain_confidence=confidence, random_state=0, min_cell_size=5, **settings)


class NeverFitted(ClassifierMixin, BaseEstimator):
    """Fails where training starts."""

    def fit(self, X, y):  # noqa: ARG002
        raise AssertionError("training started")

    def predict_proba(self, X):
        raise NotImplementedError


def log_odds_by_hand(*estimators, X):
    """Return the log-odds of the normalised geometric mean of the estimators' probabilities, to six decimals."""
    logs = np.mean([np.log(each.predict_proba(X)) for each in estimators], axis=0)
    mean = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    return np.round(np.log(mean) - np.log(1 - mean), 6)


def fixed_by_hand(scores, labels, domains, level_of):
    """Return level + λ: the cells' thresholds less a deviation, and an order statistic of the domains' residuals."""
    by_cell = cell_thresholds(*level_of, 0.9)
    level = by_cell.mean(axis=0) - by_cell.std(axis=0)
    residual = np.sort((cell_thresholds(scores, labels, domains, 0.9)[np.unique(domains)] - level).min(axis=1))
    return level + residual[int((len(residual) + 1) * 0.1 + 1e-9) - 1]


def test_thresholds_come_from_domains_that_did_not_train():
    model = conformal(calibration="held-out-domains", few_labels=()).fit(X, Y, domains=DOMAINS)
    out = np.isin(DOMAINS, model.calibration_domains_)
    plain = LogisticRegression().fit(X[~out], Y[~out])
    scores = log_odds_by_hand(plain, X=X)
    _, of_training = np.unique(DOMAINS[~out], return_inverse=True)
    expected = fixed_by_hand(scores[out], Y[out], DOMAINS[out], (scores[~out], Y[~out], of_training))
    np.testing.assert_allclose(model.thresholds_, expected)
    np.testing.assert_allclose(model.label_scores(X), scores)
    assert np.array_equal(model.predict_set(X), model.label_scores(X) >= model.thresholds_)


def test_held_out_domains_are_as_many_as_the_confidence_needs():
    model = conformal(confidence=0.95, calibration="held-out-domains").fit(X, Y, domains=DOMAINS)
    assert len(model.calibration_domains_) == 19
    assert len(model.training_domains_) == 5


def test_cross_fitting_scores_each_domain_by_an_estimator_that_has_not_seen_it():
    model = conformal(calibration="cross-fit", folds=4).fit(X, Y, domains=DOMAINS)
    targets = Targets(Y, DOMAINS, model.classes_, tuple(range(24)))
    from domaincover.estimators.base import generators

    parts = plan_parts(targets, "cross-fit", 4, None, 0.9, *generators(0, "calibration"))
    fitted = [LogisticRegression().fit(X[part.train], Y[part.train]) for part in parts]
    scores = np.empty((len(X), 3))
    for inner, part in zip(fitted, parts, strict=True):
        scores[part.calibrate] = log_odds_by_hand(inner, X=X[part.calibrate])
    np.testing.assert_allclose(model.thresholds_, fixed_by_hand(scores, Y, DOMAINS, (scores, Y, DOMAINS)))
    np.testing.assert_allclose(model.label_scores(X), log_odds_by_hand(*fitted, X=X))


@pytest.mark.parametrize("folds", [2, 5, None, 24, 99])
@pytest.mark.parametrize("calibration", ["cross-fit", "jackknife-minmax"])
def test_no_domain_trains_the_estimator_that_it_calibrates(calibration, folds):
    targets = Targets(Y, DOMAINS, np.arange(3), tuple(range(24)))
    parts = plan_parts(targets, calibration, folds, None, 0.9, np.random.default_rng(0))
    for part in parts:
        assert not set(DOMAINS[part.train]) & set(DOMAINS[part.calibrate])
        assert len(part.train) + len(part.calibrate) == len(Y)
    calibrated = np.concatenate([np.unique(DOMAINS[part.calibrate]) for part in parts])
    assert len(set(calibrated)) == len(calibrated)
    if calibration == "cross-fit":
        assert set(calibrated) == set(range(24))
        assert len(parts) == min(folds or 5, 24)
    else:
        assert len(calibrated) == len(parts) == min(folds or 25, 24)


def test_jackknife_minmax_puts_a_label_into_the_set_where_any_of_its_estimators_does():
    model = conformal(calibration="jackknife-minmax", folds=12).fit(X, Y, domains=DOMAINS)
    each = [log_odds_by_hand(inner, X=X) >= model.thresholds_ for inner in model.estimators_]
    assert len(each) == 12
    assert np.array_equal(model.predict_set(X), np.any(each, axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["joint", "order"])
@pytest.mark.parametrize("calibration", EXACT)
def test_the_exact_ways_keep_the_promise_over_repeated_draws(calibration, rule):
    n_repetitions, n_new, confidence = 60, 30, 0.9
    kept = []
    for seed in range(n_repetitions):
        X, Y, DOMAINS = made_up(12 + n_new, 40, 2, seed)
        old = DOMAINS < 12
        model = conformal(GaussianNB(), rule, confidence, calibration=calibration, random_state=seed)
        model.fit(X[old], Y[old], domains=DOMAINS[old])
        recall = model.domain_report(X[~old], Y[~old], DOMAINS[~old]).recall
        kept.append((recall >= 0.9).mean() if rule == "order" else (recall >= 0.9).all(axis=1).mean())
    standard_error = np.std(kept, ddof=1) / np.sqrt(n_repetitions)  # of repetitions: their new domains share a model
    assert np.mean(kept) >= confidence - 3 * standard_error


@pytest.mark.slow
def test_hierarchical_keeps_the_average_recall_over_repeated_draws():
    recalls = []
    for seed in range(80):
        X, Y, DOMAINS = made_up(42, 40, 2, seed)
        old = DOMAINS < 20
        model = conformal(GaussianNB(), "hierarchical", None, target_recall=0.8, random_state=seed)
        model.fit(X[old], Y[old], domains=DOMAINS[old])
        recalls.append(model.domain_report(X[~old], Y[~old], DOMAINS[~old]).recall.mean(axis=0))
    standard_error = np.std(recalls, axis=0, ddof=1) / np.sqrt(80)
    assert (np.mean(recalls, axis=0) >= 0.8 - 3 * standard_error).all()


@EVERY_WAY
def test_too_few_domains_are_told_before_training(calibration):
    few = DOMAINS < 9 if calibration == "held-out-domains" else DOMAINS < 8
    model = conformal(NeverFitted(), calibration=calibration)
    with pytest.raises(InputError, match=r"0\.9 takes 9 calibration domains, and there are 8, which allow 0\.888"):
        model.fit(X[few], Y[few], domains=DOMAINS[few])


@EVERY_WAY
def test_with_too_few_domains_widened_sets_hold_every_label(calibration):
    few = DOMAINS < 6
    model = conformal(calibration=calibration, on_infeasible="widen")
    with pytest.warns(UserWarning, match="every set will hold every label") as caught:
        model.fit(X[few], Y[few], domains=DOMAINS[few])
    assert len(caught) == 1
    assert model.predict_set(X).all()
    assert model.promise.startswith("Every set holds every label")


@EVERY_WAY
def test_without_domains_widened_sets_hold_every_label(calibration):
    with pytest.warns(UserWarning, match="every set will hold every label"):
        model = conformal(calibration=calibration, on_infeasible="widen").fit(X, Y)
    assert model.predict_set(X).all()
    assert np.array_equal(model.predict(X), LogisticRegression().fit(X, Y).predict(X))


def other_content_and_size(domain):
    """Return the data with the rows of one domain changed and repeated."""
    own = np.flatnonzero(domain == DOMAINS)
    rows = np.concatenate([np.arange(len(X)), np.repeat(own, 20)])
    changed = X[rows].copy()
    changed[DOMAINS[rows] == domain] *= -3
    return changed, Y[rows], DOMAINS[rows]


@NETWORKS
@pytest.mark.parametrize(("seed", "trains_the_others"), [(3, False), (5, True)])
def test_a_domain_that_jackknife_minmax_leaves_out_leaves_no_trace_in_its_network(kind, seed, trains_the_others):
    settings = {"hidden": 4, "patience": 2, "random_state": seed, "min_cell_size": 5, "epochs": None, "batch_size": 128}
    left_out = left_out_first(seed)
    before, after = (
        promised(kind(**settings), 0.6, calibration="jackknife-minmax", folds=3)
        .set_params(random_state=seed)
        .fit(x, y, domains=d)
        for x, y, d in ((X, Y, DOMAINS), other_content_and_size(left_out))
    )
    with_it = [left_out in inner.domains_ for inner in before.estimators_]
    assert sum(with_it) == 2
    first = with_it.index(False)
    others = [inner for inner, has_it in zip(before.estimators_, with_it, strict=True) if has_it]
    assert all((left_out in inner.held_out_domains_) != trains_the_others for inner in others)
    one, other = (model.estimators_[first] for model in (before, after))
    assert np.array_equal(one.label_scores(X), other.label_scores(X))


def left_out_first(seed):
    from domaincover.estimators.base import generators

    targets = Targets(Y, DOMAINS, np.arange(3), tuple(range(24)))
    part = plan_parts(targets, "jackknife-minmax", 3, None, 0.6, *generators(seed, "calibration"))[0]
    return int(DOMAINS[part.calibrate][0])


def test_held_out_domains_are_drawn_without_a_look_at_their_labels():
    other = np.random.default_rng(5).permutation(Y)
    drawn = [
        plan_parts(Targets(labels, DOMAINS, np.arange(3), tuple(range(24))), "held-out-domains", None, None, 0.9, rng)
        for labels, rng in ((Y, np.random.default_rng(0)), (other, np.random.default_rng(0)))
    ]
    assert np.array_equal(drawn[0][0].calibrate, drawn[1][0].calibrate)


def test_a_promise_is_the_one_that_was_fitted():
    model = conformal(calibration="cross-fit").fit(X, Y, domains=DOMAINS)
    promised, sets = model.promise, model.predict_set(X)
    model.set_params(domain_confidence=0.99, target_recall=0.99, calibration="prefit")
    assert model.promise == promised
    assert np.array_equal(model.predict_set(X), sets)


def test_only_domains_with_a_cell_that_counts_are_said_to_have_calibrated():
    small = (DOMAINS >= 12) & (np.arange(len(X)) % 60 >= 6)
    model = conformal(calibration="cross-fit", min_cell_size=7)
    model.fit(X[~small], Y[~small], domains=DOMAINS[~small])
    assert model.calibration_domains_.tolist() == list(range(12))
    assert "like the 12 that calibrated" in model.promise


def test_a_refused_fit_leaves_no_fitted_model():
    model = promised(SetCoverClassifier(**QUICK), 0.99)
    with pytest.raises(InputError, match="takes 99 calibration domains"):
        model.fit(X, Y, domains=DOMAINS)
    with pytest.raises(NotFittedError):
        model.predict_set(X)


def test_labels_are_ranked_by_likelihood_where_sets_are_made_on_another_scale():
    model = conformal(calibration="cross-fit").fit(X, Y, domains=DOMAINS)
    assert np.array_equal(model.predict(X), model.classes_[model.predict_proba(X).argmax(axis=1)])
    network = promised(ERMClassifier(**QUICK)).fit(X, Y, domains=DOMAINS)
    assert np.array_equal(network.classes_[network.decision_function(X).argmax(axis=1)], network.predict(X))


def test_a_label_of_few_domains_is_named_and_refused_or_in_every_set():
    rare = (Y != 2) | (DOMAINS < 5)
    data = X[rare], np.array(["cat", "dog", "owl"])[Y[rare]]
    with pytest.raises(InputError, match=r"label\(s\) 'owl' are in 5, which allow 0\.833 at most"):
        conformal(NeverFitted(), calibration="cross-fit", on_infeasible="raise").fit(*data, domains=DOMAINS[rare])
    model = conformal(calibration="cross-fit", on_infeasible="widen")
    with pytest.warns(UserWarning, match="'owl' are in 5, .*; they will be in every set"):
        model.fit(*data, domains=DOMAINS[rare])
    sets = model.predict_set(X)
    assert sets[:, 2].all()
    assert not sets[:, :2].all()
    assert "in every set, since too few domains have them: 'owl'" in model.promise


def test_cells_below_the_smallest_size_count_for_nothing():
    small = (DOMAINS >= 12) & (np.arange(len(X)) % 60 >= 9)  # twelve domains keep nine rows of three labels
    model = conformal(NeverFitted(), calibration="cross-fit", min_cell_size=20, confidence=0.95)
    with pytest.raises(InputError, match="takes 19 calibration domains"):
        model.fit(X[~small], Y[~small], domains=DOMAINS[~small])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"confidence": 0}, "domain confidence must lie between 0 and 1, got 0"),
        ({"confidence": 1}, "domain confidence must lie between 0 and 1, got 1"),
        ({"confidence": 95}, "got 95; write 95 % as 0.95"),
        ({"rule": "order", "confidence": None}, "rule='order' needs a domain_confidence, such as 0.9"),
        ({"rule": "robust"}, "domain_confidence has no effect with rule='robust'"),
        ({"calibration": "training-data"}, "calibration must be one of 'cross-fit', .* got 'training-data'"),
        ({"rule": "order", "calibration": "training-data"}, "cannot be calibrated on the training domains"),
        ({"folds": 1}, "folds must be an integer of at least 2, or None, got 1"),
        ({"folds": 5, "calibration": "held-out-domains"}, "folds has no effect with calibration='held-out-domains'"),
        ({"folds": 5, "calibration": "prefit"}, "folds has no effect with calibration='prefit'; leave it out"),
        ({"folds": 2.5}, "folds must be an integer of at least 2, or None, got 2.5"),
        ({"confidence": "0.9"}, "domain confidence must be a number between 0 and 1, got '0.9'"),
        ({"on_infeasible": "hope"}, "on_infeasible must be one of 'raise', 'widen', 'pool', got 'hope'"),
    ],
)
def test_impossible_promises_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        conformal(NeverFitted(), **settings).fit(X, Y, domains=DOMAINS)


def test_one_domain_cannot_be_left_out_in_turn():
    with pytest.raises(InputError, match="needs at least 2; there is 1"):
        conformal(NeverFitted(), calibration="cross-fit").fit(X, Y, domains=np.zeros(len(Y)))


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: make_pipeline(StandardScaler(), model)])
def test_calibration_domains_that_trained_are_refused(wrap):
    inner = ERMClassifier(epochs=1, random_state=0)
    fitted = inner.fit(X, Y, domains=DOMAINS) if wrap(inner) is inner else wrap(inner)
    if fitted is not inner:
        fitted.fit(X, Y, ermclassifier__domains=DOMAINS)
    for names in (DOMAINS, DOMAINS.astype(float), DOMAINS.astype(str)):
        with pytest.raises(InputError, match="24 of 24 calibration domains were seen in training"):
            conformal(fitted, calibration="prefit").fit(X, Y, domains=names)


def test_calibration_domains_that_only_look_like_those_of_the_training_are_told():
    fitted = ERMClassifier(epochs=1, random_state=0).fit(X, Y, domains=DOMAINS)
    padded = np.array([f"{domain:03d}" for domain in DOMAINS])
    with pytest.warns(UserWarning, match="look like some of the training: '000' looks like 0, '001' looks like 1"):
        conformal(fitted, calibration="prefit").fit(X, Y, domains=padded)


def test_new_domains_calibrate_a_fitted_estimator():
    fitted = ERMClassifier(epochs=1, random_state=0).fit(X, Y, domains=DOMAINS)
    other, labels, domains = made_up(seed=1)
    names = np.array([f"new {domain}" for domain in domains])
    model = conformal(fitted, calibration="prefit").fit(other, labels, domains=names)
    scores = log_odds_by_hand(fitted, X=other)
    expected = fixed_by_hand(scores, labels, domains, (scores, labels, domains))
    np.testing.assert_allclose(model.thresholds_, expected, rtol=1e-4)


def test_order_calibrates_each_label_by_itself():
    model = conformal(rule="order", calibration="held-out-domains").fit(X, Y, domains=DOMAINS)
    out = np.isin(DOMAINS, model.calibration_domains_)
    scores = LogisticRegression().fit(X[~out], Y[~out]).predict_proba(X)
    expected = order_thresholds(scores[out], Y[out], DOMAINS[out], 0.9, 0.9)
    assert np.allclose(model.thresholds_, expected, rtol=2.0**-40, atol=0)


def test_one_label_is_the_estimators_most_likely_whatever_the_scale():
    model = conformal(calibration="cross-fit").fit(X, Y, domains=DOMAINS)
    assert np.array_equal(model.predict(X), LogisticRegression().fit(X, Y).predict(X))


@pytest.mark.parametrize(
    ("settings", "promise"),
    [
        (
            {"calibration": "cross-fit"},
            "In a new domain drawn like the 24 that calibrated, every label that it has has recall 0.9 or more with "
            "probability 0.9 or more; cross-fitted, so this is expected but not proved.",
        ),
        (
            {"rule": "order", "min_cell_size": 5},
            "In a new domain drawn like the 9 that calibrated, a label, each by itself, with at least 5 examples there "
            "has recall 0.9 or more with probability 0.9 or more.",
        ),
        (
            {"rule": "hierarchical", "confidence": None, "target_recall": 0.8},
            "In a new domain drawn like the 6 that calibrated, the recall of each label that it has is 0.8 or more on "
            "average.",
        ),
        ({"rule": "robust", "confidence": None}, None),
    ],
)
def test_a_fitted_model_says_what_it_promises(settings, promise):
    assert conformal(**settings).fit(X, Y, domains=DOMAINS).promise == promise


@NETWORKS
@EVERY_WAY
def test_networks_can_be_promised(kind, calibration):
    model = promised(kind(**QUICK), calibration=calibration).fit(X, Y, domains=DOMAINS)
    assert np.array_equal(model.predict_set(X), model.label_scores(X) >= model.thresholds_)
    assert model.domains_.tolist() == list(range(24))
    assert model.n_features_in_ == 3
    assert set(model.training_domains_) <= set(range(24))
    assert model.seen_domains_ == list(range(24))
    assert model.input_encoder_ is model.predictors_[0].encoder_


@NETWORKS
@EVERY_WAY
def test_a_saved_promise_is_the_same_promise(kind, calibration, tmp_path):
    folds = None if calibration == "held-out-domains" else 3
    model = promised(kind(**QUICK), calibration=calibration, folds=folds, on_infeasible="widen")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X, Y, domains=DOMAINS)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict_set(X), model.predict_set(X))
    assert again.promise == model.promise


def test_probabilities_of_a_promised_network_are_probabilities():
    for calibration in ("cross-fit", "jackknife-minmax"):
        model = promised(ERMClassifier(**QUICK), calibration=calibration).fit(X, Y, domains=DOMAINS)
        probabilities = model.predict_proba(X)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
        assert np.mean(model.classes_[probabilities.argmax(axis=1)] == model.predict(X)) > 0.99


def test_a_second_fit_forgets_the_first():
    model = promised(ERMClassifier(**QUICK), calibration="jackknife-minmax").fit(X, Y, domains=DOMAINS)
    model.set_params(calibration="held-out-domains").fit(X, Y, domains=DOMAINS)
    assert not hasattr(model, "estimators_")
    fresh = promised(ERMClassifier(**QUICK), calibration="held-out-domains").fit(X, Y, domains=DOMAINS)
    assert np.array_equal(model.predict_set(X), fresh.predict_set(X))


def test_a_pipeline_is_promised_with_its_encoder():
    import pandas as pd

    from domaincover import TableEncoder

    table = pd.DataFrame({"x": X[:, 0], "ward": np.where(X[:, 1] > 0, "a", "b")})
    model = promised(make_pipeline(TableEncoder(), LogisticRegression())).fit(table, Y, domains=DOMAINS)
    assert isinstance(model.input_encoder_, TableEncoder)
    assert model.training_domains_.tolist() == list(range(24))
    np.testing.assert_allclose(model.predict_proba(table).sum(axis=1), 1, rtol=1e-5)


def test_probabilities_are_offered_only_where_the_estimator_has_them():
    from sklearn.svm import LinearSVC

    assert not hasattr(promised(LinearSVC()), "predict_proba")
    assert hasattr(promised(LogisticRegression()), "predict_proba")


def test_networks_of_equally_many_rows_train_together_as_they_would_alone():
    data = GaussianDomains.of_paper(4).sample(6, 100, np.random.default_rng(0))
    rows = [np.flatnonzero(data.domains != domain) for domain in range(3)]
    base = SetCoverClassifier(epochs=6, hidden=5, patience=None, random_state=0, min_cell_size=5)
    together = fit_on_each(base, data.examples, data.labels, data.domains, rows)
    for part, model in zip(rows, together, strict=True):
        alone = clone(base).fit(data.examples[part], data.labels[part], domains=data.domains[part])
        np.testing.assert_allclose(
            model.label_scores(data.examples), alone.label_scores(data.examples), rtol=1e-3, atol=1e-3
        )
        assert model.multipliers_.equals(alone.multipliers_) or np.allclose(
            model.multipliers_, alone.multipliers_, rtol=1e-3, equal_nan=True
        )


def test_folds_that_lack_a_label_or_a_category_are_fitted_too():
    import pandas as pd

    table = pd.DataFrame({"x": X[:, 0], "ward": np.where(DOMAINS == 3, "rare", "usual")})
    labels = np.where((DOMAINS == 5) & (Y == 2), "only here", Y.astype(str))
    model = promised(ERMClassifier(**QUICK), folds=24, on_infeasible="widen")
    with pytest.warns(UserWarning, match="'only here'"):
        model.fit(table, labels, domains=DOMAINS)
    assert model.predict_set(table)[:, model.classes_.tolist().index("only here")].all()


def test_networks_that_cannot_be_stacked_are_fitted_one_by_one():
    from torch import nn

    def with_norm(n_features, n_labels):
        return nn.Sequential(nn.BatchNorm1d(n_features), nn.Linear(n_features, n_labels))

    model = promised(ERMClassifier(network=with_norm, epochs=2, random_state=0), folds=2)
    assert model.fit(X, Y, domains=DOMAINS).predict_set(X).shape == (len(X), 3)


def test_a_stack_that_would_be_too_large_is_made_in_parts(monkeypatch):
    whole = promised(ERMClassifier(**QUICK), folds=3).fit(X, Y, domains=DOMAINS)
    monkeypatch.setattr("domaincover.estimators.stacked_fit.NUMBERS_IN_A_STACK", 1)
    parts = promised(ERMClassifier(**QUICK), folds=3).fit(X, Y, domains=DOMAINS)
    assert np.mean(whole.predict_set(X) == parts.predict_set(X)) > 0.95  # the stack trains as long as its largest


@NETWORKS
def test_a_promised_model_is_assessed_beside_single_labels(kind):
    result = assess(promised(kind(**QUICK)), *made_up(n_per_domain=150, shift=1), random_state=0)
    assert set(result.unseen) == {"model", "model, fixed thresholds", "ERM"}
    assert (result.unseen["ERM"].set_size == 1).all()
    assert result.unseen["model, fixed thresholds"].set_size.mean() > 1
