"""Recall by cell, literally: what a report says is compared with it."""

import numpy as np


def recall_by_cell(sets, labels, domains, n_domains):
    """Return the share of examples covered in each (domain, label) cell, NaN where a cell is empty."""
    cell = domains * sets.shape[1] + labels
    shape = (n_domains, sets.shape[1])
    n_examples, n_covered = (
        np.bincount(part, minlength=np.prod(shape)) for part in (cell, cell[sets[np.arange(len(sets)), labels]])
    )
    return np.where(n_examples > 0, n_covered / np.maximum(n_examples, 1), np.nan).reshape(shape)
