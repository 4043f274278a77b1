import math

import numpy as np
import pytest

from domaincover.paper.study_report.page import first_place, what_was_run
from domaincover.paper.study_report.results_table import in_order

from .made_up import random_domains, results_of


@pytest.fixture
def one():
    """Return a maker of results of one data set with the given shares, sizes and spread."""

    def make(shares, sizes, spread=0.02):
        methods = dict.fromkeys(shares, (0.9, 1.2))
        results = results_of(random_domains(np.random.default_rng(0), ("data",), methods))
        own = {"share_at_target": results["method"].map(shares), "set_size": results["method"].map(sizes)}
        return in_order(results.assign(share_at_target_std=spread, **own))

    return make


def test_the_method_that_comes_first_is_named_with_share_and_size(one):
    results = one({"set-cover": 0.92, "robust": 0.6}, {"set-cover": 1.234, "robust": 1.3})
    assert first_place(results, "data", 0.9) == (
        "SET-COVER keeps every label's recall at 0.9 or more in 92 % of unseen domains "
        "(± 2 points between seeds), with 1.23 of 3 labels per set."
    )


def test_of_about_equal_shares_the_smaller_sets_come_first(one):
    results = one({"set-cover": 0.92, "robust": 0.9}, {"set-cover": 1.2, "robust": 1.1})
    assert first_place(results, "data", 0.9).startswith("Robust conformal keeps")


def test_a_degenerate_predictor_never_comes_first(one):
    results = one({"set-cover": 0.8, "robust": 1.0}, {"set-cover": 1.2, "robust": 2.95}).assign(min_recall=1.0)
    assert first_place(results, "data", 0.9).startswith("SET-COVER keeps")
    both = one({"set-cover": 1.0, "robust": 1.0}, {"set-cover": 2.95, "robust": 2.99}).assign(min_recall=1.0)
    assert first_place(both, "data", 0.9).startswith("No method has sets worth having")


def test_with_one_seed_the_spread_is_said_to_be_unknown(one):
    results = one({"set-cover": 0.92}, {"set-cover": 1.2}, spread=math.nan).assign(n_seeds=1)
    assert "(one seed: the spread is unknown)" in first_place(results, "data", 0.9)
    assert "one seed with 6 domains, so the spread over seeds is unknown" in what_was_run(results)


def test_the_headline_says_what_was_run(results):
    assert what_was_run(in_order(results)).startswith("5 methods on 2 data sets, target recall 0.9. Every number")
    one = in_order(results[(results["method"] == "erm") & (results["dataset"] == "synthetic-10")])
    assert what_was_run(one).startswith("1 method on 1 data set, target recall 0.9.")


def test_no_unseen_domains_means_nothing_is_claimed(results):
    table = in_order(results[results["split"] != "unseen"])
    assert what_was_run(table) == "These results hold no unseen domains, so they say nothing about new ones."
    assert first_place(table, "synthetic-10", 0.9) == "No unseen domains were evaluated."
