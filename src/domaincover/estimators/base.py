"""What every set-valued classifier has: sets, one label, scores and a report by domain."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from domaincover.data.dataset import code_names
from domaincover.errors import InputError
from domaincover.evaluation import DomainReport, domain_report
from domaincover.prediction_sets import Sets

ONLY_DOMAIN = "all"  # the name of the domain where none were given


class Targets(NamedTuple):
    """Label and domain codes of the training rows, and what the codes stand for."""

    labels: NDArray[np.int64]
    domains: NDArray[np.int64]
    classes: NDArray[Any]
    domain_names: tuple[Hashable, ...]


class SetClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that answers with a set of labels; subclasses bring `fit`, `label_scores` and `predict_set`.

    `fit` takes the domain of each row (hospital, user, station, …) by keyword; None means that there is only one.
    """

    classes_: NDArray[Any]
    domains_: NDArray[Any]

    @abstractmethod
    def label_scores(self, X: Any) -> NDArray[Any]:
        """Return one score per example and label, higher where the label is more likely in the set."""

    @abstractmethod
    def predict_set(self, X: Any) -> Sets:
        """Return the sets as booleans, examples × labels in the order of `classes_`."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Return one label for each example: the most likely, whether or not it is in the set."""
        check_is_fitted(self)
        return self.classes_[self._likelihoods(X).argmax(axis=1)]

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return what ranks the labels as scikit-learn likes it: for two labels, the second's lead over the first."""
        check_is_fitted(self)
        scores = self._likelihoods(X)
        scores = np.where(np.isposinf(scores), 0, scores)  # what could not be read ranks no label above another
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def domain_report(self, X: Any, y: Any, domains: Any = None, *, min_cell_size: int = 1) -> DomainReport:
        """Tell how the sets do in each domain; cells with fewer than `min_cell_size` examples do not count."""
        return self.report_on_sets(self.predict_set(X), y, domains, min_cell_size=min_cell_size)

    def report_on_sets(self, sets: Sets, y: Any, domains: Any = None, *, min_cell_size: int = 1) -> DomainReport:
        """Tell how sets that were predicted before, block by block perhaps, do in each domain."""
        coded = coded_domains(domains, len(sets))
        labels = label_codes(y, self.classes_)
        check_consistent_length(sets, labels)
        names = tuple(self.classes_.tolist())
        return domain_report(sets, labels, coded.codes, names, coded.names, min_cell_size - 1)

    @property
    def promise(self) -> str | None:
        """What the fitted sets promise about a new domain, in a sentence; None where they promise nothing."""
        return getattr(self, "promise_", None)

    def _likelihoods(self, X: Any) -> NDArray[Any]:
        """Return scores that rank the labels of an example; sets may be made on another scale."""
        return self.label_scores(X)

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, whole or not at all; `domaincover.load` reads it back."""
        from domaincover.estimators.saving import save

        save(self, folder)

    def _learn_targets(self, y: Any, domains: Any, n_rows: int) -> Targets:
        """Check and code labels and domains; sets `classes_` and `domains_`."""
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if n_rows == 0:
            raise InputError("the data has 0 sample(s): there are no rows.")
        y = column_or_1d(y, warn=True)
        coded = code_names(y, "labels", n_rows)  # first: it names the row of a missing label
        check_classification_targets(y)
        if len(coded.names) < 2:
            raise InputError(f"y holds one class only, {coded.names[0]!r}; at least two labels are needed for sets.")
        of_domains = coded_domains(domains, n_rows)
        self.classes_ = _as_array(coded.names)
        self.domains_ = _as_array(of_domains.names)
        return Targets(coded.codes, of_domains.codes, self.classes_, of_domains.names)


def coded_domains(domains: Any, n_rows: int) -> Any:
    """Return the codes of domains and their names; without domains, all rows are of one."""
    return code_names(np.full(n_rows, ONLY_DOMAIN) if domains is None else domains, "domains", n_rows)


def label_codes(y: Any, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each label among the classes, or refuse labels that training did not have."""
    import pandas as pd

    y = column_or_1d(y)
    codes = pd.Index(classes).get_indexer(pd.Index(y))
    if (codes < 0).any():
        unknown = ", ".join(repr(label) for label in dict.fromkeys(y[codes < 0].tolist()))
        raise InputError(f"y holds labels that training did not: {unknown}; the model knows {classes.tolist()}.")
    return codes.astype(np.int64)


def unwrapped(model: Any, X: Any) -> tuple[SetClassifier, Any]:
    """Return the set classifier inside a pipeline or a search, and the examples as they reach it."""
    while not isinstance(model, SetClassifier):
        if isinstance(model, Pipeline):
            model, X = model[-1], model[:-1].transform(X) if len(model) > 1 else X
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            raise InputError(f"{type(model).__name__} predicts no sets; wrap it in a ConformalSetClassifier.")
    return model, X


def predict_set(model: Any, X: Any) -> Sets:
    """Return the sets of a set classifier, or of a pipeline or search that ends in one."""
    model, X = unwrapped(model, X)
    return model.predict_set(X)


def to_label_lists(sets: ArrayLike, classes: Iterable[Any]) -> list[list[Any]]:
    """Return the labels in each set as a list.

    >>> to_label_lists([[True, False, True], [False, False, False]], ["cat", "dog", "owl"])
    [['cat', 'owl'], []]
    """
    sets, names = np.asarray(sets, dtype=bool), _as_array(tuple(classes))
    if sets.ndim != 2 or sets.shape[1] != len(names):
        raise InputError(f"sets must have a column for each of {len(names)} classes, got shape {sets.shape}.")
    _, label = np.nonzero(sets)
    ends = np.cumsum(sets.sum(axis=1))
    return [part.tolist() for part in np.split(names[label], ends)[:-1]]


def _as_array(names: tuple[Any, ...]) -> NDArray[Any]:
    """Return names as an array of their own kind, text as objects as scikit-learn has it."""
    array = np.array(names) if len({type(name) for name in names}) == 1 and not isinstance(names[0], tuple) else None
    if array is not None and array.dtype.kind not in "US":
        return array
    objects = np.empty(len(names), dtype=object)
    objects[:] = names
    return objects
