"""Thresholds that a new domain sets by its own rows, with the same promise as fixed ones.

One mechanism: evidence of a domain → base thresholds → residual → order statistic → thresholds.

- Evidence: nothing; the self-calibrated thresholds t̂ of its unlabelled rows; and what a few labelled rows add.
- Base thresholds: `level + slope · (t̂ − centre) + label_slope · shift`.
- A calibration domain's residual is what its labels allow beyond its base, and an order statistic of the residuals is
  added to a new domain's base.

What few rows say is noisy, so there is an entry for each of several numbers of rows, made from random batches of that
size from the calibration domains. docs/promises.md has the statement and its proof.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.base_thresholds import deviation
from domaincover.calibration.cell_thresholds import Thresholds
from domaincover.calibration.few_labels import bounded_scores, expected_scores, label_shifts
from domaincover.calibration.residuals import domain_residuals, label_offsets, n_counting, order_statistic
from domaincover.calibration.self_calibration import self_calibrated_thresholds
from domaincover.errors import check_choice
from domaincover.prediction_sets import checked_codes

MISSING_LABEL = -1
ROUNDING = 4 * float(np.finfo(float).eps)  # relative error of a residual, of the base and of their sum


class AdaptiveThresholds(NamedTuple):
    """What turns the rows of a domain into its thresholds.

    An entry for each of several numbers of rows; entry 0 is for none and gives the fixed thresholds. A domain with n
    rows takes the last entry with at most n, and a label with k labelled rows the last level of `label_counts` with at
    most k: evidence that is no noisier than in calibration. What is proved for labelled rows is proved for numbers k
    that are levels and were fixed beforehand; others are expected to be as safe.
    """

    target_recall: float
    domain_confidence: float
    promised: NDArray[np.bool_]  # labels
    n_rows: NDArray[np.int64]  # entries, from 0
    level: NDArray[np.float64]  # entries × labels
    centre: NDArray[np.float64]  # entries × labels
    highest: NDArray[np.float64]  # entries × labels: no evidence counts as higher than in calibration
    slope: NDArray[np.float64]  # entries
    label_counts: NDArray[np.int64]  # levels, from 0
    label_slope: NDArray[np.float64]  # entries
    residuals: NDArray[np.float64]  # entries × levels × draws × domains × labels: what cells allow beyond their base
    rare_residuals: NDArray[np.float64]  # entries × labels: what the pooled rows of a rare label allow; −∞ for nothing
    offset: NDArray[np.float64]  # entries × labels: what is added to the base where no row is labelled

    @property
    def fixed(self) -> Thresholds:
        """The thresholds of a domain of which nothing is known, one per label."""
        return rounded_down(self.level[0], self.offset[0])

    def of_domains(
        self,
        scores: NDArray[Any],
        probabilities: NDArray[Any],
        domains: NDArray[np.int64],
        n_domains: int | None = None,
    ) -> Thresholds:
        """Return the thresholds of every domain, domains × labels, from its unlabelled rows."""
        evidence = self_calibrated_thresholds(scores, probabilities, domains, self.target_recall, n_domains)
        return self.of_evidence(evidence, np.bincount(domains, minlength=len(evidence)))

    def of_evidence(self, evidence: Thresholds, n_rows: NDArray[np.int64]) -> Thresholds:
        """Return thresholds, domains × labels, from self-calibrated ones and the number of rows that gave them."""
        entry = self.entry_of(n_rows)
        return rounded_down(self.base(evidence, entry), self.offset[entry])

    def of_labelled(
        self,
        scores: NDArray[Any],
        probabilities: NDArray[Any],
        labels: NDArray[np.int64],
        evidence: Thresholds | None = None,
    ) -> Thresholds:
        """Return the thresholds of one domain, one per label, some of whose rows are labelled: the others have −1.

        `evidence` are its self-calibrated thresholds, where they are known.
        """
        labels = np.asarray(labels)
        is_labelled = labels != MISSING_LABEL
        domains = np.zeros(len(labels), np.int64)
        if evidence is None:
            evidence = self_calibrated_thresholds(scores, probabilities, domains, self.target_recall, 1)
        bounded = bounded_scores(scores, domains, evidence)
        expected = expected_scores(bounded, probabilities, domains, 1)
        known = checked_codes(labels[is_labelled], "label", int(is_labelled.sum()), len(self.promised))
        shift, n_by_label = label_shifts(bounded[is_labelled], known, domains[is_labelled], expected)
        entry = int(self.entry_of(np.array(len(labels))))
        levels = np.searchsorted(self.label_counts, n_by_label[0], side="right") - 1
        shift = np.where(levels > 0, shift[0], 0.0)  # level 0 was calibrated without one
        base = self.base(evidence[0], entry) + self.label_slope[entry] * shift
        allowed = np.take_along_axis(self.residuals[entry], levels[None, None, None, :], axis=0)[0]
        return rounded_down(base, self._offset(allowed, entry))

    def entry_of(self, n_rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which entry a number of rows takes."""
        return np.searchsorted(self.n_rows, n_rows, side="right") - 1

    def base(self, evidence: Thresholds, entry: Any) -> Thresholds:
        """Return the base thresholds that unlabelled rows give."""
        moved = deviation(evidence, self.centre[entry], self.highest[entry])
        return self.level[entry] + self.slope[entry][..., None] * moved

    def _offset(self, allowed: NDArray[np.float64], entry: int) -> NDArray[np.float64]:
        return offset_of(allowed, self.promised, self.rare_residuals[entry], self.domain_confidence)


def rounded_down(base: Thresholds, offset: NDArray[np.float64]) -> Thresholds:
    """Return base + offset, not rounded above the score that it stands for: many rows may have just that score."""
    error = ROUNDING * (np.abs(base) + np.abs(offset))
    return base + offset - np.where(np.isfinite(error), error, 0.0)


def offset_of(
    allowed: NDArray[np.float64],
    promised: NDArray[np.bool_],
    rare_residuals: NDArray[np.float64],
    domain_confidence: float,
) -> NDArray[np.float64]:
    """Return what is added to base thresholds, one number per label, from (draws, domains, labels) of residuals.

    Promised labels share one number, but for those that few domains have (see `label_offsets`). A rare label, in too
    few domains to be promised with the others, gets the lowest of this number, of what its own cells allow and of what
    its pooled rows allow: with r cells that count it is promised by itself with confidence r / (r + 1).
    """
    lowest = np.minimum(allowed.min(axis=(0, 1), initial=np.inf), rare_residuals)
    if not promised.any():
        return lowest
    residuals = domain_residuals(allowed, 0.0, promised)
    together = order_statistic(residuals, n_counting(residuals), domain_confidence)
    alone = label_offsets(allowed, allowed < np.inf, domain_confidence)
    return np.minimum(together, np.where(promised, alone, lowest))


def check_recall_on(recall_on: str, known: tuple[str, ...]) -> None:
    """Reject rows on which no recall is promised."""
    check_choice("recall_on", recall_on, known)
