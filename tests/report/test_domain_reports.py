import numpy as np
import pytest

from domaincover import domain_report
from domaincover.report.domain_reports import size_bars, summary_lines, track_start
from domaincover.report.readable import templates

from .made_up_domains import report


def counted(sizes, n_labels):
    """Return a report of one domain whose sets have the given sizes."""
    sets = np.arange(n_labels) < np.asarray(sizes)[:, None]
    labels = np.zeros(len(sizes), dtype=np.int64)
    return domain_report(sets, labels, labels, tuple(range(n_labels)), ("here",), min_cell_size=1)


def test_bars_are_the_shares_of_all_sets():
    bars = size_bars(counted([0, 1, 1, 1, 1, 1, 1, 2, 2, 3], 3))
    assert [(bar.name, bar.n, bar.share) for bar in bars] == [
        ("0", 1, 0.1),
        ("1", 6, 0.6),
        ("2", 2, 0.2),
        ("3", 1, 0.1),
    ]
    assert [bar.length for bar in bars] == pytest.approx([1 / 6, 1, 1 / 3, 1 / 6])


def test_a_share_that_is_not_nothing_never_says_nought():
    percentage = templates().filters["percentage"]
    assert [percentage(bar.share) for bar in size_bars(counted([1] * 999 + [2], 2))] == ["100", "<1"]
    assert percentage(0.0) == "0"


@pytest.mark.parametrize("n_labels", [1, 2, 9, 10, 50])
def test_every_set_is_in_one_bar_and_bars_are_few(n_labels):
    bars = size_bars(counted(np.arange(n_labels + 1), n_labels))
    assert [bar.name for bar in bars[:10]] == [str(size) for size in range(min(n_labels, 9) + 1)]
    assert sum(bar.n for bar in bars) == n_labels + 1
    assert [(bar.name, bar.n) for bar in bars[10:]] == [(f"10–{n_labels}", n_labels - 9)] * (n_labels > 9)


@pytest.mark.parametrize(("lowest", "targets", "start"), [(0.0, [0.9], 0.0), (0.95, [0.97, 0.62], 0.5), (1.0, [1], 0)])
def test_an_axis_begins_below_every_recall_and_target(lowest, targets, start):
    assert track_start(lowest, targets) == pytest.approx(start)


HELD, MISSED = [0.95, 0.96, 0.97], [0.95, 0.6, 0.97]


def headline(reports, target=0.9, **options):
    return summary_lines(reports, target, **options)[0]


def test_the_headline_counts_domains_and_compares_with_the_single_label_model():
    reports = {
        "SET-COVER": report([HELD, HELD, MISSED], set_size=[1.2, 1.4, 3]),
        "ERM": report([MISSED] * 3, set_size=1),
    }
    assert headline(reports) == (
        "In 2 of 3 unseen domains every label's recall is at least 90 %, with 1.40 of 3 labels per set at the median, "
        "against 2.88 drawn by lot; a single-label model (ERM) does so in 0 of 3."
    )


def test_a_baseline_of_sets_is_given_with_its_size():
    reports = {"a": report([HELD, MISSED]), "Robust conformal": report([HELD] * 2, set_size=2)}
    assert headline(reports).endswith(
        "; Robust conformal does so in 2 of 2, with 2.00 of 3 labels per set, against 2.88 by lot."
    )


def test_nearly_full_sets_are_called_useless_with_what_to_try():
    reports = {"SET-COVER": report([HELD, HELD, MISSED], set_size=2.9), "ERM": report([MISSED] * 3, set_size=1)}
    assert headline(reports) == (
        "The sets are useless: 2.90 of 3 labels per set at the median, and sets drawn by lot would have 2.88 at the "
        "same recall. In 2 of 3 unseen domains every label's recall is at least 90 %; a single-label model (ERM) does "
        "so in 0 of 3. Try a promise with a lower domain confidence, another base model, or a lower target."
    )


def test_a_label_that_counts_nowhere_is_not_among_every_label():
    assert "every counted label's recall is at least" in headline({"a": report([[0.95, 0.95, np.nan]])})


@pytest.mark.parametrize(
    ("recalls", "start"),
    [
        ([HELD, HELD], "In all 2 unseen domains every label's"),
        ([MISSED, MISSED], "In none of the 2 unseen domains every label's"),
        ([HELD], "In the only unseen domain every label's"),
        ([MISSED], "In the only unseen domain not every label's"),
    ],
)
def test_all_none_and_one_are_said_in_words(recalls, start):
    assert headline({"a": report(recalls)}).startswith(start)


def test_in_one_domain_the_baseline_is_given_by_its_lowest_recall():
    reports = {"a": report([HELD]), "ERM": report([MISSED], set_size=1)}
    assert headline(reports).endswith("; the lowest recall of a single-label model (ERM) is 0.600.")


def test_domains_are_called_unseen_only_if_they_are():
    assert headline({"a": report([HELD, MISSED])}, kind="").startswith("In 1 of 2 domains every")
    assert headline({"a": report([HELD, MISSED])}, kind="training").startswith("In 1 of 2 training domains every")


def test_a_target_between_percents_is_not_rounded():
    assert "at least 97.5 %" in headline({"a": report([HELD])}, 0.975)


def test_the_worst_cell_is_named_with_its_number_of_examples():
    lines = summary_lines({"a": report([HELD, [1, 0, 1]], n=1)}, 0.9)
    assert lines[1] == "The lowest recall is 0.000: label “dog” in domain “ward 1”, from 1 example."


def test_a_name_without_end_does_not_fill_the_page():
    lines = summary_lines({"a": report([HELD], names=["x" * 5000])}, 0.9)
    assert "x…”, from 100 examples." in lines[1]
    assert len(lines[1]) < 200


def test_what_chance_alone_would_give_is_said():
    one = report([HELD, MISSED])
    expected = f"{100 * one.share_by_noise(0.9):.0f} %"
    assert summary_lines({"a": one}, 0.9)[2] == (
        f"If no domain differed from another, chance alone would put {expected} of domains at the target; 1 of 2 are."
    )


def test_one_domain_is_not_compared_with_itself():
    assert len(summary_lines({"a": report([[0.9, np.nan, np.nan]])}, 0.9)) == 2


def test_the_lowest_recall_is_that_farthest_below_the_target_of_its_label():
    lines = summary_lines({"a": report([[1, 0.81, 1], [0.93, 0.99, 1]])}, {"cat": 0.95, "dog": 0.8})
    assert lines[1] == (
        "The lowest recall against its label’s target is 0.930: label “cat” in domain “ward 1”, from 100 examples."
    )


def test_where_nothing_was_missed_no_label_is_called_the_lowest():
    assert summary_lines({"a": report([[1, 1, np.nan], [1, 1, 1]])}, 0.9)[1] == "The lowest recall is 1."
