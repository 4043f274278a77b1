"""A model that is loaded is the model that was saved."""

import datetime as dt
import json
import shutil
import subprocess
import sys
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import Birch
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted
from torch import nn

from domaincover import (
    ConformalSetClassifier,
    ERMClassifier,
    GaussianDomains,
    InputError,
    SetCoverClassifier,
    TableEncoder,
    load,
    save,
)
from domaincover.estimators.fitted_trees import TreesClassifier
from domaincover.predictors.calibrated_predictors import last_step
from domaincover.saving.models import SavedFolder, load_extra, model_checksum
from domaincover.saving.values import from_json, to_json

DATA = GaussianDomains.of_paper(n_features=4).sample(n_domains=6, n_per_domain=40, rng=np.random.default_rng(0))
X, y, DOMAINS = DATA.examples, DATA.labels, DATA.domains
SMALL = {"hidden": 4, "epochs": 2, "random_state": 0}


def table(n=240):
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(50, 10, n)),
            "smoker": rng.random(n) < 0.3,
            "ward": rng.choice(np.array(["A", "B", None], dtype=object), n),
            "since": pd.Timestamp("2020-01-01 06:00") + pd.to_timedelta(rng.integers(0, 900, n), unit="h"),
        }
    )


def small_network(n_features, n_labels):
    return nn.Sequential(nn.Linear(n_features, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, n_labels))


OURS = {
    "SET-COVER": SetCoverClassifier(**SMALL),
    "SET-COVER, linear": SetCoverClassifier(0.8, network="linear", epochs=2, random_state=0),
    "SET-COVER, two layers": SetCoverClassifier(hidden=(np.int64(4), 3), epochs=2, random_state=0),
    "ERM": ERMClassifier(**SMALL),
    "conformal, logistic regression": ConformalSetClassifier(LogisticRegression(C=0.1), random_state=0),
    "conformal, boosted trees": ConformalSetClassifier(GradientBoostingClassifier(n_estimators=2), random_state=0),
    "conformal, ours": ConformalSetClassifier(ERMClassifier(**SMALL), "pooled", random_state=0),
    "conformal, single": ConformalSetClassifier(GaussianNB(), "single", random_state=0),
    "conformal, pipeline": ConformalSetClassifier(make_pipeline(TableEncoder(), GaussianNB()), random_state=0),
}


def fitted(model):
    return clone(model).fit(X, y, domains=DOMAINS)


@cache
def of_ours(name):
    return fitted(OURS[name])


@cache
def with_function():
    return fitted(SetCoverClassifier(network=small_network, epochs=2, random_state=0))


def reloaded(model, folder, **options):
    save(model, folder)
    return load(folder, **options)


def has_trees(loaded):
    return isinstance(last_step(loaded), TreesClassifier)


def assert_same_answers(loaded, model, examples=X):
    for method in ("predict_set", "label_scores", "predict_proba", "decision_function", "predict"):
        if hasattr(model, method) and not (method == "decision_function" and has_trees(loaded)):
            answer, before = getattr(loaded, method)(examples), getattr(model, method)(examples)
            np.testing.assert_array_equal(answer, before, strict=True)


@pytest.mark.parametrize("name", OURS)
def test_a_loaded_model_gives_the_same_sets_and_scores(name, tmp_path):
    model = of_ours(name)
    assert_same_answers(reloaded(model, tmp_path / "model"), model)


@pytest.mark.parametrize("name", OURS)
def test_a_loaded_model_has_the_same_parameters(name, tmp_path):
    loaded = reloaded(of_ours(name), tmp_path / "model")
    assert repr(clone(loaded).get_params()) == repr(clone(OURS[name]).get_params())


@pytest.mark.parametrize("name", OURS)
def test_a_loaded_model_counts_as_fitted(name, tmp_path):
    check_is_fitted(reloaded(of_ours(name), tmp_path / "model"))


@pytest.mark.parametrize("name", OURS)
def test_everything_that_fit_learned_comes_back(name, tmp_path):
    model = of_ours(name)
    loaded = reloaded(model, tmp_path / "model")
    kept = {attribute: value for attribute, value in vars(model).items() if attribute != "_history"}
    assert vars(loaded).keys() == kept.keys()
    for attribute, before in kept.items():
        after = getattr(loaded, attribute)
        if isinstance(before, pd.DataFrame):
            pd.testing.assert_frame_equal(after, before, check_exact=True)
        elif isinstance(before, np.ndarray):
            np.testing.assert_array_equal(after, before, strict=True)
        else:
            assert type(after) in (type(before), TreesClassifier)


def test_a_loaded_model_can_be_fitted_again_to_the_same_end(tmp_path):
    model = of_ours("SET-COVER")
    again = reloaded(model, tmp_path / "model").fit(X, y, domains=DOMAINS)
    assert_same_answers(again, model)


def test_a_model_saved_by_its_own_method_can_be_loaded(tmp_path):
    model = of_ours("ERM")
    model.save(tmp_path / "model")
    assert_same_answers(load(tmp_path / "model"), model)


@pytest.mark.parametrize("read", [load, load_extra])
def test_a_model_that_is_replaced_twice_while_it_is_read_is_read_again(tmp_path, monkeypatch, read):
    """By another and again by one with the same content, so that its manifest looks unchanged."""
    one, other = (fitted(ERMClassifier(epochs=1, hidden=2, random_state=seed)) for seed in range(2))
    whole, disturbed = SavedFolder.read, []

    def read_while_others_save(saved, name):
        if disturbed:
            return whole(saved, name)
        disturbed.append(name)
        for model in (other, one):
            save(model, tmp_path / "model", extra={"a": 1})
        raise InputError(f"{name} is not that of the manifest")

    save(one, tmp_path / "model", extra={"a": 1})
    monkeypatch.setattr(SavedFolder, "read", read_while_others_save)
    found = read(tmp_path / "model")
    assert disturbed
    assert found == {"a": 1} if read is load_extra else np.array_equal(found.label_scores(X), one.label_scores(X))


def test_another_process_gets_the_same_scores_and_sets(tmp_path):
    np.save(tmp_path / "X.npy", X)
    names = ("SET-COVER", "conformal, pipeline")
    for name in names:
        save(of_ours(name), tmp_path / name)
    program = """
import sys, numpy, domaincover
X = numpy.load("X.npy")
for name in sys.argv[1:]:
    model = domaincover.load(name)
    numpy.savez(name, scores=model.label_scores(X), sets=model.predict_set(X))
"""
    subprocess.run([sys.executable, "-c", program, *names], check=True, cwd=tmp_path)
    for name in names:
        with np.load(tmp_path / f"{name}.npz") as there:
            np.testing.assert_array_equal(there["scores"], of_ours(name).label_scores(X), strict=True)
            np.testing.assert_array_equal(there["sets"], of_ours(name).predict_set(X), strict=True)


def test_a_table_with_missing_values_dates_and_categories_is_encoded_as_before(tmp_path):
    model = SetCoverClassifier(**SMALL).fit(table(), y, domains=DOMAINS)
    loaded = reloaded(model, tmp_path / "model")
    assert loaded.encoder_.categories_ == model.encoder_.categories_
    assert loaded.feature_names_in_.tolist() == ["age", "smoker", "ward", "since"]
    assert_same_answers(loaded, model, table())


def test_an_encoder_can_be_saved_alone(tmp_path):
    encoder = TableEncoder(max_categories=2).fit(table())
    loaded = reloaded(encoder, tmp_path / "encoder")
    np.testing.assert_array_equal(loaded.transform(table()), encoder.transform(table()), strict=True)


def test_a_pipeline_keeps_its_steps_and_the_way_they_return_tables(tmp_path):
    steps = [TableEncoder(scale=False).set_output(transform="pandas"), HistGradientBoostingClassifier(max_iter=2)]
    pipeline = make_pipeline(*steps).fit(table(), y)
    loaded = reloaded(pipeline, tmp_path / "model")
    assert list(loaded.named_steps) == list(pipeline.named_steps)
    pd.testing.assert_frame_equal(loaded[0].transform(table()), pipeline[0].transform(table()))
    assert_same_answers(loaded, pipeline, table())


def test_a_pipeline_that_ends_in_set_cover_answers_with_the_same_sets(tmp_path):
    pipeline = make_pipeline(StandardScaler(), "passthrough", SetCoverClassifier(**SMALL))
    pipeline.fit(X, y, setcoverclassifier__domains=DOMAINS)
    loaded = reloaded(pipeline, tmp_path / "model")
    np.testing.assert_array_equal(
        loaded[-1].predict_set(loaded[:-1].transform(X)), pipeline[-1].predict_set(pipeline[:-1].transform(X))
    )


def test_a_pipelines_cache_on_this_machine_is_not_saved(tmp_path):
    pipeline = make_pipeline(StandardScaler(), GaussianNB(), memory=str(tmp_path / "cache")).fit(X, y)
    assert reloaded(pipeline, tmp_path / "model").memory is None


def test_an_estimator_calibrated_as_it_is_stays_one_object(tmp_path):
    prefit = LogisticRegression().fit(X, y)
    model = ConformalSetClassifier(prefit, calibration="prefit").fit(X, y, domains=DOMAINS)
    loaded = reloaded(model, tmp_path / "model")
    assert loaded.estimator_ is loaded.estimator
    assert_same_answers(loaded, model)


def test_a_random_state_object_is_saved_as_none(tmp_path):
    model = fitted(ERMClassifier(hidden=4, epochs=2, random_state=np.random.RandomState(0)))
    assert reloaded(model, tmp_path / "model").random_state is None


# Names


NAMES = {
    "int64": np.array([3, 7]),
    "int8": np.array([3, 7], dtype=np.int8),
    "text": np.array(["no", "yes\n“ß”"], dtype=object),
    "booleans": np.array([False, True]),
    "floats": np.array([0.1, 1e300]),
    "a tuple": [("a", 1), ("b", 2)],
    "text and numbers": [1, "1"],
    "dates": [dt.date(2026, 1, 31), dt.date(2026, 2, 1)],
    "time stamps": [pd.Timestamp("2026-01-31 10:00:00.123456789"), pd.Timestamp("2026-02-01")],
}


def column(names, codes):
    objects = np.empty(len(names), dtype=object)
    objects[:] = list(names)
    return names[codes] if isinstance(names, np.ndarray) else objects[codes]


@pytest.mark.filterwarnings("ignore:different domains look alike")  # 1 and "1"
@pytest.mark.parametrize("kind", NAMES)
def test_names_of_domains_come_back_with_their_types(kind, tmp_path):
    domains = column(NAMES[kind], DOMAINS % 2)
    model = SetCoverClassifier(**SMALL).fit(X, y, domains=domains)
    loaded = reloaded(model, tmp_path / "model")
    np.testing.assert_array_equal(loaded.domains_, model.domains_, strict=True)
    assert [type(name) for name in loaded.domains_] == [type(name) for name in model.domains_]
    pd.testing.assert_frame_equal(loaded.multipliers_, model.multipliers_)


@pytest.mark.parametrize("kind", ["int64", "int8", "text", "booleans"])
def test_names_of_labels_come_back_with_their_types(kind, tmp_path):
    model = SetCoverClassifier(**SMALL).fit(X, NAMES[kind][y], domains=DOMAINS)
    loaded = reloaded(model, tmp_path / "model")
    np.testing.assert_array_equal(loaded.classes_, model.classes_, strict=True)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X), strict=True)


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.dates(),
    st.datetimes().map(lambda moment: moment.replace(fold=0)),
    st.integers(-(2**31), 2**31 - 1).map(np.int32),
    st.floats(width=32).map(np.float32),
    st.booleans().map(np.bool_),
    st.text(min_size=1).map(lambda text: np.str_(text.rstrip("\0"))),
    st.integers(-(2**60), 2**60).map(lambda count: np.datetime64(count, "us")),
    st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)).map(pd.Timestamp),
)


@given(st.recursive(plain, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6))
def test_plain_values_come_back_as_they_were(value):
    after = from_json(to_json(value))
    assert type(after) is type(value)
    assert repr(after) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        np.array([np.inf, -np.inf, np.nan, -0.0, 5e-324]),
        np.array([[1, 2], [3, 4]], dtype=">u2"),
        np.zeros((0, 3), dtype=np.float16),
        np.array(["a", "ccc"]),
        np.array(["2026-01-31", "NaT"], dtype="M8[D]"),
        np.array(7),
        pd.Timestamp("2026-01-31 10:00:00").to_pydatetime(),
        pd.Timestamp("2026-01-31").as_unit("s"),
    ],
    ids=repr,
)
def test_arrays_and_dates_come_back_as_they_were(value):
    after = from_json(to_json(value))
    assert repr((after, type(after), getattr(after, "dtype", None), getattr(after, "unit", None))) == repr(
        (value, type(value), getattr(value, "dtype", None), getattr(value, "unit", None))
    )


def test_an_array_of_another_kind_is_refused():
    with pytest.raises(InputError, match="an array of complex128 cannot be saved"):
        to_json(np.array([1j]))


@pytest.mark.parametrize("name", [frozenset("ab"), b"bytes", pd.Period("2026"), 1 + 2j, pd.Timestamp(0, tz="UTC")])
def test_a_name_of_another_kind_is_refused_by_its_kind(name, tmp_path):
    model = ConformalSetClassifier(GaussianNB(), calibration="training-data")
    model.fit(X, y, domains=column([name, "b"], DOMAINS % 2))
    with pytest.raises(InputError, match=f"domains_ of ConformalSetClassifier.* is a .*{type(name).__name__}; only"):
        save(model, tmp_path / "model")


# Networks made by a function


def test_weights_of_a_functions_network_come_back_with_the_function(tmp_path):
    model = with_function()
    loaded = reloaded(model, tmp_path / "model", network=small_network)
    assert loaded.network is small_network
    assert_same_answers(loaded, model)


def test_a_functions_network_inside_of_another_model_comes_back(tmp_path):
    model = fitted(ConformalSetClassifier(ERMClassifier(network=small_network, epochs=2), random_state=0))
    assert_same_answers(reloaded(model, tmp_path / "model", network=small_network), model)


def test_a_functions_network_without_the_function_says_how_to_pass_it(tmp_path):
    model = with_function()
    with pytest.raises(InputError, match=r"made by the function 'small_network'.*load\(folder, network=small_network"):
        reloaded(model, tmp_path / "model")


def test_loading_with_a_function_leaves_torchs_random_numbers_alone(tmp_path):
    save(with_function(), tmp_path / "model")
    before = torch.get_rng_state()
    load(tmp_path / "model", network=small_network)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (lambda a, b: nn.Linear(a, b), "'weight' is not in the file"),
        (lambda a, b: small_network(a, b + 1), r"'3\.(weight|bias)' is \(2, ?3?\).* in the file and \(3"),
        (lambda a, b: small_network(a, b).double(), "float32 in the file and .*float64 in the network"),
        (lambda *_: "network", "must return a torch.nn.Module, got str"),
    ],
)
def test_weights_that_do_not_fit_the_functions_network_are_refused(network, message, tmp_path):
    model = with_function()
    with pytest.raises(InputError, match=message) as refused:
        reloaded(model, tmp_path / "model", network=network)
    assert "\n" not in str(refused.value)


def test_tied_weights_stay_tied(tmp_path):
    def tied(n_features, n_labels):
        layer = nn.Linear(n_features, n_features)
        return nn.Sequential(layer, nn.Tanh(), layer, nn.Linear(n_features, n_labels))

    model = fitted(ERMClassifier(network=tied, epochs=2))
    loaded = reloaded(model, tmp_path / "model", network=tied)
    assert loaded.network_[0].weight is loaded.network_[2].weight
    assert_same_answers(loaded, model)


class Talkative(nn.Linear):
    """Keeps more than tensors."""

    def get_extra_state(self):
        return "hello"

    def set_extra_state(self, state):
        """Nothing is done with it."""


def test_a_network_that_keeps_more_than_tensors_is_refused(tmp_path):
    model = fitted(ERMClassifier(network=Talkative, epochs=2))
    with pytest.raises(InputError, match="the network's '_extra_state' is a str; only tensors can be saved"):
        save(model, tmp_path / "model")


def test_a_function_for_a_model_that_needs_none_is_refused(tmp_path):
    with pytest.raises(InputError, match="was not made with a function"):
        reloaded(of_ours("ERM"), tmp_path / "model", network=small_network)


# scikit-learn's own


SKLEARN = {
    "trees by histogram": HistGradientBoostingClassifier(max_iter=3),
    "boosted trees": GradientBoostingClassifier(n_estimators=3),
    "random forest": RandomForestClassifier(3),
    "extra trees": ExtraTreesClassifier(3),
    "neighbours": KNeighborsClassifier(),
    "neighbours by ball tree": KNeighborsClassifier(algorithm="ball_tree", p=1),
    "support vectors": SVC(),
    "perceptron": MLPClassifier(4, max_iter=2),
    "logistic regression": LogisticRegression(),
    "gradient descent": SGDClassifier(loss="log_loss"),
    "linear discriminant": LinearDiscriminantAnalysis(),
    "quadratic discriminant": QuadraticDiscriminantAnalysis(),
    "naive Bayes": GaussianNB(),
    "calibrated": CalibratedClassifierCV(GaussianNB(), cv=2),
    "calibrated pipeline": CalibratedClassifierCV(make_pipeline(TableEncoder(), GaussianNB()), cv=2),
    "frozen": FrozenEstimator(LogisticRegression().fit(X, y)),
    "searched": GridSearchCV(LogisticRegression(), {"C": [1.0, 2.0]}, cv=2),
    "searched trees": GridSearchCV(RandomForestClassifier(2), {"max_depth": [2, 3]}, cv=2),
    "best columns": make_pipeline(SelectKBest(k=2), GaussianNB()),
}


@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}")
@pytest.mark.parametrize("name", SKLEARN)
def test_scikit_learns_classifiers_answer_as_before(name, tmp_path):
    labels = np.array(["a", "b", "c"], dtype=object)[y + (X[:, 0] > 1)]
    model = clone(SKLEARN[name]).fit(X, labels)
    assert_same_answers(reloaded(model, tmp_path / "model"), model)


def test_a_pipeline_over_a_table_with_text_answers_as_before(tmp_path):
    frame = table().assign(note=[f"word{k % 7} of {k % 5}" for k in range(240)]).drop(columns="since")
    columns = [
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector(dtype_include="float")),
        ("levels", OneHotEncoder(handle_unknown="ignore"), ["ward"]),
        ("text", TfidfVectorizer(), "note"),
        ("as they are", "passthrough", ["smoker"]),
    ]
    model = make_pipeline(ColumnTransformer(columns, sparse_threshold=1), LogisticRegression()).fit(frame, y)
    assert_same_answers(reloaded(model, tmp_path / "model"), model, frame)


def test_boosting_over_categories_is_refused_with_advice(tmp_path):
    frame = table()[["age", "ward"]].astype({"ward": "category"})
    model = ConformalSetClassifier(HistGradientBoostingClassifier(max_iter=3), random_state=0)
    model.fit(frame, y, domains=DOMAINS)
    with pytest.raises(InputError, match=r"HistGradientBoostingClassifier with categories .* with TableEncoder"):
        save(model, tmp_path / "model")


def test_neighbours_among_sparse_rows_answer_as_before(tmp_path):
    sparse = csr_matrix(np.where(X > 0, X, 0))
    model = KNeighborsClassifier().fit(sparse, y)
    assert_same_answers(reloaded(model, tmp_path / "model"), model, sparse)


class Doubler(FunctionTransformer):
    """A user's own step."""


def test_a_type_of_the_users_own_is_refused_when_saving(tmp_path):
    model = make_pipeline(Doubler(), GaussianNB()).fit(X, y)
    with pytest.raises(InputError, match=r"Doubler contains a '.*test_models\.Doubler', which is not a trusted type"):
        save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_type_that_the_user_vouches_for_is_saved_and_loaded(tmp_path):
    model, own = make_pipeline(Doubler(), GaussianNB()).fit(X, y), f"{__name__}.Doubler"
    save(model, tmp_path / "model", trusted=[own])
    assert_same_answers(load(tmp_path / "model", trusted=own), model)


def test_a_type_that_only_saving_was_told_to_trust_is_refused_when_loading(tmp_path):
    save(make_pipeline(Doubler(), GaussianNB()).fit(X, y), tmp_path / "model", trusted=[f"{__name__}.Doubler"])
    with pytest.raises(InputError, match=r"part-0.skops contains a '.*Doubler', which is not a trusted type"):
        load(tmp_path / "model")


def test_a_nameless_function_is_refused_when_saving(tmp_path):
    model = make_pipeline(FunctionTransformer(lambda rows: rows), GaussianNB()).fit(X, y)
    with pytest.raises(InputError, match=r"this FunctionTransformer .* '.*<lambda>', which is not a trusted type"):
        save(model, tmp_path / "model")


def test_what_skops_cannot_write_is_refused_when_saving(tmp_path):
    with pytest.raises(InputError, match=r"this Birch cannot be saved: .*not supported"):
        save(Birch().fit(X), tmp_path / "model")


# Extra, and what cannot be saved at all


def test_extra_comes_back(tmp_path):
    extra = {"columns": ["age", "ward"], "domain": "ward", "target": {"recall": 0.9}}
    save(of_ours("ERM"), tmp_path / "model", extra)
    assert load_extra(tmp_path / "model") == extra


def test_without_extra_there_is_none(tmp_path):
    save(of_ours("ERM"), tmp_path / "model")
    assert load_extra(tmp_path / "model") is None


@pytest.mark.parametrize("extra", [{"a": np.nan}, {"a": object()}, {("a",): 1}])
def test_extra_that_strict_json_cannot_hold_is_refused(extra, tmp_path):
    with pytest.raises(InputError, match="extra must be JSON-serializable"):
        save(of_ours("ERM"), tmp_path / "model", extra)


@pytest.mark.parametrize("name", OURS)
def test_a_model_that_is_not_fitted_is_refused(name, tmp_path):
    with pytest.raises(InputError, match="is not fitted; call fit before saving it"):
        save(clone(OURS[name]), tmp_path / "model")


def test_what_is_no_estimator_is_refused(tmp_path):
    with pytest.raises(InputError, match="a dict cannot be saved"):
        save({}, tmp_path / "model")


def test_a_model_is_identified_by_a_checksum_that_copies_share_and_other_models_do_not(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.tile([0, 1], 20)
    for name, fitted in (("one", LogisticRegression().fit(X, y)), ("other", LogisticRegression(C=0.1).fit(X, y))):
        save(fitted, tmp_path / name)
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    one, copy, other = (model_checksum(tmp_path / name) for name in ("one", "copy", "other"))
    assert one == copy == json.loads((tmp_path / "one" / "model.json").read_text())["checksum"]
    assert one != other
