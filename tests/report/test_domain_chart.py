import math
import struct

import numpy as np
import pytest

from domaincover import InputError
from domaincover.report.domain_chart import (
    LABEL_LOOKS,
    MOST_ROWS,
    OTHER_LOOK,
    caption_lines,
    domain_chart,
    domain_chart_data,
    standard_error_ends,
)
from tests.paper.study_report.made_up import HOSTILE

from .made_up_domains import random_reports, report

NAN = math.nan
WHITE, DARK_PAPER = "#ffffff", "#16181d"


def contrast(one, other):
    def luminance(color):
        channels = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    lighter, darker = sorted(map(luminance, (one, other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.fixture(scope="module")
def data():
    reports = {
        "SET-COVER": report([[0.95, 0.85, NAN], [0.7, 0.9, 0.8], [1, 1, 1]], set_size=[1.1, 1.2, 1.3]),
        "ERM": report([[0.6, 0.85, NAN], [0.7, 0.5, 0.8], [1, 1, 0.9]], set_size=1),
    }
    return domain_chart_data(reports, 0.9)


def test_domains_stand_worst_first_with_their_lowest_label(data):
    assert data.domains["domain"].tolist() == ["ward 1", "ward 0", "ward 2"]
    assert data.domains["min_recall"].tolist() == [0.7, 0.85, 1.0]
    assert data.domains["label"].tolist() == ["cat", "dog", "cat"]


def test_the_baseline_stands_in_the_rows_of_the_same_domains(data):
    assert data.baseline == "ERM"
    assert data.domains["baseline_min_recall"].tolist() == [0.5, 0.6, 0.9]
    assert data.domains["baseline_set_size"].tolist() == [1, 1, 1]


def test_there_is_a_mark_for_every_label_that_a_domain_has(data):
    marks = data.labels.set_index(["domain", "label"])["recall"].to_dict()
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


def test_the_words_on_a_row_give_recall_and_number_by_label_lowest_first(data):
    assert data.domains["recalls"].tolist()[:2] == [
        "cat: 0.700 (n = 100)\nowl: 0.800 (n = 100)\ndog: 0.900 (n = 100)",
        "dog: 0.850 (n = 100)\ncat: 0.950 (n = 100)\nowl: not counted (n = 0)",
    ]


def test_thirty_labels_are_cut_short_in_words():
    data = domain_chart_data({"a": report([np.linspace(0.5, 1, 30)], labels=range(30))}, 0.9)
    lines = data.domains["recalls"][0].split("\n")
    assert lines[0] == "0: 0.500 (n = 100)"
    assert lines[-1] == "and 18 more labels"


def test_up_to_eight_labels_have_a_look_each():
    data = domain_chart_data({"a": report([[0.9] * 8], labels="abcdefgh")}, 0.9)
    assert data.looks == dict(zip("abcdefgh", LABEL_LOOKS, strict=True))


def test_of_more_labels_those_that_are_often_lowest_have_a_look_each():
    recalls = np.full((9, 30), 0.9)
    recalls[np.arange(9), [29, 29, 28, 27, 26, 25, 24, 23, 23]] = 0.5
    data = domain_chart_data({"a": report(recalls, labels=range(30))}, 0.9)
    assert list(data.looks) == ["23", "24", "25", "26", "27", "28", "29", "23 other labels"]
    assert data.looks["23 other labels"] == OTHER_LOOK
    assert set(data.labels["group"]) == set(data.looks)


@pytest.mark.parametrize("paper", [WHITE, DARK_PAPER])
def test_every_label_has_a_contrast_of_three_on_light_and_dark_paper(paper):
    colors = [color for color, _ in (*LABEL_LOOKS, OTHER_LOOK)]
    assert [color for color in colors if contrast(color, paper) < 3] == []


def test_no_two_labels_share_colour_or_shape():
    colors, shapes = zip(*LABEL_LOOKS, strict=True)
    assert len(set(colors)) == len(set(shapes)) == len(LABEL_LOOKS)


@pytest.mark.parametrize("n_domains", [1, MOST_ROWS])
def test_nothing_is_said_to_be_left_out_where_nothing_is(n_domains):
    data = domain_chart_data(random_reports(np.random.default_rng(0), n_domains), 0.9)
    assert "The worst" not in " ".join(caption_lines(data))
    assert len(data.worst(MOST_ROWS).domains) == n_domains


def test_the_note_on_left_out_domains_holds():
    recalls = [[0.5, 1, 1]] * MOST_ROWS + [[0.94999, 1, 1], [0.96, 1, 1]]
    data = domain_chart_data({"a": report(recalls, n=100_000)}, 0.9)
    assert caption_lines(data)[-1] == "The worst 60 of 62 domains; the other 2 have a min recall of 0.94 or more."


def test_the_worst_domains_bring_only_their_own_marks():
    data = domain_chart_data(random_reports(np.random.default_rng(0), 100), 0.9).worst(10)
    assert len(data.domains) == 10
    assert set(data.labels["domain"]) == set(data.domains["domain"])


def test_the_baseline_is_explained_only_where_there_is_one(data):
    assert caption_lines(data)[-1] == "Ring and short bar: min recall and set size of ERM."
    assert len(caption_lines(domain_chart_data({"a": report([[0.9] * 3])}, 0.9))) == 1


def test_rows_with_long_names_that_begin_alike_stay_apart():
    names = [f"{'The same long beginning of a name ' * 3}{k}" for k in range(5)]
    rows = domain_chart_data({"a": report([[0.9] * 3] * 5, names)}, 0.9).domains["row"]
    assert rows.is_unique
    assert rows.str.len().max() < 40


def test_both_panels_have_the_same_rows(data):
    spec = domain_chart(data)
    domains = {
        tuple(layer["encoding"]["y"]["scale"]["domain"])
        for panel in spec["hconcat"]
        for layer in panel["layer"]
        if "field" in layer["encoding"].get("y", {})
    }
    assert domains == {("ward 1", "ward 0", "ward 2")}


def test_each_table_is_in_the_chart_once(data):
    assert sorted(map(len, domain_chart(data)["datasets"].values())) == [1, 3, 8]


def test_set_sizes_are_drawn_from_zero(data):
    spec = domain_chart(data)
    low, high = spec["hconcat"][1]["layer"][1]["encoding"]["x"]["scale"]["domain"]
    assert low == 0
    assert high > 1.3


def test_the_recall_axis_holds_every_mark_and_the_target(data):
    spec = domain_chart(data)
    low, high = spec["hconcat"][0]["layer"][2]["encoding"]["x"]["scale"]["domain"]
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
