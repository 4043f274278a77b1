"""Why a single label fails: labels that overlap, domains that differ, or both."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.criteria import TargetRecall, share
from domaincover.evaluation import DomainReport
from domaincover.options import CriterionName

Failure = Literal["none", "overlap", "drop", "both"]
Counts = NDArray[np.int64]  # domains × labels, or groups of labels
SMALLEST_DROP = 0.02  # smallest drop of accuracy that is reported
BROKEN_BY = 0.1  # a domain breaks where a recall is lower by more than this than in seen domains, beyond chance
CHANCE = 0.05  # of calling any domain broken where none is


class Diagnosis(NamedTuple):
    """Why a single label fails: labels overlap everywhere, domains differ, both, or not at all.

    Domains differ if accuracy drops in new ones, or if some of them break: there, a label's recall is more than ten
    points below its recall in seen domains, beyond chance. `min_recall_seen` is the recall of the hardest label over
    new rows of the seen domains that do not break, together; with coverage as criterion, that of all labels.
    """

    failure: Failure
    accuracy_seen: float
    accuracy_unseen: float
    standard_error: float
    min_recall_seen: float
    target_recall: float | dict[str, float]
    criterion: CriterionName
    n_broken: int  # unseen domains that break
    n_unseen: int

    @property
    def drops(self) -> bool:
        """Whether mean accuracy is lower in unseen domains, beyond two standard errors."""
        return self.accuracy_seen - self.accuracy_unseen > max(SMALLEST_DROP, 2 * self.standard_error)

    def __str__(self) -> str:
        shares = self.accuracy_seen, self.accuracy_unseen, self.min_recall_seen
        seen, unseen, hardest = (f"{100 * part:.0f} %" for part in shares)
        accuracy = f"{seen} on new rows of seen domains, {unseen} in unseen ones"
        what = "labels" if self.criterion == "coverage" else "hardest label"
        overlap = f"even in domains it was trained on, it finds only {hardest} of the {what}"
        if self.failure == "none":
            return (
                f"One label is enough here: a single-label model's accuracy is {accuracy}, "
                f"and it finds {hardest} of the {what}."
            )
        holds = f"holds in new domains ({accuracy})"
        if self.accuracy_seen - self.accuracy_unseen > SMALLEST_DROP:
            holds = f"is {accuracy}, which so few domains cannot tell apart"
        if self.failure == "overlap":
            return f"Labels overlap everywhere: a single-label model's accuracy {holds}, but {overlap}."
        moves = f"drops in new domains: {accuracy}" if self.drops else holds
        recall = "coverage" if self.criterion == "coverage" else "a label's recall"
        below = f"{recall} is more than {100 * BROKEN_BY:.0f} points below that in seen ones"
        breaks = f"; in {self.n_broken} of {self.n_unseen} unseen ones, {below}" if self.n_broken else ""
        said = f"Domains differ: a single-label model's accuracy {moves}{breaks}."
        if self.failure == "drop":
            return said
        return f"Two things go wrong with one label. {said} And labels overlap: {overlap}."


def diagnose(seen: DomainReport, unseen: DomainReport, target_recall: TargetRecall) -> Diagnosis:
    """Diagnose a single-label model's failure from its reports; a drop counts beyond two standard errors."""
    criterion = seen.under(target_recall).judged_by
    # Of what has a target, over all domains together: the lowest of many recalls from a few rows each is low by chance.
    reference = _usual_recall(*map(criterion.group_counts, seen.tallies[:2]))
    n, hits = map(criterion.group_counts, unseen.tallies[:2])
    n_broken = int(_broken(n, hits, reference).any(axis=1).sum())
    found = Diagnosis(
        failure="none",
        accuracy_seen=float(seen.coverage.mean()),
        accuracy_unseen=float(unseen.coverage.mean()),
        standard_error=_error_of_difference(seen, unseen),
        min_recall_seen=float(np.nanmin(reference)),
        target_recall=criterion.plain(seen.label_names),
        criterion=criterion.name,
        n_broken=n_broken,
        n_unseen=len(n),
    )
    overlaps = bool((reference < criterion.group_targets).any())
    if found.drops or n_broken > 0:
        return found._replace(failure="both" if overlaps else "drop")
    return found._replace(failure="overlap" if overlaps else "none")


def _usual_recall(n: Counts, hits: Counts) -> NDArray[np.float64]:
    """Return the recall over seen domains that do not break.

    A model may fail in some domains that it was trained on, where their labels contradict those of others: that is not
    overlap, which is everywhere.
    """
    broken = np.zeros(len(n), dtype=bool)
    while True:
        reference = share(hits[~broken].sum(axis=0), n[~broken].sum(axis=0))
        more = broken | _broken(n, hits, reference).any(axis=1)
        if more.all() or np.array_equal(more, broken):
            return reference
        broken = more


def _broken(n: Counts, hits: Counts, reference: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return in which cells recall is below the reference by more than `BROKEN_BY`, beyond chance over all cells."""
    from scipy.stats import binom

    p_values = binom.cdf(hits, n, np.maximum(reference - BROKEN_BY, 0))
    return np.asarray((n > 0) & (p_values < CHANCE / max(int((n > 0).sum()), 1)))


def _error_of_difference(seen: DomainReport, unseen: DomainReport) -> float:
    """Return the standard error of the difference of mean accuracies.

    The variance between domains is pooled over both sides, since there may be a single unseen domain. Each side has at
    least its own binomial variance, since numbers of rows differ.
    """
    sides = seen.coverage, unseen.coverage
    n_free = max(sum(len(side) - 1 for side in sides), 1)
    between = sum(((side - side.mean()) ** 2).sum() for side in sides) / n_free
    counting = sum((r.coverage * (1 - r.coverage) / r.n).mean() / len(r.n) for r in (seen, unseen))
    return float(np.sqrt(max(between * sum(1 / len(side) for side in sides), counting)))
