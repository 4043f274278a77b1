"""The classifier that compares domains: what it learns, what it refuses, and where it fits in."""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from torch import nn

from domaincover import (
    ConformalSetClassifier,
    DomainGeneralizationClassifier,
    ERMClassifier,
    GaussianDomains,
    ImageNetwork,
    InputError,
    PromisedSetClassifier,
    TextNetwork,
    TrainingRun,
    assess,
    load,
)
from domaincover.estimators.assessment import single_label_version
from domaincover.estimators.recipes import make_classifier
from domaincover.estimators.stacked_fit import fit_together
from domaincover.terminal.processes import one_thread
from tests.tiny_models import tiny_bert_folder, tiny_resnet_folder

pytestmark = pytest.mark.no_cover  # tests of objectives and estimators count these lines

PENALTIES = ("irm", "vrex", "mmd", "coral")
DATA = GaussianDomains.of_paper(4).sample(12, 40, np.random.default_rng(0))
X, Y, DOMAINS = DATA.examples, DATA.labels, DATA.domains
QUICK = {"epochs": 4, "hidden": 8, "random_state": 0, "min_cell_size": 5}
of_each = pytest.mark.parametrize("penalty", PENALTIES)


@pytest.fixture(autouse=True)
def in_one_thread():
    with one_thread():  # on a busy machine, many times as fast
        yield


def quick(penalty="vrex", **settings):
    return DomainGeneralizationClassifier(penalty, **QUICK | settings)


@cache
def fitted(penalty):
    return quick(penalty).fit(X, Y, domains=DOMAINS)


@of_each
def test_a_set_is_the_most_likely_label_alone(penalty):
    model = fitted(penalty)
    sets = model.predict_set(X)
    assert (sets.sum(axis=1) == 1).all()
    assert np.array_equal(model.classes_[sets.argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("penalty", ["coral", "vrex"])
def test_the_same_random_state_gives_the_same_model_and_another_one_another(penalty):
    scores = fitted(penalty).label_scores(X)
    assert np.array_equal(quick(penalty).fit(X, Y, domains=DOMAINS).label_scores(X), scores)
    assert not np.array_equal(quick(penalty, random_state=1).fit(X, Y, domains=DOMAINS).label_scores(X), scores)


def test_every_penalty_gives_another_model():
    scores = [fitted(penalty).label_scores(X) for penalty in PENALTIES]
    assert len({each.tobytes() for each in scores}) == len(PENALTIES)


@pytest.mark.parametrize(
    ("penalty", "changes"),
    [
        *((penalty, {"weight": 50.0, "warmup_steps": 0}) for penalty in ("irm", "vrex", "mmd", "coral")),
        *((penalty, {"domains_per_batch": 2}) for penalty in PENALTIES),
    ],
)
def test_every_setting_of_a_penalty_matters(penalty, changes):
    other = quick(penalty, **changes).fit(X, Y, domains=DOMAINS)
    assert not np.array_equal(other.label_scores(X), fitted(penalty).label_scores(X))


@pytest.mark.parametrize("penalty", ["mmd", "irm"])
def test_a_model_that_is_loaded_is_the_one_that_was_saved(penalty, tmp_path):
    model = fitted(penalty)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert isinstance(loaded, DomainGeneralizationClassifier)
    assert loaded.get_params() == model.get_params()
    assert np.array_equal(loaded.label_scores(X), model.label_scores(X))
    assert np.array_equal(loaded.predict_set(X), model.predict_set(X))


@of_each
def test_one_domain_cannot_be_compared_but_by_irm(penalty):
    if penalty == "irm":
        assert quick(penalty).fit(X, Y).predict_set(X).any()
        return
    with pytest.raises(InputError, match=f"^{penalty} compares domains, but there is only one training domain; add"):
        quick(penalty).fit(X, Y)


@of_each
def test_a_domain_with_one_example_is_refused_by_its_name(penalty):
    names = np.array([f"ward {code}" for code in DOMAINS], dtype=object)
    names[3] = "ward of one"
    with pytest.raises(InputError, match=r"^domain 'ward of one' has one training example, but \S+ needs at least two"):
        quick(penalty, validation_domains=0).fit(X, Y, domains=names)


@of_each
def test_a_domain_with_two_examples_is_compared(penalty):
    domains = np.where(np.arange(len(X)) < 2, 99, DOMAINS)
    assert np.isfinite(quick(penalty, validation_domains=0).fit(X, Y, domains=domains).label_scores(X)).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"penalty": "dann"},
            "penalty must be one of 'irm', 'vrex', 'mmd', 'coral', got 'dann'",
        ),
        *(
            ({"penalty": penalty, "weight": -1.0}, "weight must be a finite number, 0 or more, got -1")
            for penalty in PENALTIES
        ),
        ({"weight": np.nan}, "weight must be a finite number, 0 or more, got nan"),
        ({"warmup_steps": -1}, "warmup_steps must be a whole number, 0 or more, got -1"),
        ({"warmup_steps": 2.5}, "warmup_steps must be a whole number, 0 or more, got 2.5"),
        ({"domains_per_batch": 1}, "domains_per_batch must be a whole number, at least 2, got 1"),
        ({"target_recall": 90}, "between 0 and 1, got 90"),
        ({"penalty": "mmd", "network": "linear"}, "no trained layer before its last linear one"),
        ({"penalty": "coral", "network": "linear"}, "no trained layer before its last linear one"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(settings, words):
    with pytest.raises(InputError, match=words) as refusal:
        quick(**settings).fit(X, Y, domains=DOMAINS)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("penalty", ["irm", "vrex", "mmd", "coral"])
def test_where_all_steps_are_warm_up_there_is_a_warning(penalty):
    with pytest.warns(UserWarning, match=f"warmup_steps is 1000, so {penalty} never has its full weight"):
        quick(penalty, warmup_steps=1000).fit(X, Y, domains=DOMAINS)


def test_by_default_warm_up_ends_with_a_quarter_of_a_short_training():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        default = fitted("vrex")
    # 10 of 12 domains of 40 rows train in batches of 32
    n_steps = 4 * -(-(40 * (12 - len(default.held_out_domains_))) // 32)
    given = quick("vrex", warmup_steps=n_steps // 4).fit(X, Y, domains=DOMAINS)
    assert np.array_equal(given.label_scores(X), default.label_scores(X))


@pytest.mark.parametrize(
    ("rule", "calibration"),
    [("robust", "cross-fit"), ("pooled", "held-out-domains"), ("order", "jackknife-minmax")],
)
def test_it_is_the_base_of_every_conformal_rule(rule, calibration):
    confidence = {"domain_confidence": 0.5} if rule == "order" else {}
    base = quick("coral", validation_domains=0)
    model = ConformalSetClassifier(
        base, rule, calibration=calibration, min_cell_size=5, random_state=0, target_recall=0.8, **confidence
    )
    sets = model.fit(X, Y, domains=DOMAINS).predict_set(X)
    assert (sets.sum(axis=1) != 1).any(), "calibrated sets are not the most likely label alone"
    estimators = getattr(model, "estimators_", None) or [model.estimator_]
    assert all(isinstance(estimator, DomainGeneralizationClassifier) for estimator in estimators)


def test_with_a_domain_confidence_it_promises_and_gives_sets(tmp_path):
    model = PromisedSetClassifier(quick(), domain_confidence=0.5, target_recall=0.8, min_cell_size=5).fit(
        X, Y, domains=DOMAINS
    )
    sets = model.predict_set(X)
    assert sets[np.arange(len(Y)), Y].mean() >= 0.7
    assert model.promise_ is not None
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-5)
    model.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict_set(X), sets)


@pytest.mark.parametrize("penalty", ["coral", "irm"])
def test_classifiers_that_are_fitted_together_as_if_alone_are_those_that_are_fitted_alone(penalty):
    """Also where one of them has fewer domains than a batch, and so more of each."""
    parts = [np.flatnonzero(np.isin(DOMAINS, codes)) for codes in ((0, 1, 2, 3, 4), (5, 6, 7, 8, 9))]
    parts.append(np.flatnonzero(np.isin(DOMAINS, (0, 1, 2, 3, 4))))
    few = DOMAINS.copy()
    few[parts[2]] %= 3  # as many rows as the others, of three domains
    data = [(X[rows], Y[rows], names[rows]) for rows, names in zip(parts, (DOMAINS, DOMAINS, few), strict=True)]
    model = quick(penalty, validation_domains=0)
    together = [clone(model) for _ in data]
    list(fit_together(together, data, as_if_alone=True))
    for one, (examples, labels, domains) in zip(together, data, strict=True):
        alone = clone(model).fit(examples, labels, domains=domains)
        np.testing.assert_allclose(one.label_scores(X), alone.label_scores(X), atol=1e-4)


@pytest.mark.parametrize("penalty", ["vrex", "mmd"])
def test_checkpoints_change_nothing(penalty, tmp_path):
    run = TrainingRun(checkpoints=tmp_path / "kept")
    kept = quick(penalty, run=run).fit(X, Y, domains=DOMAINS)
    assert np.array_equal(kept.label_scores(X), fitted(penalty).label_scores(X))
    again = quick(penalty, run=run).fit(X, Y, domains=DOMAINS)
    assert np.array_equal(again.label_scores(X), kept.label_scores(X)), "that of the finished training is loaded"


def test_checkpoints_of_another_penalty_are_not_taken(tmp_path):
    run = TrainingRun(checkpoints=tmp_path / "kept")
    quick("irm", run=run).fit(X, Y, domains=DOMAINS)
    other = quick("vrex", run=run).fit(X, Y, domains=DOMAINS)
    assert np.array_equal(other.label_scores(X), fitted("vrex").label_scores(X))


def test_assess_compares_it_with_erm():
    judged = assess(quick("vrex"), X, Y, DOMAINS, random_state=0)
    assert set(judged.unseen) == {"model", "ERM"}
    baseline = single_label_version(quick("vrex"))
    assert isinstance(baseline, ERMClassifier)
    assert {name: getattr(baseline, name) for name in QUICK} == QUICK


@of_each
def test_make_classifier_knows_it_by_name(penalty):
    model = make_classifier(penalty, target_recall=0.7, training={"epochs": 3}, random_state=5)
    assert isinstance(model, DomainGeneralizationClassifier)
    assert (model.penalty, model.target_recall, model.epochs, model.random_state) == (penalty, 0.7, 3, 5)
    with pytest.raises(InputError, match=f"{penalty} trains a network; boosting goes with robust, pooled or erm"):
        make_classifier(penalty, "boosting")


def test_make_classifier_passes_a_domain_confidence_on():
    assert make_classifier("mmd", domain_confidence=0.9).domain_confidence == 0.9


# Images and texts

N = 96
LABELS, PLACES = np.arange(N) % 2, np.arange(N) // 2 % 6
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 80, (N, 12, 12, 3)).astype(np.uint8)
PIXELS[LABELS == 0, :, :6] += 100
PIXELS[LABELS == 1, :, 6:] += 100
WORDS = ["good", "fine", "bad", "poor", "the", "a", "book"]
TEXTS = [" ".join([*RNG.choice(WORDS[:2] if label else WORDS[2:4], 3), *RNG.choice(WORDS[4:], 3)]) for label in LABELS]


def conv(n_labels):
    return nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, n_labels))


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    pytest.importorskip("PIL")
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("sources")
    resnet, bert = tiny_resnet_folder(folder / "resnet"), tiny_bert_folder(folder / "bert", WORDS)
    cache_of = {"cache": str(folder / "cache")}
    return {
        "own images": (ImageNetwork(module=conv, workers=0), PIXELS, conv),
        "head on images": (ImageNetwork(model=resnet, image_size=16, hidden=(4,), workers=0, **cache_of), PIXELS, None),
        "head on texts": (TextNetwork(model=bert, features="encoder", hidden=(4,), **cache_of), TEXTS, None),
        "all of texts": (TextNetwork(model=bert, features="encoder", learn="all"), TEXTS, None),
    }


@pytest.mark.parametrize(
    ("kind", "penalty"),
    [("own images", "coral"), ("head on images", "irm"), ("head on texts", "coral"), ("all of texts", "irm")],
)
def test_it_trains_heads_and_whole_networks_on_images_and_texts(networks, kind, penalty, tmp_path):
    network, examples, function = networks[kind]
    settings = {"network": network, "epochs": 2, "batch_size": 16, "random_state": 0}
    model = DomainGeneralizationClassifier(penalty, **settings).fit(examples, LABELS, domains=PLACES)
    scores = model.label_scores(examples)
    assert np.isfinite(scores).all()
    model.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model", network=function).label_scores(examples), scores)


@pytest.mark.parametrize("penalty", ["mmd", "coral"])
def test_a_head_without_a_hidden_layer_learns_no_features_to_compare(networks, penalty):
    network = replace(networks["head on images"][0], hidden=())
    model = DomainGeneralizationClassifier(penalty, network=network, epochs=1, random_state=0)
    with pytest.raises(InputError, match="add a hidden layer, or train the entire network"):
        model.fit(PIXELS, LABELS, domains=PLACES)


# A problem whose answer is known


def rows_of_a_domain(agreement, n, rng):
    """Return an invariant feature that is right in 80 of 100 rows, and a spurious one that is so as often as said."""
    labels = rng.integers(0, 2, n)
    right = rng.random((n, 2)) < [0.8, agreement]
    told = np.where(right, labels[:, None], 1 - labels[:, None])
    return 2.0 * told - 1 + 0.3 * rng.normal(size=(n, 2)), labels


@cache
def accuracy_where_the_spurious_feature_flips(penalty, seed):
    rng = np.random.default_rng(seed)
    parts = [rows_of_a_domain(agreement, 500, rng) for agreement in (0.98, 0.9, 0.82, 0.74)]
    examples, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    settings = {"epochs": 80, "batch_size": 256, "hidden": 16, "learning_rate": 3e-3, "validation_domains": 0}
    if penalty == "erm":
        model = ERMClassifier(**settings, random_state=seed)
    else:
        model = DomainGeneralizationClassifier(penalty, warmup_steps=100, **settings, random_state=seed)
    model.fit(examples, labels, domains=np.repeat(np.arange(4), 500))
    new, answers = rows_of_a_domain(0.1, 4000, rng)
    return np.mean(model.predict(new) == answers)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", ["irm", "vrex"])
def test_irm_and_vrex_beat_erm_where_a_spurious_feature_flips(penalty):
    ours, erm = (
        np.array([accuracy_where_the_spurious_feature_flips(name, seed) for seed in range(3)])
        for name in (penalty, "erm")
    )
    # Who goes by the spurious feature is right in 10 of 100 rows, who goes by the other one in 80
    assert (ours > erm + 0.2).all()
