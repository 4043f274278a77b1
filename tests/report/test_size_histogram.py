import numpy as np
import pytest

from domaincover import domain_report
from domaincover.report.size_histogram import size_bins, size_histogram


def counted(sizes, n_labels):
    """Return a report of one domain whose sets have the given sizes."""
    sets = np.arange(n_labels) < np.asarray(sizes)[:, None]
    labels = np.zeros(len(sizes), dtype=np.int64)
    return domain_report(sets, labels, labels, tuple(range(n_labels)), ("here",), min_cell_size=1)


def test_bars_are_the_percentages_of_all_sets():
    found = size_histogram(counted([0, 1, 1, 1, 1, 1, 1, 2, 2, 3], 3))
    assert [(bar.sizes, bar.percentage) for bar in found.bars] == [("0", "10"), ("1", "60"), ("2", "20"), ("3", "10")]
    assert [bar.height for bar in found.bars] == ["16.7%", "100.0%", "33.3%", "16.7%"]
    assert [bar.sizes for bar in found.bars if bar.is_one] == ["1"]
    assert (found.n_sets, found.one_label) == ("10", "60 %")


def test_a_bar_that_is_not_empty_never_says_nought():
    found = size_histogram(counted([1] * 999 + [2], 2))
    assert [bar.percentage for bar in found.bars] == ["100", "<1"]


@pytest.mark.parametrize("n_labels", [1, 2, 9, 10, 50, 300])
def test_every_set_is_in_one_bar_and_bars_are_few(n_labels):
    bins = size_bins(np.ones(n_labels + 1, dtype=np.int64))
    assert [size for low, high in bins for size in range(low, high + 1)] == list(range(n_labels + 1))
    assert len(bins) <= 11
