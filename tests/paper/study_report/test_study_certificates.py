import numpy as np
import pytest

from domaincover.paper.study_report.page import study_evidence
from domaincover.paper.study_report.study_tables import in_order

from .made_up import full_study, results_of


@pytest.fixture(scope="module")
def study():
    domains = full_study(np.random.default_rng(0), ("data",), n_seeds=2, n_domains=5)
    return results_of(domains), domains


@pytest.fixture(scope="module")
def evidence(study):
    results, domains = study
    table = in_order(results)
    unseen = domains["split"] == "unseen"
    at_target = domains.assign(min_recall=domains["min_recall"].mask(unseen & (domains["method"] == "robust"), 1.0))
    return {found.style.label: found for found in study_evidence(table, at_target, "data")}


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
