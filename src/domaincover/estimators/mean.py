"""The mean of several classifiers as one scorer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import _num_samples

from domaincover.calibration.links import lowest_positive
from domaincover.criteria import TargetRecall, check_criterion
from domaincover.errors import InputError
from domaincover.estimators.base import SetClassifier, indexed, takes_inputs_of
from domaincover.estimators.scorer_fits import check_takes_weights, fit_on_each, fit_on_rows, taken
from domaincover.options import CriterionName
from domaincover.predictors.calibrated_predictors import MeanPredictor, log_scores_for
from domaincover.predictors.table_predictors import SingleLabelPredictor


@dataclass(kw_only=True, eq=False, repr=False)
class MeanClassifier(MeanPredictor, SetClassifier, _BaseComposition):
    """Normalised geometric mean of the probabilities of several classifiers; the set is the most likely label alone.

    Classifiers of different kinds, such as a network and boosted trees, err in different places; their mean gives
    smaller sets than either (docs/experiment-log.md). It is meant as the scorer of a `PromisedSetClassifier` or
    `ConformalSetClassifier`.
    Sets of a `Pipeline` or `GridSearchCV` that ends in it: `domaincover.predict_set(model, X)`, which has an example.

    Parameters
    ----------
    estimators : list of (str, classifier) pairs
        Classifiers with `predict_proba`, and their names; clones are fitted. Parameters are set as `name__parameter`.
    target_recall, criterion
        As for `ERMClassifier`: what reports and scorers compare with.

    Attributes
    ----------
    classes_, domains_ : arrays
        Labels and domains of the training data.
    estimators_ : list
        The fitted classifiers.

    >>> from domaincover import ERMClassifier, GaussianDomains, MeanClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = GaussianDomains.of_paper(n_features=10).sample(12, 200, np.random.default_rng(0))
    >>> model = MeanClassifier([("network", ERMClassifier(random_state=0)), ("linear", LogisticRegression())])
    >>> model.fit(data.examples, data.labels, domains=data.domains).predict_proba(data.examples[:3]).shape
    (3, 2)
    """

    estimators: Sequence[tuple[str, Any]] = field(kw_only=False)
    target_recall: TargetRecall = 0.9
    criterion: CriterionName = "min-recall"

    _needs_domains = False  # its classifiers say so themselves
    _label_types = (str,)  # scikit-learn's classifiers take no other objects

    def fit(self, X: Any, y: Any, *, domains: Any = None, sample_weight: Any = None) -> Self:
        """Fit a clone of each classifier; those that take domains get them.

        Parameters
        ----------
        X : array-like or DataFrame
        y : array-like
            Labels.
        domains : array-like or None, default=None
            The domain of each row; None means that all rows are from one domain.
        sample_weight : array-like or None, default=None
            The weight of each row in the fits of the classifiers, all of which have to take it.
        """
        self._check_settings()
        for _, each in self.estimators:
            check_takes_weights(each, sample_weight)
        X, y, domains, weights = indexed(X, y, domains, sample_weight)
        targets = self._learn_targets(y, domains, _num_samples(X))
        rows = np.arange(len(targets.labels))
        y = targets.classes[targets.labels]
        return self._learn([fit_on_rows(each, X, y, domains, rows, weights) for _, each in self.estimators], X)

    def _fit_on_each(
        self,
        X: Any,
        y: Any,
        domains: Any,
        rows: Sequence[NDArray[np.int64]],
        as_if_alone: bool,
        sample_weight: Any = None,
        n_jobs: int | None = None,
    ) -> list[Self]:
        """Fit a clone on each set of rows; networks of the same name are trained as one stack."""
        self._check_settings()
        fitted = [clone(self) for _ in rows]
        options: dict[str, Any] = {"sample_weight": sample_weight, "n_jobs": n_jobs}
        by_name = [fit_on_each(each, X, y, domains, rows, as_if_alone, **options) for _, each in self.estimators]
        for model, own, parts in zip(fitted, rows, zip(*by_name, strict=True), strict=True):
            model._learn_targets(taken(y, own), taken(domains, own), len(own))
            model._learn(list(parts), taken(X, own))
        return fitted

    def _learn(self, fitted: list[Any], X: Any) -> Self:
        """Keep fitted classifiers, and what stands in for a probability of 0, which would outvote the others."""
        self.estimators_ = fitted
        self.lowest_ = np.zeros((len(fitted), len(self.classes_)))
        for k, each in enumerate(fitted):
            if not isinstance(each, SingleLabelPredictor):  # a softmax is never 0
                self.lowest_[k] = lowest_positive(np.exp(log_scores_for(each, X, self.classes_)))
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep`, also the classifiers by name and their parameters."""
        params: dict[str, Any] = self._get_params("estimators", deep=deep)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, classifiers by name, or their parameters as `name__parameter`."""
        self._set_params("estimators", **params)
        return self

    def __sklearn_tags__(self) -> Tags:
        return takes_inputs_of(super().__sklearn_tags__(), [each for _, each in self.estimators])

    def _check_settings(self) -> None:
        check_criterion(self.criterion, self.target_recall)
        pairs = list(self.estimators)
        if not pairs or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
            raise InputError("estimators must be a list of (name, classifier) pairs, at least one.")
        try:
            self._validate_names([name for name, _ in pairs])
        except (TypeError, ValueError) as error:
            raise InputError(f"names of estimators: {' '.join(str(error).split())}") from error
        for name, each in pairs:
            if not hasattr(each, "predict_proba"):
                raise InputError(
                    f"{name!r}, a {type(each).__name__}, has no predict_proba; a mean needs probabilities."
                )
