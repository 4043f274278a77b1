import math

import numpy as np
import pandas as pd
import pytest

from domaincover.errors import InputError
from domaincover.paper.study_report.comparison_charts import (
    boxes_in_words,
    min_recall_boxes,
    share_bars,
    spread_in_words,
)
from domaincover.paper.study_report.comparisons import compared_methods, recall_boxes, share_table
from domaincover.paper.study_report.results_table import checked_results
from domaincover.report.pictures import save_chart
from domaincover.report.style import KNOWN_METHODS

from .made_up import HOSTILE, METHODS, random_domains, results_of


def drawn(spec, column):
    """Return the rows of data of a chart that have a column."""
    return [row for rows in spec["datasets"].values() for row in rows if column in row]


def colors_of(spec, mark):
    scale = next(
        layer["encoding"]["color"]["scale"] for layer in spec["layer"] if layer["mark"].get("type", "") == mark
    )
    return dict(zip(scale["domain"], scale["range"], strict=True))


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


def boxes_of(study):
    results, domains = study
    return recall_boxes(compared_methods(results, "data"), domains)


def test_a_bar_is_as_long_as_the_share_and_its_line_is_one_deviation_to_either_side(results):
    given = results.assign(share_at_target=0.5, share_at_target_std=0.125)
    shares = share_table(compared_methods(given, "synthetic-10"))
    assert {tuple(row) for row in shares[["share", "low", "high", "text"]].to_numpy()} == {
        (0.5, 0.375, 0.625, "50 ± 12 %")
    }


def test_the_line_of_the_spread_stays_within_0_and_1(results):
    shares = share_table(
        compared_methods(
            results.assign(share_at_target=[0.1, 0.9] * (len(results) // 2), share_at_target_std=0.3), "synthetic-10"
        )
    )
    assert (shares["low"].min(), shares["high"].max()) == (0.0, 1.0)


def test_with_one_seed_bars_have_no_spread(results):
    one_seed = results.assign(n_seeds=1, share_at_target=0.5, share_at_target_std=0.1)
    compared = compared_methods(one_seed, "synthetic-10")
    assert share_table(compared)["low"].isna().all()
    assert set(share_table(compared)["text"]) == {"50 %"}
    assert spread_in_words(compared) == "One seed, so the spread between seeds is unknown."
    assert "domains of one seed" in boxes_in_words(compared)[0]


def test_rows_come_in_the_order_of_methods(results):
    assert list(compared_methods(checked_results(results), "synthetic-10").rows["method"]) == list(METHODS)


def test_boxes_have_the_quartiles_of_all_seeds_together(results, domains):
    data = recall_boxes(compared_methods(results, "synthetic-10"), domains)
    one = domains[
        (domains["dataset"] == "synthetic-10") & (domains["split"] == "unseen") & (domains["method"] == "robust")
    ]
    box = data.boxes.set_index("label").loc["Robust conformal"]
    expected = np.quantile(one["min_recall"], [0.25, 0.5, 0.75])
    assert box[["q25", "median", "q75"]].tolist() == pytest.approx(expected, abs=5e-5)
    assert box["n"] == len(one)


def test_whiskers_end_at_the_furthest_values_within_one_and_a_half_boxes(with_recalls):
    data = boxes_of(with_recalls([0.1, 0.71, 0.8, 0.82, 0.84, 0.86, 0.88, 0.95]))
    box = data.boxes.iloc[0]
    reach = 1.5 * (box["q75"] - box["q25"])
    assert 0.1 < box["q25"] - reach <= 0.71
    assert (box["low"], box["high"]) == (0.71, 0.95)
    assert data.outliers["min_recall"].tolist() == [0.1]


def test_an_outlier_names_its_domain_and_seed(with_recalls):
    outliers = boxes_of(with_recalls([0.8, 0.8, 0.1, 0.8, 0.8], n_seeds=2)).outliers
    assert outliers[["domain", "seed"]].to_numpy().tolist() == [["domain 2", 0], ["domain 2", 1]]


def test_no_whisker_ends_within_its_box(with_recalls):
    box = boxes_of(with_recalls([0.0, 0.9, 0.9, 0.9])).boxes.iloc[0]
    assert box["low"] <= box["q25"] <= box["q75"] <= box["high"]


def test_every_value_is_a_point_or_between_the_whiskers(results, domains):
    data = recall_boxes(compared_methods(results, "synthetic-10"), domains)
    single = domains[(domains["dataset"] == "synthetic-10") & (domains["split"] == "unseen")]
    labels = single["method"].map({method: style.label for method, style in KNOWN_METHODS.items()})
    ends = data.boxes.set_index("label")
    within = single["min_recall"].round(4).between(labels.map(ends["low"]), labels.map(ends["high"]))
    assert sorted(single.loc[~within, "min_recall"].round(4)) == sorted(data.outliers["min_recall"])


def test_the_axis_of_boxes_holds_every_domain_and_the_target(with_recalls):
    low, high = boxes_of(with_recalls([0.2, 0.5, 0.55, 0.6])).limits
    assert low < 0.2
    assert high > 0.9


def test_domains_without_a_min_recall_are_left_out(with_recalls):
    box = boxes_of(with_recalls([0.8, math.nan, 0.9])).boxes.iloc[0]
    assert (box["n"], box["median"]) == (2, 0.85)


def test_a_method_without_any_min_recall_keeps_its_row_and_has_no_box(results, domains, tmp_path):
    bare = domains.assign(min_recall=domains["min_recall"].mask(domains["method"] == "robust"))
    chart = min_recall_boxes(results, bare, "synthetic-10")
    empty = [row for row in drawn(chart.to_dict(), "q25") if row["median"] is None]
    assert [row["label"] for row in empty] == ["Robust conformal"]
    save_chart(chart, tmp_path / "a.svg", "svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").count("no min recall") == 1


def test_a_share_that_is_not_known_has_a_dash(results):
    unknown = results.assign(share_at_target=math.nan)
    assert {row["text"] for row in drawn(share_bars(unknown, "synthetic-10").to_dict(), "text")} == {"–"}


@pytest.mark.parametrize("mark", ["bar", "rule"])
def test_colours_are_those_of_the_methods(results, domains, mark):
    expected = {KNOWN_METHODS[method].label: KNOWN_METHODS[method].color for method in METHODS}
    boxes = min_recall_boxes(results, domains, "synthetic-10").to_dict()
    boxes["layer"] = [layer for layer in boxes["layer"] if "color" in layer["encoding"]]
    assert colors_of(boxes, mark) == expected
    assert colors_of(share_bars(results, "synthetic-10").to_dict(), "bar") == expected


def test_the_description_says_every_number(results, domains):
    table = results[(results["dataset"] == "synthetic-10") & (results["split"] == "unseen")].set_index("method")
    share = 100 * table.loc["set-cover", "share_at_target"]
    assert f"SET-COVER {share:.0f} ±" in share_bars(results, "synthetic-10").to_dict()["description"]
    boxes = min_recall_boxes(results, domains, "synthetic-10").to_dict()
    (median,) = [row["median"] for row in drawn(boxes, "q25") if row["label"] == "SET-COVER"]
    assert f"SET-COVER {median:.3f}" in boxes["description"]


def test_another_split_can_be_compared(results, domains):
    chart = min_recall_boxes(results, domains, "synthetic-10", split="seen").to_dict()
    assert chart["title"]["text"].endswith("min recall of domains (seen domains, new examples)")


def test_a_target_must_be_named_where_there_are_several(results, domains):
    both = checked_results(pd.concat([results, results.assign(target_recall=0.8)]))
    with pytest.raises(InputError, match=r"has target recalls \[0.8, 0.9\]; choose one"):
        share_bars(both, "synthetic-10")
    assert drawn(min_recall_boxes(both, domains, "synthetic-10", 0.8).to_dict(), "target") == [{"target": 0.8}]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"dataset": "mnist"}, "no row of data set 'mnist'"),
        ({"dataset": "synthetic-10", "split": "test"}, "no split 'test', only unseen, seen, train"),
    ],
)
def test_what_is_not_in_the_results_cannot_be_compared(results, choice, message):
    with pytest.raises(InputError, match=message):
        share_bars(results, **choice)


@pytest.fixture(scope="module")
def strange():
    """Return a study whose names are long, hostile or alike to their first forty letters."""
    names = (HOSTILE, "a name of many words that takes more than two lines", *(f"{'same' * 10}{i}" for i in "12"))
    domains = random_domains(np.random.default_rng(0), ("data",), dict.fromkeys((*names, " "), (0.9, 1.2)))
    return results_of(domains), domains


def test_every_method_has_a_row_of_its_own_however_it_is_named(strange, tmp_path):
    results, domains = strange
    for i, chart in enumerate((share_bars(results, "data"), min_recall_boxes(results, domains, "data"))):
        save_chart(chart, tmp_path / f"{i}.svg", "svg")
        text = (tmp_path / f"{i}.svg").read_text(encoding="utf-8")
        assert text.count("samesamesamesamesa") >= 2
        assert "<script" not in text


def test_all_known_methods_together_are_drawn(tmp_path):
    domains = random_domains(np.random.default_rng(0), ("data",), dict.fromkeys(KNOWN_METHODS, (0.9, 1.2)))
    save_chart(share_bars(results_of(domains), "data"), tmp_path / "a.svg", "svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert [style.label for style in KNOWN_METHODS.values() if style.label.split()[0] not in text] == []
