import numpy as np
import pandas as pd
import pytest

from domaincover.paper.published import published
from domaincover.paper.study_report.figures import planned_figures
from domaincover.paper.study_report.study_tables import in_order

from .made_up import METHODS, full_study, random_domains, results_of

SYNTHETIC = ("synthetic-10", "synthetic-10-random", "synthetic-50", "synthetic-50-random")


def results_on(*datasets, methods=METHODS, targets=(0.9,)):
    rng = np.random.default_rng(0)
    parts = [random_domains(rng, datasets, methods, n_domains=2, target_recall=target) for target in targets]
    return in_order(results_of(pd.concat(parts)))


def test_the_papers_figures_come_first_with_its_numbers_and_data_sets_in_its_order():
    first, third = planned_figures(results_on(*SYNTHETIC), ["cross"], published().exhibits)
    assert (first.name, first.datasets) == ("figure-1", ("synthetic-50", "synthetic-10"))
    assert (third.name, third.datasets) == ("figure-3", ("synthetic-50-random", "synthetic-10-random"))
    assert first.title == "Figure 1. Synthetic data: min recall against set size"


def test_what_no_figure_of_the_paper_shows_is_in_one_figure():
    *_, last = planned_figures(results_on(*SYNTHETIC, "votes", "storms"), ["cross"], published().exhibits)
    assert (last.name, last.datasets) == ("cross", ("votes", "storms"))


def test_a_figure_of_the_paper_has_its_methods_and_ours_beside_them():
    methods = METHODS | {"set-cover-best": (0.9, 1.2), "erm-joint": (0.9, 1.2), "set-cover-joint": (0.9, 1.2)}
    first, second = planned_figures(results_on("synthetic-10", methods=methods), ["cross"], published().exhibits)
    assert set(first.results["method"]) == {*METHODS, "set-cover-best"}
    assert second.name == "cross-synthetic-10", "it has the methods that are not in Figure 1"
    assert set(second.results["method"]) == set(methods)


def test_a_figure_whose_data_sets_were_not_run_is_left_out():
    names = [figure.name for figure in planned_figures(results_on("fmow"), ["cross"], published().exhibits)]
    assert names == ["figure-2"]
    assert planned_figures(results_on("fmow"), ["curves"], published().exhibits) == [], "it has one target only"


def test_every_result_is_in_some_figure_of_its_kind():
    domains = full_study(np.random.default_rng(0), ("synthetic-10", "fmow", "votes"), n_domains=2, targets=(0.8, 0.9))
    results = in_order(results_of(domains))
    unseen = results[results["split"] == "unseen"]
    shown = set()
    for figure in planned_figures(results, ["cross"], published().exhibits):
        rows = figure.results[figure.results["dataset"].isin(figure.datasets)]
        rows = rows[rows["target_recall"] == figure.target_recall]
        shown |= set(zip(rows["dataset"], rows["method"], rows["target_recall"], strict=True))
    assert set(zip(unseen["dataset"], unseen["method"], unseen["target_recall"], strict=True)) <= shown


def test_names_of_figures_differ():
    domains = full_study(np.random.default_rng(0), ("a", "b"), n_domains=2, targets=(0.8, 0.9))
    names = [figure.name for figure in planned_figures(in_order(results_of(domains)))]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("dataset", ["synthetic-10", "fmow"])
def test_without_a_paper_no_figure_has_a_number(dataset):
    assert [figure.name for figure in planned_figures(results_on(dataset), ["share"])] == [f"share-{dataset}"]
