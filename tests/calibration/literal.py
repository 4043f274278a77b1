"""The rules as their definitions read: loops over cells and candidate thresholds, in exact fractions."""

from fractions import Fraction
from math import floor, inf


def cells_of(scores, labels, domains, min_cell_size):
    """Return {(domain, label): own-label scores} of the cells that count."""
    cells = {}
    for row, label, domain in zip(scores.tolist(), labels.tolist(), domains.tolist(), strict=True):
        cells.setdefault((domain, label), []).append(row[label])
    return {cell: own for cell, own in cells.items() if len(own) >= min_cell_size}


def exact(decimal):
    """Return the number that was typed, not the nearest binary one."""
    return Fraction(str(decimal))


def recall(own, threshold):
    """Return the share of a cell's scores that reach the threshold."""
    return Fraction(sum(score >= threshold for score in own), len(own))


def rank(confidence, n_domains):
    """Return ⌊(1 − c)(m + 1)⌋."""
    return floor((1 - exact(confidence)) * (n_domains + 1))


def order(scores, labels, domains, target, confidence, min_cell_size=1):
    """Each label: the k-th smallest of the largest thresholds that hold its cells at target."""
    cells, thresholds = cells_of(scores, labels, domains, min_cell_size), []
    for label in range(scores.shape[1]):
        allowed = []
        for (_, cell_label), own in cells.items():
            if cell_label == label:
                allowed.append(max(score for score in own if recall(own, score) >= exact(target)))
        k = rank(confidence, len(allowed))
        thresholds.append(sorted(allowed)[k - 1] if k > 0 else -inf)
    return thresholds


def joint(scores, labels, domains, target, confidence, min_cell_size=1):
    """All labels: the k-th smallest of the largest thresholds that hold all labels of a domain at target.

    Each label by itself: at most its `order` threshold. Labels in too few domains are in every set, and no domain's
    threshold depends on them.
    """
    cells = cells_of(scores, labels, domains, min_cell_size)
    n_labels = scores.shape[1]
    promised = [y for y in range(n_labels) if rank(confidence, sum(cell[1] == y for cell in cells)) > 0]
    allowed = []
    for domain in set(domains.tolist()):
        present = [cells[domain, y] for y in promised if (domain, y) in cells]
        candidates = [score for own in present for score in own]
        holding = [s for s in candidates if all(recall(own, s) >= exact(target) for own in present)]
        if present:
            allowed.append(max(holding))
    k = rank(confidence, len(allowed))
    alone = order(scores, labels, domains, target, confidence, min_cell_size)
    return [min(sorted(allowed)[k - 1], alone[y]) if y in promised else -inf for y in range(n_labels)]


def hierarchical(scores, labels, domains, target, min_cell_size=1):
    """Each label: the largest threshold at which the mean recall over m domains and one of recall 0 is at target."""
    cells, thresholds = cells_of(scores, labels, domains, min_cell_size), []
    for label in range(scores.shape[1]):
        of_label = [own for (_, cell_label), own in cells.items() if cell_label == label]
        holding = [
            score
            for own in of_label
            for score in own
            if sum(recall(other, score) for other in of_label) / (len(of_label) + 1) >= exact(target)
        ]
        thresholds.append(max(holding, default=-inf))
    return thresholds
