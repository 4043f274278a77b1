"""A promised classifier learns from some labels of a new domain."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import DataConversionWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from domaincover import InputError, PromisedSetClassifier, TableEncoder, load, save
from domaincover.calibration.few_labels import learn_correction


def turned(n_domains=30, n_rows=200, seed=0, shift=1.0):
    """Three labels whose means move with the domain, in four features: unlabelled rows do not say which is which."""
    rng = np.random.default_rng(seed)
    domains = np.repeat(np.arange(n_domains), n_rows)
    labels = rng.integers(3, size=len(domains))
    means = 2 * np.eye(3, 4) + shift * rng.normal(size=(n_domains, 3, 4))
    return means[domains, labels] + rng.normal(size=(len(domains), 4)), labels, domains


X, Y, DOMAINS = turned()
NEW, NEW_Y, NEW_DOMAINS = turned(n_domains=40, n_rows=300, seed=1)
FIRST = np.arange(300) < 100  # of a new domain; the others come later


@pytest.fixture(scope="module")
def model():
    return PromisedSetClassifier(LogisticRegression(), few_labels=(30, 60), random_state=0).fit(X, Y, domains=DOMAINS)


def first_rows(model, domain, n_labels):
    """Return a first batch of a domain, and so many of its labels, of the rows that the model chooses."""
    own = domain == NEW_DOMAINS
    rows, labels = NEW[own][FIRST], np.full(100, None, dtype=object)
    chosen = model.choose_rows(rows, n_labels) if n_labels else []
    labels[chosen] = NEW_Y[own][FIRST][chosen]
    return rows, labels


def later(domain):
    own = domain == NEW_DOMAINS
    return NEW[own][~FIRST], NEW_Y[own][~FIRST]


def sizes_and_hits(model, n_labels):
    found = []
    for domain in range(40):
        ward = model.adapt(*first_rows(model, domain, n_labels))
        rows, labels = later(domain)
        sets = ward.predict_set(rows)
        recall = [sets[labels == label, label].mean() for label in range(3)]
        found.append((sets.sum(axis=1).mean(), min(recall) >= 0.9))
    return np.mean(found, axis=0)


def test_labels_make_sets_smaller_and_the_promise_stands(model):
    (without, _), *with_labels = (sizes_and_hits(model, n) for n in (0, 30, 60))
    tolerance = 4 * np.sqrt(0.9 * 0.1 * (1 / 40 + 1 / 31))  # four standard errors: 40 new, 31 exchangeable domains
    for size, share in with_labels:
        assert size < 0.9 * without
        assert share >= 0.9 - tolerance


def test_what_labels_gain_is_told_from_domains_treated_as_new(model):
    gain = model.label_gain
    assert gain.index.tolist() == [0, 30, 60]
    assert gain["set_size"].is_monotonic_decreasing
    new = [sizes_and_hits(model, n)[0] for n in gain.index]
    assert np.allclose(gain["set_size"], new, rtol=0.15)
    assert gain["share_at_target"].between(0.8, 1).all()


def test_an_adapted_model_is_the_maximum_a_posteriori_and_says_what_it_was_made_from(model):
    rows, labels = first_rows(model, 3, 60)
    ward = model.adapt(rows, labels)
    known = pd.notna(labels)
    probabilities = model.predict_proba(rows)
    logs = np.log(probabilities)
    features = np.hstack([model.encoded_features(rows), logs - logs.mean(axis=1, keepdims=True)])
    encoded = np.clip((features - model.feature_scale_["mean"]) / model.feature_scale_["unit"], -5, 5)
    scale = model.few_labels_[60]["prior_scale"]
    expected = learn_correction(
        encoded[None, known], probabilities[None, known], labels[known].astype(int)[None], scale
    ).probabilities(probabilities, encoded[None])[0]
    assert np.allclose(ward.predict_proba(rows), expected)
    used = ward.adapted_
    assert (used["rows"], used["labels"], used["level"], used["prior_scale"]) == (100, 60, 60, scale)
    assert used["set_size"] < used["set_size_before"]
    assert used["set_size"] == ward.predict_set(rows[~known]).sum(axis=1).mean()
    assert "learned from 60 labels of 100 rows of one domain" in ward.promise
    assert ward.threshold_kind == "adapted"
    assert np.array_equal(ward.predict(rows), ward.predict_proba(rows).argmax(axis=1))


def test_an_adapted_model_is_saved_without_rows_and_predicts_as_before(model, tmp_path):
    ward = model.adapt(*first_rows(model, 3, 30))
    save(ward, tmp_path / "ward")
    again = load(tmp_path / "ward")
    assert np.array_equal(again.label_scores(NEW), ward.label_scores(NEW))
    assert again.adapted_ == ward.adapted_
    assert np.array_equal(again.predict_set(NEW[:1]), ward.predict_set(NEW)[:1])
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(loaded.adapt(*first_rows(model, 3, 30)).label_scores(NEW), ward.label_scores(NEW))
    assert loaded.label_gain.equals(model.label_gain)


def test_a_number_of_labels_between_two_is_calibrated_as_the_lower_one(model):
    rows, labels = first_rows(model, 3, 45)
    ward = model.adapt(rows, labels)
    assert (ward.adapted_["labels"], ward.adapted_["level"]) == (45, 30)
    assert "calibrated with 30 labels, this is expected but not proved" in ward.promise


@pytest.mark.parametrize("n_labels", [1, 29])
def test_too_few_labels_change_nothing_and_say_so(model, n_labels):
    rows, labels = first_rows(model, 3, n_labels)
    with pytest.warns(UserWarning, match=rf"{n_labels} rows? (is|are) labelled, .* learns from 30 labels or more"):
        ward = model.adapt(rows, labels)
    assert np.array_equal(ward.thresholds_, model.adapt(rows).thresholds_)
    assert ward.adapted_["level"] == 0


def test_labels_of_one_kind_correct_nothing(model):
    rows = NEW[NEW_DOMAINS == 3]
    one_kind = np.where(NEW_Y[NEW_DOMAINS == 3] == 2, 2.0, np.nan)
    assert np.allclose(model.adapt(rows, one_kind).predict_proba(NEW), model.predict_proba(NEW))


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_labels_may_be_missing_in_any_way(model, missing):
    rows, labels = first_rows(model, 5, 30)
    expected = model.adapt(rows, labels)
    labels[pd.isna(labels)] = missing
    assert np.array_equal(model.adapt(rows, labels).label_scores(NEW), expected.label_scores(NEW))


def test_all_rows_may_be_labelled(model):
    ward = model.adapt(NEW[NEW_DOMAINS == 3][FIRST], NEW_Y[NEW_DOMAINS == 3][FIRST])
    assert ward.adapted_["labels"] == 100
    assert ward.adapted_["set_size"] is None
    assert np.isfinite(ward.thresholds_).all()


def test_wrong_input_gets_one_line(model):
    rows, labels = first_rows(model, 3, 30)
    with pytest.raises(InputError, match="X has 99 rows and y 100"):
        model.adapt(rows[:99], labels)
    with pytest.raises(InputError, match="y holds labels that training did not: 7"):
        model.adapt(rows, np.where(pd.isna(labels), None, 7))
    with pytest.raises(InputError, match="labels must have one dimension, got shape \\(100, 2\\)"):
        model.adapt(rows, pd.DataFrame({"a": labels, "b": labels}))
    with pytest.raises(InputError, match="rows to label must be 1 or more, got 0"):
        model.choose_rows(rows, 0)
    with pytest.raises(InputError, match="few_labels must be whole numbers of at least 2"):
        PromisedSetClassifier(LogisticRegression(), few_labels=(0.5,)).fit(X, Y, domains=DOMAINS)
    with pytest.raises(InputError, match="label_rows must be one of 'uncertain', 'random', got 'difficult'"):
        PromisedSetClassifier(LogisticRegression(), label_rows="difficult").fit(X, Y, domains=DOMAINS)
    with pytest.warns(DataConversionWarning):
        model.adapt(rows, labels[:, None])


def test_rows_are_chosen_in_order_and_alike_for_a_seed(model):
    rows = NEW[NEW_DOMAINS == 3]
    found = model.choose_rows(rows, 30)
    assert len(np.unique(found)) == 30
    assert np.array_equal(model.choose_rows(rows, 20), found[:20])
    assert not np.array_equal(model.choose_rows(rows, 30, random_state=1), found)
    assert sorted(model.choose_rows(rows[:10], 30).tolist()) == list(range(10))


def test_without_labels_to_learn_from_a_model_says_so():
    without = PromisedSetClassifier(LogisticRegression(), few_labels=(), random_state=0).fit(X, Y, domains=DOMAINS)
    assert without.label_gain.empty
    with pytest.raises(InputError, match=r"nothing to learn from labels: it was fitted with few_labels=\(\)"):
        without.choose_rows(NEW, 30)
    with pytest.warns(UserWarning, match="which changes nothing: it was fitted with"):
        without.adapt(NEW[:300], NEW_Y[:300])


def test_where_labels_teach_nothing_sets_are_those_without_labels():
    data, new = (turned(n_domains=30, seed=seed, shift=0.0) for seed in (0, 1))
    model = PromisedSetClassifier(LogisticRegression(), random_state=0).fit(data[0], data[1], domains=data[2])
    rows = new[0][new[2] == 0]
    labels = np.where(np.arange(200) < 100, new[1][new[2] == 0], np.nan)
    with pytest.warns(UserWarning, match="labels will change nothing: its calibration domains are too small, or"):
        assert len(model.choose_rows(rows, 30)) == 30
    with pytest.warns(UserWarning, match="changes nothing"):
        ward = model.adapt(rows, labels)
    assert np.array_equal(ward.predict_set(new[0]), model.adapt(rows).predict_set(new[0]))


def test_held_out_domains_say_what_labels_are_worth_by_scorers_of_other_training_domains():
    model = PromisedSetClassifier(
        LogisticRegression(), calibration="held-out-domains", few_labels=(30,), random_state=0
    )
    model.fit(X, Y, domains=DOMAINS)
    assert model.few_labels_[30]["prior_scale"] > 0
    ward = model.adapt(*first_rows(model, 3, 30))
    assert "not proved" not in ward.promise
    assert ward.adapted_["set_size"] < ward.adapted_["set_size_before"]


def test_a_scorer_of_texts_learns_from_its_scores():
    words = np.array([f"{'good' if label else 'bad'} {k % 7}" for k, label in enumerate(Y)], dtype=object)
    scorer = make_pipeline(CountVectorizer(), LogisticRegression())
    model = PromisedSetClassifier(scorer, few_labels=(30,), random_state=0).fit(words, Y, domains=DOMAINS)
    assert model.feature_encoder_ is None
    assert model.encoded_features(words).shape == (len(words), 0)


def test_a_table_with_categories_and_missing_values_is_encoded_for_any_scorer():
    table = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.where(Y == 0, "x", "y"))
    table.loc[::7, "a"] = np.nan
    scorer = make_pipeline(TableEncoder(scale=False), HistGradientBoostingClassifier(max_iter=5, random_state=0))
    model = PromisedSetClassifier(scorer, few_labels=(30,), random_state=0).fit(table, Y, domains=DOMAINS)
    assert model.encoded_features(table).shape == (len(table), 7)  # a is missing, x or y
    labels = np.where(np.arange(200) < 60, Y[:200], np.nan)
    ward = model.adapt(table[:200], labels)
    assert np.isfinite(ward.label_scores(table[:200])).all()
