import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from rich.cells import cell_len

from domaincover import InputError
from domaincover.report.domain_reports import worst_first
from domaincover.report.domain_table import domain_table, summary_table
from domaincover.report.readable import recall_text, shortened, shown_names

from .made_up_domains import random_reports, report

NAN = np.nan


@pytest.fixture(scope="module")
def many():
    return random_reports(np.random.default_rng(0), 40)


def rows_of(text):
    """Return the lines between the heads and the notes."""
    return [line for line in text.splitlines()[2:] if line and not line.startswith(("…", "▼"))]


def test_the_worst_domain_comes_first():
    text = domain_table({"a": report([[0.95, 0.96, 1], [0.99, 0.7, 1], [0.8, 1, 1]])}, 0.9)
    assert [row.split("  ")[0] for row in rows_of(text)] == ["ward 1", "ward 2", "ward 0"]


def test_equally_bad_domains_come_by_name_and_number():
    shown = worst_first({"a": report([[0.9] * 3] * 4, names=["ward 10", "b", "ward 9", "a"])}, 0.9)
    assert shown["a"].domain_names == ("a", "b", "ward 9", "ward 10")


def test_every_number_moves_with_its_domain():
    given = report([[0.95, NAN, 1], [0.5, 0.7, 1]], set_size=[1.1, 2.2])
    sorted_report = worst_first({"a": given}, 0.9)["a"]
    assert np.array_equal(sorted_report.recall, given.recall[::-1], equal_nan=True)
    assert np.array_equal(sorted_report.n_by_label, given.n_by_label[::-1])
    assert sorted_report.set_size.tolist() == [2.2, 1.1]


def test_a_domain_below_the_target_is_marked_and_one_at_the_target_is_not():
    low, held = rows_of(domain_table({"a": report([[0.9, 1, 1], [0.89, 1, 1]])}, 0.9))
    assert "▼ 0.890" in low
    assert "▼" not in held


def test_a_near_miss_is_not_rounded_up_to_the_target():
    assert "▼ 0.8997" in domain_table({"a": report([[0.89971, 1, 1]], n=100_000)}, 0.9)
    assert recall_text(0.9 - 1e-12, [0.9]) == "0.900000000"


OWN = {"cat": 0.95, "dog": 0.8}


def test_where_labels_have_their_own_targets_a_domain_that_misses_comes_before_one_that_passes():
    given = report([[1, 0.81, 1], [0.93, 0.99, 1]], names=["passes", "misses"])  # the first has the lower min recall
    misses, passes = rows_of(domain_table({"a": given}, OWN))
    assert misses.startswith("misses")
    assert "▼" in misses
    assert "▼" not in passes


def test_where_labels_have_their_own_targets_the_row_names_the_label_that_misses_and_not_the_lowest():
    text = domain_table({"a": report([[0.93, 0.85, 1]]), "ERM": report([[0.9, 0.82, 1]])}, OWN)
    (row,) = rows_of(text)
    assert text.splitlines()[0].split()[0] == "Worst"
    assert row.split()[:6] == ["ward", "0", "300", "▼", "0.930", "cat"]
    assert "▼ 0.900" in row


@pytest.mark.parametrize("recalls", [[0.97, 0.79961, 1], [0.94961, 0.97, 1]])
def test_no_near_miss_is_rounded_up_to_the_target_of_its_label(recalls):
    (row,) = rows_of(domain_table({"a": report([recalls], n=100_000)}, OWN))
    low = f"{min(recalls[:2]):.4f}"
    assert f"▼ {low}" in row
    assert row.count(low) == 2  # as the lowest, and as that of its label


@drawn(st.floats(0, 1), st.lists(st.floats(0.01, 0.99).map(lambda t: round(t, 4)), min_size=1, max_size=3))
def test_a_recall_and_its_text_are_on_the_same_side_of_every_target(recall, targets):
    recall = round(recall, 9)  # nine digits are shown at most
    assert all((recall < target) == (float(recall_text(recall, targets)) < target) for target in targets)


def test_domains_that_are_not_shown_are_bounded_by_the_lowest_of_them():
    rows = [[0.93, 0.99, 1], [1, 0.85, 1], [0.99, 0.99, 1]]
    assert "2 more domains, all with min recall ≥ 0.85" in domain_table({"a": report(rows)}, OWN, most_rows=1)


def test_the_row_names_the_label_with_the_lowest_recall_and_skips_absent_ones():
    (row,) = rows_of(domain_table({"a": report([[NAN, 0.97, 0.95]])}, 0.9))
    assert row.split()[4] == "owl"
    assert "–" in row


def test_there_is_a_column_of_recall_for_each_of_a_few_labels():
    text = domain_table({"a": report([[0.91, 0.92, 0.93]])}, 0.9)
    assert all(word in text for word in ("cat", "dog", "owl", "0.920", "0.930"))


def test_seven_labels_have_no_columns_of_their_own():
    text = domain_table({"a": report([[0.91, *[0.92] * 6]], labels=tuple("abcdefg"))}, 0.9)
    assert "0.92" not in text


def test_columns_of_labels_go_where_the_width_is_too_small(many):
    assert "Recall" in domain_table(many, 0.9, width=90)
    assert "Recall" not in domain_table(many, 0.9, width=60)


@pytest.mark.parametrize("width", [60, 72, 80, 110, 200])
def test_no_line_is_wider_than_asked(width):
    names = [f"Clinic of a town with a long name, 小児科病棟 {k}" for k in range(30)]
    reports = random_reports(np.random.default_rng(0), 30, names=names)
    text = domain_table(reports, 0.9, width=width) + summary_table(reports, 0.9, width=width)
    assert max(map(cell_len, text.splitlines())) <= width


def test_numbers_stay_whole_in_the_narrowest_terminal(many):
    assert re.search(r"▼ 0\.\d{3}.* 1\.\d\d +▼ 0\.\d{3}", domain_table(many, 0.9, width=1))


def test_a_second_report_gives_its_min_recall_under_its_name():
    reports = {"a": report([[0.95] * 3]), "My baseline": report([[0.7, 0.8, 0.9]])}
    text = domain_table(reports, 0.9)
    assert "My baseline" in text
    assert rows_of(text)[0].endswith("▼ 0.700")


def test_fixed_thresholds_beside_adapted_ones_of_the_same_model_are_called_fixed():
    adapted, fixed = (replace(report([[0.95, 0.8, 0.9]]), thresholds=kind) for kind in ("adapted", "fixed"))
    heads = domain_table({"set-cover-adapted": adapted, "set-cover-joint": fixed}, 0.9).splitlines()[:2]
    assert "Fixed" in heads[0]
    assert "SET-COVER" not in heads[0]


def test_names_bring_neither_markup_nor_control_codes():
    names, labels = ["\x1b[31m[bold]red[/bold]", "line\nbreak"], ("[link=x]y[/link]", "dog", "\u202eowl")
    reports = {"[red]a": report([[0.9] * 3] * 2, names, labels), "[b]\x07": report([[0.9] * 3] * 2, names, labels)}
    text = domain_table(reports, 0.9, width=200) + summary_table(reports, 0.9)
    assert not set(text) & set("\x1b\x07\u202e")
    assert all(name in text for name in ("[bold]red[/bold]", "line break", "[link=x]y[/", "[red]a", "[b]"))


def test_names_that_would_read_alike_are_told_apart():
    assert shown_names([1, "1"]) == ["1", "'1'"]
    assert shown_names(["a\t", "a\n"]) == ["a", "a-2"]


def test_long_names_are_cut_where_they_differ():
    names = [f"University hospital of the north, ward {k}" for k in range(3)]
    assert shortened(names, 20) == ["…the north, ward 0", "…the north, ward 1", "…the north, ward 2"]
    assert shortened(names, 5) == ["…0", "…1", "…2"]
    assert shortened([*names, "short"], 100) == [*names, "short"]
    assert shortened(["x" * 30, "x" * 31], 10) == ["xxxxxxxxx…", "xxxxxxxxx…-2"]


def test_a_label_that_is_lowest_twice_keeps_its_name():
    labels = ("a label with a long name", "dog", "owl")
    text = domain_table({"a": report([[0.5, 1, 1]] * 2, labels=labels)}, 0.9, width=56)
    assert text.count("a label with a long n…") == 2


def test_colour_is_used_only_when_asked_for(many):
    assert "\x1b" not in domain_table(many, 0.9)
    assert "\x1b[1;31m▼ 0." in domain_table(many, 0.9, color=True)


def test_the_summary_has_the_numbers_of_the_reports_own(many):
    first, second, *_ = rows_of(summary_table(many, 0.9))
    for row, one in ((first, many["SET-COVER"]), (second, many["ERM"])):
        summary = one.summary(0.9)
        n_held = round(40 * summary.share_at_target)
        numbers = [f"{number:.3f}" for number in (summary.min_recall, summary.min_recall_p10, summary.min_recall_worst)]
        numbers += [f"{summary.set_size:.2f}", f"{n_held} of 40, {100 * summary.share_at_target:.0f} %"]
        assert all(number in row for number in numbers)
        assert row.endswith(f"{100 * summary.share_by_noise:.0f} %")


def test_a_narrow_summary_says_no_word_of_columns_it_lacks(many):
    assert "chance" in summary_table(many, 0.9, width=80)
    assert "chance" not in summary_table(many, 0.9, width=55)


def test_one_domain_makes_a_table():
    assert len(rows_of(domain_table({"a": report([[0.9, 1, 1]])}, 0.9))) == 1


def test_reports_of_other_domains_are_refused():
    reports = {"a": report([[0.9] * 3] * 2), "b": report([[0.9] * 3])}
    with pytest.raises(InputError, match=r"of 'a' and 'b' do not have the same domains \(2 and 1\); evaluate both"):
        domain_table(reports, 0.9)


def test_reports_of_other_labels_are_refused():
    reports = {"a": report([[0.9] * 3]), "b": report([[0.9] * 3], labels=("x", "y", "z"))}
    with pytest.raises(InputError, match="do not have the same labels"):
        summary_table(reports, 0.9)


def test_no_report_at_all_is_refused():
    with pytest.raises(InputError, match="no reports were given"):
        domain_table({}, 0.9)


def test_a_target_in_percent_is_refused(many):
    with pytest.raises(InputError, match="between 0 and 1, got 90"):
        domain_table(many, 90)


def test_in_a_notebook_a_table_is_returned_and_not_shown(monkeypatch, capsys):
    reports = {"a": report([[0.95, 0.96, 1]])}
    outside = summary_table(reports, 0.9), domain_table(reports, 0.9)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert (summary_table(reports, 0.9), domain_table(reports, 0.9)) == outside
    assert capsys.readouterr().out == ""


def test_sizes_stand_beside_the_number_of_labels_and_beside_sets_drawn_by_lot():
    given = {"a": report([[0.9, 1, 1], [0.6, 0.8, 0.7]], set_size=[1.5, 2.25])}
    rows = rows_of(domain_table(given, 0.9))
    assert [row.split()[-2:] for row in rows] == [["2.25", "2.10"], ["1.50", "2.90"]]
    assert "of 3" in domain_table(given, 0.9).splitlines()[1]
    assert re.search(r"1.88 of 3 +2.50", summary_table(given, 0.9))
