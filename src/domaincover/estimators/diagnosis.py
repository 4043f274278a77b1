"""Why a single label fails: labels that overlap, domains that break, or both, domain by domain."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.criteria import TargetRecall, share
from domaincover.data.dataset import texts
from domaincover.evaluation import DomainReport
from domaincover.options import CriterionName

Failure = Literal["none", "overlap", "drop", "both"]
Counts = NDArray[np.int64]  # domains × labels, or groups of labels
SMALLEST_DROP = 0.02  # smallest drop of accuracy that is reported
BROKEN_BY = 0.1  # a domain breaks where a recall is lower by more than this than in seen domains, beyond chance
CHANCE = 0.05  # of calling any domain broken where none is
MOST_NAMES = 5


class Diagnosis(NamedTuple):
    """Why a single label fails: labels overlap everywhere, domains differ, both, or not at all.

    Domains differ if accuracy drops in new ones, or if some of them break: there, a label's recall is more than ten
    points below its recall in seen domains, beyond chance. `min_recall_seen` is the recall of the hardest label over
    new rows of the seen domains that do not break, together; with coverage as criterion, that of all labels.
    `by_domain` has the failure in each unseen domain, and `n_broken_seen` is how many of `n_seen` seen domains break.
    """

    failure: Failure
    accuracy_seen: float
    accuracy_unseen: float
    standard_error: float
    min_recall_seen: float
    target_recall: float | dict[str, float]
    criterion: CriterionName
    by_domain: dict[str, Failure]
    n_broken_seen: int
    n_seen: int

    @property
    def drops(self) -> bool:
        """Whether mean accuracy is lower in unseen domains, beyond two standard errors."""
        return self.accuracy_seen - self.accuracy_unseen > max(SMALLEST_DROP, 2 * self.standard_error)

    @property
    def broken_domains(self) -> list[str]:
        """The unseen domains that break."""
        return [name for name, failure in self.by_domain.items() if failure in ("drop", "both")]

    def __str__(self) -> str:
        seen, unseen, hardest = map(_percent, (self.accuracy_seen, self.accuracy_unseen, self.min_recall_seen))
        accuracy = f"{seen} on new rows of seen domains, {unseen} in unseen ones"
        what = "labels" if self.criterion == "coverage" else "hardest label"
        overlap = f"even in domains it was trained on, it finds only {hardest} of the {what}"
        if self.failure == "none":
            return (
                f"One label is enough here: a single-label model's accuracy is {accuracy}, "
                f"and it finds {hardest} of the {what}."
            )
        if self.failure == "overlap":
            return f"Labels overlap everywhere: a single-label model's accuracy {self._holds(accuracy)}, but {overlap}."
        said = [self._drop(accuracy)] if self.drops else []
        said += [self._breaks(accuracy)] if self.broken_domains else []
        if self.failure == "drop":
            return " ".join(said)
        by_domain = f"By unseen domain: {self._counts()}." if self.broken_domains else ""
        return " ".join(
            filter(None, ["Two things go wrong with one label.", *said, f"And labels overlap: {overlap}.", by_domain])
        )

    def _drop(self, accuracy: str) -> str:
        return f"Domains differ: a single-label model's accuracy drops in new domains: {accuracy}."

    def _holds(self, accuracy: str) -> str:
        """Say that accuracy does not drop, or that a drop cannot be told from chance."""
        if self.accuracy_seen - self.accuracy_unseen > SMALLEST_DROP:
            return f"is {accuracy}, which so few domains cannot tell apart"
        return f"holds in new domains ({accuracy})"

    def _breaks(self, accuracy: str) -> str:
        broken = self.broken_domains
        shown = ", ".join(broken[:MOST_NAMES])
        more = f" and {len(broken) - MOST_NAMES} more" if len(broken) > MOST_NAMES else ""
        what = "coverage" if self.criterion == "coverage" else "recall of a label"
        also = f"; so do {self.n_broken_seen} of {self.n_seen} seen ones" if self.n_broken_seen else ""
        holds = "" if self.drops else f" On average, accuracy {self._holds(accuracy)}."
        return (
            f"Some domains break: in {len(broken)} of {len(self.by_domain)} unseen ones ({shown}{more}), a "
            f"single-label model's {what} is more than {100 * BROKEN_BY:.0f} points below that in seen domains{also}."
            f"{holds}"
        )

    def _counts(self) -> str:
        kinds = list(self.by_domain.values())
        words: dict[Failure, str] = {"overlap": "overlap alone in", "drop": "a break alone in"}
        words |= {"both": "overlap and a break in", "none": "neither in"}
        return ", ".join(f"{said} {kinds.count(kind)}" for kind, said in words.items() if kind in kinds)


def diagnose(seen: DomainReport, unseen: DomainReport, target_recall: TargetRecall) -> Diagnosis:
    """Diagnose a single-label model's failure from its reports; a drop counts beyond two standard errors."""
    criterion = seen.under(target_recall).judged_by
    # Of what has a target, over all domains together: the lowest of many recalls from a few rows each is low by chance.
    reference, broken_seen = _usual_recall(*map(criterion.group_counts, seen.tallies[:2]))
    n, hits = map(criterion.group_counts, unseen.tallies[:2])
    targets = criterion.group_targets
    overlaps = np.asarray(((share(hits, n) < targets) & (reference < targets)).any(axis=1))
    breaks = np.asarray(_broken(n, hits, reference).any(axis=1))
    found = Diagnosis(
        failure="none",
        accuracy_seen=float(seen.coverage.mean()),
        accuracy_unseen=float(unseen.coverage.mean()),
        standard_error=_error_of_difference(seen, unseen),
        min_recall_seen=float(np.nanmin(reference)),
        target_recall=criterion.plain(seen.label_names),
        criterion=criterion.name,
        by_domain={
            name: _failure(overlap=bool(overlaps[k]), drop=bool(breaks[k]))
            for k, name in enumerate(texts(unseen.domain_names))
        },
        n_broken_seen=int(broken_seen.sum()),
        n_seen=len(broken_seen),
    )
    differs = found.drops or bool(breaks.any())
    return found._replace(failure=_failure(overlap=bool((reference < targets).any()), drop=differs))


def _failure(*, overlap: bool, drop: bool) -> Failure:
    return "both" if drop and overlap else "drop" if drop else "overlap" if overlap else "none"


def _usual_recall(n: Counts, hits: Counts) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the recall over seen domains that do not break, and which ones do.

    A model may fail in some domains that it was trained on, where their labels contradict those of others: that is not
    overlap, which is everywhere.
    """
    broken = np.zeros(len(n), dtype=bool)
    while True:
        reference = share(hits[~broken].sum(axis=0), n[~broken].sum(axis=0))
        more = broken | _broken(n, hits, reference).any(axis=1)
        if more.all() or np.array_equal(more, broken):
            return reference, broken
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


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"
