import numpy as np
import pytest

from domaincover import domain_report
from domaincover.report.domain_reports import size_bars, track_start
from domaincover.report.template import templates


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
