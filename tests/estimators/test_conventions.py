"""What every estimator has in common: scikit-learn's own checks, and ours."""

import hashlib
import inspect
import subprocess
import sys
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import domaincover
from domaincover import (
    ConformalSetClassifier,
    DomainGeneralizationClassifier,
    ERMClassifier,
    GaussianDomains,
    InputError,
    MeanClassifier,
    PromisedIntervalRegressor,
    PromisedSetClassifier,
    SetCoverClassifier,
    TableEncoder,
    certify,
)

DATA = GaussianDomains.of_paper(4).sample(6, 60, np.random.default_rng(0))
X, Y, DOMAINS = DATA.examples, DATA.labels, DATA.domains
QUICK = {"epochs": 30, "learning_rate": 0.02}  # the checks want an accuracy on a hundred rows, in many fits
CHECKED = [
    SetCoverClassifier(**QUICK),
    ConformalSetClassifier(LogisticRegression()),
    PromisedSetClassifier(LogisticRegression(), on_infeasible="widen"),
    TableEncoder(),
]
CHECKED_DEEP = [  # networks share their base, and a mean is inside the promise of others
    ERMClassifier(**QUICK),
    DomainGeneralizationClassifier(**QUICK),
    MeanClassifier([("a", LogisticRegression()), ("b", LogisticRegression(C=0.1))]),
    ConformalSetClassifier(HistGradientBoostingClassifier(max_iter=2)),
    ConformalSetClassifier(make_pipeline(StandardScaler(), LogisticRegression())),
]
CLASSIFIERS = [
    SetCoverClassifier(epochs=3, random_state=0),
    ERMClassifier(epochs=3, random_state=0),
    DomainGeneralizationClassifier(epochs=3, random_state=0),
    ConformalSetClassifier(LogisticRegression(), random_state=0),
    MeanClassifier([("network", ERMClassifier(epochs=3, random_state=0)), ("linear", LogisticRegression())]),
    PromisedSetClassifier(
        SetCoverClassifier(epochs=3, random_state=0, min_cell_size=5),
        domain_confidence=0.4,
        calibration="held-out-domains",
        random_state=0,
        min_cell_size=5,
    ),
]
of_each = pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)


def of_each_kind(name, kinds):
    """Parametrize by each kind of names on one estimator, and by the first kind on every other; the rest is deep."""
    whole = next(model for model in CLASSIFIERS if isinstance(model, ConformalSetClassifier))
    cases = [
        pytest.param(
            model,
            value,
            id=f"{type(model).__name__}-{kind}",
            marks=[] if model is whole or kind == next(iter(kinds)) else pytest.mark.deep,
        )
        for model in CLASSIFIERS
        for kind, value in kinds.items()
    ]
    return pytest.mark.parametrize(("model", name), cases)


def fitted(model, *data, **domains):
    return clone(model).fit(*(data or (X, Y)), **(domains or {"domains": DOMAINS}))


def with_random_state(model, state):
    """Set the random state of a model, or where it has none, of the models inside."""
    names = [name for name in model.get_params() if name.endswith("random_state")]
    return model.set_params(**dict.fromkeys(["random_state"] if "random_state" in names else names, state))


@cache
def learned(model):
    """What a model gives that was fitted on the data as they are; only to be asked, not to be changed."""
    return fitted(model)


def test_every_public_estimator_is_checked():
    public = {getattr(domaincover, name) for name in domaincover.__all__}
    estimators = {thing for thing in public if inspect.isclass(thing) and issubclass(thing, BaseEstimator)}
    assert {type(model) for model in CHECKED + CHECKED_DEEP} == estimators - {PromisedIntervalRegressor}


def test_intervals_keep_parameters_and_need_domains_which_scikit_learns_checks_do_not_give():
    model = PromisedIntervalRegressor(LinearRegression(), target_coverage=0.8, few_labels=(5,), random_state=1)
    params = model.get_params()
    assert clone(model).get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert (params["target_coverage"], params["few_labels"], params["estimator__fit_intercept"]) == (0.8, (5,), True)
    assert repr(model).startswith("PromisedIntervalRegressor(")
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        model.predict_interval(X)
    with pytest.raises(InputError, match="needs the domain of each row"):
        model.fit(X, Y)


def expected_to_fail(estimator):
    """Name the checks that cannot hold: calibration counts rows, so a weight of 2 is not a row given twice."""
    weighted = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
    is_calibrated = isinstance(estimator, ConformalSetClassifier) and estimator.rule != "single"
    return dict.fromkeys(weighted, "weights are for the fit, calibration counts rows") if is_calibrated else {}


# check_supervised_y_no_nan gives infinite labels, which scikit-learn's own type_of_target casts to integers.
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:a domain confidence of 0.9 takes 9:UserWarning")  # the checks have one domain
@pytest.mark.no_cover  # hundreds of fits over the same lines
@parametrize_with_checks(CHECKED, expected_failed_checks=expected_to_fail)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:a domain confidence of 0.9 takes 9:UserWarning")
@parametrize_with_checks(CHECKED_DEEP, expected_failed_checks=expected_to_fail)
def test_scikit_learns_checks_pass_for_others_and_around_any_model(estimator, check):
    check(estimator)


@of_each
def test_a_clone_has_the_settings_and_nothing_learned(model):
    copy = clone(fitted(model))
    assert repr(copy) == repr(model)
    with pytest.raises(NotFittedError):
        copy.predict_set(X)


@of_each
def test_fit_writes_no_parameter(model):
    trained = clone(model)
    before = trained.get_params()
    trained.fit(X, Y, domains=DOMAINS)
    assert all(value is before[name] for name, value in trained.get_params().items())


@of_each
def test_fit_on_other_data_forgets_the_old(model):
    names = np.array(["no", "perhaps", "yes"])[np.arange(len(Y)) % 3]
    table = pd.DataFrame(X, columns=list("abcd"))
    again = fitted(model, table, names).fit(X[:, :2], Y, domains=DOMAINS > 2)
    fresh = fitted(model, X[:, :2], Y, domains=DOMAINS > 2)
    assert np.array_equal(again.predict_set(X[:, :2]), fresh.predict_set(X[:, :2]))
    assert again.classes_.tolist() == [0, 1]
    assert again.domains_.tolist() == [False, True]
    assert again.n_features_in_ == 2
    assert not hasattr(again, "feature_names_in_")


@of_each
def test_the_same_random_state_gives_the_same_scores(model):
    assert np.array_equal(fitted(model).label_scores(X), learned(model).label_scores(X))


@of_each
def test_another_random_state_gives_other_scores(model):
    other = with_random_state(clone(model), 1)
    assert not np.array_equal(learned(model).label_scores(X), fitted(other).label_scores(X))


# Others hold the random states of estimators inside, whose clones copy the generator, as all of scikit-learn's do.
@pytest.mark.parametrize("model", [each for each in CLASSIFIERS if hasattr(each, "random_state")])
def test_a_generator_as_random_state_goes_on_from_where_it_was(model):
    rng = np.random.RandomState(0)
    moving = clone(model).set_params(random_state=rng)
    first, second = (moving.set_params(random_state=rng).fit(X, Y, domains=DOMAINS).label_scores(X) for _ in "ab")
    assert not np.array_equal(first, second)


IN_ANOTHER_PROCESS = """
import hashlib
from tests.estimators.test_conventions import CLASSIFIERS, X, fitted
for model in CLASSIFIERS:
    print(hashlib.sha256(fitted(model).predict_set(X).tobytes()).hexdigest())
"""


@pytest.mark.deep  # tests/faults/test_determinism.py does the same every day
def test_another_process_gives_the_same_sets():
    here = [hashlib.sha256(fitted(model).predict_set(X).tobytes()).hexdigest() for model in CLASSIFIERS]
    there = subprocess.run([sys.executable, "-c", IN_ANOTHER_PROCESS], capture_output=True, text=True, check=True)
    assert there.stdout.split() == here


@of_each
def test_fit_leaves_the_global_random_states_alone(model):
    def states():
        return np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002 - it is the point

    before = states()
    fitted(model)
    assert states() == before


@of_each
def test_fit_and_predict_leave_torchs_threads_as_they_were(model):
    before = torch.get_num_threads()
    fitted(model).predict_set(X)
    assert torch.get_num_threads() == before


@of_each
def test_names_of_columns_are_kept_and_checked(model):
    table = pd.DataFrame(X, columns=list("abcd"))
    trained = fitted(model, table, Y)
    assert trained.feature_names_in_.tolist() == list("abcd")
    for other in (table[list("badc")], table.rename(columns={"a": "z"})):
        with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
            trained.predict_set(other)


@of_each
def test_a_table_of_numbers_gives_the_sets_of_an_array(model):
    table = pd.DataFrame(X, columns=list("abcd"))
    assert np.array_equal(fitted(model, table, Y).predict_set(table), learned(model).predict_set(X))


@of_each
def test_lists_give_the_sets_of_arrays(model):
    # float32 arrays and lists, which are float64, differ in the last bits that a network reads
    doubles = X.astype(np.float64)
    lists = fitted(model, doubles.tolist(), Y.tolist(), domains=DOMAINS.tolist())
    assert np.array_equal(lists.predict_set(doubles.tolist()), fitted(model, doubles, Y).predict_set(doubles))


NAMES = {
    "text": np.array(["no", "yes"]),
    "objects": np.array(["no", "yes"], dtype=object),
    "numbers": np.array([3, 7]),
    "floats": np.array([-1.0, 1.0]),
    "booleans": np.array([False, True]),
}


@of_each_kind("names", NAMES)
@pytest.mark.no_cover
def test_labels_of_any_kind_come_back_as_they_were(model, names):
    trained = fitted(model, X, names[Y])
    assert trained.classes_.tolist() == names.tolist()
    assert set(trained.predict(X).tolist()) <= set(names.tolist())
    assert np.array_equal(trained.predict_set(X), learned(model).predict_set(X))


DOMAIN_NAMES = {
    "text": [f"ward {k}" for k in range(6)],
    "numbers": [10, 20, 30, 40, 50, 60],
    "tuples": [("Ulm", k) for k in range(6)],
    "mixed": [1, 2, 3, "a", "b", "c"],
    "dates": list(pd.date_range("2024-01-01", periods=6)),
}


@of_each_kind("names", DOMAIN_NAMES)
@pytest.mark.no_cover
def test_domains_of_any_kind_are_known_by_name(model, names):
    trained = fitted(model, X, Y, domains=[names[code] for code in DOMAINS])
    assert trained.domains_.shape == (6,)
    assert trained.domains_.tolist() == names
    assert np.array_equal(trained.predict_set(X), learned(model).predict_set(X))


@of_each
def test_domains_that_are_true_or_false_are_two_domains(model):
    assert fitted(model, X, Y, domains=DOMAINS > 2).domains_.tolist() == [False, True]


@of_each
def test_without_domains_there_is_one(model):
    if getattr(model, "domain_confidence", None) is not None:
        with pytest.raises(InputError, match=r"PromisedSetClassifier.fit needs the domain of each row .* domains=…"):
            clone(model).fit(X, Y)
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained = clone(model).fit(X, Y)
    told = [each for each in caught if "was given no domains" in str(each.message)]
    assert len(told) == (type(model).__name__ not in ("ERMClassifier", "MeanClassifier"))
    assert all(each.filename == __file__ for each in told)
    assert trained.domains_.tolist() == ["all"]
    assert trained.domain_report(X, Y).domain_names == ("all",)


@of_each
def test_a_wrong_argument_is_reported_of_the_class_that_was_called(model):
    with pytest.raises(TypeError, match=rf"^{type(model).__name__}.fit\(\) got an unexpected .* 'groups'"):
        clone(model).fit(X, Y, groups=DOMAINS)


@of_each
def test_certificates_of_a_model_know_what_it_has_seen(model):
    new = DOMAINS + 100
    found = learned(model).certify(X, Y, new, min_cell_size=1)
    assert found == certify(learned(model).domain_report(X, Y, new, min_cell_size=1), 0.9, seen_domains=range(6))
    assert found.known_unseen
    with pytest.raises(InputError, match="6 of 6 domains were seen in training"):
        learned(model).certify(X, Y, DOMAINS, min_cell_size=1)


@of_each
def test_labels_in_a_column_warn_once(model):
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed") as caught:
        trained = fitted(model, X, Y[:, None])
    assert len(caught) == 1
    assert np.array_equal(trained.predict_set(X), learned(model).predict_set(X))


@of_each_kind("missing", {"None": None, "NaN": np.nan, "NA": pd.NA, "NaT": pd.NaT})
def test_a_missing_domain_is_refused_with_its_row(model, missing):
    domains = DOMAINS.astype(object)
    domains[[4, 9]] = missing
    with pytest.raises(InputError, match="2 of 360 domains are missing, first at row 4; drop those rows or give"):
        fitted(model, X, Y, domains=domains)


@of_each_kind("names", {"text": NAMES["text"].astype(object), "floats": NAMES["floats"]})
def test_a_missing_label_is_refused_with_its_row(model, names):
    labels = names[Y]
    labels[7] = np.nan
    with pytest.raises(InputError, match="1 of 360 labels are missing, first at row 7"):
        fitted(model, X, labels)


@of_each
def test_domains_of_another_length_are_refused(model):
    with pytest.raises(ValueError, match=r"359 domains for 360 examples|inconsistent numbers .* \[360, 360, 359\]"):
        fitted(model, X, Y, domains=DOMAINS[:-1])
    with pytest.raises(InputError, match="359 domains for 360 examples"):
        learned(model).domain_report(X, Y, DOMAINS[:-1])


@of_each
def test_domains_in_a_matrix_are_refused(model):
    with pytest.raises(InputError, match=r"domains must have one dimension, got shape \(360, 1\)"):
        fitted(model, X, Y, domains=DOMAINS[:, None])


@of_each
def test_one_label_only_is_refused(model):
    with pytest.raises(InputError, match="y holds one class only, 'yes'; at least two labels are needed"):
        fitted(model, X, np.full(len(Y), "yes"))


@of_each
def test_a_target_that_is_no_class_is_refused(model):
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        fitted(model, X, X[:, 0])


@of_each
def test_a_target_recall_that_is_no_share_is_refused(model):
    if hasattr(model, "target_recall"):
        with pytest.raises(InputError, match=r"target recall must lie between 0 and 1, got 90; write 90 % as 0\.9"):
            fitted(clone(model).set_params(target_recall=90))


@of_each
def test_the_prediction_is_the_label_with_the_highest_score(model):
    trained = learned(model)
    assert np.array_equal(trained.predict(X), trained.classes_[trained.label_scores(X).argmax(axis=1)])


@of_each
def test_two_labels_have_one_decision_value_and_three_have_three(model):
    two = learned(model)
    scores = two.label_scores(X)
    assert scores.shape == (360, 2)
    assert np.array_equal(two.decision_function(X) > 0, two.predict(X) == 1)
    three = fitted(model, X, np.arange(len(Y)) % 3)
    assert three.decision_function(X).shape == (360, 3)
    assert np.array_equal(three.classes_[three.decision_function(X).argmax(axis=1)], three.predict(X))
    if two.promise is None:  # with one, sets are made on a scale of their own
        assert np.array_equal(two.decision_function(X), scores[:, 1] - scores[:, 0])
        assert np.array_equal(three.decision_function(X), three.label_scores(X))


@of_each
def test_sets_are_a_matrix_of_booleans(model):
    sets = learned(model).predict_set(X)
    assert sets.dtype == bool
    assert sets.shape == (360, 2)


@of_each
def test_the_report_is_that_of_the_sets(model):
    names = NAMES["text"]
    trained = fitted(model, X, names[Y])
    report = trained.domain_report(X, names[Y], DOMAINS * 10)
    direct = domaincover.domain_report(trained.predict_set(X), Y, DOMAINS, ("no", "yes"), tuple(range(0, 60, 10)))
    pd.testing.assert_frame_equal(report.to_frame(), direct.to_frame())


@of_each
def test_cells_of_the_smallest_size_count_in_the_report_and_smaller_ones_do_not(model):
    rows = np.concatenate([np.flatnonzero(Y == 0)[:5], np.flatnonzero(Y == 1)[:4]])
    report = learned(model).domain_report(X[rows], Y[rows], min_cell_size=5)
    assert np.isnan(report.recall).tolist() == [[False, True]]


@of_each
def test_labels_that_training_did_not_have_are_refused_by_the_report(model):
    with pytest.raises(InputError, match=r"labels that training did not: 7; the model knows \[0, 1\]"):
        learned(model).domain_report(X, np.where(Y == 0, 7, Y))


@of_each
def test_scores_and_reports_want_a_fitted_model(model):
    for ask in (model.predict, model.predict_set, model.label_scores, model.decision_function):
        with pytest.raises(NotFittedError):
            ask(X)


def test_to_label_lists_names_the_labels_of_sets():
    trained = fitted(CLASSIFIERS[0], X, NAMES["text"][Y])
    sets = trained.predict_set(X)
    lists = domaincover.to_label_lists(sets, trained.classes_)
    assert [len(part) for part in lists] == sets.sum(axis=1).tolist()
    assert [["no"] * bool(a) + ["yes"] * bool(b) for a, b in sets] == lists


def test_to_label_lists_of_no_sets_is_empty():
    assert domaincover.to_label_lists(np.zeros((0, 2), bool), ["a", "b"]) == []


def test_to_label_lists_refuses_sets_of_other_labels():
    with pytest.raises(InputError, match=r"a column for each of 3 classes, got shape \(2, 2\)"):
        domaincover.to_label_lists(np.ones((2, 2), bool), "abc")
