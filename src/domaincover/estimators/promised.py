"""A promise about new domains, around any classifier."""

from __future__ import annotations

import warnings
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.joint import joint_thresholds
from domaincover.errors import InputError
from domaincover.estimators.calibrated import CalibratedSetClassifier
from domaincover.options import OnInfeasible, PromiseCalibration
from domaincover.prediction_sets import check_share


class PromisedSetClassifier(CalibratedSetClassifier):
    """Sets that hold every label of a new domain at the target recall with a given probability.

    The promise: in a new domain drawn like the calibration domains, the recall of every label is at least
    `target_recall`, with probability at least `domain_confidence`. Each calibration domain gives one number, how far
    the thresholds of all labels have to be lowered for every label to be at target there; the threshold is an order
    statistic of these numbers (docs/promises.md has the proof).

    Parameters
    ----------
    estimator : classifier
        A `SetCoverClassifier`, `ERMClassifier`, scikit-learn classifier or pipeline with `label_scores`,
        `predict_proba` or `decision_function`; clones of it are fitted.
    target_recall : float, default=0.9
    domain_confidence : float, default=0.9
        Probability that a new domain is at target.
    calibration : {"cross-fit", "held-out-domains", "jackknife-minmax", "prefit"}, default="cross-fit"
        - "cross-fit" calibrates each of `folds` groups of domains with an estimator fitted on the others, and predicts
          with one fitted on all. It uses every domain and takes `folds` + 1 fits. The promise is expected to hold but
          not proved, since the estimator that predicts is not one of those calibrated.
        - "held-out-domains" calibrates on domains that the estimator is not fitted on. The promise is exact; the
          estimator learns from fewer domains.
        - "jackknife-minmax" leaves one domain out at a time; a label is in the set if any of these estimators puts it
          there. The promise is exact and uses every domain; it takes as many fits and predictions as domains left out.
        - "prefit" calibrates on all rows given, with an estimator that is fitted already. The promise is exact if the
          estimator was not fitted on any of these domains.
    calibration_domains : float or None, default=None
        Share of the domains held out; None is a quarter, or as many as the confidence needs.
    folds : int or None, default=None
        Number of groups for "cross-fit" (None is 10), or of domains left out for "jackknife-minmax" (None is 25, or as
        many as the confidence needs).
    min_cell_size : int, default=20
        (domain, label) cells with fewer examples count neither in calibration nor in the promise.
    on_infeasible : {"raise", "widen"}, default="raise"
        With too few domains for the confidence, overall or of one label: raise an error, or put the labels that cannot
        be promised into every set.
    random_state : int, RandomState or None, default=None
        Determines which domains calibrate.

    Attributes
    ----------
    classes_, domains_ : arrays
        Labels and domains seen in `fit`.
    thresholds_ : array
        Threshold of every label.
    promise_ : str
        The promise in a sentence.
    calibration_domains_ : array
        Domains that calibrated.
    estimator_, estimators_
        The fitted estimator; with "jackknife-minmax", the fitted estimators.

    >>> from domaincover import GaussianDomains, PromisedSetClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = GaussianDomains.of_paper(n_features=10).sample(12, 200, np.random.default_rng(0))
    >>> model = PromisedSetClassifier(LogisticRegression(), domain_confidence=0.9, random_state=0)
    >>> model.fit(data.examples, data.labels, domains=data.domains).predict_set(data.examples[:3]).shape
    (3, 2)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        target_recall: float = 0.9,
        domain_confidence: float = 0.9,
        calibration: PromiseCalibration = "cross-fit",
        calibration_domains: float | None = None,
        folds: int | None = None,
        min_cell_size: int = 20,
        on_infeasible: OnInfeasible = "raise",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.target_recall = target_recall
        self.domain_confidence = domain_confidence
        self.calibration = calibration
        self.calibration_domains = calibration_domains
        self.folds = folds
        self.min_cell_size = min_cell_size
        self.on_infeasible = on_infeasible
        self.random_state = random_state

    @property
    def _promised(self) -> float:
        return self.domain_confidence

    @property
    def _scales_scores(self) -> bool:
        return True  # one number lowers the thresholds of all labels, whose scores must then be comparable

    def _check_settings(self) -> None:
        check_share(self.domain_confidence, "domain confidence")
        if self.calibration not in get_args(PromiseCalibration):
            known = ", ".join(map(repr, get_args(PromiseCalibration)))
            raise InputError(f"calibration must be one of {known}, got {self.calibration!r}.")
        super()._check_settings()

    def _thresholds(self, levels: NDArray[Any], labels: NDArray[np.int64], domains: NDArray[np.int64]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what cannot be promised was said before training
            return joint_thresholds(
                levels,
                labels,
                domains,
                self.target_recall,
                self.domain_confidence,
                self.min_cell_size,
                self.classes_.tolist(),
                self.on_infeasible,
            )

    def _promise_in_words(self) -> str:
        return promise_in_words(self, "every label", self.domain_confidence)


def promise_in_words(model: CalibratedSetClassifier, which: str, confidence: float | None) -> str:
    """Return what a fitted classifier promises: that labels reach the target, with a confidence or on average."""
    widened = model.classes_[np.isneginf(model.thresholds_)].tolist()
    if len(widened) == len(model.classes_):
        return "Every set holds every label, since there are too few domains to promise anything else."
    counting = f"with at least {model.min_cell_size} examples there" if model.min_cell_size > 1 else "that it has"
    promise = f"In a new domain drawn like the {len(model.calibration_domains_)} that calibrated, "
    if confidence is None:
        promise += f"the recall of {which} {counting} is {model.target_recall:g} or more on average"
    else:
        promise += f"{which} {counting} has recall {model.target_recall:g} or more"
        promise += f" with probability {confidence:g} or more"
    if model.calibration == "cross-fit":
        promise += "; cross-fitted, so this is expected but not proved"
    if widened:
        promise += f"; in every set, since too few domains have them: {', '.join(map(repr, widened))}"
    return f"{promise}."
