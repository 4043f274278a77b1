import json

import altair as alt
import numpy as np
import pytest

from domaincover.paper.collect import TrainingHistory
from domaincover.paper.study_report.chart_data import (
    MOST_CELLS,
    training_curves,
)
from domaincover.paper.study_report.figures import figure_files, training_figure
from domaincover.paper.study_report.page import write_page


def history(n_steps=5, n_cells=6, dataset="synthetic-10"):
    rng = np.random.default_rng(0)
    recall, multipliers = rng.uniform(0.8, 1, (n_steps, n_cells)), rng.uniform(1, 9, (n_steps, n_cells))
    sizes = np.linspace(2, 1, n_steps)
    return TrainingHistory(dataset, 0.9, 0, [f"{k}, left" for k in range(n_cells)], recall, multipliers, sizes)


def test_a_row_per_dual_step_has_the_recalls_of_all_cells():
    found = history()
    steps = training_curves(found).steps
    np.testing.assert_allclose(np.array(steps["recall"].tolist()), found.recall, atol=5e-4)
    np.testing.assert_allclose(np.array(steps["multiplier"].tolist()), found.multipliers, atol=5e-4)
    np.testing.assert_allclose(steps["lowest"], found.recall.min(axis=1), atol=5e-4)
    assert steps["step"].tolist() == [1, 2, 3, 4, 5]


def test_of_many_cells_some_are_shown_with_the_lowest_and_the_highest():
    found = history(n_cells=500)
    curves = training_curves(found)
    shown = curves.steps["cell"].iloc[0]
    assert len(shown) == MOST_CELLS
    assert {found.cells[found.recall[-1].argmin()], found.cells[found.recall[-1].argmax()]} <= set(shown)


def test_the_last_and_the_best_iterate_are_marked():
    found = history()
    found.recall[:] = 0.95
    found.recall[4, 2] = 0.7
    iterates = training_curves(found).iterates.set_index("iterate")
    assert iterates["step"].to_dict() == {"last": 5, "best": 4}
    assert iterates.loc["last", "lowest"] == 0.7


def test_the_figure_has_three_plots_for_each_data_set_and_the_mark_of_a_quick_run():
    spec = training_figure([history(dataset=name) for name in ("synthetic-10", "votes")], ["quick run: a note"])
    alt.ConcatChart.from_dict(json.loads(json.dumps(spec)))  # checks
    assert (len(spec["concat"]), spec["columns"]) == (6, 3)
    assert spec["title"]["subtitle"][0] == "Quick run: a note."


@pytest.mark.parametrize(("kinds", "names"), [(["training"], ["training.svg"]), (["share"], ["share.svg"])])
def test_a_study_with_histories_has_the_figure_if_it_is_wanted(results, domains, tmp_path, kinds, names):
    paths = figure_files(results, domains, tmp_path, "svg", kinds, histories=[history()])
    assert [path.name for path in paths] == names


def test_the_page_shows_training(results, domains, tmp_path):
    write_page(results, domains, tmp_path / "a.html", histories=[history()])
    assert (tmp_path / "a.html").read_text(encoding="utf-8").count('alt="SET-COVER in training') == 1
