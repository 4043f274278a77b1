import io
import json
import math
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from domaincover.errors import InputError
from domaincover.paper.collect import RESULT_COLUMNS
from domaincover.paper.study_report.study_tables import (
    columns_of,
    format_results,
    format_times,
    in_order,
    readable_rows,
    training_times,
)

from .made_up import METHODS, SECONDS, published_numbers, random_domains, results_of


@pytest.fixture
def unseen(results):
    return results[results["split"] == "unseen"]


def test_json_holds_every_column_in_order(results):
    records = json.loads(format_results(results, "json"))
    assert len(records) == len(results)
    assert {tuple(record) for record in records} == {tuple(RESULT_COLUMNS)}


def test_json_says_null_for_nan(results):
    one_seed = results.assign(min_recall_std=math.nan)
    assert {record["min_recall_std"] for record in json.loads(format_results(one_seed, "json"))} == {None}


def test_csv_keeps_full_precision(results):
    read_back = pd.read_csv(io.StringIO(format_results(results, "csv")), keep_default_na=False)
    expected = in_order(results)
    assert list(read_back.columns) == list(RESULT_COLUMNS)
    pd.testing.assert_frame_equal(read_back, expected, check_dtype=False, rtol=0, atol=0)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r\n@"])
def test_no_text_in_csv_starts_a_formula(results, start):
    text = format_results(results.assign(dataset=f"{start}cmd|' /C calc'!A0", method=f"{start}1"), "csv")
    cells = pd.read_csv(io.StringIO(text))[["dataset", "method"]]
    assert len(cells) == len(results)
    assert cells.apply(lambda column: column.str.startswith("'")).all(axis=None)


def test_rows_come_by_data_set_split_and_method_whatever_their_order(results):
    shuffled = results.sample(frac=1, random_state=np.random.default_rng(0))
    rows = readable_rows(in_order(shuffled))
    assert [row["method"] for row in rows[:5]] == [
        "ERM",
        "Pooling CDFs (TrainC)",
        "Pooling CDFs (CVC)",
        "Robust conformal",
        "SET-COVER",
    ]
    assert [row["split"] for row in rows[:15:5]] == ["unseen", "seen", "train"]


def shares_and_sizes(results, shares, sizes, recall=0.95):
    own = {name: results["method"].map(sizes) for name in ("set_size", "set_size_q25", "set_size_q75")}
    return in_order(results.assign(share_at_target=results["method"].map(shares), min_recall=recall, **own))


def test_sets_hardly_better_than_by_lot_are_marked(unseen):
    shares = dict.fromkeys(METHODS, 0.4) | {"robust": 1.0}
    sizes = dict.fromkeys(METHODS, 1.3) | {"erm": 1.0, "robust": 2.95}
    checked = shares_and_sizes(unseen, shares, sizes)
    rows = readable_rows(checked)
    assert {row["method"] for row in rows if row["set_size"] == "2.95 ± 0.00 of 3 †" or "†" in row["set_size"]} == {
        "Robust conformal"
    }
    for style in ("table", "latex"):
        assert "Degenerate: less" in " ".join(format_results(checked, style, color=False).split())


@pytest.mark.parametrize("style", ["table", "latex", "csv", "json"])
def test_a_quick_run_says_so_in_every_table(results, style):
    mark = "not the paper's setting"
    text = format_results(results.assign(note=f"quick run: {mark}"), style, color=False)
    assert mark in " ".join(text.split())
    assert mark not in format_results(results, style, color=False)


def test_a_missing_number_is_a_dash_and_a_missing_spread_is_left_out(unseen):
    rows = readable_rows(
        in_order(
            unseen.assign(
                min_recall=0.9, min_recall_ci=math.nan, share_by_noise=math.nan, train_seconds=math.nan
            ).assign(min_recall_worst=math.nan)
        )
    )
    assert {(row["min_recall"], row["noise"], row["seconds"], row["worst"]) for row in rows} == {
        ("0.900", "–", "–", "–")
    }


@pytest.mark.parametrize("width", [-1, 0, 1, 60, 70, 80, 90])
def test_a_narrow_terminal_wraps_names_not_numbers(unseen, width):
    text = format_results(unseen, "table", width=width, color=False)
    rows = readable_rows(in_order(unseen))
    numbers = [number for row in rows for number in (row["min_recall"], row["set_size"], row["share"])]
    assert all(number.replace(" ± ", "±") in text for number in numbers)
    assert all(word in text.split() for row in rows for word in row["method"].split())


@pytest.mark.parametrize(
    ("width", "dropped"),
    [(80, ""), (71, "train seconds"), (60, "share by chance alone, 10th percentile, train seconds")],
)
def test_a_narrow_terminal_drops_columns_and_names_them(unseen, width, dropped):
    same = unseen.assign(share_at_target=0.5, share_at_target_std=0.1, train_seconds=12.3)
    note = " ".join(format_results(same, "table", width=width, color=False).split("; ", 2)[-1].split())
    assert note.partition("; a wider terminal also shows ")[2] == dropped


@pytest.mark.parametrize("style", ["table", "latex"])
def test_seeds_have_a_column_only_where_they_differ(results, style):
    assert "Seeds" not in format_results(results, style, color=False)
    text = format_results(results.assign(n_seeds=range(1, len(results) + 1)), style, color=False)
    assert "Seeds" in text
    assert "mean over seeds of 6 domains" in " ".join(text.split())


def test_the_terminal_table_groups_rows_by_data_set(unseen):
    lines = format_results(unseen, "table", color=False).splitlines()
    rules = [line for line in lines if line.endswith("──")]
    assert [rule.split(" ─")[0] for rule in rules[:2]] == [
        "Synthetic 10-d, shared covariance",
        "Synthetic 10-d, random covariance",
    ]


def test_names_bring_neither_markup_nor_control_codes_to_the_terminal(unseen):
    text = format_results(unseen.assign(dataset="\x1b[31m[bold]red[/bold]"), "table", color=False)
    assert "\x1b" not in text
    assert "[bold]red[/bold]" in text


def test_latex_escapes_what_is_special():
    results = results_of(random_domains(np.random.default_rng(0), datasets=(r"50%_a&b#$~^\{}",)))
    text = format_results(results, "latex")
    name = r"50\%\_a\&b\#\$\textasciitilde{}\textasciicircum{}\textbackslash{}\{\}"
    assert text.count(rf"\textit{{{name}}}") == 1


def test_latex_has_as_many_cells_in_every_row_as_columns_and_names_each_data_set_once(results):
    lines = [line for line in format_results(results, "latex").splitlines() if line.endswith(r"\\")]
    names = [line for line in lines if r"\multicolumn" in line]
    rows = [line for line in lines if line not in names]
    heads = columns_of(readable_rows(in_order(results)))
    assert len(names) == 2
    assert len(rows) == len(results) + 2  # heads take two lines
    said_once = {"dataset", "target"}
    assert {line.count("&") for line in rows} == {len(heads) - len(said_once) - 1}


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(hostile_results, results, tmp_path):
    names = hostile_results["dataset"].iloc[0], hostile_results["method"].unique().tolist()
    published = pd.concat([published_numbers("synthetic-10", list(METHODS)), published_numbers(*names)])
    tables = [format_results(table, "latex", published=published) for table in (results, hostile_results)]
    tables.append(format_times(training_times(SECONDS), "latex"))
    packages = r"\documentclass{article}\usepackage{booktabs}\usepackage{graphicx}"
    document = packages + r"\begin{document}" + "".join(tables) + r"\end{document}"
    (tmp_path / "paper.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert run.returncode == 0, run.stdout[-2000:]


@pytest.mark.parametrize("style", ["table", "csv", "latex", "json"])
def test_hostile_names_break_no_style(hostile_results, style):
    assert "alert" in format_results(hostile_results, style)


def test_empty_results_are_refused():
    with pytest.raises(InputError, match="results is empty: there is nothing to report"):
        format_results(pd.DataFrame(), "csv")


def test_an_unknown_style_is_refused(results):
    with pytest.raises(InputError, match="one of 'table', 'csv', 'latex', 'json', got 'html'"):
        format_results(results, "html")


def test_the_terminal_explains_chance_alone(results):
    text = " ".join(format_results(results, color=False).split())
    assert "by chance alone: the share at target if no domain differed" in text
