import math
import struct

import numpy as np
import pytest

from domaincover import InputError
from domaincover.report.charts import MOST_ROWS, caption_lines, domain_chart, standard_error_ends
from domaincover.report.domain_reports import worst_first
from tests.paper.study_report.made_up import HOSTILE

from .made_up_domains import random_reports, report

NAN = math.nan


@pytest.fixture(scope="module")
def spec():
    reports = {
        "SET-COVER": report([[0.95, 0.85, NAN], [0.7, 0.9, 0.8], [1, 1, 1]], set_size=[1.1, 1.2, 1.3]),
        "ERM": report([[0.6, 0.85, NAN], [0.7, 0.5, 0.8], [1, 1, 0.9]], set_size=1),
    }
    return domain_chart(worst_first(reports, 0.9))


def test_domains_stand_worst_first_with_their_lowest_label_and_the_baseline(spec):
    rows = spec["datasets"]["domains"]
    assert [row["domain"] for row in rows] == ["ward 1", "ward 0", "ward 2"]
    assert [row["min_recall"] for row in rows] == [0.7, 0.85, 1.0]
    assert [row["label"] for row in rows] == ["cat", "dog", "cat"]
    assert [row["baseline_min_recall"] for row in rows] == [0.5, 0.6, 0.9]
    assert [row["baseline_set_size"] for row in rows] == [1, 1, 1]


def test_there_is_a_mark_for_every_label_that_a_domain_has(spec):
    marks = {(row["domain"], row["label"]): row["recall"] for row in spec["datasets"]["labels"]}
    assert len(marks) == 8
    assert ("ward 0", "owl") not in marks
    assert marks["ward 1", "owl"] == 0.8


def test_the_band_is_one_standard_error_where_examples_are_many():
    low, high = standard_error_ends(0.9, 10_000)
    assert (0.9 - low, high - 0.9) == pytest.approx((0.003, 0.003), rel=0.05)


@pytest.mark.parametrize("recall", [0.0, 1.0])
def test_a_recall_of_all_or_nothing_is_not_certain(recall):
    low, high = standard_error_ends(recall, np.array([5, 500]))
    assert (high - low > 0).all()
    assert high[0] - low[0] > high[1] - low[1]
    assert low.min() >= 0
    assert high.max() <= 1


@pytest.mark.parametrize("n_domains", [1, MOST_ROWS])
def test_nothing_is_said_to_be_left_out_where_nothing_is(n_domains):
    shown = worst_first(random_reports(np.random.default_rng(0), n_domains), 0.9)
    assert "The worst" not in " ".join(caption_lines(shown))
    assert len(domain_chart(shown)["datasets"]["domains"]) == n_domains


def test_the_worst_domains_bring_only_their_own_marks_and_the_note_on_the_others_holds():
    recalls = [[0.5, 1, 1]] * MOST_ROWS + [[0.94999, 1, 1], [0.96, 1, 1]]
    shown = worst_first({"a": report(recalls, n=100_000)}, 0.9)
    rows = domain_chart(shown)["datasets"]
    assert {row["domain"] for row in rows["labels"]} == {row["domain"] for row in rows["domains"]}
    note = "The worst 60 of 62 domains; the other 2 have a min recall of 0.94 or more."
    assert caption_lines(shown)[1:] == [note]


def test_rows_with_long_names_that_begin_alike_stay_apart():
    names = [f"{'The same long beginning of a name ' * 3}{k}" for k in range(5)]
    shown = worst_first({"a": report([[0.9] * 3] * 5, names)}, 0.9)
    rows = {row["row"] for row in domain_chart(shown)["datasets"]["domains"]}
    assert len(rows) == 5
    assert max(map(len, rows)) < 40


def test_both_panels_have_the_same_rows(spec):
    domains = {
        tuple(layer["encoding"]["y"]["scale"]["domain"])
        for panel in spec["hconcat"]
        for layer in panel["layer"]
        if "field" in layer["encoding"].get("y", {})
    }
    assert domains == {("ward 1", "ward 0", "ward 2")}


def test_set_sizes_are_drawn_from_zero(spec):
    low, high = spec["hconcat"][1]["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low == 0
    assert high > 1.3


def test_the_recall_axis_holds_every_mark_and_the_target(spec):
    low, high = spec["hconcat"][0]["layer"][1]["encoding"]["x"]["scale"]["domain"]
    assert low < 0.5
    assert high > 1


def test_a_plot_is_written_by_its_own_save(tmp_path):
    random_reports(np.random.default_rng(0), 5)["ERM"].plot(0.9).save(tmp_path / "a.png", scale_factor=2)
    header = (tmp_path / "a.png").read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    assert struct.unpack(">II", header[16:])[0] > 1400


def test_a_plot_says_target_domains_and_labels_in_text(tmp_path):
    (name, model), (other, baseline) = random_reports(np.random.default_rng(0), 70).items()
    model.plot(0.9, name=name, baseline={other: baseline}, title="My title").save(tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert all(words in text for words in ("target 0.9", "My title", "ward 1", "label 2", "The worst 60 of 70 domains"))
    assert f"Ring and short bar: min recall and set size of {other}" in text


def test_hostile_names_are_only_text_in_a_plot(tmp_path):
    one = report([[0.9] * 3], [HOSTILE], (HOSTILE, "dog", "owl"))
    one.plot(0.9, name=HOSTILE, title=HOSTILE).save(tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "alert(1)" in text
    assert "<script" not in text
    assert "<img" not in text


def test_a_baseline_under_the_reports_own_name_is_rejected():
    one = report([[0.9] * 3])
    with pytest.raises(InputError, match="the baseline has the report's own name, 'model'"):
        one.plot(0.9, baseline={"model": one})


def test_a_report_in_a_notebook_is_a_table_worst_domain_first_with_names_escaped():
    text = report([[0.95] * 3, [0.5, 1, 1]], ["fine", HOSTILE], (HOSTILE, "dog", "owl"))._repr_html_()
    assert text.index("alert(1)") < text.index("0.500") < text.index("fine") < text.index("0.950")
    assert "<script" not in text
    assert "<img" not in text
