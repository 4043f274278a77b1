"""Made-up reports of domains, from the recalls that they should have."""

import numpy as np

from domaincover import DomainReport
from domaincover.evaluation import Tallies

LABELS = ("cat", "dog", "owl")


def report(recall, names=None, labels=LABELS, n=100, set_size=1.5):
    """Return a report with about these recalls (domains × labels, NaN for an absent label) and n examples per cell.

    Sets have the sizes below and above `set_size`, which is then their mean.
    """
    recall = np.array(recall, float)
    n_domains = len(recall)
    n_by_cell = np.where(np.isnan(recall), 0, n)
    hits = np.rint(np.nan_to_num(recall) * n_by_cell).astype(int)
    rows, n_sets = np.arange(n_domains), n_by_cell.sum(axis=1)
    size = np.broadcast_to(np.asarray(set_size, float), n_domains)
    n_by_size = np.zeros((n_domains, recall.shape[1] + 2), dtype=int)
    below = np.floor(size).astype(int)
    larger = np.rint((size - below) * n_sets).astype(int)
    n_by_size[rows, below] = n_sets - larger
    n_by_size[rows, below + 1] += larger
    return DomainReport(
        domain_names=tuple(names or (f"ward {k}" for k in range(n_domains))),
        label_names=tuple(labels),
        tallies=Tallies(n_by_cell, hits, n_by_size[:, :-1]),
    )


def random_reports(rng, n_domains, n_labels=3, **options):
    """Return a model that misses the target of 0.9 in some domains, and a single-label model that misses most."""
    labels = tuple(f"label {k}" for k in range(n_labels))
    model = rng.uniform(0.86, 1.0, (n_domains, n_labels))
    single = rng.uniform(0.6, 0.95, (n_domains, n_labels))
    model[rng.random(model.shape) < 0.1] = np.nan
    model[:, 0] = rng.uniform(0.86, 1.0, n_domains)
    single[np.isnan(model)] = np.nan
    sizes = rng.uniform(1.0, 2.0, n_domains)
    return {
        "SET-COVER": report(model, labels=labels, set_size=sizes, **options),
        "ERM": report(single, labels=labels, set_size=1, **options),
    }
