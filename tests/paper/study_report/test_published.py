import io
import json

import numpy as np
import pandas as pd
import pytest

from domaincover.errors import InputError
from domaincover.paper.authors_code import AUTHORS_MARK
from domaincover.paper.collect import RESULT_COLUMNS
from domaincover.paper.study_report.study_tables import (
    MEASURES,
    beside_paper,
    compared_with_published,
    format_results,
    format_times,
    in_order,
    training_times,
)

from .made_up import METHODS, PUBLISHED_TIMES, SECONDS, published_numbers


@pytest.fixture
def published():
    return published_numbers("synthetic-10-random", list(METHODS))


def test_only_what_both_measured_in_unseen_domains_is_compared(results, published):
    compared = compared_with_published(in_order(results), published)
    assert compared["method"].tolist() == list(METHODS)
    assert set(compared["dataset"]) == {"synthetic-10-random"}


def test_a_difference_is_ours_less_the_published_number(results, published):
    compared = compared_with_published(results, published)
    for measure in MEASURES:
        expected = compared[measure] - published.set_index("method")[measure].loc[compared["method"]].to_numpy()
        assert compared[f"{measure}_difference"].tolist() == expected.tolist()


def test_of_several_published_numbers_the_main_one_is_taken_unless_an_experiment_is_named(results, published):
    both = pd.concat([published.assign(experiment="single-label", source="Table 8"), published])
    assert set(compared_with_published(results, both)["source"]) == {"Table 5"}
    assert set(compared_with_published(results, both, "single-label")["source"]) == {"Table 8"}


def test_a_published_row_of_the_named_experiment_never_vanishes(results, published):
    elsewhere = published.assign(dataset="fmow", source="Table 1")
    compared = compared_with_published(results, pd.concat([published, elsewhere]), "main")
    assert len(compared) == 2 * len(METHODS)
    missing = compared[compared["dataset"] == "fmow"]
    assert missing["min_recall"].isna().all()
    assert missing["min_recall_published"].notna().all()


@pytest.mark.parametrize("experiment", [None, "main"])
def test_a_quick_run_never_stands_beside_published_numbers(results, published, experiment):
    quick = in_order(results.assign(note="quick run: not the paper's setting"))
    assert compared_with_published(quick, published, experiment).empty


def test_runs_as_the_authors_code_stand_beside_published_numbers(results, published):
    as_authors = in_order(results.assign(note=AUTHORS_MARK))
    expected = compared_with_published(results, published, "main")
    pd.testing.assert_frame_equal(compared_with_published(as_authors, published, "main"), expected)
    assert not expected.empty


@pytest.mark.parametrize("style", ["table", "latex", "csv", "json"])
def test_what_was_not_run_is_said_in_every_style(results, published, style):
    both = pd.concat([published, published.assign(dataset="fmow")], ignore_index=True)
    text = format_results(results, style, color=False, published=both, experiment="main", width=200)
    assert text.count("not run") >= len(METHODS)


def test_data_sets_that_the_paper_lacks_do_not_stand_beside_a_table_of_nothing(results, published):
    others = published.assign(dataset="fmow")
    assert format_results(results, published=others, experiment="main") == format_results(results)
    assert len(compared_with_published(results, others, "main")) == len(METHODS)  # a page shows what was not run


def test_json_has_the_published_numbers_and_null_where_there_are_none(results, published):
    records = json.loads(format_results(results, "json", published=published))
    has = [record["published_source"] == "Table 5" for record in records]
    wanted = [record["dataset"] == "synthetic-10-random" and record["split"] == "unseen" for record in records]
    assert has == wanted
    assert {record["min_recall_published"] for record, one in zip(records, has, strict=True) if not one} == {None}


def test_csv_keeps_its_columns_and_adds_the_published_ones(results, published):
    table = pd.read_csv(io.StringIO(format_results(results, "csv", published=published)))
    assert list(table.columns[: len(RESULT_COLUMNS)]) == RESULT_COLUMNS
    assert (table["set_size_difference"].notna() == table["published_source"].notna()).all()


@pytest.mark.parametrize("style", ["table", "latex"])
def test_texts_have_the_comparison_below_the_results(results, published, style):
    text = format_results(results, style, color=False, published=published)
    assert text.startswith(format_results(results, style, color=False))
    below = text[len(format_results(results, style, color=False)) :]
    row = compared_with_published(results, published).iloc[-1].to_dict()
    texts = [text.replace(" ± ", "±") for text in beside_paper(row, "set_size")]
    below = below.replace(r" $\pm$ ", "±").replace(" ± ", "±")
    assert "Beside the paper" in below
    assert all(shown in below or shown.replace("−", "$-$") in below for shown in texts)


def test_shares_are_compared_in_points_and_what_rounds_to_nothing_has_no_sign():
    row = {
        "share_at_target": 0.9,
        "share_at_target_std": np.nan,
        "share_at_target_published": 0.93,
        "share_at_target_published_std": np.nan,
    }
    assert list(beside_paper(row | {"share_at_target_difference": -0.03}, "share_at_target")) == [
        "90 %",
        "93 %",
        "−3",
    ]
    texts = [beside_paper(row | {"share_at_target_difference": gap}, "share_at_target") for gap in (-0.001, np.nan)]
    assert [difference for _, _, difference in texts] == ["0", "–"]


@pytest.fixture
def timed():
    return SECONDS


def test_times_are_those_of_erm_and_set_cover_and_their_ratio(timed):
    times = training_times(timed)
    assert times.to_numpy().tolist() == [["synthetic-10", 10, 15, 1.5, ""], ["synthetic-10-random", 10, 15, 1.5, ""]]


def test_published_times_of_data_sets_that_were_not_run_stay(timed):
    times = training_times(timed, PUBLISHED_TIMES.assign(dataset="fmow"))
    assert times["dataset"].tolist() == ["synthetic-10", "synthetic-10-random", "fmow"]
    assert times["ratio_published"].tolist() == pytest.approx([np.nan, np.nan, 133 / 98], nan_ok=True)
    assert "not run" in format_times(times, "latex")
    assert "which are 1.36 to 1.36 in the paper" in format_times(times, "latex")


@pytest.mark.parametrize("style", ["table", "latex", "csv", "json"])
def test_times_of_a_quick_run_say_so_and_stand_beside_nothing(timed, style):
    times = training_times(timed.assign(note="quick run: not the paper's setting"), PUBLISHED_TIMES)
    assert "source" not in times
    assert "quick run: not the paper's setting" in " ".join(format_times(times, style, color=False).split())


def test_times_in_csv_and_json_read_back(timed):
    times = training_times(timed, PUBLISHED_TIMES)
    read_back = pd.read_csv(io.StringIO(format_times(times, "csv")))
    assert read_back["ratio"].tolist() == times["ratio"].tolist()
    assert json.loads(format_times(times, "json"))[1]["source"] is None
    assert json.loads(format_times(training_times(timed), "json"))[0]["ratio"] == 1.5


def test_times_that_cannot_be_written_are_refused(timed):
    with pytest.raises(InputError, match="there are no times to compare"):
        format_times(training_times(timed[:0]))
    with pytest.raises(InputError, match="one of 'table', 'csv', 'latex', 'json', got 'html'"):
        format_times(training_times(timed), "html")
