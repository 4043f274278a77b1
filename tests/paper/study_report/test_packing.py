import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domaincover.paper.study_report.packing import ABSENT, least_at_target, packed_domains, quantized

from .made_up import random_domains, unpacked_values


@given(st.floats(0, 1), st.floats(0.01, 1))
def test_a_packed_recall_is_below_the_target_just_where_the_recall_is(recall, target):
    (whole,) = quantized(np.array([recall]), np.array([target]))
    assert (whole < least_at_target(target)) == (recall < target)
    assert abs(whole * 1e-4 - recall) < 1.01e-4


def test_what_is_no_number_stays_none():
    assert quantized(np.array([np.nan]), np.array([0.9])).tolist() == [ABSENT]


@pytest.fixture
def one_run():
    domains = random_domains(np.random.default_rng(0), ("data",), {"erm": (0.9, 1.0)}, n_seeds=1)
    return domains[domains["split"] == "unseen"]


def test_sizes_of_many_labels_have_a_coarser_unit(one_run):
    packed = packed_domains(one_run.assign(set_size=123.4), ["erm"], [0.9], ["unseen"])
    assert unpacked_values(packed)[0] * packed["size_unit"] == pytest.approx(123.4, abs=packed["size_unit"])


def test_a_label_that_a_domain_lacks_is_absent(one_run):
    one_run = one_run.assign(recall=[{"a": 0.5}, {"b": 0.5}, {"a": None, "b": 1.0}, *[{"a": 1.0, "b": 1.0}] * 3])
    packed = packed_domains(one_run, ["erm"], [0.9], ["unseen"])
    assert packed["labels"] == ["a", "b"]
    assert unpacked_values(packed)[1:, :3].T.tolist() == [[5000, ABSENT], [ABSENT, 5000], [ABSENT, 10_000]]


def test_runs_with_the_same_domains_share_a_roster_and_others_have_their_own(one_run):
    other = one_run.assign(seed=1, n=range(6))
    packed = packed_domains(pd.concat([one_run, one_run.assign(seed=2), other]), ["erm"], [0.9], ["unseen"])
    assert [run[-1] for run in packed["runs"]] == [0, 1, 0]
    assert [roster["n"] for roster in packed["rosters"]] == [1000, [0, 1, 2, 3, 4, 5]]


def test_rows_of_methods_and_targets_that_are_not_reported_are_left_out(one_run):
    both = pd.concat([one_run, one_run.assign(method="other"), one_run.assign(target_recall=0.8)])
    packed = packed_domains(both, ["erm"], [0.9], ["unseen"])
    assert unpacked_values(packed).shape == (1 + len(packed["labels"]), len(one_run))
