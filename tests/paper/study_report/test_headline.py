from domaincover.paper.study_report.page import what_was_run
from domaincover.paper.study_report.study_tables import in_order


def test_with_one_seed_the_spread_is_said_to_be_unknown(results):
    one = in_order(results.assign(n_seeds=1))
    assert "one seed with 6 domains, so the spread over seeds is unknown" in what_was_run(one)


def test_the_headline_says_what_was_run(results):
    assert what_was_run(in_order(results)).startswith("5 methods on 2 data sets, target recall 0.9. Every number")
    one = in_order(results[(results["method"] == "erm") & (results["dataset"] == "synthetic-10")])
    assert what_was_run(one).startswith("1 method on 1 data set, target recall 0.9.")


def test_no_unseen_domains_means_nothing_is_claimed(results):
    table = in_order(results[results["split"] != "unseen"])
    assert what_was_run(table) == "These results hold no unseen domains, so they say nothing about new ones."
