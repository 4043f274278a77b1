"""Base of models that predict sets; labels and domains as codes, and codes as names.

Errors and warnings are those that scikit-learn expects.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Hashable, Iterable
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.criteria import MISSING_LABEL, Criterion, Sets, TargetRecall, criterion_for, single_label_sets
from domaincover.data.dataset import chosen_cell_size, code_names, count_cells, one_dimensional
from domaincover.data.identity import in_words, look_alike_line, look_alikes
from domaincover.errors import InputError
from domaincover.evaluation import DomainReport, Tallies, domain_report, report_of_tallies
from domaincover.options import MIN_CELL_SIZE
from domaincover.promises.certificates import Certificate, certify
from domaincover.promises.verdict import Verdict

MOST_NAMES = 5
ONLY_DOMAIN = "all"  # the domain name if none are given
DEFAULT_TARGET = 0.9  # of models without a target of their own, such as a mean


def as_column(y: Any) -> Any:
    """Return y with one dimension; a single column is accepted with a warning, as in scikit-learn."""
    if isinstance(y, list) and y and all(type(row) is list and len(row) == 1 for row in y):
        y = np.asarray(y)
    if type(y).__module__.startswith("scipy.sparse"):
        raise InputError("y is sparse; pass labels as a list or an array.")
    if len(getattr(y, "shape", ())) != 2 or y.shape[1] != 1:
        return y
    from sklearn.exceptions import DataConversionWarning

    warnings.warn(
        "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,).",
        DataConversionWarning,
        stacklevel=4,
    )
    return y.iloc[:, 0] if hasattr(y, "iloc") else np.asarray(y)[:, 0]


def coded_domains(domains: Any, n_rows: int) -> Any:
    """Return the codes and names of domains; without domains, all rows belong to one."""
    return code_names(np.full(n_rows, ONLY_DOMAIN) if domains is None else domains, "domains", n_rows)


def label_codes(y: Any, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each label among the classes; raise for unknown labels."""
    import pandas as pd

    y = one_dimensional(as_column(y), "labels")
    kind = None if y.dtype.kind == classes.dtype.kind else object  # pandas would compare 2⁶³ and 2⁶³ + 1 as floats
    known, given = (pd.Index(names, dtype=kind, tupleize_cols=False) for names in (classes, y))
    codes = known.get_indexer(given)
    if (codes < 0).any():
        unknown = ", ".join(repr(label) for label in islice(dict.fromkeys(y[codes < 0].tolist()), MOST_NAMES))
        alike = look_alikes(dict.fromkeys(y[codes < 0].tolist()), classes.tolist())
        said = f"; {in_words(alike)}" if alike else ""
        raise InputError(f"y holds labels that training did not: {unknown}; the model knows {classes.tolist()}{said}.")
    return codes.astype(np.int64)


def known_label_codes(y: Any, classes: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
    """Return the position of each label among the classes, `MISSING_LABEL` where it is None or NaN."""
    import pandas as pd

    codes = np.full(n_rows, MISSING_LABEL, dtype=np.int64)
    if y is None:
        return codes
    if n_rows_of(y) != n_rows:
        raise InputError(f"X has {n_rows} rows and y {n_rows_of(y)}; give y a missing value where unknown.")
    y = as_column(y)
    if len(getattr(y, "shape", (n_rows,))) != 1:
        raise InputError(f"labels must have one dimension, got shape {y.shape}.")
    values = pd.Series(y.to_numpy() if hasattr(y, "to_numpy") else list(y), dtype=object)
    known = values.notna().to_numpy()
    if known.any():
        codes[known] = label_codes(values[known].infer_objects().to_numpy(), classes)
    return codes


def to_label_lists(sets: ArrayLike, classes: Iterable[Any]) -> list[list[Any]]:
    """Return the labels in each set as a list.

    >>> to_label_lists([[True, False, True], [False, False, False]], ["cat", "dog", "owl"])
    [['cat', 'owl'], []]
    """
    sets, names = np.asarray(sets, dtype=bool), as_names(tuple(classes))
    if sets.ndim != 2 or sets.shape[1] != len(names):
        raise InputError(f"sets must have a column for each of {len(names)} classes, got shape {sets.shape}.")
    _, label = np.nonzero(sets)
    ends = np.cumsum(sets.sum(axis=1))
    return [part.tolist() for part in np.split(names[label], ends)[:-1]]


def as_names(names: tuple[Any, ...]) -> NDArray[Any]:
    """Return names as an array of their own type, with text as objects as in scikit-learn."""
    kinds = {type(name) for name in names}
    plain = not any(issubclass(kind, tuple | str | bytes) for kind in kinds)
    array = np.array(names) if len(kinds) == 1 and plain else None
    if array is not None and array.dtype != object and {type(name) for name in array.tolist()} == kinds:
        return array
    return np.fromiter(names, dtype=object, count=len(names))


def n_rows_of(X: Any) -> int:
    """Return the number of rows of an array, a table or a list."""
    if hasattr(X, "shape"):
        return int(X.shape[0])
    return len(X) if hasattr(X, "__len__") else len(np.asarray(X))


def check_fitted(model: Any) -> None:
    """Raise scikit-learn's error where a model is not fitted."""
    if not model.__sklearn_is_fitted__():
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(
            f"This {type(model).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
            "using this estimator."
        )


class SetPredictor:
    """A fitted model that predicts sets; subclasses implement `label_scores` and `predict_set`."""

    classes_: NDArray[Any]
    domains_: NDArray[Any]
    promise_: str | None

    @abstractmethod
    def label_scores(self, X: Any) -> NDArray[Any]:
        """Return one score per example and label, higher where the label is more likely in the set."""

    @abstractmethod
    def predict_set(self, X: Any) -> Sets:
        """Return the sets as a boolean array, (example, label) in the order of `classes_`."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each example, whether or not it is in the set."""
        check_fitted(self)
        return self.classes_[self._likelihoods(X).argmax(axis=1)]

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return decision values in scikit-learn's form: for two labels, the second's score minus the first's."""
        check_fitted(self)
        scores = self._likelihoods(X)
        scores = np.where(np.isposinf(scores), 0, scores)  # unreadable examples prefer no label
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def domain_report(self, X: Any, y: Any, domains: Any = None, *, min_cell_size: int | None = None) -> DomainReport:
        """Report recall and set size by domain.

        (domain, label) cells with fewer than `min_cell_size` examples do not count. None is the model's own, 20 unless
        set, or 1 with a warning where no cell has so many.
        """
        return self.report_on_sets(self.predict_set(X), y, domains, min_cell_size=min_cell_size)

    def report_on_sets(
        self, sets: Sets, y: Any, domains: Any = None, *, min_cell_size: int | None = None
    ) -> DomainReport:
        """Report on sets that were already predicted, for example in blocks."""
        coded = coded_domains(domains, len(sets))
        self._warn_of_domains(coded.names)
        labels = label_codes(y, self.classes_)
        if len(labels) != len(sets):
            raise InputError(f"there are {len(sets)} sets and {len(labels)} labels; every example needs one.")
        names = tuple(self.classes_.tolist())
        size = self._cell_size(min_cell_size, count_cells(coded.codes, labels, len(coded.names), len(names)))
        return domain_report(sets, labels, coded.codes, names, coded.names, size, self.own_criterion)

    def report_on_tallies(
        self, tallies: Tallies, domain_names: tuple[Hashable, ...], *, min_cell_size: int | None = None
    ) -> DomainReport:
        """Report on sets that were counted by domain and label, for example in parts of a table."""
        self._warn_of_domains(domain_names)
        size = self._cell_size(min_cell_size, tallies.n_by_cell)
        return report_of_tallies(tallies, tuple(self.classes_.tolist()), domain_names, size, self.own_criterion)

    def _warn_of_domains(self, names: tuple[Hashable, ...]) -> None:
        if (doubt := look_alike_line(names, "domains")) is not None:
            warnings.warn(doubt, stacklevel=4)
        if hasattr(self, "adapted_") and len(names) > 1:
            warnings.warn(
                f"the model is adapted to one domain, and these are rows of {len(names)}: for others its promise does "
                "not hold; use the model that it came from.",
                stacklevel=4,
            )

    def _cell_size(self, asked: int | None, n_by_cell: NDArray[np.int64]) -> int:
        return chosen_cell_size(asked, self.own_criterion.group_counts(n_by_cell), self.usual_cell_size)

    def certify(
        self,
        X: Any,
        y: Any,
        domains: Any,
        *,
        target_recall: TargetRecall | None = None,
        confidence: float = 0.95,
        min_cell_size: int | None = None,
    ) -> Certificate:
        """Certify how likely the next domain is at target, from rows of domains that the model has not seen.

        Domains that it was trained or calibrated on are rejected. `target_recall=None` is the model's own.
        """
        if self.seen_domains_ is None:
            raise InputError(
                "the model does not record the domains that it was trained on, so none is known to be new; fit it with "
                "domains, or certify a report without: certify(model.domain_report(X, y, domains), 0.9)."
            )
        report = self.domain_report(X, y, domains, min_cell_size=min_cell_size)
        target = self._own_target if target_recall is None else target_recall
        verdict = self.verdict(report.under(target))
        return certify(report, target, confidence=confidence, seen_domains=self.seen_domains_, verdict=verdict)

    def verdict(self, report: DomainReport | None = None) -> Verdict | None:  # noqa: ARG002
        """Return whether new domains contradict the promise: None without one that is about all labels of a domain."""
        return None

    @property
    def own_criterion(self) -> Criterion:
        """What a domain has to reach: `criterion` and `target_recall`, for the labels in `classes_`."""
        return self._criterion_for(self.classes_)

    @property
    def _own_target(self) -> TargetRecall:
        return getattr(self, "target_recall", DEFAULT_TARGET)

    def _criterion_for(self, classes: NDArray[Any]) -> Criterion:
        return criterion_for(self._own_target, classes.tolist(), getattr(self, "criterion", "min-recall"))

    @property
    def usual_cell_size(self) -> int:
        """How many examples a (domain, label) cell needs to count where nothing else is asked for."""
        return int(vars(self).get("min_cell_size", MIN_CELL_SIZE))

    @property
    def promise(self) -> str | None:
        """What the fitted sets promise about a new domain, in a sentence; None where they promise nothing."""
        return getattr(self, "promise_", None)

    @property
    def training_domains_(self) -> NDArray[Any]:
        """The domains that training used: not those held out to choose weights or thresholds."""
        held_out = set(getattr(self, "held_out_domains_", np.array([])).tolist())
        return self.domains_[[name not in held_out for name in self.domains_.tolist()]]

    @property
    def seen_domains_(self) -> list[Any] | None:
        """Every domain that the model was trained or calibrated on; None where that is not known."""
        seen = self.domains_.tolist()
        return None if seen == [ONLY_DOMAIN] else seen

    @property
    def input_encoder_(self) -> Any:
        """The encoder that turns a table's columns into numbers, or None."""
        return getattr(self, "encoder_", None)

    def _likelihoods(self, X: Any) -> NDArray[Any]:
        """Return scores that rank the labels of an example; sets may use another scale."""
        return self.label_scores(X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")


class MostLikelyLabel(SetPredictor):
    """Probabilities from scores that are their logarithms, with the most likely label as the set."""

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of each label, examples × labels; all are equally likely where one is unreadable."""
        scores = self.label_scores(X)
        unread = np.isposinf(scores)
        return np.where(unread, 1 / scores.shape[1], np.exp(np.where(unread, 0, scores)))

    def predict_set(self, X: Any) -> Sets:
        """Return the most likely label alone, as booleans, examples × labels in the order of `classes_`."""
        scores = self.label_scores(X)
        return single_label_sets(scores) | np.isposinf(scores)  # what cannot be read may be anything


def unwrapped(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the set classifier inside a pipeline or a search, and the examples transformed for it."""
    while not isinstance(model, SetPredictor):
        if hasattr(model, "steps"):
            model, X = model[-1], model[:-1].transform(X) if len(model) > 1 else X
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            raise InputError(f"{type(model).__name__} does not predict sets; wrap it in a ConformalSetClassifier.")
    return model, X


def predict_set(model: Any, X: Any, domains: Any = None) -> Sets:
    """Return the sets of a set classifier, or of a pipeline or search that ends in one.

    With `domains`, the rows of each domain set the thresholds of a `PromisedSetClassifier`. To adapt a pipeline to one
    domain: `pipeline[-1].adapt(pipeline[:-1].transform(X), y)`.

    >>> from sklearn import config_context
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV, GroupKFold
    >>> from sklearn.pipeline import make_pipeline
    >>> from domaincover import ConformalSetClassifier, GaussianDomains, TableEncoder
    >>> from domaincover.scoring import mean_size_scorer
    >>> data = GaussianDomains.of_paper(n_features=10).sample(12, 200, np.random.default_rng(0))
    >>> with config_context(enable_metadata_routing=True):
    ...     model = ConformalSetClassifier(LogisticRegression(), random_state=0).set_fit_request(domains=True)
    ...     pipeline = make_pipeline(TableEncoder(), model)
    ...     grid = {"conformalsetclassifier__estimator__C": [0.1, 1.0]}
    ...     search = GridSearchCV(pipeline, grid, scoring=mean_size_scorer, cv=GroupKFold(3))
    ...     search = search.fit(data.examples, data.labels, domains=data.domains, groups=data.domains)
    >>> predict_set(search, data.examples).shape
    (2400, 2)
    """
    model, X = unwrapped(model, X)
    if domains is None:
        return model.predict_set(X)
    if not hasattr(model, "can_adapt"):
        raise InputError(
            f"{type(model).__name__} has no promise that domains could set thresholds for; leave them out."
        )
    return model.predict_set(X, domains=domains)
