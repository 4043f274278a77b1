import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from domaincover import InputError
from domaincover.data.synthetic import GaussianDomains
from domaincover.paper import theory
from domaincover.paper.theory import TheorySettings, run_theory, trial

QUICK = TheorySettings(n_seeds=2, n_new_domains=200, rows_per_domain=50, steps=40)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("theory")
    return out, run_theory(QUICK, [2, 4], out)


def test_there_are_two_rows_for_every_number_of_domains_and_seed(finished):
    _, content = finished
    keys = [(row["n_domains"], row["seed"], row["predictor"]) for row in content["rows"]]
    assert keys == [(m, seed, name) for m in (2, 4) for seed in (0, 1) for name in ("at-target", "trained")]


def test_the_predictor_at_target_is_so_in_all_training_domains_and_exactly_in_the_worst(finished):
    for row in finished[1]["rows"]:
        if row["predictor"] == "at-target":
            assert row["share_missing_training"] == 0
            assert row["worst_training_recall"] == pytest.approx(0.9, abs=1e-12)


def test_the_file_holds_what_was_returned(finished):
    out, content = finished
    assert json.loads((out / "theory.json").read_text()) == content


def test_finished_numbers_of_domains_are_not_trained_again(finished, monkeypatch):
    out, content = finished
    asked = []
    monkeypatch.setattr(theory, "trial", lambda _, count: asked.append(count) or [])
    assert run_theory(QUICK, [4, 2], out) == content
    assert asked == []


def test_only_what_is_missing_is_trained_and_the_rest_kept(finished, tmp_path):
    _, content = finished
    half = content | {"rows": [row for row in content["rows"] if row["n_domains"] == 2]}
    (tmp_path / "theory.json").write_text(json.dumps(half))
    said = []
    assert run_theory(QUICK, [2, 4], tmp_path, said.append)["rows"] == content["rows"]
    assert said == ["Theory: trained on 4 domains."]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"domaincover_theory": 2, "settings": 1, "rows": []}', "\x00"])
def test_a_foreign_file_is_refused_and_left_alone(text, tmp_path):
    (tmp_path / "theory.json").write_text(text)
    with pytest.raises(InputError, match="is not a result of `domaincover paper theory`; choose another directory"):
        run_theory(QUICK, [2], tmp_path)
    assert (tmp_path / "theory.json").read_text() == text


def test_a_full_run_does_not_continue_a_quick_one(finished):
    with pytest.raises(InputError, match="was made with other settings"):
        run_theory(replace(QUICK, quick=True), [2], finished[0])


def test_the_means_and_deviation_are_those_that_examples_are_drawn_with():
    source = GaussianDomains.of_paper(4)
    place = np.array([-0.4, 0.3])
    data = source.sample_at(place, 20_000, np.random.default_rng(0))
    for domain, label in product(range(2), range(2)):
        own = data.examples[(data.labels == label) & (data.domains == domain)]
        error = 5 * source.deviation / np.sqrt(len(own))
        np.testing.assert_allclose(own.mean(axis=0), source.means(place)[domain, label], atol=error)
        # the standard error of a deviation is deviation / √(2n)
        np.testing.assert_allclose(own.std(axis=0), source.deviation, atol=error)


@pytest.mark.slow
def test_more_training_domains_leave_fewer_new_ones_below_the_target():
    settings = TheorySettings(n_seeds=3)
    few, many = (
        [row["share_missing_new"] for row in trial(settings, m) if row["predictor"] == "at-target"] for m in (2, 50)
    )
    assert max(many) < min(few)
    # the worst of 50 training domains is exchangeable with a new one: 1 in 51 on average, exponential-like spread
    assert np.mean(many) < 5 / 51
