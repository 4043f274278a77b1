"""Conformal thresholds, one per label, around any classifier."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.rules import (
    hierarchical_thresholds,
    order_thresholds,
    pooled_thresholds,
    robust_thresholds,
)
from domaincover.criteria import Criterion, check_share
from domaincover.errors import InputError, check_choice
from domaincover.estimators.base import Targets
from domaincover.estimators.calibrated import CalibratedSetClassifier, Fitted, cells_of
from domaincover.estimators.scorer_fits import Part, taken
from domaincover.options import SmallCells
from domaincover.predictors.calibrated_predictors import LEAVES_OUT, ConformalPredictor, promise_in_words, scores_for

Rule = Literal["robust", "pooled", "hierarchical", "order", "single"]
RULES: dict[str, Callable[..., NDArray[np.float64]]] = {
    "robust": robust_thresholds,
    "pooled": pooled_thresholds,
    "hierarchical": hierarchical_thresholds,
    "order": order_thresholds,
}


@dataclass(kw_only=True, eq=False, repr=False)
class ConformalSetClassifier(ConformalPredictor, CalibratedSetClassifier):
    """Sets from the scores of any classifier, with each label calibrated separately.

    A label is in the set if its score is at least the label's threshold, which comes from calibration domains:

    - "robust" (the paper): the lowest threshold of any domain;
    - "pooled" (Dunn, Wasserman and Ramdas): the threshold that reaches the target on average over them;
    - "hierarchical" (Lee, Barber and Willett): the same with a finite-sample guarantee: each label's expected recall in
      a new domain is at target;
    - "order" (Duchi, Gupta, Jiang and Sur): each label separately is at target in a new domain with probability
      `domain_confidence`;
    - "single": no calibration, the most likely label alone.

    `PromisedSetClassifier` promises all labels of a new domain together.
    Sets of a `Pipeline` or `GridSearchCV` that ends in it: `domaincover.predict_set(model, X)`, which has an example.

    Parameters
    ----------
    estimator : classifier
        Has `label_scores`, `predict_proba` or `decision_function`; a clone of it is fitted.
    rule : {"robust", "pooled", "hierarchical", "order", "single"}, default="robust"
    target_recall : float or mapping, default=0.9
        One target, or targets by label. A label left out of a mapping is not constrained: its threshold puts it into as
        many sets of the calibration rows as there are rows of it.
    criterion : {"min-recall", "coverage"}, default="min-recall"
        What a domain has to reach: every label's recall the target, or the share of its rows whose set holds their
        label. "coverage" has one threshold for all labels, whose scores should be comparable, as probabilities are.
    domain_confidence : float or None, default=None
        For "order": the probability that a label of a new domain is at target, such as 0.9.
    calibration : str, default="held-out-domains"
        - "held-out-domains", "cross-fit", "jackknife-minmax" and "prefit" calibrate as in `PromisedSetClassifier`. A
          promise is proved with each of them but "cross-fit".
        - "training-data" calibrates on the estimator's training rows, as in the paper, without a promise.
    min_cell_size : int, default=20
        A label's (domain, label) cells with fewer examples are pooled into one; with a promise, they are excluded from
        calibration and from the promise.
    small_cells : {"pool", "omit"}, default="pool"
        Without a promise: whether cells with fewer than `min_cell_size` examples are pooled, or left out of
        calibration. A label that has no other cells is then in every set, with a warning.
    on_infeasible : {"raise", "widen"}, default="raise"
        With too few domains for the confidence, overall or for one label: raise an error, or put the labels without a
        promise into every set.
    calibration_domains, folds, n_jobs, random_state
        As for `PromisedSetClassifier`.

    Attributes
    ----------
    classes_, domains_ : arrays
        Labels and domains seen in `fit`.
    thresholds_ : array
        Threshold of every label.
    calibration_domains_ : array
        Domains used for calibration.
    estimator_, estimators_
        The fitted estimator; with "cross-fit" and "jackknife-minmax", the fitted estimators.

    >>> from domaincover import ConformalSetClassifier, GaussianDomains
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = GaussianDomains.of_paper(n_features=10).sample(12, 200, np.random.default_rng(0))
    >>> model = ConformalSetClassifier(LogisticRegression(), rule="robust", random_state=0)
    >>> model.fit(data.examples, data.labels, domains=data.domains).predict_set(data.examples[:3]).shape
    (3, 2)
    """

    rule: Rule = field(default="robust", kw_only=False)
    domain_confidence: float | None = None
    small_cells: SmallCells = "pool"

    @property
    def _needs_domains(self) -> bool:  # type: ignore[override]
        return self.rule != "single"

    @property
    def _promised(self) -> float | None:
        """The share whose order statistic is promised: a confidence, or for "hierarchical" the target."""
        targets = self.target_recall.values() if isinstance(self.target_recall, Mapping) else [self.target_recall]
        return {"order": self.domain_confidence, "hierarchical": max(targets)}.get(self.rule)

    def _promised_to(self, criterion: Criterion) -> tuple[Any, str]:
        hierarchical = criterion.group_targets, "target recall, on average,"
        return hierarchical if self.rule == "hierarchical" else super()._promised_to(criterion)

    def _check_settings(self) -> None:
        if self.rule not in get_args(Rule):
            known = ", ".join(map(repr, get_args(Rule)))
            raise InputError(
                f"rule must be one of {known}, got {self.rule!r}; for all labels together use PromisedSetClassifier."
            )
        check_choice("small_cells", self.small_cells, get_args(SmallCells))
        if self.rule == "order":
            if self.domain_confidence is None:
                raise InputError("rule='order' needs a domain_confidence, such as 0.9.")
            check_share(self.domain_confidence, "domain confidence")
        elif self.domain_confidence is not None:
            raise InputError(
                f"domain_confidence has no effect with rule={self.rule!r}; use rule='order', or PromisedSetClassifier "
                "for all labels together."
            )
        super()._check_settings()

    def _plan(self, targets: Targets) -> list[Part]:
        rows = np.arange(len(targets.labels))
        return [Part(rows, rows)] if self.rule == "single" else super()._plan(targets)

    def _calibrate(self, X: Any, targets: Targets, fitted: Sequence[Fitted], inner: Sequence[Fitted]) -> None:
        if self.rule == "single":
            return
        rows = np.concatenate([part.calibrate for _, part in fitted])
        labels, domains = self._label_codes(targets)[rows], targets.domains[rows]
        fewest = 1 if self._promised is None else self.min_cell_size
        counts = self._criterion_of(targets).group_counts(cells_of(targets, rows)) >= fewest
        self.calibration_domains_ = self.domains_[counts.any(axis=1)]
        if self.calibration in LEAVES_OUT:
            scores = self._scored_rows(X, targets, fitted, inner).calibration.scores
        else:
            scores = scores_for(fitted[0][0], taken(X, rows), self.classes_)
        self.thresholds_ = self._thresholds(scores, labels, domains)

    def _thresholds(
        self, scores: NDArray[Any], labels: NDArray[np.int64], domains: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the threshold of every label from the scores of calibration rows."""
        names = self.classes_.tolist()
        options: dict[str, Any] = {"target_recall": self.own_criterion, "label_names": names}
        if self._promised is None:
            domains = self.own_criterion.merged_domains(domains, labels, len(self.domains_), self.min_cell_size)
            if self.small_cells == "omit":
                is_large = domains < len(self.domains_)
                scores, labels, domains = scores[is_large], labels[is_large], domains[is_large]
            return RULES[self.rule](scores, labels, domains, **options)
        options |= {"min_cell_size": self.min_cell_size, "on_infeasible": self.on_infeasible}
        if self.rule == "order":
            options["domain_confidence"] = self.domain_confidence
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # already warned before training
            return RULES[self.rule](scores, labels, domains, **options)

    def _promise_in_words(self) -> str | None:
        if self._promised is None:
            return None
        which = "each label" if self.rule == "hierarchical" else "a label, each by itself,"
        return promise_in_words(self, which, self.domain_confidence)
