import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from torch import nn

from domaincover import ERMClassifier, GaussianDomains, InputError, SetCoverClassifier
from domaincover.estimators.base import Targets
from domaincover.estimators.network import rows_that_judge
from domaincover.estimators.network_classifiers import usual_multipliers
from domaincover.training.settings import plan_fine_tuning, plan_training

DATA = GaussianDomains.of_paper(4).sample(8, 60, np.random.default_rng(0))
X, Y, DOMAINS = DATA.examples, DATA.labels, DATA.domains
both = pytest.mark.parametrize("kind", [SetCoverClassifier, ERMClassifier])


def quick(kind=SetCoverClassifier, **settings):
    return kind(**{"epochs": 4, "random_state": 0} | settings)


def fit(model, rows=slice(None)):
    return model.fit(X[rows], Y[rows], domains=DOMAINS[rows])


def targets(n_domains):
    rows = n_domains > DOMAINS
    return Targets(Y[rows], DOMAINS[rows], np.arange(2), tuple(range(n_domains)))


def normalised(n_features, n_labels):
    """A network that draws its start and dropout from torch's own generator, with running statistics."""
    return nn.Sequential(
        nn.Linear(n_features, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, n_labels)
    )


def mixed_table(n=240):
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {"age": rng.normal(50, 10, n), "ward": rng.choice(["A", "B"], n), "smoker": rng.random(n) > 0.5}
    )
    table["seen"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n), unit="D")
    table.loc[::9, "age"] = np.nan
    return table, np.where(table.ward == "A", "ill", "well"), np.arange(n) % 6


def test_multipliers_are_a_table_of_domains_and_labels():
    model = quick().fit(X, np.array(["no", "yes"])[Y], domains=[("Ulm", int(code)) for code in DOMAINS])
    table = model.multipliers_
    assert table.shape == (8, 2)
    assert (table.index.name, table.columns.name) == ("domain", "label")
    assert table.index.tolist() == [("Ulm", k) for k in range(8)]
    assert table.columns.tolist() == ["no", "yes"]


def test_multipliers_of_domains_held_out_are_missing_and_no_others():
    model = fit(quick())
    assert 0 < len(model.held_out_domains_) < 8
    assert model.multipliers_.isna().all(axis=1).to_numpy().nonzero()[0].tolist() == model.held_out_domains_.tolist()
    assert (model.multipliers_.drop(index=model.held_out_domains_) > 0).all(axis=None)


@both
@pytest.mark.parametrize("n_domains", [1, 2, 3])
def test_of_fewer_than_four_domains_none_is_held_out(kind, n_domains):
    model = fit(quick(kind), n_domains > DOMAINS)
    assert len(model.held_out_domains_) == 0
    if kind is SetCoverClassifier:
        assert model.multipliers_.notna().all(axis=None)


def test_of_too_few_domains_rows_of_every_cell_judge():
    cells = (DOMAINS[DOMAINS < 3], Y[DOMAINS < 3])
    judges = rows_that_judge(targets(3), 0.2, np.random.default_rng(0))
    sizes, judging = (np.bincount(cells[0][rows] * 2 + cells[1][rows]) for rows in (slice(None), judges))
    assert judging.tolist() == np.rint(0.2 * sizes).tolist()


@both
def test_nothing_judges_where_nothing_is_asked_for(kind):
    model = fit(quick(kind, validation_domains=0))
    assert len(model.held_out_domains_) == 0
    assert not rows_that_judge(targets(8), 0, np.random.default_rng(0)).any()
    if kind is SetCoverClassifier:
        assert model.thresholds_.tolist() == [0, 0], "the paper's"


@pytest.mark.parametrize(
    ("n_domains", "share", "n_expected"), [(50, 0.2, 10), (9, 0.01, 3), (4, 0.01, 1), (4, 0.99, 2)]
)
def test_the_share_of_domains_asked_for_judges_but_not_too_few_and_every_label_trains(n_domains, share, n_expected):
    names = np.arange(n_domains)
    judges = rows_that_judge(Targets(names % 2, names, np.arange(2), tuple(names)), share, np.random.default_rng(0))
    assert judges.sum() == n_expected


def test_a_label_of_one_domain_trains_and_is_judged_by_some_of_its_rows():
    labels = np.where((DOMAINS == 2) & (np.arange(len(DOMAINS)) % 2 == 0), 2, Y)
    for seed in range(5):
        of = Targets(labels, DOMAINS, np.arange(3), tuple(range(DOMAINS.max() + 1)))
        judges = rows_that_judge(of, 0.2, np.random.default_rng(seed))
        assert 0 < judges[labels == 2].mean() < 0.5
        assert not judges[(DOMAINS == 2) & (labels != 2)].any(), "the domain itself trains"


@both
def test_domains_held_out_do_not_train(kind):
    model = fit(quick(kind, patience=None))
    held_out = np.isin(DOMAINS, model.held_out_domains_)
    other = quick(kind, patience=None).fit(X, np.where(held_out, 1 - Y, Y), domains=DOMAINS)
    assert np.array_equal(other.held_out_domains_, model.held_out_domains_)
    assert np.array_equal(other.history_.loss, model.history_.loss)


def test_every_label_of_the_domains_held_out_is_at_target():
    model = fit(quick(epochs=20, min_cell_size=1))
    rows = np.isin(DOMAINS, model.held_out_domains_)
    report = model.domain_report(X[rows], Y[rows], DOMAINS[rows])
    # One example less, at most: in other batches the score at the threshold may round otherwise.
    assert (report.recall + 1 / report.n_by_label >= 0.9).all()
    assert model.predict_set(X).mean() < 1


def test_every_label_has_a_threshold_of_at_most_0():
    model = fit(quick())
    assert model.thresholds_.shape == (2,)
    assert (model.thresholds_ <= 0).all()


def test_a_cell_without_training_examples_has_no_multiplier():
    rows = ~((DOMAINS == 2) & (Y == 1))
    model = fit(quick(validation_domains=0), rows)
    assert model.multipliers_.isna().to_numpy().nonzero()[0].tolist() == [2]
    assert np.isnan(model.multipliers_.loc[2, 1])


def test_small_cells_of_a_label_share_a_multiplier():
    rows = (DOMAINS > 1) | (np.arange(len(Y)) % 4 == 0)  # domains 0 and 1 have about eight examples of each label
    shared = fit(quick(validation_domains=0, min_cell_size=20), rows).multipliers_
    alone = fit(quick(validation_domains=0, min_cell_size=1), rows).multipliers_
    assert (shared.loc[0] == shared.loc[1]).all()
    assert (alone.loc[0] != alone.loc[1]).any()


def test_history_has_a_row_per_move_of_the_multipliers():
    model = quick(epochs=3, batch_size=100, update_every=2, validation_domains=0).fit(X, Y, domains=DOMAINS)
    history = model.history_
    assert history.columns.tolist() == ["epoch", "batch", "loss", "set_size", "worst_recall", "cells_below_target"]
    assert list(zip(history.epoch, history.batch, strict=True)) == [(e, b) for e in range(3) for b in (2, 4, 5)]
    assert history.worst_recall.between(0, 1).all()
    assert history.set_size.between(0, 2).all()
    assert ((history.worst_recall >= 0.9) == (history.cells_below_target == 0)).all()


@pytest.mark.parametrize("update_every", [1, 4])
def test_history_has_no_row_for_a_move_by_nothing(update_every):
    history = quick(epochs=2, batch_size=120, update_every=update_every, validation_domains=0).fit(X, Y).history_
    assert history.notna().all(axis=None)
    assert np.isfinite(history).all(axis=None)


def test_history_of_erm_has_a_row_per_epoch():
    history = fit(quick(ERMClassifier, patience=None)).history_
    assert history.columns.tolist() == ["epoch", "loss"]
    assert history.epoch.tolist() == [0, 1, 2, 3]


@both
def test_training_stops_early_where_nothing_gets_better(kind):
    patient, hasty = (fit(quick(kind, epochs=60, learning_rate=0.05, patience=patience)) for patience in (None, 1))
    assert patient.history_.epoch.max() == 59
    assert hasty.history_.epoch.max() < 59


@both
def test_a_linear_network_is_one_layer(kind):
    assert [layer.weight.shape for layer in fit(quick(kind, network="linear")).network_] == [(2, 4)]


@both
@pytest.mark.parametrize(("hidden", "shapes"), [(7, [(7, 4), (2, 7)]), ((16, 8), [(16, 4), (8, 16), (2, 8)])])
def test_hidden_gives_the_widths_of_the_layers(kind, hidden, shapes):
    network = fit(quick(kind, hidden=hidden)).network_
    assert [tuple(layer.weight.shape) for layer in network if isinstance(layer, nn.Linear)] == shapes


@both
def test_a_network_of_ones_own_with_dropout_and_statistics_is_reproducible(kind):
    model = quick(kind, network=normalised)
    first, second = (fit(clone(model)) for _ in "ab")
    assert np.array_equal(first.label_scores(X), second.label_scores(X))
    assert np.array_equal(first.label_scores(X), first.label_scores(X)), "scoring drops nothing out"
    assert not np.array_equal(first.label_scores(X), fit(clone(model).set_params(random_state=1)).label_scores(X))


@both
def test_a_network_with_statistics_never_meets_a_single_row(kind):
    model = quick(kind, network=normalised, batch_size=32).fit(X[:65], Y[:65])
    assert np.isfinite(model.label_scores(X)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": "cnn"}, "network must be 'linear', 'mlp', a function .* or a TextNetwork, got 'cnn'"),
        ({"network": lambda n, k: None}, "network must return a torch.nn.Module, got NoneType"),  # noqa: ARG005
        ({"network": lambda n, k: nn.Linear(n, k + 1)}, "network must return one score per label, 2; it returns 3"),
        ({"hidden": 0}, "hidden must be one or several positive integers, got 0"),
        ({"hidden": (16, -1)}, r"positive integers, got \(16, -1\)"),
        ({"hidden": "16"}, "positive integers, got '16'"),
        ({"device": "abacus"}, "device 'abacus' cannot be used: "),
        ({"validation_domains": 1.0}, "validation_domains is a share of the domains from 0 to below 1, got 1"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, got 0"),
        ({"patience": 0}, "patience must be at least 1 or None, got 0"),
        ({"update_every": 0}, "update_every must be at least 1, got 0"),
        ({"penalty": "half-set"}, "penalty must be 'wrong-label' or 'full-set', got 'half-set'"),
        ({"initial_multiplier": 0.0}, "multipliers need 0 < floor <= start <= cap, got 1e-06, 0"),
        ({"initial_multiplier": [1.0, 2.0, 3.0]}, "initial_multiplier must be one number or 2, one per label, got 3"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        fit(quick(**settings))


def test_the_device_named_is_used_and_the_model_comes_back():
    model = fit(quick(device="cpu"))
    assert {parameter.device for parameter in model.network_.parameters()} == {torch.device("cpu")}


def test_multipliers_start_where_they_are_told():
    history = [quick(epochs=1, initial_multiplier=start).fit(X, Y).history_.loss[0] for start in (1.0, [1.0, 1.0], 9.0)]
    assert history[0] == history[1] < history[2]


def test_rare_labels_start_with_high_multipliers():
    starts = usual_multipliers(np.repeat([0, 1, 2], [80, 19, 1]), 4)
    np.testing.assert_allclose(starts, [3, 3 * 81 / 19, 3 * 99, 3 * 99])


def test_the_full_set_penalty_gives_another_model():
    wrong_label, full_set = (fit(quick(penalty=penalty)).label_scores(X) for penalty in ("wrong-label", "full-set"))
    assert not np.array_equal(wrong_label, full_set)


@both
def test_missing_numbers_in_an_array_are_taken(kind):
    holes = X.copy()
    holes[::5, 1] = np.nan
    model = quick(kind).fit(holes, Y, domains=DOMAINS)
    assert np.isfinite(model.label_scores(holes)).all()
    assert model.n_features_in_ == 4


@both
def test_a_number_that_was_never_missing_in_training_may_be_in_prediction(kind):
    model, holes = fit(quick(kind)), X.copy()
    holes[:, 2] = np.nan
    trained = ~np.isin(DOMAINS, model.held_out_domains_)
    mean = np.where(np.isnan(holes), X[trained].mean(axis=0, dtype=np.float64), X).astype(np.float32)
    np.testing.assert_allclose(model.label_scores(holes), model.label_scores(mean), atol=1e-5)


@both
def test_a_table_of_all_kinds_is_learned_from(kind):
    table, labels, domains = mixed_table()
    model = quick(kind, epochs=30, learning_rate=0.02).fit(table, labels, domains=domains)
    assert (model.predict(table) == labels).mean() > 0.95
    assert model.encoder_.kinds_ == {"age": "number", "ward": "category", "smoker": "boolean", "seen": "date"}


@both
def test_a_category_that_training_did_not_have_is_none_of_the_levels(kind):
    table, labels, domains = mixed_table()
    model = quick(kind).fit(table, labels, domains=domains)
    strange, missing = (model.label_scores(table.assign(ward=ward)) for ward in ("Z", None))
    assert np.array_equal(strange, missing)
    assert not np.array_equal(strange, model.label_scores(table))


@both
def test_text_in_a_column_of_numbers_is_refused_with_its_row(kind, monkeypatch):
    table, labels, domains = mixed_table()
    model = quick(kind).fit(table, labels, domains=domains)
    monkeypatch.setattr("domaincover.estimators.network.ROWS_AT_ONCE", 50)  # so that row 123 is in the third part
    spoilt = table.astype({"age": object})
    spoilt.loc[123, "age"] = "old"
    with pytest.raises(InputError, match=r"column 'age' held numbers .* but holds 'old' at row 123"):
        model.predict_set(spoilt)


@both
def test_scoring_in_parts_gives_the_scores_of_the_whole(kind, monkeypatch):
    model = fit(quick(kind))
    whole = model.label_scores(X)
    monkeypatch.setattr("domaincover.estimators.network.ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(model.label_scores(X), whole, atol=1e-6)


@both
def test_verbose_shows_a_bar_on_the_error_stream_alone(kind, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    fit(quick(kind, verbose=True))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert kind.__name__ in shown.err
    assert "epoch" in shown.err


@both
def test_nothing_is_shown_unless_asked_for(kind, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    fit(quick(kind))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("n_rows", [1, 30, 65, 1_000, 33_333, 1_000_000])
def test_a_plan_has_about_six_thousand_steps_and_sixty_moves(n_rows):
    plan = plan_training(n_rows, None, None, None)
    n_batches = -(-n_rows // plan.batch_size)
    assert plan.epochs * n_batches <= 6_000 + n_batches
    assert plan.epochs == 200 or plan.epochs * n_batches >= 6_000
    moves = plan.epochs * -(-n_batches // plan.update_every)
    assert 40 <= moves <= max(80, plan.epochs), "there is one move in every epoch, at its end"


@pytest.mark.parametrize("n_rows", [2, 33, 65, 129, 1_025, 4_097])
@pytest.mark.parametrize("batch_size", [None, 2, 32, 64])
def test_no_plan_leaves_a_batch_of_one_row(n_rows, batch_size):
    plan = plan_training(n_rows, batch_size, None, None)
    assert min(plan.batch_size, n_rows) > 1
    assert n_rows <= plan.batch_size or n_rows % plan.batch_size != 1


def test_a_plan_keeps_what_was_given():
    plan = plan_training(1_000, 50, 7, 3)
    assert (plan.batch_size, plan.epochs, plan.update_every) == (50, 7, 3)
    assert plan.recall_from == "batches", "several moves in an epoch: full passes would cost more than training"
    assert plan_training(1_000, 50, 7, 30).recall_from == "full-pass"


@pytest.mark.parametrize("n_rows", [3, 200, 4_097, 12_000, 300_000])
def test_a_plan_of_fine_tuning_moves_multipliers_at_most_eight_times_an_epoch(n_rows):
    plan = plan_fine_tuning(n_rows, None, None, None)
    n_batches = -(-n_rows // plan.batch_size)
    moves = -(-n_batches // plan.update_every)  # the last one where the epoch ends
    assert min(n_batches, 5) <= moves <= 8
    assert plan.recall_from == "batches"


def test_a_plan_of_fine_tuning_keeps_what_was_given():
    plan = plan_fine_tuning(1_000, 50, 7, 3)
    assert (plan.batch_size, plan.epochs, plan.update_every) == (50, 7, 3)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", [pytest.param("shared", marks=pytest.mark.deep), "random"])
def test_unseen_domains_do_better_with_set_cover_than_with_a_single_label(covariance):
    min_recall, set_size = {SetCoverClassifier: [], ERMClassifier: []}, []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        seen, unseen = (GaussianDomains.of_paper(10, covariance).sample(n, 300, rng) for n in (30, 100))
        for kind, collected in min_recall.items():
            model = kind(random_state=seed).fit(seen.examples, seen.labels, domains=seen.domains)
            report = model.domain_report(unseen.examples, unseen.labels, unseen.domains)
            collected.extend(report.min_recall)
            set_size.extend(report.set_size if kind is SetCoverClassifier else [])
    of_sets, of_single = (np.array(collected) for collected in min_recall.values())
    assert np.median(of_sets) > np.median(of_single)
    assert np.median(of_sets) > 0.9
    # The standard error of the difference of two shares of 200 domains is at most sqrt(2 / 4 / 200) = 0.05.
    assert np.mean(of_sets >= 0.9) > np.mean(of_single >= 0.9) + 4 * 0.05
    assert np.mean(set_size) < 1.5


@both
def test_training_that_diverges_says_so(kind):
    with pytest.raises(InputError, match=r"training diverged: .* lower learning_rate"):
        fit(quick(kind, learning_rate=1e30))


@both
def test_a_network_instead_of_a_function_is_refused(kind):
    with pytest.raises(InputError, match="must be a function that returns a new"):
        fit(quick(kind, network=torch.nn.Linear(X.shape[1], 2)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iterate": "first"}, "iterate must be one of 'best', 'last', got 'first'"),
        ({"recall_from": "memory"}, "recall_from must be one of None, 'full-pass', 'batches', got 'memory'"),
    ],
)
def test_unknown_choices_are_rejected(changes, message):
    with pytest.raises(InputError, match=message):
        fit(quick(**changes))


def test_without_standardisation_inputs_reach_the_network_as_they_are():
    model = fit(quick(standardize=False))
    with torch.no_grad():
        expected = model.network_(torch.as_tensor(X, dtype=torch.float32))
    np.testing.assert_allclose(model.label_scores(X), expected, rtol=1e-5, atol=1e-6)


def test_without_standardisation_missing_values_are_rejected_in_fit_and_in_predict():
    missing = X.copy()
    missing[5, 1] = np.nan
    model = quick(standardize=False)
    with pytest.raises(InputError, match=r"missing values \(NaN\), which standardize=False leaves as they are"):
        model.fit(missing, Y, domains=DOMAINS)
    with pytest.raises(InputError, match="impute them, or use standardize=True"):
        fit(model).predict_set(missing)
