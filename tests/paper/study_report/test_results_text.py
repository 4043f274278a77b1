import io
import json
import math
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from domaincover.errors import InputError
from domaincover.paper.study_report.results_table import RESULT_COLUMNS, checked_results
from domaincover.paper.study_report.results_text import format_results
from domaincover.paper.study_report.time_tables import format_times, training_times
from domaincover.report.readable import best_by_share, heads_of, readable_rows
from domaincover.report.style import SINGLE_LABEL_METHODS

from .made_up import METHODS, SECONDS, published_numbers, random_domains, results_of


@pytest.fixture
def unseen(results):
    return results[results["split"] == "unseen"]


def test_json_holds_every_column_in_order(results):
    records = json.loads(format_results(results, "json"))
    assert len(records) == len(results)
    assert {tuple(record) for record in records} == {RESULT_COLUMNS}


def test_json_says_null_for_nan(results):
    one_seed = results.assign(min_recall_std=math.nan)
    assert {record["min_recall_std"] for record in json.loads(format_results(one_seed, "json"))} == {None}


def test_json_keeps_hostile_names_as_they_are(hostile_results):
    names = {record["dataset"] for record in json.loads(format_results(hostile_results, "json"))}
    assert names == set(hostile_results["dataset"])


def test_csv_keeps_full_precision(results):
    read_back = pd.read_csv(io.StringIO(format_results(results, "csv")))
    expected = checked_results(results)
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
    rows = readable_rows(checked_results(shuffled))
    assert [row.method for row in rows[:5]] == [
        "ERM",
        "Pooling CDFs (TrainC)",
        "Pooling CDFs (CVC)",
        "Robust conformal",
        "SET-COVER",
    ]
    assert [row.split for row in rows[:15:5]] == ["unseen", "seen", "train"]


def test_known_data_sets_come_in_the_paper_s_order_and_others_after_them(results):
    names = ["mine", "votes", "synthetic-50", "another", "synthetic-10"]
    table = checked_results(pd.concat(results[:1].assign(dataset=name) for name in names))
    assert table["dataset"].tolist() == ["synthetic-10", "synthetic-50", "votes", "mine", "another"]


def test_markdown_has_one_line_per_row_and_as_many_cells_as_heads(results):
    *lines, _, counted = format_results(results, "md").splitlines()
    assert counted.startswith("Every number is the mean over ")
    assert len(lines) == len(results) + 2
    assert {line.count("|") for line in lines} == {len(heads_of(readable_rows(checked_results(results)))) + 1}


def test_markdown_escapes_bars_tags_and_line_breaks():
    results = results_of(random_domains(np.random.default_rng(0), datasets=("a|b\nc<script>",)))
    *lines, _, counted = format_results(results, "md").splitlines()
    assert counted.startswith("Every number is the mean over ")
    assert len(lines) == len(results) + 2
    assert r"| a\|b c\<script\> |" in lines[2]


def test_only_the_highest_share_of_a_set_valued_method_is_bold(unseen):
    first = unseen[unseen["dataset"] == "synthetic-10"].assign(share_at_target=[0.99, 0.2, 0.3, 0.9, 0.8])
    lines = format_results(first, "md").splitlines()
    assert [line for line in lines if "**" in line] == [line for line in lines if "Robust" in line]


def test_single_label_methods_are_never_bold_whatever_their_sizes():
    methods = dict.fromkeys((*SINGLE_LABEL_METHODS, "set-cover", "mine"), (0.9, 1.2))
    results = checked_results(results_of(random_domains(np.random.default_rng(0), ("data",), methods)))
    shares = results["method"].map({"set-cover": 0.5, "mine": 0.4}).fillna(0.9)
    assert set(results[best_by_share(results.assign(share_at_target=shares))]["method"]) == {"set-cover"}


def test_a_method_that_gives_sets_may_be_best_with_sets_of_one_label(unseen):
    ones = dict.fromkeys(("set_size_q25", "set_size", "set_size_q75"), 1.0)
    shares = unseen["method"].map({"set-cover": 0.9}).fillna(0.3)
    checked = checked_results(unseen.assign(share_at_target=shares, **ones))
    assert set(checked[best_by_share(checked)]["method"]) == {"set-cover"}


def test_an_unknown_method_whose_sets_hold_one_label_is_no_competitor(unseen):
    ones = dict.fromkeys(("set_size_q25", "set_size", "set_size_q75"), 1.0)
    checked = checked_results(unseen.replace({"method": {"erm": "mine"}}).assign(**ones, share_at_target=0.5))
    assert "mine" not in set(checked[best_by_share(checked)]["method"])


@pytest.mark.parametrize("style", ["table", "md", "latex"])
def test_single_label_methods_have_their_names_in_every_table(style):
    methods = dict.fromkeys(SINGLE_LABEL_METHODS, (0.9, 1.0))
    results = results_of(random_domains(np.random.default_rng(0), ("data",), methods))
    text = format_results(results[results["split"] == "unseen"], style, color=False)
    names = ["ERM", "IRM", "VREx", "MMD", "CORAL", "Group DRO", "QRM"]
    assert sorted(names, key=lambda name: text.index(f"{name} ")) == names


def test_equal_shares_are_both_best(unseen):
    checked = checked_results(unseen.assign(share_at_target=0.5))
    best = checked[best_by_share(checked)]
    assert set(best["method"]) == set(METHODS) - {"erm"}


def test_a_missing_number_is_a_dash_and_a_missing_spread_is_left_out(unseen):
    rows = readable_rows(
        checked_results(
            unseen.assign(
                min_recall=0.9, min_recall_std=math.nan, share_by_noise=math.nan, train_seconds=math.nan
            ).assign(min_recall_worst=math.nan)
        )
    )
    assert {(row.min_recall, row.noise, row.seconds, row.worst) for row in rows} == {("0.900", "–", "–", "–")}


def test_the_terminal_table_of_unseen_domains_fits_100_columns_without_wrapping(unseen):
    lines = format_results(unseen, "table", width=100, color=False).splitlines()
    assert max(map(len, lines)) <= 100
    assert sum("Pooling CDFs (CVC)" in line for line in lines) == 2


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_table_keeps_to_its_width(results, width):
    assert max(map(len, format_results(results, "table", width=width, color=False).splitlines())) <= width


@pytest.mark.parametrize("width", [-1, 0, 1, 60, 70, 80, 90])
def test_a_narrow_terminal_wraps_names_not_numbers(unseen, width):
    text = format_results(unseen, "table", width=width, color=False)
    rows = readable_rows(checked_results(unseen))
    assert all(number in text for row in rows for number in (row.min_recall, row.set_size, row.share))
    assert all(word in text.split() for row in rows for word in row.method.split())


@pytest.mark.parametrize(
    ("width", "dropped"),
    [(80, ""), (71, "train seconds"), (60, "share by noise alone, 10th percentile, train seconds")],
)
def test_a_narrow_terminal_drops_columns_and_names_them(unseen, width, dropped):
    same = unseen.assign(share_at_target=0.5, share_at_target_std=0.1, train_seconds=12.3)
    note = " ".join(format_results(same, "table", width=width, color=False).split("; ", 2)[-1].split())
    assert note.partition("; a wider terminal also shows ")[2] == dropped


@pytest.mark.parametrize("style", ["table", "latex"])
def test_tables_say_how_many_seeds_and_domains_they_average(results, style):
    text = format_results(results, style, color=False)
    assert "every number is the mean over 2 seeds of 6 domains each" in " ".join(text.split())


@pytest.mark.parametrize("style", ["table", "md", "latex"])
def test_seeds_have_a_column_only_where_they_differ(results, style):
    assert "Seeds" not in format_results(results, style, color=False)
    text = format_results(results.assign(n_seeds=range(1, len(results) + 1)), style, color=False)
    assert "Seeds" in text
    assert style == "md" or "mean over seeds of 6 domains" in " ".join(text.split())


def test_one_seed_is_called_one_seed(results):
    text = format_results(results.assign(n_seeds=1, n_domains=range(1, len(results) + 1)), "table", color=False)
    assert f"every number is of one seed with 1 to {len(results)} domains" in " ".join(text.split())


def test_the_terminal_table_without_colour_is_plain_text(unseen):
    assert "\x1b" not in format_results(unseen, "table", color=False)


def test_the_terminal_table_in_colour_has_the_best_share_in_bold(unseen):
    text = format_results(unseen, "table", color=True)
    best = [row.share for row in readable_rows(checked_results(unseen)) if row.best]
    assert best
    assert all(share in "".join(part.split("\x1b[0m")[0] for part in text.split("\x1b[1m")[1:]) for share in best)


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
    heads = heads_of(readable_rows(checked_results(results)))
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


@pytest.mark.parametrize("style", ["table", "md", "csv", "latex", "json"])
def test_hostile_names_break_no_style(hostile_results, style):
    assert "alert" in format_results(hostile_results, style)


def test_empty_results_are_refused():
    with pytest.raises(InputError, match="results is empty: there is nothing to report"):
        format_results(pd.DataFrame(), "md")


def test_missing_columns_are_named(results):
    with pytest.raises(InputError, match=r"results lacks the columns set_size, train_seconds\.$"):
        format_results(results.drop(columns=["set_size", "train_seconds"]), "md")


def test_an_unknown_style_is_refused(results):
    with pytest.raises(InputError, match="one of table, md, csv, latex, json, got 'html'"):
        format_results(results, "html")


def test_extra_columns_are_ignored(results):
    assert format_results(results.assign(note="x"), "csv") == format_results(results, "csv")
