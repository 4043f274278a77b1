"""The rule of the ranking speaks of the domains that a study has."""

import pandas as pd
import pytest

from domaincover.report.ranking import is_degenerate, rule_in_words


def results(**columns):
    sizes = dict.fromkeys(("set_size_q25", "set_size", "set_size_q75"), 1.7)
    return pd.DataFrame([{"method": "set-cover", "set_size_by_lot": 3.0, "n_domains": 25} | sizes]).assign(**columns)


@pytest.mark.parametrize(
    ("n_domains", "said"),
    [(25, "about one domain of 25."), (22, "about one domain of 22."), (100, "at target."), (5, "at target.")],
)
def test_points_are_domains_only_where_they_are_about_one(n_domains, said):
    assert rule_in_words(results(n_domains=n_domains)).endswith(said)


def test_data_sets_of_several_sizes_give_a_range_or_nothing():
    both = [pd.concat([results(n_domains=25), results(n_domains=other)]) for other in (20, 60)]
    assert [rule_in_words(table).partition("target")[2] for table in both] == [
        ", since 5 points are about one domain of 20 to 25.",
        ".",
    ]


def test_sets_are_degenerate_by_the_size_of_sets_drawn_by_lot_that_was_measured():
    both = pd.concat([results(set_size_by_lot=1.8), results(set_size_by_lot=2.0)])
    assert is_degenerate(both).tolist() == [True, False]
