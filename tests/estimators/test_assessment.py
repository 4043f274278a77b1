"""Honest evaluation: what training may not see, what stands beside a model, and what goes wrong with one label."""

import contextlib
import json
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold

from domaincover import (
    ConformalSetClassifier,
    ERMClassifier,
    GaussianDomains,
    InputError,
    PromisedSetClassifier,
    SetCoverClassifier,
    assess,
    domain_report,
)
from domaincover.criteria import criterion_for
from domaincover.data.dataset import n_held_out
from domaincover.estimators.assessment import (
    BASELINE,
    FIXED,
    MODEL,
    _shown_name,
    diagnose,
    single_label_version,
)
from domaincover.estimators.base import SetClassifier
from domaincover.paper.study_report.style import KNOWN_METHODS

LINEAR = ConformalSetClassifier(LogisticRegression(), random_state=0)
DATA = GaussianDomains.of_paper(4).sample(8, 100, np.random.default_rng(0))
GIVEN = (DATA.examples, DATA.labels, DATA.domains)


class Remembers(SetClassifier):
    """Covers exactly the rows that it was fitted on, so that its recall is the share of rows it has seen."""

    def fit(self, X, y, *, domains=None):
        self._learn_targets(y, domains, len(X))
        self.known_, self.held_out_domains_ = X[:, 0], self.domains_[:0]
        return self

    def label_scores(self, X):
        return np.isin(X[:, :1], self.known_) * np.ones(len(self.classes_))

    def predict_set(self, X):
        return self.label_scores(X) > 0


class CannotBeFitted(SetClassifier):
    def fit(self, X, y, *, domains=None):  # noqa: ARG002
        raise AssertionError("it was fitted")


def row_numbers(n_domains, n_rows):
    domains = np.arange(n_rows) % n_domains
    return np.arange(n_rows)[:, None], np.arange(n_rows) // n_domains % 2, domains


# What training may see


def test_neither_unseen_domains_nor_held_out_rows_are_trained_on():
    assessment = assess(Remembers(), *row_numbers(8, 400), random_state=0)
    assert assessment.unseen[MODEL].recall.max() == 0
    assert assessment.seen[MODEL].recall.max() == 0


def test_all_other_rows_are_trained_on():
    X, y, domains = row_numbers(8, 400)
    assessment = assess(Remembers(), X, y, domains, hold_out_domains=0.25, hold_out_rows=0.2, random_state=0)
    assert len(assessment.model.known_) == 6 * 50 * 0.8
    assert set(assessment.model.domains_) == set(assessment.seen[MODEL].domain_names)


def test_unseen_and_seen_domains_are_all_domains_and_share_none():
    assessment = assess(Remembers(), *row_numbers(8, 400), random_state=0)
    assert len(assessment.unseen[MODEL].domain_names) == 2
    assert sorted(assessment.unseen[MODEL].domain_names + assessment.seen[MODEL].domain_names) == list(range(8))


def test_the_model_given_is_left_unfitted():
    model = Remembers()
    assert assess(model, *row_numbers(4, 160)).model is not model
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize(("n_domains", "share", "expected"), [(12, 0.25, 3), (2, 0.01, 1), (2, 0.99, 1), (10, 0.99, 9)])
def test_at_least_one_domain_is_held_out_and_one_is_left(n_domains, share, expected):
    assert n_held_out(n_domains, share) == expected
    assessment = assess(Remembers(), *row_numbers(n_domains, 40 * n_domains), hold_out_domains=share)
    assert len(assessment.unseen[MODEL].domain_names) == expected


def test_the_same_random_state_gives_the_same_assessment():
    model = SetCoverClassifier(epochs=2, random_state=0)
    first, second = (assess(model, *GIVEN, random_state=3).to_dict() for _ in "ab")
    assert first == second


def test_another_random_state_holds_out_other_domains():
    drawn = {assess(Remembers(), *row_numbers(20, 800), random_state=k).unseen[MODEL].domain_names for k in range(5)}
    assert len(drawn) == 5


# What stands beside the model


def test_set_cover_stands_beside_erm_with_the_same_network_and_training():
    settings = {"network": "linear", "hidden": (7, 3), "epochs": 4, "batch_size": 50, "learning_rate": 0.5}
    settings |= {"validation_domains": 0.4, "patience": 2, "device": "cpu", "random_state": 9, "verbose": True}
    promised = PromisedSetClassifier(SetCoverClassifier(0.8, **settings, min_cell_size=3), domain_confidence=0.7)
    baseline = single_label_version(promised)
    assert isinstance(baseline, ERMClassifier)
    assert settings.items() <= baseline.get_params().items()


def test_a_conformal_model_stands_beside_its_estimator_without_sets():
    baseline = single_label_version(ConformalSetClassifier(LogisticRegression(C=3), "pooled"))
    assert isinstance(baseline, ConformalSetClassifier)
    assert baseline.rule == "single"
    assert baseline.estimator.C == 3


@pytest.mark.parametrize("model", [ERMClassifier(epochs=1), ConformalSetClassifier(LogisticRegression(), "single")])
def test_a_single_label_model_stands_alone(model):
    assert list(assess(model, *GIVEN, random_state=0).unseen) == [MODEL]


def shifted_domains(n_domains, n_rows, seed):
    """Return two classes on a line whose distance differs by domain, which unlabelled rows show."""
    rng = np.random.default_rng(seed)
    y, domains = rng.integers(2, size=(n_domains, n_rows)), np.repeat(np.arange(n_domains), n_rows)
    x = (2 * y - 1) * rng.uniform(0.5, 3, size=(n_domains, 1)) + rng.normal(size=y.shape)
    return x.reshape(-1, 1), y.ravel(), domains


@pytest.fixture(scope="module")
def of_promised():
    model = PromisedSetClassifier(LogisticRegression(), random_state=0)
    return assess(model, *shifted_domains(40, 200, 0), random_state=0)


def test_a_model_that_can_adapt_is_judged_with_adapted_and_with_fixed_thresholds(of_promised):
    X, y, domains = shifted_domains(40, 200, 0)
    assert list(of_promised.unseen) == list(of_promised.seen) == [MODEL, FIXED, BASELINE]
    rows = np.isin(domains, of_promised.unseen[MODEL].domain_names)
    for name, kind in ((MODEL, "adapted"), (FIXED, "fixed")):
        found = of_promised.unseen[name]
        expected = of_promised.model.domain_report(X[rows], y[rows], domains[rows], thresholds=kind)
        assert found.thresholds == expected.thresholds == kind
        np.testing.assert_array_equal(found.recall, expected.recall)
        np.testing.assert_array_equal(found.set_size, expected.set_size)
    assert of_promised.unseen[MODEL].set_size.mean() < of_promised.unseen[FIXED].set_size.mean()


def test_both_ways_of_a_model_that_can_adapt_are_shown_by_readable_names(of_promised):
    names = ["LogisticRegression, promised, adapted", "LogisticRegression, promised", "ERM"]
    assert list(of_promised.methods) == names
    shown = of_promised.summary_table(width=120).splitlines()
    assert [line.split("  ")[0] for line in shown[2:5]] == names
    assert all(name in of_promised._repr_html_() for name in names)
    assert all(name in json.dumps(of_promised.plot().to_dict()) for name in names[:2])


@pytest.mark.parametrize(
    ("estimator", "name"), [(SetCoverClassifier(), "SET-COVER, promised"), (ERMClassifier(), "ERM, promised")]
)
def test_a_promised_network_is_called_as_in_the_study(estimator, name):
    assert _shown_name(PromisedSetClassifier(estimator)) == name
    assert name in {style.label for style in KNOWN_METHODS.values()}


def test_a_promised_model_that_cannot_adapt_is_judged_with_its_fixed_thresholds_alone():
    model = PromisedSetClassifier(LogisticRegression(), calibration="jackknife-minmax", random_state=0)
    reports = assess(model, *shifted_domains(20, 100, 0), random_state=0).unseen
    assert list(reports) == [MODEL, BASELINE]
    assert reports[MODEL].thresholds == "fixed"


def test_the_baseline_gives_single_labels_on_the_same_rows():
    reports = assess(LINEAR, *GIVEN, random_state=0).unseen
    assert reports[BASELINE].single_rate.min() == 1
    assert reports[BASELINE].domain_names == reports[MODEL].domain_names
    assert np.array_equal(reports[BASELINE].n_by_label, reports[MODEL].n_by_label)


@pytest.mark.parametrize(
    "model", [SetCoverClassifier(epochs=1), ConformalSetClassifier(ERMClassifier(epochs=1)), LINEAR]
)
def test_domains_that_judge_or_calibrate_are_not_among_the_seen(model):
    assessment = assess(model, *GIVEN, random_state=0)
    of_model, of_baseline = (set(assessment.seen[name].domain_names) for name in (MODEL, BASELINE))
    fitted = assessment.model
    not_trained = set(getattr(fitted, "held_out_domains_", ())) | set(getattr(fitted, "calibration_domains_", ()))
    assert not_trained
    assert of_model
    assert not of_model & not_trained
    assert (of_model | of_baseline).isdisjoint(assessment.unseen[MODEL].domain_names)


def test_the_reports_are_those_of_the_assessed_model():
    assessment = assess(LINEAR, *GIVEN, random_state=0)
    of = np.isin(DATA.domains, assessment.unseen[MODEL].domain_names)
    again = assessment.model.domain_report(DATA.examples[of], DATA.labels[of], DATA.domains[of])
    assert np.array_equal(again.recall, assessment.unseen[MODEL].recall)
    assert np.array_equal(again.set_size, assessment.unseen[MODEL].set_size)


def test_a_label_that_only_an_unseen_domain_has_counts_as_missed():
    labels = np.where((DATA.domains == 5) & (np.arange(len(DATA)) % 3 == 0), 2, DATA.labels)
    assessments = (assess(LINEAR, DATA.examples, labels, DATA.domains, random_state=seed) for seed in range(20))
    assessment = next(one for one in assessments if 5 in one.unseen[MODEL].domain_names)
    assert assessment.model.classes_.tolist() == [0, 1]
    report = assessment.unseen[MODEL]
    assert report.label_names == (0, 1, 2)
    assert report.recall[report.domain_names.index(5), 2] == 0
    assert np.isnan(np.delete(report.recall[:, 2], report.domain_names.index(5))).all()


def test_where_no_trained_domain_can_spare_a_row_the_others_are_looked_at():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y, domains = np.arange(60) % 2, np.maximum(np.arange(60) // 2 - 26, 0)  # 54 rows of one domain, 2 of three others
    looked_at = set()
    for seed in range(12):
        with contextlib.suppress(InputError):  # the large domain is unseen, and no row can be held out
            looked_at.add(assess(LINEAR, X, y, domains, min_cell_size=1, random_state=seed).seen[MODEL].domain_names)
    assert looked_at == {(0,)}


def test_the_targets_source_is_the_argument_then_the_model():
    assert assess(LINEAR, *GIVEN, target_recall=0.7).target_recall == 0.7
    assert assess(ConformalSetClassifier(LogisticRegression(), target_recall=0.6), *GIVEN).target_recall == 0.6
    assert assess(Remembers(), *row_numbers(4, 160)).target_recall == 0.9


def test_cells_of_the_smallest_size_count_in_unseen_domains():
    X, y, domains = row_numbers(4, 400)  # 50 rows of each label in each domain
    y[domains < 4] = np.arange(400) % 400 >= 4 * 49  # 49 of one and 51 of the other
    report = assess(LINEAR, X, y, domains, min_cell_size=50, random_state=0).unseen[MODEL]
    assert np.isnan(report.recall).tolist() == [[True, False]]


def test_the_smallest_size_of_a_cell_does_not_concern_the_few_held_out_rows():
    X, y, domains = row_numbers(4, 400)
    seen = assess(LINEAR, X, y, domains, min_cell_size=50, random_state=0).seen[MODEL]
    assert seen.n_by_label.max() < 20
    assert not np.isnan(seen.recall).any()


# What is refused


def refused(message, *given, model=None, **settings):
    with pytest.raises(InputError, match=message):
        assess(model or CannotBeFitted(), *given, **settings)


def test_one_domain_is_refused():
    refused("there is only one domain; holding out domains needs at least two", *row_numbers(1, 50))


@pytest.mark.parametrize("share", [0, 1, -0.1, 30, float("nan")])
@pytest.mark.parametrize("what", ["domains", "rows"])
def test_a_part_that_is_no_share_is_refused(what, share):
    message = f"the share of {what} to hold out must lie between 0 and 1, got {share:g}"
    refused(message, *row_numbers(4, 160), **{f"hold_out_{what}": share})


def test_a_target_recall_in_percent_is_refused():
    refused(r"target recall must lie between 0 and 1, got 90; write 90 % as 0\.9", *GIVEN, target_recall=90)


def test_cells_that_are_all_too_small_are_refused_before_fitting():
    message = r"no label has 51 examples in a domain \(at most 50\); lower min_cell_size"
    refused(message, *row_numbers(4, 400), min_cell_size=51)


def test_domains_of_two_rows_are_refused_before_fitting():
    refused("no domain has enough rows to hold out 20% of them; domains are groups", *row_numbers(40, 80))


def test_a_prefit_model_is_refused_for_it_may_have_seen_the_domains():
    fitted = LogisticRegression().fit(DATA.examples, DATA.labels)
    prefit = ConformalSetClassifier(fitted, calibration="prefit")
    refused("a prefit model may have been trained on the held-out domains", *GIVEN, model=prefit)


def test_missing_domains_are_refused_with_their_row():
    domains = DATA.domains.astype(float)
    domains[7] = np.nan
    refused("1 of 800 domains are missing, first at row 7", DATA.examples, DATA.labels, domains)


# What goes wrong with one label


def clouds(rng, *, distance, of_domains):
    """Return 16 domains of 200 rows with two labels, `distance` apart in the first column, or in the domain's own."""
    domains, labels = np.repeat(np.arange(16), 200), rng.integers(2, size=3200)
    X = rng.normal(size=(3200, 16))
    X[np.arange(3200), domains if of_domains else 0] += distance * (labels - 0.5)
    return X, labels, domains


@pytest.mark.parametrize(
    ("distance", "of_domains", "failure"),
    [(12, False, "none"), (2, False, "overlap"), (12, True, "drop"), (6, True, "both")],
)
@pytest.mark.parametrize("seed", range(3))
def test_the_diagnosis_is_what_the_data_was_made_with(distance, of_domains, failure, seed):
    given = clouds(np.random.default_rng(seed), distance=distance, of_domains=of_domains)
    assert assess(LINEAR, *given, random_state=seed).diagnosis.failure == failure


def test_the_diagnosis_is_of_the_single_label_model():
    given = clouds(np.random.default_rng(0), distance=2, of_domains=False)
    assessment = assess(LINEAR, *given, random_state=0)
    report = assessment.seen[BASELINE]
    accuracy = (report.recall * report.n_by_label).sum(axis=1) / report.n
    assert assessment.diagnosis.accuracy_seen == pytest.approx(accuracy.mean())


def test_the_size_of_cells_that_count_does_not_change_the_diagnosis():
    given = clouds(np.random.default_rng(0), distance=6, of_domains=True)
    few, all_cells = (assess(LINEAR, *given, min_cell_size=size, random_state=0).diagnosis for size in (105, 1))
    assert few == all_cells


def made_up(hits, n):
    """Return the report of a single-label model with so many hits of n examples, domains × labels."""
    hits, n = np.asarray(hits), np.broadcast_to(n, np.shape(hits))
    domain, label = (index.ravel() for index in np.indices(n.shape))
    cells = np.repeat(np.arange(n.size), n.ravel())
    place = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n.ravel(), n.ravel())
    right = place < hits.ravel()[cells]
    sets = (np.arange(n.shape[1]) == label[cells][:, None]) == right[:, None]
    names = tuple(range(n.shape[1])), tuple(range(n.shape[0]))
    return domain_report(sets, label[cells], domain[cells], *names, min_cell_size=1)


def test_chance_in_small_cells_is_no_overlap():
    hits = np.full((30, 2), 5)
    hits[:8, 0] = hits[8:16, 1] = 4  # the median of the lowest recalls is 0.8, but each label has 142 of 150
    seen = made_up(hits, 5)
    assert np.median(seen.min_recall) == 0.8
    found = diagnose(seen, made_up(np.full((5, 2), 95), 100), 0.9)
    assert found.failure == "none"
    assert found.min_recall_seen == pytest.approx(142 / 150)


@pytest.mark.parametrize(("n", "failure"), [(10, "none"), (1000, "drop")])
def test_a_drop_in_one_unseen_domain_counts_beyond_the_error_of_counting(n, failure):
    seen, unseen = made_up(np.full((30, 2), 96), 100), made_up([[n * 9 // 10, n * 9 // 10]], n)
    assert diagnose(seen, unseen, 0.9).failure == failure


def test_a_drop_within_what_domains_differ_by_is_none():
    seen, unseen = made_up([[94, 94], [100, 100]] * 15, 100), made_up([[88, 88], [98, 98]], 100)
    assert diagnose(seen, unseen, 0.9).failure == "none"


def test_a_small_drop_is_none_however_certain():
    assert diagnose(made_up([[9_900, 9_900]] * 9, 10_000), made_up([[9_750, 9_750]] * 9, 10_000), 0.9).failure == "none"


@pytest.mark.parametrize(
    ("distance", "of_domains", "words"),
    [
        (12, False, "One label is enough here: a single-label model's accuracy is 100 % on new rows of seen domains"),
        (2, False, "but even in domains it was trained on, it finds only"),
        (12, True, "Domains differ: a single-label model's accuracy drops in new domains: 9"),
        (6, True, "Two things go wrong with one label"),
    ],
)
def test_the_diagnosis_reads_as_a_sentence(distance, of_domains, words):
    given = clouds(np.random.default_rng(0), distance=distance, of_domains=of_domains)
    assert words in str(assess(LINEAR, *given, random_state=0).diagnosis)


def test_a_broken_domain_is_told_from_overlap_where_mean_accuracy_holds():
    seen = made_up([[97, 97]] * 30, 100)
    found = diagnose(seen, made_up([[97, 97]] * 20 + [[100, 30]], 100), 0.9)
    assert (found.failure, found.n_broken, found.n_unseen) == ("drop", 1, 21)
    assert "accuracy holds in new domains (97 %" in str(found)
    assert "in 1 of 21 unseen ones, a label's recall is more than 10 points below" in str(found)


@pytest.mark.parametrize("unseen", [[[80, 30], [20, 90], [99, 99]], [[90, 90], [20, 20], [85, 80]]])
def test_accuracy_is_not_said_to_hold_where_three_domains_cannot_tell(unseen):
    seen = made_up([[70, 70], [99, 99], [50, 60], [99, 40]], 100)
    found = diagnose(seen, made_up(unseen, 100), 0.9)
    assert not found.drops
    assert found.accuracy_seen - found.accuracy_unseen > 0.02
    assert "which so few domains cannot tell apart" in str(found)
    assert "holds" not in str(found)


def test_seen_domains_that_break_are_no_overlap():
    seen = made_up([[97, 97]] * 24 + [[0, 0]] * 6, 100)
    found = diagnose(seen, made_up([[97, 97]] * 8 + [[0, 0]] * 2, 100), 0.9)
    assert found.failure == "drop"
    assert found.min_recall_seen == pytest.approx(0.97)
    assert (found.n_broken, found.n_unseen) == (2, 10)


def test_domains_alike_are_seldom_called_broken():
    rng = np.random.default_rng(0)
    n_found = 0
    for _ in range(200):
        seen, unseen = (made_up(rng.binomial(30, 0.85, (n, 4)), 30) for n in (20, 10))
        n_found += bool(diagnose(seen, unseen, 0.9).n_broken)
    assert n_found <= 200 * 0.05 + 4 * np.sqrt(200 * 0.05 * 0.95)


def test_with_coverage_a_label_that_others_make_up_for_breaks_nothing():
    seen, unseen = made_up([[970, 97]] * 30, [[1000, 100]] * 30), made_up([[970, 20]] * 5, [[1000, 100]] * 5)
    by_label, by_coverage = (
        diagnose(*(replace(one, criterion=criterion_for(0.8, (0, 1), name)) for one in (seen, unseen)), 0.8)
        for name in ("min-recall", "coverage")
    )
    assert by_label.n_broken == 5
    assert by_coverage.n_broken == 0


# As plain data


def strict(assessment):
    return json.loads(json.dumps(assessment.to_dict(), allow_nan=False))


def test_as_plain_data_it_holds_summaries_domains_and_the_diagnosis():
    assessment = assess(LINEAR, *GIVEN, random_state=0)
    plain = strict(assessment)
    assert plain["target_recall"] == 0.9
    assert plain["diagnosis"]["text"] == str(assessment.diagnosis)
    assert plain["unseen"][MODEL]["summary"] == assessment.unseen[MODEL].summary(0.9).to_dict()
    assert [record["domain"] for record in plain["unseen"][BASELINE]["domains"]] == [
        str(name) for name in assessment.unseen[BASELINE].domain_names
    ]


def test_a_label_that_never_counts_is_none_in_plain_data():
    labels = np.where(np.arange(len(DATA)) % 100 == 0, 2, DATA.labels)  # one row of it in every domain
    single = ConformalSetClassifier(LogisticRegression(), "single")
    plain = strict(assess(single, DATA.examples, labels, DATA.domains, min_cell_size=2, random_state=0))
    assert {record["recall"]["2"] for record in plain["unseen"][MODEL]["domains"]} == {None}


def test_two_domains_make_plain_data():
    assert strict(assess(LINEAR, DATA.examples, DATA.labels, DATA.domains > 3))["unseen"][MODEL]["summary"]


def test_names_of_any_kind_make_plain_data():
    names = np.array([("Ulm", 0)] + [None] * 7, dtype=object)
    names[1:] = [1, 2.5, "a", True, np.datetime64("2026-01-01"), frozenset("x"), b"y"]
    assert len(strict(assess(LINEAR, DATA.examples, DATA.labels, names[DATA.domains]))["unseen"][MODEL]["domains"]) == 2


@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_labels_in_a_column_are_taken_as_fit_takes_them():
    in_column = assess(LINEAR, DATA.examples, DATA.labels[:, None], DATA.domains, random_state=0)
    assert in_column.diagnosis == assess(LINEAR, *GIVEN, random_state=0).diagnosis


# What is shown


@pytest.fixture(scope="module")
def shown():
    return assess(LINEAR, *row_numbers(4, 160), random_state=0)


def test_a_printed_assessment_has_a_row_per_method_and_the_diagnosis(shown):
    table, diagnosis = shown.summary_table(), str(shown.diagnosis)
    assert str(shown).startswith(table)
    assert " ".join(str(shown).split()).endswith(diagnosis)
    assert max(map(len, str(shown).splitlines())) <= 110
    assert [line.split()[0] for line in table.splitlines()[2:4]] == list(shown.methods)


def test_the_methods_of_an_assessment_go_by_their_names(shown):
    assert list(shown.methods.values()) == list(shown.unseen.values())
    assert next(iter(shown.methods)) == type(shown.model).__name__
    judged = assess(SetCoverClassifier(epochs=1, hidden=2, random_state=0), *row_numbers(4, 160), random_state=0)
    assert list(judged.methods) == ["SET-COVER", "ERM"]


def test_an_assessment_plots_its_unseen_domains(shown):
    spec = shown.plot("My title").to_dict()
    assert spec["title"]["text"] == "My title"
    assert len(spec["hconcat"]) == 2


def test_an_assessment_in_a_notebook_shows_summary_diagnosis_and_domains_with_names_escaped():
    X, y, domains = row_numbers(4, 160)
    hostile = np.array([f"<script>alert({domain})</script>" for domain in domains])
    text = assess(LINEAR, X, y, hostile, random_state=0)._repr_html_()
    assert text.count("<table") == 2
    assert "Median min recall" in text
    assert "alert(" in text
    assert "<script" not in text


def test_a_model_is_scored_by_its_set_size_where_targets_are_kept():
    data = GaussianDomains.of_paper(n_features=10).sample(20, 100, np.random.default_rng(0))
    model = ConformalSetClassifier(LogisticRegression(), rule="pooled", random_state=0)
    model.fit(data.examples, data.labels, domains=data.domains)
    report = model.domain_report(data.examples, data.labels, data.domains)
    kept = report.at_target(0.9)
    assert 0 < kept.sum() < len(kept)
    expected = -np.where(kept, report.set_size, 2).mean()
    assert model.score(data.examples, data.labels, data.domains) == pytest.approx(expected)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = model.__class__(LogisticRegression(), random_state=0)
        routed.set_fit_request(domains=True).set_score_request(domains=True)
        search = GridSearchCV(routed, {"rule": ["single", "pooled", "robust"]}, cv=GroupKFold(3))
        search.fit(data.examples, data.labels, domains=data.domains, groups=data.domains)
    assert search.best_params_["rule"] == "robust"
