import json
import re

import altair as alt
import numpy as np
import pytest

from domaincover.paper.study_report.figure_plan import SUBJECTS, planned_figures
from domaincover.paper.study_report.figures import figure_files
from domaincover.paper.study_report.panels import legend_places, pages_of, panel_figure
from domaincover.paper.study_report.results_table import checked_results
from domaincover.report.style import KNOWN_METHODS

from .made_up import full_study, random_domains, results_of

DATASETS = ("synthetic-10", "synthetic-50-random", "votes", "storms")


@pytest.fixture(scope="module")
def study():
    domains = full_study(np.random.default_rng(0), DATASETS, n_seeds=2, n_domains=4, targets=(0.8, 0.9))
    return checked_results(results_of(domains).assign(note="quick run: a note")), domains


def plots_of(spec):
    return [plot for row in spec["vconcat"] for plot in row["hconcat"]]


@pytest.mark.parametrize("kind", SUBJECTS)
def test_a_figure_has_a_plot_per_data_set_one_legend_and_the_mark_of_a_quick_run(study, kind):
    results, domains = study
    spec = panel_figure(pages_of(planned_figures(results, [kind])[0])[0], domains)
    alt.VConcatChart.from_dict(json.loads(json.dumps(spec)))  # checks
    assert spec["title"]["subtitle"][0] == "Quick run: a note."
    is_named = kind in ("share", "min-recall")  # rows have names
    plots = plots_of(spec)
    n_data_sets = 3 if kind == "cross-splits" else 4
    assert len(plots) == n_data_sets * (3 if kind == "cross-splits" else 1) + (not is_named)
    assert not [
        channel["legend"]
        for plot in plots
        for layer in plot["layer"]
        for channel in layer["encoding"].values()
        if isinstance(channel, dict) and channel.get("legend")
    ]


def test_data_of_all_plots_are_in_the_figure(study):
    results, domains = study
    spec = panel_figure(planned_figures(results, ["cross"])[0], domains)
    parts = [part for plot in plots_of(spec) for part in (plot, *plot["layer"]) if "data" in part]
    named = {part["data"]["name"] for part in parts if "name" in part["data"]}
    assert named
    assert named <= set(spec["datasets"])


@pytest.mark.slow
def test_figures_of_several_plots_are_two_columns_wide_and_at_most_a_page_high(study, tmp_path):
    results, domains = study
    some = results["method"].isin(["erm", "robust", "set-cover", "set-cover-best"]) & (results["target_recall"] == 0.9)
    paths = figure_files(results[some], domains, tmp_path, "svg")
    paths += figure_files(results, domains, tmp_path, "svg", ["curves"])
    for path in paths:
        svg = path.read_text(encoding="utf-8")
        width, height = map(float, re.search('width="([0-9.]+)pt" height="([0-9.]+)pt"', svg).groups())
        assert 440 <= width <= 490, path.name
        assert height <= 648, path.name
        assert min(float(size) for size in re.findall(r'font-size="([0-9.]+)px"', svg)) >= 7.5


def test_a_figure_that_is_too_high_is_continued_in_another_file():
    domains = random_domains(np.random.default_rng(0), tuple(f"data {k:02}" for k in range(20)), n_domains=2)
    (planned,) = planned_figures(checked_results(results_of(domains)), ["cross-splits"])
    pages = pages_of(planned)
    assert [page.name for page in pages[:2]] == ["cross-splits", "cross-splits-2"]
    assert [name for page in pages for name in page.datasets] == list(planned.datasets)


def test_in_the_legend_the_papers_methods_come_first_and_ours_under_a_head():
    places = legend_places(KNOWN_METHODS.values(), 400)
    head = places.index[places["label"] == "Not in the paper:"]
    assert len(head) == 1
    assert not places.loc[: head[0], "ours"].any()
    assert places.loc[head[0] + 1 :, "ours"].all()
    assert set(places["label"]) == {"Not in the paper:", *(style.label for style in KNOWN_METHODS.values())}


def test_entries_of_a_legend_do_not_overlap_and_stay_within_its_width():
    places = legend_places(KNOWN_METHODS.values(), 400)
    assert (places["x"] + places["width"] <= 400).all()
    for _, line in places.groupby("y"):
        assert (line["x"].to_numpy()[1:] >= (line["x"] + line["width"]).to_numpy()[:-1]).all()


def test_without_a_method_of_the_paper_the_legend_begins_with_the_head():
    places = legend_places([KNOWN_METHODS["set-cover-best"]], 400)
    assert list(places["label"]) == ["Not in the paper:", "SET-COVER (best iterate)"]
    assert set(places["y"]) == {0}
