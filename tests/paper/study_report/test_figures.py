import html
import json
import math
import re
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import vl_convert

from domaincover import files
from domaincover.errors import InputError
from domaincover.paper.study_report import figures
from domaincover.paper.study_report.comparison_charts import min_recall_boxes, share_bars
from domaincover.paper.study_report.crosses import (
    Limits,
    cross_plot_tables,
    note_on_random_sets,
    random_line,
    recalls_in_words,
    single_domains,
)
from domaincover.paper.study_report.figure_plan import SUBJECTS, planned_figures
from domaincover.paper.study_report.figures import cross_plot, cross_plot_data, cross_splits_plot, figure_files
from domaincover.paper.study_report.results_table import checked_results
from domaincover.paper.study_report.tradeoff_charts import recall_against_size, share_against_size
from domaincover.report.pictures import save_chart
from domaincover.report.style import KNOWN_METHODS

from .made_up import METHODS, full_study, random_domains, results_of


def values_in(spec):
    """Return every row of data that a chart holds."""
    return [row for rows in spec.get("datasets", {}).values() for row in rows]


def encodings(spec):
    return [layer["encoding"] for layer in spec["layer"]]


def test_a_cross_has_the_medians_and_quartiles_of_the_results(results):
    crosses = cross_plot_data(results, "unseen")
    expected = results[results["split"] == "unseen"].set_index(["dataset", "method"])
    columns = ["set_size", "set_size_q25", "set_size_q75", "min_recall", "min_recall_q25", "min_recall_q75"]
    drawn = crosses.set_index(["dataset", "method"])[columns]
    pd.testing.assert_frame_equal(drawn, expected.loc[drawn.index, columns])


@pytest.mark.parametrize("paper", [False, True])
def test_every_figure_says_what_must_be_said_of_its_results(results, domains, paper):
    noted = checked_results(results.assign(note="as the authors’ released code"))
    several = checked_results(pd.concat([noted, noted.assign(target_recall=0.8)]))
    dataset = "synthetic-10"
    drawn = [
        cross_plot(noted, domains, dataset, paper=paper),
        cross_splits_plot(noted, dataset, paper=paper),
        share_bars(noted, dataset, paper=paper),
        min_recall_boxes(noted, domains, dataset, paper=paper),
        share_against_size(noted, dataset, paper=paper),
        recall_against_size(several, dataset, paper=paper),
    ]
    assert len(drawn) == len(SUBJECTS)
    assert all("As the authors’ released code." in chart.to_dict()["title"]["subtitle"] for chart in drawn)


def test_crosses_come_in_the_order_of_methods(results):
    assert list(cross_plot_data(checked_results(results), "seen")["method"]) == 2 * list(METHODS)


def test_without_a_split_there_is_a_cross_for_every_row(results):
    assert len(cross_plot_data(results)) == len(results)


def test_the_plot_holds_every_cross_of_every_split_and_the_target(results):
    tables = cross_plot_tables(results, "synthetic-10")
    near = tables.near
    assert near.size[0] < tables.crosses["set_size_q25"].min()
    assert near.size[1] > tables.crosses["set_size_q75"].max()
    assert near.recall[0] < min(tables.crosses["min_recall_q25"].min(), tables.target_recall)
    assert near.recall[1] > max(tables.crosses["min_recall_q75"].max(), tables.target_recall)


def test_the_wide_view_holds_every_single_domain(results, domains):
    single = single_domains(cross_plot_tables(results, "synthetic-10"), domains)
    assert len(single.points)
    assert single.points["set_size"].between(*single.far.size).all()
    assert single.points["min_recall"].between(*single.far.recall).all()


def test_recall_axis_ends_at_one(results):
    perfect = results.assign(min_recall=1.0, min_recall_q25=1.0, min_recall_q75=1.0)
    assert cross_plot_tables(perfect, "synthetic-10").near.recall[1] == 1.0


def test_results_without_a_single_number_still_have_axes(results):
    sizes = dict.fromkeys(("set_size", "set_size_q25", "set_size_q75"), math.nan)
    near = cross_plot_tables(results.assign(**sizes), "synthetic-10").near
    assert near.size[0] < near.size[1]


def test_the_random_line_is_size_over_labels_clipped_to_the_plot():
    line = random_line(2, Limits((1.0, 1.9), (0.6, 0.9)))
    assert line["set_size"].tolist() == pytest.approx([1.2, 1.8])
    assert line["min_recall"].tolist() == pytest.approx([0.6, 0.9])


def test_the_random_line_is_left_out_where_it_does_not_pass():
    assert random_line(10, Limits((1.0, 1.3), (0.8, 1.0))).empty


def test_a_note_says_where_random_sets_are_when_out_of_sight(results):
    tables = cross_plot_tables(results, "synthetic-10")
    assert "Random sets of these sizes would have a recall of 0.3" in note_on_random_sets(tables.n_labels, tables.near)
    assert note_on_random_sets(tables.n_labels, Limits((1.0, 2.0), (0.3, 1.0))) == ""


def test_the_random_line_is_drawn_where_it_passes():
    rng = np.random.default_rng(0)
    domains = random_domains(rng, ("data",), {"a": (0.6, 1.0), "b": (0.9, 1.7)}, labels=("yes", "no"))
    layers = cross_plot(results_of(domains), domains, "data", points=False).to_dict()["layer"]
    assert [layer["mark"].get("style") for layer in layers[:2]] == ["random-line", "random-text"]


def test_a_label_without_recall_is_absent_whether_nan_or_none():
    assert recalls_in_words({"a": None, "b": math.nan, "c": 0.5}) == "c: 0.500\na: absent\nb: absent"


def test_many_labels_are_cut_to_the_lowest_recalls():
    recall = {f"label {i}": 1 - i / 100 for i in range(30)} | {"absent one": math.nan}
    lines = recalls_in_words(recall).splitlines()
    assert lines[0] == "label 29: 0.710"
    assert lines[-1] == "and 19 more labels"


def test_the_chart_shows_single_domains_of_its_split_only_on_demand(results, domains):
    spec = cross_plot(results, domains, "synthetic-10", split="seen").to_dict()
    points = [row for row in values_in(spec) if "domain" in row]
    assert len(points) == ((domains["dataset"] == "synthetic-10") & (domains["split"] == "seen")).sum()
    show = next(param for param in spec["params"] if param["name"] == "show_domains")
    assert show["value"] is False
    assert show["bind"]["input"] == "checkbox"


def test_the_tooltip_of_a_domain_names_everything_about_it(results, domains):
    spec = cross_plot(results, domains, "synthetic-10").to_dict()
    tooltips = [{tip["field"] for tip in encoding["tooltip"]} for encoding in encodings(spec) if "tooltip" in encoding]
    assert {"domain", "seed", "n", "min_recall", "recalls", "set_size", "label"} in tooltips


def test_a_click_on_the_legend_belongs_to_a_layer_with_the_legend(results, domains):
    spec = cross_plot(results, domains, "synthetic-10").to_dict()
    choice = next(param for param in spec["params"] if param["name"] == "chosen_method")
    layers = [layer for layer in spec["layer"] if layer.get("name") in choice["views"]]
    assert [layer["encoding"]["color"]["field"] for layer in layers] == ["label"]
    assert choice["bind"] == "legend"


def test_static_charts_hold_no_single_domains(results, domains):
    for chart in (
        cross_plot(results, domains, "synthetic-10", points=False),
        cross_splits_plot(results, "synthetic-10"),
    ):
        assert not any("domain" in row for row in values_in(chart.to_dict()))


def test_a_method_has_the_same_colour_in_every_data_set():
    two = pd.concat(
        [
            random_domains(np.random.default_rng(0), ("one",), {"a": (0.9, 1.1)}),
            random_domains(np.random.default_rng(1), ("two",), {"b": (0.9, 1.1)}),
        ]
    )
    scales = [
        encodings(cross_plot(results_of(two), two, dataset).to_dict())[-1]["color"]["scale"]
        for dataset in ("one", "two")
    ]
    assert scales[0]["range"] != scales[1]["range"]


def test_all_splits_are_drawn_on_the_same_axes(results):
    panels = cross_splits_plot(results, "synthetic-10").to_dict()["hconcat"]
    assert [panel["title"]["text"] for panel in panels] == [
        "Training examples",
        "Seen domains, new examples",
        "Unseen domains",
    ]
    assert len({json.dumps(encodings(panel)[-1]["x"]["scale"]) for panel in panels}) == 1


def test_a_target_must_be_named_where_there_are_several(results, domains):
    both = checked_results(pd.concat([results, results.assign(target_recall=0.8)]))
    with pytest.raises(InputError, match=r"'synthetic-10' has target recalls \[0.8, 0.9\]; choose one"):
        cross_plot(both, domains, "synthetic-10")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"dataset": "mnist"}, "no row of data set 'mnist'"),
        ({"dataset": "synthetic-10", "target_recall": 0.5}, r"no target recall 0.5, only \[0.9\]"),
        ({"dataset": "synthetic-10", "split": "test"}, "no split 'test', only unseen, seen, train"),
    ],
)
def test_what_is_not_in_the_results_cannot_be_drawn(results, domains, choice, message):
    with pytest.raises(InputError, match=message):
        cross_plot(results, domains, **choice)


def test_results_without_their_domains_are_rejected(results, domains, tmp_path):
    with pytest.raises(InputError, match="domains has no row of data set 'synthetic-10'"):
        figure_files(results, domains[domains["dataset"] != "synthetic-10"], tmp_path)


def test_missing_columns_of_domains_are_named(results, domains, tmp_path):
    with pytest.raises(InputError, match=r"domains lacks the columns n_labels\.$"):
        figure_files(results, domains.drop(columns="n_labels"), tmp_path)


def test_png_is_at_least_twice_as_fine_as_the_chart(results, domains, tmp_path):
    save_chart(cross_plot(results, domains, "synthetic-10", points=False), tmp_path / "a.png", "png")
    header = (tmp_path / "a.png").read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    assert struct.unpack(">II", header[16:])[0] > 2 * 480


@pytest.mark.parametrize(("fmt", "start"), [("svg", b"<svg"), ("pdf", b"%PDF")])
def test_vector_formats_start_as_they_should(results, domains, tmp_path, fmt, start):
    save_chart(cross_plot(results, domains, "synthetic-10"), tmp_path / "new" / f"a.{fmt}", fmt)
    assert (tmp_path / "new" / f"a.{fmt}").read_bytes().startswith(start)


def test_svg_says_target_and_methods_in_text(results, domains, tmp_path):
    save_chart(cross_plot(results, domains, "synthetic-10"), tmp_path / "a.svg", "svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "target 0.9" in text
    assert "Pooling CDFs (CVC)" in text


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Return every kind of figure as SVG, of a study of every known method, by kind; several comparisons together."""
    domains = full_study(np.random.default_rng(0), ("data",), n_seeds=2, n_domains=4, targets=(0.8, 0.9))
    results = results_of(domains)
    folder = tmp_path_factory.mktemp("figures")
    paths = figure_files(results[results["target_recall"] == 0.9], domains, folder, "svg")
    paths += figure_files(results, domains, folder, "svg", ["curves"])
    kinds = sorted(SUBJECTS, key=len)
    found = {}
    for path in paths:
        kind = [kind for kind in kinds if path.name.startswith(kind)][-1]
        found[kind] = found.get(kind, "") + path.read_text(encoding="utf-8")
    return found


def size_of(svg):
    return tuple(float(number) for number in re.search('width="([0-9.]+)pt" height="([0-9.]+)pt"', svg).groups())


@pytest.mark.slow
def test_figures_are_as_wide_as_a_column_or_two(drawn):
    widths = {kind: size_of(svg)[0] for kind, svg in drawn.items()}
    assert widths.pop("cross-splits") == pytest.approx(486, abs=4)
    assert widths == dict.fromkeys(("cross", "share", "min-recall", "curves", "coverage"), 234)


def test_text_in_figures_has_at_least_seven_and_a_half_points(drawn):
    sizes = {float(size) for svg in drawn.values() for size in re.findall(r'font-size="([0-9.]+)px"', svg)}
    assert min(sizes) >= 7.5


def test_legends_in_figures_name_every_method(drawn):
    names = [html.escape(style.label, quote=False) for style in KNOWN_METHODS.values()]
    assert [name for name in names for kind in ("cross", "cross-splits", "coverage") if name not in drawn[kind]] == []


@pytest.mark.slow
def test_svg_holds_hostile_names_as_text_only(hostile_results, hostile_domains, tmp_path):
    first = hostile_results[hostile_results["dataset"] == hostile_results["dataset"].iloc[0]]
    both = pd.concat([first, first.assign(target_recall=0.8)])
    for path in figure_files(both, hostile_domains, tmp_path, "svg", ("cross", "min-recall", "curves", "coverage")):
        assert "<script" not in path.read_text(encoding="utf-8")
        assert "<img" not in path.read_text(encoding="utf-8")


def test_pdf_of_a_plot_alone_is_a_column_wide_in_points(results, domains, tmp_path):
    first = results[results["dataset"] == "synthetic-10"]
    (path,) = figure_files(first, domains, tmp_path, "pdf", ["share"])
    assert re.search(rb"/MediaBox\s*\[0 0 234 ", path.read_bytes())


@pytest.fixture
def no_drawing(monkeypatch):
    monkeypatch.setattr(figures, "save_chart", lambda *_: None)


@pytest.mark.usefixtures("no_drawing")
def test_files_are_named_after_kinds_and_data_sets(results, domains, tmp_path):
    first = results[results["dataset"] == "synthetic-10"]
    assert [path.name for path in figure_files(first, domains, tmp_path)] == [
        f"{kind}-synthetic-10.png" for kind in ("cross", "cross-splits", "share", "min-recall", "coverage")
    ]


@pytest.mark.usefixtures("no_drawing")
def test_files_name_the_target_only_where_there_are_several_and_curves_are_of_all(results, domains, tmp_path):
    both = pd.concat([results, results.assign(target_recall=0.8)])
    first = both[both["dataset"] == "synthetic-10"]
    assert [path.name for path in figure_files(first, domains, tmp_path, kinds=["share", "curves"])] == [
        "share-synthetic-10-target-0.8.png",
        "share-synthetic-10-target-0.9.png",
        "curves-synthetic-10.png",
    ]


@pytest.mark.usefixtures("no_drawing")
def test_targets_that_differ_in_the_seventh_digit_have_files_of_their_own(results, domains, tmp_path):
    both = pd.concat([results, results.assign(target_recall=0.90000001)])
    names = [path.name for path in figure_files(both, domains, tmp_path, kinds=["share"])]
    assert names == ["share-target-0.9.png", "share-target-0.90000001.png"]


@pytest.mark.usefixtures("no_drawing")
@pytest.mark.parametrize(("dataset", "name"), [("../a/B", "share-a-b.png"), ("???", "share-data-set.png")])
def test_names_of_files_are_plain(dataset, name, tmp_path):
    domains = random_domains(np.random.default_rng(0), (dataset,))
    (path,) = figure_files(results_of(domains), domains, tmp_path, kinds=["share"])
    assert path == tmp_path / name


@pytest.mark.parametrize("kind", SUBJECTS)
def test_a_quick_run_says_so_in_every_figure_of_one_plot(kind):
    domains = full_study(np.random.default_rng(0), ("data",), n_seeds=2, n_domains=4, targets=(0.8, 0.9))
    results = checked_results(results_of(domains).assign(note="quick run: a note"))
    planned = planned_figures(results, [kind])[0]
    assert "Quick run: a note." in figures.drawn_figure(planned, domains).to_dict()["title"]["subtitle"]


def test_an_unknown_kind_of_figure_is_refused(results, domains, tmp_path):
    with pytest.raises(InputError, match=r"one of 'cross', 'cross-splits', .* got 'pie'"):
        figure_files(results, domains, tmp_path, kinds=["share", "pie"])


def test_every_figure_is_what_vega_lites_schema_says():
    domains = full_study(np.random.default_rng(0), ("synthetic-10",), n_seeds=2, n_domains=5, targets=(0.8, 0.9))
    planned = {figure.kind: figure for figure in planned_figures(checked_results(results_of(domains)))}
    assert set(planned) == set(SUBJECTS)
    for figure in planned.values():
        figures.drawn_figure(figure, domains).to_dict()  # checks


def test_a_failed_drawing_leaves_the_old_file_and_no_rest(results, domains, tmp_path, monkeypatch):
    (tmp_path / "a.png").write_text("old")
    monkeypatch.setattr(vl_convert, "vegalite_to_png", lambda *_args, **_options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_chart(cross_plot(results, domains, "synthetic-10"), tmp_path / "a.png", "png")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.png", "old")]


def test_a_failed_rename_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    def full_disk(*_):
        raise OSError(28, "No space left on device")

    (tmp_path / "a.txt").write_text("old")
    monkeypatch.setattr(files.os, "replace", full_disk)
    with pytest.raises(InputError, match=r"cannot write .*a\.txt: no space is left on the disk; free some"):
        files.write_whole(tmp_path / "a.txt", b"new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "old")]


def test_a_folder_that_is_a_file_is_one_line_of_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"^cannot write [^\n]*: [^\n]*$"):
        files.write_whole(tmp_path / "file" / "a.txt", b"new")


@pytest.mark.parametrize("path", ["", ".", "/", "folder"])
def test_a_file_that_is_a_folder_is_one_line_of_error(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"^cannot write [^\n]+: it is a directory, not a file\.$"):
        files.write_whole(Path(path), b"new")
    assert [found.name for found in tmp_path.rglob("*")] == ["folder"]


def test_an_unknown_figure_format_is_refused(results, domains, tmp_path):
    with pytest.raises(InputError, match="one of 'png', 'svg', 'pdf', got 'gif'"):
        figure_files(results, domains, tmp_path, "gif")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["cross", "cross-splits", "coverage", "curves"])
def test_the_legend_of_a_figure_of_one_plot_is_hollow_where_its_points_are(kind, tmp_path):
    methods = {"erm": (0.8, 1.0), "set-cover": (0.93, 1.2), "erm-joint": (0.95, 1.3)}
    domains = random_domains(np.random.default_rng(0), ("data",), methods)
    results = results_of(domains)
    several = pd.concat([results, results.assign(target_recall=0.8)]) if kind == "curves" else results
    (path,) = figure_files(several, domains, tmp_path, "svg", [kind])
    (legend,) = re.findall(r'<g class="mark-group role-legend".*', path.read_text(encoding="utf-8"), re.DOTALL)
    entries = re.findall(r'role-legend-symbol.*?fill-opacity="(.)".*?<text[^>]*>([^<]*)', legend, re.DOTALL)
    assert entries == [("1", "ERM"), ("1", "SET-COVER"), ("0", "ERM, promised")]
