import math

import numpy as np
import pytest

from domaincover.paper.study_report import headline
from domaincover.paper.study_report.headline import overall_sentence
from domaincover.paper.study_report.results_table import checked_results

from .made_up import random_domains, results_of


def experiment_sentences(*choice):
    return " ".join(headline.experiment_sentences(*choice))


@pytest.fixture
def one():
    """Return a maker of unseen results of one data set with the given shares, sizes and spread."""

    def make(shares, sizes, spread=0.02):
        methods = dict.fromkeys(shares, (0.9, 1.2))
        results = results_of(random_domains(np.random.default_rng(0), ("data",), methods))
        spreads = results["method"].map(dict.fromkeys(shares, spread))
        return checked_results(
            results.assign(
                share_at_target=results["method"].map(shares),
                set_size=results["method"].map(sizes),
                share_at_target_std=spreads,
            )
        )

    return make


def test_the_winner_is_named_with_share_and_size(one):
    results = one({"set-cover": 0.92, "robust": 0.6}, {"set-cover": 1.234, "robust": 1.3})
    assert experiment_sentences(results, "data", 0.9) == (
        "SET-COVER keeps every label's recall at 0.9 or more in 92 % of unseen domains "
        "(± 2 points between seeds), with 1.23 of 3 labels per set. "
        "Robust conformal follows with 60 % and larger sets (1.30)."
    )


def test_it_is_said_plainly_when_set_cover_loses(one):
    shares = {"set-cover": 0.3, "robust": 0.9, "erm": 0.4}
    text = experiment_sentences(one(shares, dict.fromkeys(shares, 1.1)), "data", 0.9)
    assert text.startswith("Robust conformal keeps")
    assert "ERM follows with 40 % and equally large sets (1.10)." in text
    assert "SET-COVER follows with 30 %" in text


def test_of_about_equal_shares_the_smaller_sets_come_first(one):
    results = one({"set-cover": 0.92, "robust": 0.9}, {"set-cover": 1.2, "robust": 1.1})
    text = experiment_sentences(results, "data", 0.9)
    assert text.startswith("Robust conformal keeps")
    assert text.endswith("SET-COVER does so in 92 %, about as many, with larger sets (1.20).")


def test_a_degenerate_predictor_is_named_for_what_it_is_and_never_comes_first(one):
    results = one({"set-cover": 0.8, "robust": 1.0}, {"set-cover": 1.2, "robust": 2.95}).assign(min_recall=1.0)
    text = experiment_sentences(results, "data", 0.9)
    assert text.startswith("SET-COVER keeps")
    assert "The 100 % of Robust conformal come from sets of 2.95 of 3 labels" in text
    assert "degenerate and not ranked" in text
    assert overall_sentence(results).endswith("and not ranked: Robust conformal on 1.")


def test_where_every_method_is_degenerate_none_comes_first(one):
    results = one({"set-cover": 1.0, "robust": 1.0}, {"set-cover": 2.95, "robust": 2.99}).assign(min_recall=1.0)
    assert "keeps" not in experiment_sentences(results, "data", 0.9)
    assert overall_sentence(results).startswith("No method has sets worth having.")


def test_with_one_seed_the_spread_is_said_to_be_unknown(one):
    results = one({"set-cover": 0.92, "robust": 0.9}, {"set-cover": 1.2, "robust": 1.1}, spread=math.nan)
    results = results.assign(n_seeds=1)
    assert "±" not in experiment_sentences(results, "data", 0.9)
    assert experiment_sentences(results, "data", 0.9).count("(one seed: the spread is unknown)") == 1
    assert overall_sentence(results).endswith("the smallest sets (one seed: the spread is unknown).")


def test_one_method_alone_is_compared_with_nothing(one):
    results = one({"set-cover": 0.4}, {"set-cover": 1.2})
    assert overall_sentence(results) == "SET-COVER holds the target in 40 % of unseen domains."
    assert experiment_sentences(results, "data", 0.9) == (
        "SET-COVER keeps every label's recall at 0.9 or more in 40 % of unseen domains "
        "(± 2 points between seeds), with 1.20 of 3 labels per set."
    )


def test_a_data_set_with_one_method_counts_as_no_win(results):
    lone = (results["dataset"] == "synthetic-10") & (results["method"] != "erm")
    assert " on " not in overall_sentence(checked_results(results[~lone]))


def test_methods_that_never_meet_are_not_compared(results):
    pairs = {("synthetic-10", "erm"), ("synthetic-10-random", "robust")}
    kept = [pair in pairs for pair in zip(results["dataset"], results["method"], strict=True)]
    assert "not compared" in overall_sentence(checked_results(results[kept]))


def test_it_is_said_when_no_method_reaches_half_of_the_domains(one):
    results = one({"set-cover": 0.4, "robust": 0.3}, {"set-cover": 1.2, "robust": 1.2})
    assert "no method holds the target in half" in experiment_sentences(results, "data", 0.9)


def test_wins_are_counted_over_data_sets(results):
    shares = {("synthetic-10", "robust"): 1.0, ("synthetic-10-random", "set-cover"): 1.0}
    won = [shares.get(pair, 0.5) for pair in zip(results["dataset"], results["method"], strict=True)]
    table = checked_results(results.assign(share_at_target=won, share_at_target_std=0.01))
    assert overall_sentence(table) == (
        "At the highest share of unseen domains at target, Robust conformal has the smallest sets on 1 of 2 data sets, "
        "SET-COVER on 1."
    )


def test_no_unseen_domains_means_nothing_is_claimed(results):
    table = checked_results(results[results["split"] != "unseen"])
    assert overall_sentence(table) == "These results hold no unseen domains, so they say nothing about new ones."
    assert experiment_sentences(table, "synthetic-10", 0.9) == "No unseen domains were evaluated."


SINGLE = {"erm": 0.1, "irm": 0.05, "coral": 0.3}


def test_the_closest_of_several_single_label_methods_is_named_beside_erm(one):
    shares = SINGLE | {"set-cover": 0.9, "robust": 0.8}
    text = experiment_sentences(one(shares, dict.fromkeys(shares, 1.0)), "data", 0.9)
    assert text.endswith("Of the 3 methods that answer with one label, CORAL comes closest (30 %; ERM: 10 %).")


def test_where_erm_is_the_closest_single_label_method_it_is_named_once(one):
    shares = SINGLE | {"set-cover": 0.9, "erm": 0.4}
    text = experiment_sentences(one(shares, dict.fromkeys(shares, 1.0)), "data", 0.9)
    assert text.endswith("Of the 3 methods that answer with one label, ERM comes closest (40 %).")


def test_single_label_methods_that_come_equally_close_are_all_named(one):
    shares = {"set-cover": 0.9, "mmd": 0.3, "vrex": 0.3, "qrm": 0.3, "erm": 0.2}
    text = experiment_sentences(one(shares, dict.fromkeys(shares, 1.0)), "data", 0.9)
    assert "Of the 4 methods that answer with one label, VREx, MMD and QRM come closest (30 %; ERM: 20 %)." in text


def test_it_is_said_when_no_single_label_method_holds_the_target_anywhere(one):
    shares = {"set-cover": 0.9, "mmd": 0.0, "erm": 0.0}
    text = experiment_sentences(one(shares, dict.fromkeys(shares, 1.0)), "data", 0.9)
    assert text.endswith("None of the 2 methods that answer with one label holds the target in any unseen domain.")


@pytest.mark.parametrize("shares", [{"set-cover": 0.9, "erm": 0.4}, {"set-cover": 0.2, "erm": 0.4, "irm": 0.3}])
def test_one_single_label_method_and_one_that_wins_need_no_further_sentence(one, shares):
    assert "one label" not in experiment_sentences(one(shares, dict.fromkeys(shares, 1.0)), "data", 0.9)
