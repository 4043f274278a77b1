"""Exported models in onnxruntime: the sets and scores of `predict`, row by row, and what cannot be exported."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from domaincover import (
    ConformalSetClassifier,
    ERMClassifier,
    InputError,
    MeanClassifier,
    PromisedSetClassifier,
    SetCoverClassifier,
    TableEncoder,
    export_onnx,
    load,
    onnx_inputs,
    save,
)
from domaincover.datasets import load_storms

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def network(kind=ERMClassifier, **settings):
    return kind(epochs=2, random_state=0, **settings)


def trees():
    boosting = HistGradientBoostingClassifier(max_iter=5, early_stopping=False, random_state=0)
    return make_pipeline(TableEncoder(scale=False), boosting)


def forest(n_trees=9):
    return make_pipeline(
        TableEncoder(scale=False), RandomForestClassifier(n_trees, min_samples_leaf=20, random_state=0)
    )


def mean():
    return MeanClassifier([("network", network()), ("trees", trees())])


def promised(scorer, **settings):
    return PromisedSetClassifier(scorer, domain_confidence=0.7, random_state=0, **({"folds": 2} | settings))


MODELS = {
    "set-cover": lambda: network(SetCoverClassifier),
    "linear": lambda: network(network="linear"),
    "conformal": lambda: ConformalSetClassifier(network(), random_state=0),
    "promised": lambda: promised(network()),
    "promised, held-out": lambda: promised(network(), calibration="held-out-domains", folds=None),
    "promised, jackknife": lambda: promised(network(), calibration="jackknife-minmax", folds=5),
    "set-cover, jackknife": lambda: promised(network(SetCoverClassifier), calibration="jackknife-minmax", folds=5),
    "conformal trees, cross-fit": lambda: ConformalSetClassifier(trees(), calibration="cross-fit", folds=2),
    "promised set-cover": lambda: promised(network(SetCoverClassifier)),
    "promised trees": lambda: promised(trees()),
    "trees, held-out": lambda: promised(trees(), calibration="held-out-domains", folds=None),
    "promised forest": lambda: promised(forest()),
    "mean": mean,
    "promised mean": lambda: promised(mean()),
}


@pytest.fixture(scope="module")
def storms():
    """Return storms with dates, booleans, and missing values of all kinds."""
    X, y, seasons = load_storms()
    hours = pd.to_timedelta(24 * X["day"] + 6 * (np.arange(len(X)) % 4), unit="h")
    X = X.assign(when=pd.Timestamp("2000-01-01") + hours, is_late=X["day"] > 250)
    X.loc[::17, "status"] = None
    X.loc[::23, "when"] = pd.NaT
    recent = (seasons >= 1996).to_numpy()
    return X[recent], y[recent], seasons[recent]


@pytest.fixture(scope="module")
def unusual(storms):
    """Return the same rows, those of training among them, with values that training did not have."""
    X = storms[0].astype({"wind": float, "pressure": float})
    X.iloc[::29, X.columns.get_loc("status")] = "never seen"
    X.iloc[::31, X.columns.get_loc("wind")] = 1e6
    X.iloc[::37, X.columns.get_loc("pressure")] = np.nan
    return X


def fitted(make, storms):
    X, y, seasons = storms
    train = (seasons < 2016).to_numpy()
    return make().fit(X[train], y[train], domains=seasons[train])


def run(path, inputs):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(["sets", "scores"], inputs)


def assert_same_sets(model, table, path):
    export_onnx(model, path)
    sets, scores = run(path, onnx_inputs(model, table))
    np.testing.assert_array_equal(sets, model.predict_set(table))
    assert sets.dtype == bool
    np.testing.assert_allclose(scores, model.label_scores(table), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_every_row_has_the_set_that_predict_gives(name, storms, unusual, tmp_path):
    model = fitted(MODELS[name], storms)
    assert_same_sets(model, unusual, tmp_path / "model.onnx")


@pytest.mark.parametrize("scorer", [network, trees])
def test_an_adapted_model_has_what_labels_of_its_domain_taught_it(scorer, tmp_path):
    rng = np.random.default_rng(0)
    domains, labels = np.repeat(np.arange(20), 200), rng.integers(3, size=4000)
    means = 2 * np.eye(3) + rng.normal(size=(20, 3, 3))
    X = pd.DataFrame(means[domains, labels] + rng.normal(size=(4000, 3)), columns=list("abc"))
    X = X.assign(kind=rng.choice(["x", "y"], 4000)).where(rng.random((4000, 4)) < 0.95)
    model = promised(scorer(), few_labels=(60,)).fit(X, labels, domains=domains)
    adapted = model.adapt(X[:100], labels[:100])
    assert np.abs(adapted.predict_proba(X) - model.predict_proba(X)).max() > 0.1
    assert_same_sets(adapted, X, tmp_path / "model.onnx")


@pytest.mark.filterwarnings("ignore:.*they will be in every set")
def test_two_labels_and_a_label_that_some_folds_lack(storms, tmp_path):
    X, y, seasons = (part.iloc[:3000] for part in storms)
    y = y.where(y == "hurricane", "other")
    assert_same_sets(promised(trees()).fit(X, y, domains=seasons), X, tmp_path / "two.onnx")
    y = y.where(seasons != seasons.iloc[0], "rare")
    model = promised(trees(), folds=3, on_infeasible="widen").fit(X, y, domains=seasons)
    assert min(len(each.classes_) for each in model.estimators_) == 2
    assert_same_sets(model, X, tmp_path / "rare.onnx")


def test_text_that_writes_numbers_is_given_as_numbers(tmp_path):
    rng = np.random.default_rng(0)
    price = rng.integers(1000, 9999, 600)
    X = pd.DataFrame({"price": [f"${value:,}" for value in price], "size": rng.normal(size=600)})
    y = np.where(price + rng.normal(0, 500, 600) > 5000, "dear", "cheap")
    model = network(SetCoverClassifier).fit(X, y, domains=np.arange(600) % 12)
    assert onnx_inputs(model, X)["price"].tolist() == price.tolist()
    assert_same_sets(model, X, tmp_path / "model.onnx")


def test_the_file_tells_its_labels_columns_and_promise(storms, tmp_path):
    model = fitted(MODELS["promised"], storms)
    export_onnx(model, tmp_path / "model.onnx")
    told = {each.key: json.loads(each.value) for each in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert told["labels"] == ["hurricane", "storm", "weaker"]
    assert told["promise"] == model.promise
    assert told["thresholds"] == "fixed"
    assert {"name": "when", "kind": "date"} in told["columns"]
    assert [each["name"] for each in told["columns"]] == list(storms[0].columns)


def test_the_command_exports_a_saved_model(here, storms, unusual, tmp_path):
    model = fitted(MODELS["promised mean"], storms)
    save(model, tmp_path / "model")
    code, printed, told = here("export", tmp_path / "model", "--out", tmp_path / "model.onnx")
    assert (code, printed) == (0, "")
    assert "model.onnx: 3 labels, thresholds fixed." in told
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(
        run(tmp_path / "model.onnx", onnx_inputs(loaded, unusual))[0], loaded.predict_set(unusual)
    )


def refusals():
    """Return models that cannot be exported, by what the message says."""
    encoded = (TableEncoder(), LogisticRegression(max_iter=1000))
    return {
        "a LogisticRegression cannot be exported": lambda: ConformalSetClassifier(
            LogisticRegression(max_iter=1000), random_state=0
        ),
        "a pipeline of TableEncoder, LogisticRegression": lambda: promised(make_pipeline(*encoded)),
        "a pipeline of StandardScaler, HistGradientBoosting": lambda: promised(
            make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=2))
        ),
        "calibration='held-out-domains'.* around a Pipeline cannot": lambda: ConformalSetClassifier(
            trees(), calibration="held-out-domains", random_state=0
        ),
        "reject rows with missing values": lambda: promised(
            make_pipeline(TableEncoder(scale=False), GradientBoostingClassifier(n_estimators=2))
        ),
        "standardize=False": lambda: network(standardize=False),
    }


@pytest.mark.parametrize("message", refusals())
def test_what_cannot_be_exported_is_refused_by_name(message, storms, tmp_path):
    X, y, seasons = (part.iloc[:3000] for part in storms)
    model = refusals()[message]().fit(X[["lat", "long", "day"]], y, domains=seasons)
    with pytest.raises(InputError, match=message):
        export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_splits_by_category_are_refused(storms, tmp_path):
    X, y, seasons = storms
    boosting = HistGradientBoostingClassifier(max_iter=2, categorical_features=[0], early_stopping=False)
    scorer = make_pipeline(TableEncoder(scale=False), boosting)
    X = pd.DataFrame({"month": pd.to_datetime(X["when"]).dt.month % 5})
    with pytest.raises(InputError, match="HistGradientBoostingClassifier with categories cannot"):
        export_onnx(promised(scorer).fit(X, y, domains=seasons), tmp_path / "model.onnx")


def test_arrays_without_names_and_columns_named_like_an_output_are_refused(storms, tmp_path):
    X, y, seasons = (part.iloc[:600] for part in storms)
    numbers = X[["lat", "long"]]
    model = network().fit(numbers.to_numpy(), y, domains=seasons)
    with pytest.raises(InputError, match="array without column names"):
        export_onnx(model, tmp_path / "model.onnx")
    model = network().fit(numbers.set_axis(["sets", "long"], axis=1), y, domains=seasons)
    with pytest.raises(InputError, match="column 'sets' cannot be an input"):
        export_onnx(model, tmp_path / "model.onnx")
    with pytest.raises(InputError, match="a LogisticRegression cannot be exported"):
        export_onnx(LogisticRegression(), tmp_path / "model.onnx")


def test_the_command_refuses_with_one_line_and_writes_nothing(refused, storms, tmp_path):
    X, y, seasons = (part.iloc[:600] for part in storms)
    folder, out = tmp_path / "model", tmp_path / "model.onnx"
    save(ConformalSetClassifier(LogisticRegression()).fit(X[["lat", "long"]], y, domains=seasons), folder)
    refused("a LogisticRegression cannot be exported;", "export", folder, "--out", out)
    refused("model.bin must end in .onnx.", "export", folder, "--out", tmp_path / "model.bin")
