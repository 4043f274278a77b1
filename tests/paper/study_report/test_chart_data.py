import math

import numpy as np
import pandas as pd
import pytest

from domaincover.paper.study_report.study_charts import (
    caption,
    cross_table,
    curve_table,
    has_curves,
    plane_limits,
    random_line,
    recall_boxes,
    share_table,
)
from domaincover.paper.study_report.study_tables import of_experiment, unseen_rows

from .made_up import full_study, random_domains, results_of


@pytest.fixture(scope="module")
def study():
    domains = full_study(np.random.default_rng(0), ("data",), n_seeds=2, n_domains=5)
    return results_of(domains), domains


@pytest.fixture
def with_recalls():
    """Return a maker of a study of one method whose unseen domains have the given min recalls."""

    def make(recalls, n_seeds=1):
        domains = random_domains(
            np.random.default_rng(0), ("data",), {"set-cover": (0.9, 1.2)}, n_seeds=n_seeds, n_domains=len(recalls)
        )
        domains["min_recall"] = np.tile(np.array(recalls, dtype=float), len(domains) // len(recalls))
        return results_of(domains), domains

    return make


def unseen(results, dataset="synthetic-10"):
    return unseen_rows(of_experiment(results, dataset, 0.9))


def boxes_of(study):
    results, domains = study
    return recall_boxes(unseen(results, "data"), domains)


def test_a_cross_has_the_medians_and_quartiles_of_the_results(results):
    own = results[results["dataset"] == "synthetic-10"]
    keys = ["split", "method"]
    columns = ["set_size", "set_size_q25", "set_size_q75", "min_recall", "min_recall_q25", "min_recall_q75"]
    drawn = cross_table(own).set_index(keys)[columns]
    pd.testing.assert_frame_equal(drawn, own.set_index(keys).loc[drawn.index, columns])


def test_the_plot_holds_every_cross_of_every_split_and_the_target(results):
    crosses = cross_table(results[results["dataset"] == "synthetic-10"])
    near = plane_limits("cross", crosses, 0.9)
    assert near["size"][0] < crosses["set_size_q25"].min()
    assert near["size"][1] > crosses["set_size_q75"].max()
    assert near["recall"][0] < min(crosses["min_recall_q25"].min(), 0.9)
    assert near["recall"][1] > max(crosses["min_recall_q75"].max(), 0.9)


def test_results_without_a_single_number_still_have_axes(results):
    sizes = dict.fromkeys(("set_size", "set_size_q25", "set_size_q75"), math.nan)
    low, high = plane_limits("cross", cross_table(results.assign(**sizes)), 0.9)["size"]
    assert low < high


def test_the_random_line_is_size_over_labels_clipped_to_the_plot():
    line = random_line(2, (1.0, 1.9), (0.6, 0.9))
    assert line["set_size"].tolist() == pytest.approx([1.2, 1.8])
    assert line["min_recall"].tolist() == pytest.approx([0.6, 0.9])


def test_a_method_stands_at_its_share_and_size_with_one_deviation_around(study):
    results = study[0].assign(share_at_target=0.5, share_at_target_std=0.25, set_size=1.5, set_size_std=0.125)
    table = share_table(unseen(results, "data"))
    columns = ["share", "low", "high", "set_size", "size_low", "size_high"]
    assert {tuple(row) for row in table[columns].to_numpy()} == {(0.5, 0.25, 0.75, 1.5, 1.375, 1.625)}
    limits = plane_limits("coverage", table)
    assert limits["size"][0] < 1.375 < 1.625 < limits["size"][1]
    assert limits["recall"][0] < 0.25 < 0.75 < limits["recall"][1]


def test_with_one_seed_there_is_no_spread_and_captions_say_so(results):
    one_seed = unseen(results.assign(n_seeds=1, share_at_target=0.5, share_at_target_std=0.1))
    assert share_table(one_seed)[["low", "size_low"]].isna().all(axis=None)
    assert set(share_table(one_seed)["text"]) == {"50 %"}
    for kind in ("share", "coverage"):
        assert "One seed, so the spread between seeds is unknown." in caption(kind, 1)
        assert "one standard deviation between seeds" in caption(kind, 2)
    assert "domains of one seed" in caption("min-recall", 1)


def test_boxes_have_the_quartiles_of_all_seeds_together(results, domains):
    data = recall_boxes(unseen(results), domains)
    one = domains[
        (domains["dataset"] == "synthetic-10") & (domains["split"] == "unseen") & (domains["method"] == "robust")
    ]
    box = data.boxes.set_index("method").loc["robust"]
    expected = np.quantile(one["min_recall"], [0.25, 0.5, 0.75])
    assert box[["q25", "median", "q75"]].tolist() == pytest.approx(expected, abs=5e-5)


def test_whiskers_end_at_the_furthest_values_within_one_and_a_half_boxes(with_recalls):
    data = boxes_of(with_recalls([0.1, 0.71, 0.8, 0.82, 0.84, 0.86, 0.88, 0.95]))
    box = data.boxes.iloc[0]
    reach = 1.5 * (box["q75"] - box["q25"])
    assert 0.1 < box["q25"] - reach <= 0.71
    assert (box["low"], box["high"]) == (0.71, 0.95)
    assert data.outliers["min_recall"].tolist() == [0.1]


def test_every_value_is_a_point_or_between_the_whiskers(results, domains):
    data = recall_boxes(unseen(results), domains)
    single = domains[(domains["dataset"] == "synthetic-10") & (domains["split"] == "unseen")]
    ends = data.boxes.set_index("method")
    low, high = (single["method"].map(ends[name]) for name in ("low", "high"))
    within = single["min_recall"].round(4).between(low, high)
    assert sorted(single.loc[~within, "min_recall"].round(4)) == sorted(data.outliers["min_recall"])


def test_domains_without_a_min_recall_are_left_out(with_recalls):
    box = boxes_of(with_recalls([0.8, math.nan, 0.9])).boxes.iloc[0]
    assert box["median"] == 0.85


def test_a_curve_runs_through_the_medians_of_its_targets_from_the_lowest(study):
    results, _ = study
    own = results[(results["method"] == "set-cover") & (results["split"] == "unseen")].sort_values("target_recall")
    points = curve_table(results, "data").query("method == 'set-cover'")
    assert points["target"].tolist() == [0.8, 0.9, 0.95]
    assert points["min_recall"].tolist() == pytest.approx(own["min_recall"].tolist(), abs=5e-5)
    assert points["set_size"].tolist() == pytest.approx(own["set_size"].tolist(), abs=5e-5)


def test_the_plane_of_curves_holds_every_point_and_target(study):
    curves = curve_table(study[0], "data")
    limits = plane_limits("curves", curves)
    assert curves["set_size"].between(*limits["size"]).all()
    assert curves["min_recall"].between(*limits["recall"]).all()
    assert curves["target"].between(*limits["recall"]).all()


def test_without_several_targets_there_is_no_curve(study):
    results, _ = study
    assert has_curves(results, "data")
    assert not has_curves(results[results["target_recall"] == 0.9], "data")
