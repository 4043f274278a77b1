import json
import re
import struct
from pathlib import Path

import altair as alt
import numpy as np
import pandas as pd
import pytest
import vl_convert

from domaincover import files
from domaincover.errors import InputError
from domaincover.paper.study_report import figures
from domaincover.paper.study_report.figures import SUBJECTS, figure_files, pages_of, planned_figure, planned_figures
from domaincover.paper.study_report.study_tables import in_order

from .made_up import full_study, random_domains, results_of

DATASETS = ("synthetic-10", "synthetic-50-random", "votes", "storms")


@pytest.fixture(scope="module")
def study():
    domains = full_study(np.random.default_rng(0), DATASETS, n_seeds=2, n_domains=4, targets=(0.8, 0.9))
    return in_order(results_of(domains).assign(note="quick run: a note")), domains


def figure_of(study, kind, datasets=DATASETS):
    results, domains = study
    shown = in_order(results[results["dataset"].isin(datasets)])
    return planned_figure(pages_of(planned_figures(shown, [kind])[0])[0], domains)


@pytest.mark.parametrize("datasets", [DATASETS, DATASETS[:1]], ids=["several", "one"])
@pytest.mark.parametrize("kind", SUBJECTS)
def test_a_figure_has_a_plot_per_data_set_and_the_mark_of_a_quick_run(study, kind, datasets):
    spec = figure_of(study, kind, datasets)
    alt.ConcatChart.from_dict(json.loads(json.dumps(spec)))  # checks
    assert spec["title"]["subtitle"][0] == "Quick run: a note."
    n_splits = 3 if kind == "cross-splits" else 1
    assert len(spec["concat"]) == n_splits * min(len(datasets), 3 if kind == "cross-splits" else 4)
    assert "@" not in json.dumps(spec)


def test_data_of_all_plots_are_in_the_figure(study):
    spec = figure_of(study, "cross")
    named = {layer["data"]["name"] for plot in spec["concat"] for layer in plot["layer"]}
    assert named == set(spec["datasets"])


def test_only_the_outer_axes_have_titles(study):
    plots = figure_of(study, "cross")["concat"]
    titles = [
        [layer["encoding"][name]["axis"]["title"] for name in "xy"] for *_, layer in (plot["layer"] for plot in plots)
    ]
    assert titles == [[None, "Min recall"], [None, None], ["Mean set size", "Min recall"], ["Mean set size", None]]


def test_all_splits_are_drawn_on_the_same_axes(study):
    panels = figure_of(study, "cross-splits", DATASETS[:1])["concat"]
    assert [" ".join(panel["title"]["text"]).partition(": ")[2] for panel in panels] == [
        "training examples",
        "seen domains, new examples",
        "unseen domains",
    ]
    assert len({json.dumps(panel["layer"][-1]["encoding"]["x"]["scale"]) for panel in panels}) == 1


def test_a_method_without_any_min_recall_keeps_its_row_and_has_no_box(results, domains, tmp_path):
    first, own = (table[table["dataset"] == "synthetic-10"] for table in (results, domains))
    bare = own.assign(min_recall=own["min_recall"].mask(own["method"] == "robust"))
    (path,) = figure_files(first, bare, tmp_path, "svg", ["min-recall"])
    text = path.read_text(encoding="utf-8")
    assert text.count(">no min recall<") == 1
    assert "Robust conformal" in text


def test_a_figure_names_target_and_methods_and_where_sets_drawn_by_lot_would_be(tmp_path):
    domains = random_domains(
        np.random.default_rng(0), ("data",), {"erm": (0.6, 1.0), "robust": (0.9, 1.7)}, ("yes", "no")
    )
    (path,) = figure_files(results_of(domains), domains, tmp_path, "svg", ["cross"])
    text = path.read_text(encoding="utf-8")
    assert all(f">{name}<" in text for name in ("0.9", "ERM", "Robust conformal"))
    assert "stroke-dasharray" in text


def test_png_is_at_least_twice_as_fine_as_the_chart(results, domains, tmp_path):
    (path,) = figure_files(results[results["dataset"] == "synthetic-10"], domains, tmp_path, "png", ["share"])
    header = path.read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    assert struct.unpack(">II", header[16:])[0] > 2 * 200


def test_a_failed_drawing_leaves_the_old_file_and_no_rest(results, domains, tmp_path, monkeypatch):
    (tmp_path / "share.png").write_text("old")
    monkeypatch.setattr(vl_convert, "vegalite_to_png", lambda *_args, **_options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        figure_files(results, domains, tmp_path, kinds=["share"])
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("share.png", "old")]


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
    assert widths.pop("cross-splits") == pytest.approx(465, abs=22)
    assert set(widths) == {"cross", "share", "min-recall", "curves", "coverage"}
    assert [kind for kind, width in widths.items() if not 205 <= width <= 234] == []


def test_text_in_figures_has_at_least_seven_and_a_half_points(drawn):
    sizes = {float(size) for svg in drawn.values() for size in re.findall(r'font-size="([0-9.]+)px"', svg)}
    assert min(sizes) >= 7.5


@pytest.mark.slow
def test_svg_holds_hostile_names_as_text_only(hostile_results, hostile_domains, tmp_path):
    first = hostile_results[hostile_results["dataset"] == hostile_results["dataset"].iloc[0]]
    both = pd.concat([first, first.assign(target_recall=0.8)])
    for path in figure_files(both, hostile_domains, tmp_path, "svg", ("cross", "min-recall", "curves", "coverage")):
        assert "<script" not in path.read_text(encoding="utf-8")
        assert "<img" not in path.read_text(encoding="utf-8")


def test_pdf_of_a_plot_alone_is_at_most_a_column_wide_in_points(results, domains, tmp_path):
    first = results[results["dataset"] == "synthetic-10"]
    (path,) = figure_files(first, domains, tmp_path, "pdf", ["share"])
    assert 205 <= float(re.search(rb"/MediaBox\s*\[0 0 ([0-9.]+) ", path.read_bytes())[1]) <= 234


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
@pytest.mark.parametrize(("dataset", "name"), [("../a/B", "share-a-b.png"), ("???", "share-data-set.png")])
def test_names_of_files_are_plain(dataset, name, tmp_path):
    domains = random_domains(np.random.default_rng(0), (dataset,))
    (path,) = figure_files(results_of(domains), domains, tmp_path, kinds=["share"])
    assert path == tmp_path / name


def test_an_unknown_kind_of_figure_is_refused(results, domains, tmp_path):
    with pytest.raises(InputError, match=r"one of 'cross', 'cross-splits', .* got 'pie'"):
        figure_files(results, domains, tmp_path, kinds=["share", "pie"])


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


@pytest.mark.parametrize(("style", "magic"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF")])
def test_figures_in_every_format(results, domains, tmp_path, style, magic):
    (path,) = figure_files(results, domains, tmp_path, style, ["share"])
    assert path.read_bytes().startswith(magic)


def test_an_unknown_figure_format_is_refused(results, domains, tmp_path):
    with pytest.raises(InputError, match="one of 'png', 'svg', 'pdf', got 'gif'"):
        figure_files(results, domains, tmp_path, "gif")
    assert list(tmp_path.iterdir()) == []


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
    (planned,) = planned_figures(in_order(results_of(domains)), ["cross-splits"])
    pages = pages_of(planned)
    assert [page.name for page in pages[:2]] == ["cross-splits", "cross-splits-2"]
    assert [name for page in pages for name in page.datasets] == list(planned.datasets)


@pytest.mark.parametrize("kind", ["cross", "cross-splits", "coverage", "curves"])
def test_the_legend_of_a_figure_of_one_plot_is_hollow_where_its_points_are(kind, tmp_path):
    methods = {"erm": (0.8, 1.0), "set-cover": (0.93, 1.2), "erm-joint": (0.95, 1.3)}
    domains = random_domains(np.random.default_rng(0), ("data",), methods)
    results = results_of(domains)
    several = pd.concat([results, results.assign(target_recall=0.8)]) if kind == "curves" else results
    (path,) = figure_files(several, domains, tmp_path, "svg", [kind])
    (legend,) = re.findall(r'<g class="mark-group role-legend".*', path.read_text(encoding="utf-8"), re.DOTALL)
    entries = re.findall(r"role-legend-symbol.*?<path([^>]*)>.*?<text[^>]*>([^<]*)", legend, re.DOTALL)
    fills = [(name, ' fill="#' not in drawn) for drawn, name in entries]
    assert fills == [("ERM", False), ("SET-COVER", False), ("ERM, promised", True)]
