"""Base class of set-valued classifiers."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable
from datetime import date
from functools import update_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets

from domaincover.data.dataset import code_names
from domaincover.data.identity import look_alike_line
from domaincover.errors import InputError
from domaincover.predictors.set_predictor import SetPredictor, as_column, as_names, coded_domains

USED_METHODS = ("fit", "predict_set", "predict", "label_scores", "domain_report", "certify", "save")


class Targets(NamedTuple):
    """Label and domain codes of the training rows, and their names."""

    labels: NDArray[np.int64]
    domains: NDArray[np.int64]
    classes: NDArray[Any]
    domain_names: tuple[Hashable, ...]


class SetClassifier(ClassifierMixin, SetPredictor, BaseEstimator):
    """Base class of classifiers that predict sets; subclasses implement `fit`, `label_scores` and `predict_set`.

    `fit` takes the domain of each row (hospital, user, station, …) by keyword; None means a single domain.
    """

    _needs_domains: ClassVar[bool] = True  # whether sets depend on how the training rows are grouped
    _label_types: tuple[type, ...] = (str, int, date)  # in addition to numpy's types

    def __init_subclass__(cls, **options: Any) -> None:
        """Name inherited methods after the class, which is what an error about a wrong argument names."""
        super().__init_subclass__(**options)
        for name in USED_METHODS:
            inherited = getattr(cls, name, None)
            if name in vars(cls) or not isinstance(inherited, FunctionType):
                continue
            code, values, cells = inherited.__code__, inherited.__globals__, inherited.__closure__
            own: Any = update_wrapper(FunctionType(code, values, name, inherited.__defaults__, cells), inherited)
            own.__kwdefaults__, own.__qualname__ = inherited.__kwdefaults__, f"{cls.__qualname__}.{name}"
            del own.__wrapped__
            setattr(cls, name, own)

    def save(self, folder: str | Path) -> None:
        """Save the model to a folder atomically; load it with `domaincover.load`."""
        from domaincover.saving.models import save

        save(self, folder)

    def score(self, X: Any, y: Any, domains: Any = None) -> float:
        """Return minus the mean set size over domains, where one that misses its target counts with all labels.

        So searches and cross-validation prefer small sets among models that keep their target, if they are given the
        domains: `set_score_request(domains=True)` and metadata routing. None is a single domain.
        """
        from domaincover.scoring import minus_size

        return minus_size(self.domain_report(X, y, domains), self._own_target)

    def _learn_targets(self, y: Any, domains: Any, n_rows: int) -> Targets:
        """Validate and encode labels and domains, and set `classes_` and `domains_`."""
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if n_rows == 0:
            raise InputError("the data has 0 sample(s): there are no rows.")
        coded = code_names(as_column(y), "labels", n_rows)
        self.classes_ = as_names(coded.names)
        _check_targets(self.classes_, coded.codes, self._label_types)
        if len(coded.names) < 2:
            raise InputError(f"y holds one class only, {coded.names[0]!r}; at least two labels are needed for sets.")
        if domains is None and self._needs_domains:
            warnings.warn(
                f"{type(self).__name__}.fit was given no domains, so all rows are one domain and nothing is learned "
                "about new ones; pass the domain of each row: fit(X, y, domains=…).",
                stacklevel=4,
            )
        of_domains = coded_domains(domains, n_rows)
        for names, what in ((coded.names, "labels"), (of_domains.names, "domains")):
            if (doubt := look_alike_line(names, what)) is not None:
                warnings.warn(doubt, stacklevel=4)
        self.domains_ = as_names(of_domains.names)
        return Targets(coded.codes, of_domains.codes, self.classes_, of_domains.names)


def takes_inputs_of(tags: Tags, estimators: Iterable[Any]) -> Tags:
    """Return tags that say that inputs may be what all of these estimators take."""
    inner = [get_tags(each).input_tags for each in estimators]
    tags.input_tags.sparse = all(each.sparse for each in inner)
    tags.input_tags.allow_nan = all(each.allow_nan for each in inner)
    return tags


def indexed(*parts: Any) -> list[Any]:
    """Make examples, labels and domains indexable by row, and check that their lengths agree."""
    try:
        return indexable(*parts)
    except (TypeError, ValueError) as error:
        raise InputError(" ".join(str(error).split())[:300]) from error


def _check_targets(classes: NDArray[Any], codes: NDArray[np.int64], types: tuple[type, ...]) -> None:
    """Reject labels that are not classes: fractions, mixed types and objects of other types."""
    if classes.dtype == object:
        kinds = {type(name) for name in classes.tolist()}
        if len(kinds) > 1 or not all(issubclass(kind, types) for kind in kinds):
            named = " and ".join(sorted(kind.__name__ for kind in kinds))
            raise InputError(f"Unknown label type: objects of {named}; use text or 64-bit integers.")
        return
    try:
        with np.errstate(invalid="ignore"):  # scikit-learn casts floats to integers as a test
            check_classification_targets(classes[codes])
    except (TypeError, ValueError) as error:
        raise InputError(" ".join(str(error).split())[:300]) from error


def generators(random_state: Any, purpose: str, n: int = 1) -> list[np.random.Generator]:
    """Return n independent generators; the same integer and purpose give the same ones.

    Different purposes give independent streams from one seed, such as for unseen and for held-out domains.
    """
    seed = check_random_state(random_state).randint(2**31, size=4)
    children = np.random.SeedSequence([*seed.tolist(), *purpose.encode()]).spawn(n)
    return [np.random.default_rng(child) for child in children]
