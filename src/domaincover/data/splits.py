"""Split domains and their examples into training, held-out and unseen ones.

All randomness comes from the generator passed in. Rows are sorted indices of examples.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import DomainDataset, cell_of, count_cells
from domaincover.errors import InputError

Rows = NDArray[np.int64]


class DomainDraw(NamedTuple):
    """Codes of training and unseen domains."""

    train: NDArray[np.int64]
    unseen: NDArray[np.int64]


class Split(NamedTuple):
    """Training rows, held-out rows of the same domains, and rows of unseen domains."""

    train: Rows
    seen: Rows
    unseen: Rows


def draw_domains(domains: NDArray[Any], n_train: int, n_unseen: int, rng: np.random.Generator) -> DomainDraw:
    """Draw training and unseen domains at random from those in `domains`."""
    present = np.unique(domains)
    if min(n_train, n_unseen) < 1:
        raise InputError(f"at least one training and one unseen domain are needed, got {n_train} and {n_unseen}.")
    if n_train + n_unseen > len(present):
        raise InputError(
            f"{n_train} training and {n_unseen} unseen domains were asked for, "
            f"but the data has {len(present)}; ask for fewer."
        )
    drawn = rng.permutation(present)
    return DomainDraw(np.sort(drawn[:n_train]), np.sort(drawn[n_train : n_train + n_unseen]))


def n_held_out(n_domains: int, share_of_domains: float) -> int:
    """Return the number of domains to hold out: the rounded share, at least one, leaving at least one."""
    return min(max(1, round(share_of_domains * n_domains)), n_domains - 1)


def drop_small_cells(dataset: DomainDataset, rows: Rows, min_cell_size: int) -> Rows:
    """Keep the rows whose (domain, label) cell has at least `min_cell_size` of them."""
    cell = cell_of(dataset.domains[rows], dataset.labels[rows], dataset.n_labels)
    return rows[np.bincount(cell)[cell] >= min_cell_size]


def cap_per_domain(domains: NDArray[Any], rows: Rows, max_rows: int, rng: np.random.Generator) -> Rows:
    """Keep at most `max_rows` random rows of every domain."""
    position = _random_position_in_domain(domains[rows], rng)
    return rows[position < max_rows]


def hold_out_examples(
    domains: NDArray[Any],
    rows: Rows,
    max_train: int,
    max_held_out: int,
    rng: np.random.Generator,
    *,
    train_first: bool = False,
) -> tuple[Rows, Rows]:
    """Split the rows of every domain at random into training and held-out rows, at most `max_train` and `max_held_out`.

    A domain with too few rows for both is divided in their proportion; with `train_first`, only rows beyond `max_train`
    are held out.
    """
    domain = domains[rows]
    size = np.bincount(domain)[domain]
    left = size - max_train if train_first else np.rint(size * (max_held_out / (max_train + max_held_out)))
    n_held_out = np.clip(left, 0, max_held_out)
    position = _random_position_in_domain(domain, rng)
    held_out = position < n_held_out
    return rows[~held_out & (position < n_held_out + max_train)], rows[held_out]


def hold_out_share(groups: NDArray[Any], rows: Rows, share: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Split the rows of every group at random, holding out the given share of each (rounded)."""
    group = groups[rows]
    held_out = _random_position_in_domain(group, rng) < np.rint(np.bincount(group) * share)[group]
    return rows[~held_out], rows[held_out]


def hold_out_domains(
    domains: NDArray[Any], labels: NDArray[Any], n_held_out: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw at most `n_held_out` domains to hold out such that the remaining ones still have every label."""
    n_domains, n_labels = int(domains.max()) + 1, int(labels.max()) + 1
    order = rng.permutation(np.unique(domains))
    has_label = count_cells(domains, labels, n_domains, n_labels)[order] > 0
    stays = np.unique(has_label.argmax(axis=0))  # for each label, the first domain in this order that has it
    return np.sort(np.delete(order, stays)[:n_held_out])


def hold_out_rows(
    domains: NDArray[Any], labels: NDArray[Any], n_domains: int, share: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Return a mask of held-out rows: at most `n_domains` domains, such that the others still have every label.

    For labels that occur in none of these domains, a share of the rows of each cell is held out instead.
    """
    held_out = np.isin(domains, hold_out_domains(domains, labels, n_domains, rng)) if n_domains > 0 else domains < 0
    n_labels = int(labels.max()) + 1
    without = np.flatnonzero(np.bincount(labels[held_out], minlength=n_labels)[labels] == 0)
    held_out[hold_out_share(cell_of(domains, labels, n_labels), without, share, rng)[1]] = True
    return held_out


def paper_split(
    dataset: DomainDataset,
    *,
    n_train_domains: int,
    n_unseen_domains: int,
    max_train_rows: int,
    max_test_rows: int,
    min_cell_size: int,
    rng: np.random.Generator,
    train_first: bool = False,
) -> Split:
    """Draw the paper's split: drop small cells, draw domains, cap them, hold out examples of the training domains.

    With `train_first`, training domains with few rows hold out none.
    """
    usable = drop_small_cells(dataset, np.arange(len(dataset)), min_cell_size)
    drawn = draw_domains(dataset.domains[usable], n_train_domains, n_unseen_domains, rng)
    of_train, of_unseen = (usable[np.isin(dataset.domains[usable], codes)] for codes in drawn)
    train, seen = hold_out_examples(
        dataset.domains, of_train, max_train_rows, max_test_rows, rng, train_first=train_first
    )
    return Split(train, seen, cap_per_domain(dataset.domains, of_unseen, max_test_rows, rng))


def _random_position_in_domain(domain: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a random permutation of 0, 1, … within each domain."""
    order = np.lexsort((rng.random(len(domain)), domain))
    starts = np.cumsum(np.bincount(domain)) - np.bincount(domain)
    position = np.empty(len(domain), dtype=np.int64)
    position[order] = np.arange(len(domain)) - starts[domain[order]]
    return position
