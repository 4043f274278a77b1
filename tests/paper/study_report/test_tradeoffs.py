import math

import numpy as np
import pandas as pd
import pytest

from domaincover.errors import InputError
from domaincover.paper.study_report.comparisons import compared_methods
from domaincover.paper.study_report.results_table import checked_domains, checked_results
from domaincover.paper.study_report.study_certificates import study_evidence
from domaincover.paper.study_report.theory_chart import learnability_sentence
from domaincover.paper.study_report.tradeoff_charts import left_out_in_words, recall_against_size, share_against_size
from domaincover.paper.study_report.tradeoffs import coverage_limits, coverage_table, curves_of, has_curves

from .made_up import METHODS, full_study, made_up_theory, results_of


@pytest.fixture(scope="module")
def study():
    domains = full_study(np.random.default_rng(0), ("data",), n_seeds=2, n_domains=5)
    return results_of(domains), domains


def test_a_curve_runs_through_the_medians_of_its_targets_from_the_lowest(study):
    results, _ = study
    own = results[(results["method"] == "set-cover") & (results["split"] == "unseen")].sort_values("target_recall")
    points = curves_of(results, "data").points.query("label == 'SET-COVER'")
    assert points["target"].tolist() == [0.8, 0.9, 0.95]
    assert points["min_recall"].tolist() == pytest.approx(own["min_recall"].tolist(), abs=5e-5)
    assert points["set_size"].tolist() == pytest.approx(own["set_size"].tolist(), abs=5e-5)


def test_methods_with_one_target_are_left_out_and_counted(study):
    curves = curves_of(study[0], "data")
    assert [style.label for style in curves.methods][-1] == "SET-COVER"
    assert len(curves.methods) == len(METHODS)
    assert left_out_in_words(curves) == "13 methods with a single target recall left out."
    assert left_out_in_words(curves._replace(left_out=curves.left_out[:1])).startswith("One method with")
    assert left_out_in_words(curves._replace(left_out=[])) == ""


def test_points_of_a_method_in_one_place_have_one_name(study):
    results, _ = study
    same = results.assign(min_recall=0.9, set_size=1.0)
    names = curves_of(same, "data").points.query("label == 'ERM'")["name"].tolist()
    assert names == ["all", "", ""]
    two = same.assign(min_recall=same["min_recall"].mask(same["target_recall"] == 0.95, 0.5))
    assert curves_of(two, "data").points.query("label == 'ERM'")["name"].tolist() == ["0.8, 0.9", "", "0.95"]


def test_the_plane_of_curves_holds_every_point_and_target(study):
    curves = curves_of(study[0], "data")
    assert curves.points["set_size"].between(*curves.limits.size).all()
    assert curves.points["min_recall"].between(*curves.limits.recall).all()
    assert pd.Series(curves.targets).between(*curves.limits.recall).all()


def test_without_several_targets_there_is_no_curve(study):
    one = study[0][study[0]["target_recall"] == 0.9]
    assert not has_curves(one, "data")
    with pytest.raises(InputError, match="'data' has no method with several target recalls"):
        recall_against_size(one, "data")
    with pytest.raises(InputError, match="no row of data set 'data' and split 'test'"):
        recall_against_size(one, "data", "test")


def test_curves_and_shares_of_other_splits_can_be_drawn_for_screens(study):
    curves = recall_against_size(study[0], "data", "seen").to_dict()
    shares = share_against_size(study[0], "data", 0.9, "seen").to_dict()
    assert [chart["title"]["text"] for chart in (curves, shares)] == [
        "data: recall against size, domains (seen)",
        "data: domains (seen) at target 0.9 against set size",
    ]


def test_a_method_stands_at_its_share_and_size_with_one_deviation_around(study):
    results = study[0].assign(share_at_target=0.5, share_at_target_std=0.25, set_size=1.5, set_size_std=0.125)
    table = coverage_table(compared_methods(results, "data", 0.9))
    columns = ["share", "low", "high", "set_size", "size_low", "size_high"]
    assert {tuple(row) for row in table[columns].to_numpy()} == {(0.5, 0.25, 0.75, 1.5, 1.375, 1.625)}
    limits = coverage_limits(table)
    assert limits.size[0] < 1.375 < 1.625 < limits.size[1]
    assert limits.recall[0] < 0.25 < 0.75 < limits.recall[1]


def test_with_one_seed_there_is_no_deviation_and_the_title_says_so(study):
    one_seed = study[0].assign(n_seeds=1)
    assert coverage_table(compared_methods(one_seed, "data", 0.9))["size_low"].isna().all()
    title = share_against_size(one_seed, "data", 0.9).to_dict()["title"]
    assert title["subtitle"] == ["One seed, so the spread between seeds is unknown."]


@pytest.fixture(scope="module")
def evidence(study):
    results, domains = study
    table = checked_results(results)
    unseen = domains["split"] == "unseen"
    at_target = domains.assign(min_recall=domains["min_recall"].mask(unseen & (domains["method"] == "robust"), 1.0))
    return {found.style.label: found for found in study_evidence(table, checked_domains(at_target, table), "data")}


def test_only_methods_that_give_sets_have_a_certificate(evidence):
    assert set(evidence) == {
        "Pooling CDFs (TrainC)",
        "Pooling CDFs (CVC)",
        "Robust conformal",
        "SET-COVER",
        "ERM, promised",
        "ERM, promised, adapted",
        "SET-COVER, promised",
        "SET-COVER, promised, adapted",
        "SET-COVER (best iterate)",
        "SET-COVER (full-set penalty)",
        "SET-COVER (full-set penalty, best iterate)",
    }


def test_a_certificate_counts_the_unseen_domains_of_the_first_seed_at_the_main_target(evidence, study):
    own = study[1].query("method == 'set-cover' and split == 'unseen' and target_recall == 0.9 and seed == 0")
    found = evidence["SET-COVER"]
    assert (found.n_at_target, found.n_domains) == ((own["min_recall"] >= 0.9).sum(), 5)


def test_where_all_domains_are_at_target_the_bound_is_the_power_of_the_doubt(evidence):
    found = evidence["Robust conformal"]
    assert found.next_at_least == pytest.approx(0.05 ** (1 / 5))
    assert (found.low, found.high) == (pytest.approx(0.025 ** (1 / 5)), 1.0)
    assert found.low <= found.share <= found.high


def test_a_method_whose_domains_are_not_known_has_no_certificate(study):
    results, domains = checked_results(study[0]), study[1]
    unknown = domains.assign(min_recall=math.nan)
    assert study_evidence(results, unknown, "data") == []


def test_the_sentence_on_theory_tells_medians_and_the_bound_of_the_most_domains():
    sentence = learnability_sentence(made_up_theory())
    assert sentence.startswith(
        "Trained on 50 domains, SET-COVER misses the target recall of 0.9 in 0.8% of new domains"
    )
    assert "promises nothing yet" in sentence
