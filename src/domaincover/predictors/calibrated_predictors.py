"""Sets from the scores of other classifiers, by thresholds that were calibrated on domains, and what they promise.

One score per label comes from any classifier, whichever method it gives scores with, and from the mean of several.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.links import Link, log_odds, mean_probabilities, without_zeros
from domaincover.calibration.rules import confidence_text, order_ranks
from domaincover.criteria import Sets, TargetRecall, sets_from_scores, single_label_sets
from domaincover.errors import InputError
from domaincover.options import Calibration, CriterionName
from domaincover.predictors.set_predictor import MostLikelyLabel, SetPredictor, check_fitted, label_codes, n_rows_of

KEPT_BITS = 40
LEAVES_OUT = ("cross-fit", "jackknife-minmax")  # calibrations with an estimator for each group of domains left out


def scores_for(estimator: Any, X: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the estimator's scores for the given classes, (example, class); −∞ for unknown classes.

    Doubles are rounded to 40 bits, twelve digits: the last depend on the processor and on the library that computes
    them, and a threshold may stand exactly at a score.
    """
    scores = _in_order(scores_of(estimator, X), estimator.classes_, classes, -np.inf)
    if scores.dtype != np.float64:
        return scores
    digits, exponent = np.frexp(scores)
    return np.ldexp(np.round(digits * 2.0**KEPT_BITS), exponent - KEPT_BITS)


def _in_order(values: NDArray[Any], known: NDArray[Any], classes: NDArray[Any], unknown: float) -> NDArray[Any]:
    """Return columns of known classes as columns of the given ones."""
    if np.array_equal(known, classes):
        return values
    found = np.full((len(values), len(classes)), unknown, dtype=np.result_type(values, np.float32))
    found[:, label_codes(known, classes)] = values
    return found


def log_scores_for(estimator: Any, X: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return log-probabilities, or the scores of an estimator that gives margins; +∞ for rows that it cannot read."""
    if has_margins(estimator) or isinstance(estimator, MostLikelyLabel):
        return scores_for(estimator, X, classes).astype(float)
    probabilities = _in_order(np.asarray(estimator.predict_proba(X)), estimator.classes_, classes, 0.0)
    with np.errstate(divide="ignore"):  # what stands for a probability of 0 is set later
        return np.log(probabilities.astype(float))


def has_margins(estimator: Any) -> bool:
    """Tell whether scores are margins, from which probabilities have yet to be made."""
    return getattr(last_step(estimator), "scores_are_margins", False) or not hasattr(estimator, "predict_proba")


def last_step(estimator: Any) -> Any:
    """Return the estimator at the end of a pipeline or inside a search, or the estimator itself."""
    if hasattr(estimator, "steps"):
        return last_step(estimator.steps[-1][1])
    return last_step(estimator.best_estimator_) if hasattr(estimator, "best_estimator_") else estimator


def input_encoder_of(estimator: Any) -> Any:
    """Return what turns a table's columns into numbers: a pipeline's first step, or a classifier's encoder."""
    first = estimator[0] if hasattr(estimator, "steps") else estimator
    return first.input_encoder_ if hasattr(first, "input_encoder_") else first


def scores_of(estimator: Any, X: Any) -> NDArray[Any]:
    """Return one score per label: label_scores, probabilities or decision values (for two labels −d and d)."""
    for method in ("label_scores", "predict_proba", "decision_function"):
        if hasattr(estimator, method):
            scores = np.asarray(getattr(estimator, method)(X))
            scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
            one_vs_one = method == "decision_function" and getattr(estimator, "decision_function_shape", "") == "ovo"
            if scores.shape[1] != len(estimator.classes_) or (one_vs_one and len(estimator.classes_) > 2):
                raise InputError(
                    f"{type(estimator).__name__}.{method} must return one score per label, {len(estimator.classes_)}; "
                    f"it returns {scores.shape[1]}{' of pairs' if one_vs_one else ''}."
                )
            return scores
    raise InputError(f"{type(estimator).__name__} has neither predict_proba nor decision_function.")


@dataclass(frozen=True)
class MeanOfModels:
    """The normalised geometric mean of the probabilities of one or several classifiers.

    By classifier, `lowest` has what stands for a probability of 0 of each label, and `links` what turns margins into
    probabilities; it is empty where classifiers give probabilities. `correct` makes other probabilities of these and
    the rows.
    """

    models: Sequence[Any]
    classes: NDArray[Any]
    lowest: NDArray[np.float64]
    links: Sequence[Link] = ()
    correct: Callable[[NDArray[np.float64], Any], NDArray[np.float64]] | None = None

    def by_model(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Yield each classifier's log-probabilities, rows × labels; NaN for rows that it could not read."""
        for number, model in enumerate(self.models):
            yield self.log_probabilities(number, log_scores_for(model, X, self.classes))

    def log_probabilities(self, number: int, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log-probabilities from the log-probabilities or margins that one of the classifiers gave."""
        scores = np.where(np.isposinf(scores).any(axis=1, keepdims=True), np.nan, scores)
        return (
            self.links[number].log_probabilities(scores) if self.links else without_zeros(scores, self.lowest[number])
        )

    def probabilities(self, X: Any) -> NDArray[np.float64]:
        """Return the mean, rows × labels; NaN for rows that some classifier could not read."""
        by_model = list(self.by_model(X))
        found = np.exp(by_model[0]) if len(by_model) == 1 else mean_probabilities(by_model)
        return found if self.correct is None else self.correct(found, X)


class ReadsColumns:
    """What a model knows of a table's columns, by the estimator that reads them."""

    @property
    @abstractmethod
    def _reader(self) -> Any:
        """The estimator that reads the columns."""

    @property
    def input_encoder_(self) -> Any:
        """The encoder that turns a table's columns into numbers, or None."""
        return input_encoder_of(self._reader)

    @property
    def n_features_in_(self) -> int:
        """Number of columns seen in `fit`, if the estimator has it."""
        return int(self._reader.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns, if the estimator has them."""
        first = self._reader
        return first.feature_names_in_ if hasattr(first, "feature_names_in_") else np.array(first.feature_names_)


class MeanPredictor(ReadsColumns, MostLikelyLabel):
    """Normalised geometric mean of the probabilities of several classifiers; the set is the most likely label alone."""

    estimators_: list[Any]
    lowest_: NDArray[np.float64]

    def label_scores(self, X: Any) -> NDArray[np.float64]:
        """Return log-probabilities, examples × labels in the order of `classes_`."""
        check_fitted(self)
        models = MeanOfModels(self.estimators_, self.classes_, self.lowest_)
        scores = np.log(mean_probabilities(list(models.by_model(X))))
        return np.where(np.isnan(scores), np.inf, scores)

    @property
    def _reader(self) -> Any:
        return self.estimators_[0]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimators_")


class Scored(NamedTuple):
    """Scores on the scale of the thresholds, and probabilities; +∞ and NaN for rows that could not be read.

    `encoded` are the features that labels of a domain are learned by, where they are needed.
    """

    scores: NDArray[Any]
    probabilities: NDArray[Any]
    encoded: NDArray[Any] | None = None

    @classmethod
    def joined(cls, blocks: Sequence[Scored], n_labels: int) -> Scored:
        """Return the rows of several blocks, or of none, as those of one."""
        nothing = np.empty((0, n_labels))
        scores, probabilities, encoded = zip(*(blocks or [cls(nothing, nothing)]), strict=True)
        features = None if encoded[0] is None else np.concatenate(encoded)
        return cls(np.concatenate(scores), np.concatenate(probabilities), features)

    def of(self, rows: NDArray[Any]) -> Scored:
        """Return some of the rows."""
        encoded = None if self.encoded is None else self.encoded[rows]
        return Scored(self.scores[rows], self.probabilities[rows], encoded)

    @property
    def is_readable(self) -> NDArray[np.bool_]:
        """Which rows could be read."""
        return np.asarray(np.isfinite(self.probabilities).all(axis=1))


class CalibratedPredictor(ReadsColumns, SetPredictor):
    """Log-odds of the mean of one or several classifiers, and the thresholds of their sets."""

    target_recall: TargetRecall
    criterion: CriterionName
    calibration: Calibration
    min_cell_size: int
    thresholds_: NDArray[np.float64]
    fit_domains_: NDArray[Any]
    calibration_domains_: NDArray[Any]
    estimator_: Any
    estimators_: Sequence[Any]
    lowest_: NDArray[np.float64]
    links_: Sequence[dict[str, Any]]

    def label_scores(self, X: Any) -> NDArray[Any]:
        """Return the scores that are compared with the thresholds, examples × labels in the order of `classes_`.

        They are log-odds of the mean of the estimators; with "jackknife-minmax", the highest of any estimator.
        """
        return self.scored(X).scores

    def scored(self, X: Any) -> Scored:
        """Return the scores and probabilities of rows, which methods take in their place (in blocks, for instance)."""
        check_fitted(self)
        if isinstance(X, Scored):
            return X
        if n_rows_of(X) == 0:  # which scikit-learn's classifiers reject
            nothing = np.empty((0, len(self.classes_)))
            return Scored(nothing, nothing)
        if self.calibration == "jackknife-minmax":
            scores = reduce(np.maximum, (log_odds(np.exp(each)) for each in self.mean_.by_model(X)))
            return Scored(scores, scores)
        probabilities = self.mean_.probabilities(X)
        return Scored(log_odds(probabilities), probabilities)

    def predict_set(self, X: Any) -> Sets:
        """Return the sets as booleans, examples × labels in the order of `classes_`."""
        return sets_from_scores(self.label_scores(X), self.thresholds_)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of each label: the normalised geometric mean of the estimators'."""
        check_fitted(self)
        found = self.mean_.probabilities(X)
        return np.where(np.isnan(found), 1 / found.shape[1], found)  # a row that could not be read may be anything

    @property
    def mean_(self) -> MeanOfModels:
        """The mean of the fitted estimators."""
        links = tuple(Link(**each) for each in self.links_)
        return MeanOfModels(self.predictors_, self.classes_, self.lowest_, links)

    @property
    def leaves_out(self) -> bool:
        """Whether several estimators predict, each fitted without a group of the domains."""
        return hasattr(self, "estimators_")

    @property
    def predictors_(self) -> Sequence[Any]:
        """The fitted estimators that predict: one, or several with "cross-fit" and "jackknife-minmax"."""
        return self.estimators_ if self.leaves_out else [self.estimator_]

    @property
    def training_domains_(self) -> NDArray[Any]:
        """The domains that the estimators were trained on, without those used only for calibration."""
        inner = [last_step(each) for each in self.predictors_]
        own = [each.training_domains_ for each in inner if isinstance(each, SetPredictor)]
        if not own:
            return self.fit_domains_
        names = dict.fromkeys(name for domains in own for name in domains.tolist())
        return np.fromiter(names, dtype=object, count=len(names))

    @property
    def seen_domains_(self) -> list[Any] | None:
        """All domains used in training or calibration; None if unknown."""
        seen = super().seen_domains_
        if self.calibration != "prefit" or seen is None:
            return seen
        inner = last_step(self.estimator_)
        before = inner.seen_domains_ if isinstance(inner, SetPredictor) else None
        return None if before is None else [*before, *seen]

    @property
    def _reader(self) -> Any:
        return self.predictors_[0]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "promise_")  # set last

    def _likelihoods(self, X: Any) -> NDArray[Any]:
        """Return log-odds of the mean of the estimators, which rank the labels of an example."""
        return log_odds(self.mean_.probabilities(X)) if n_rows_of(X) else self.label_scores(X)


class ConformalPredictor(CalibratedPredictor):
    """Conformal sets, or without thresholds the most likely label alone.

    Scores of a single estimator are compared as they are: rules set the threshold of each label by itself.
    """

    def label_scores(self, X: Any) -> NDArray[Any]:
        """Return the scores that are compared with the thresholds, examples × labels in the order of `classes_`.

        They are the estimator's; with "cross-fit" log-odds of the mean of the estimators, and with "jackknife-minmax"
        the highest log-odds of any estimator.
        """
        check_fitted(self)
        if self.leaves_out:
            return super().label_scores(X)
        return scores_for(self.estimator_, X, self.classes_)

    def predict_set(self, X: Any) -> Sets:
        """Return the sets as booleans, examples × labels in the order of `classes_`."""
        scores = self.label_scores(X)
        return sets_from_scores(scores, self.thresholds_) if hasattr(self, "thresholds_") else single_label_sets(scores)

    def _likelihoods(self, X: Any) -> NDArray[Any]:
        return super()._likelihoods(X) if self.leaves_out else self.label_scores(X)


def promised_apart(model: Any) -> NDArray[np.bool_]:
    """Return which labels are in too few calibration domains to be promised together with the others."""
    if not hasattr(model, "domains_by_label_"):
        return np.zeros(len(model.classes_), dtype=bool)
    few = order_ranks(model.domains_by_label_, model.domain_confidence) < 1
    return np.asarray(model.own_criterion.constrained & few & np.isfinite(model.thresholds_))


def _rare_in_words(model: Any) -> list[str]:
    """Say which labels are promised by themselves, each with its probability, and which are not promised."""
    rare = promised_apart(model)
    n_domains = model.domains_by_label_ if rare.any() else np.zeros(len(rare))
    by_itself, unpromised = rare & (n_domains > 0), rare & (n_domains == 0)
    said = []
    if by_itself.any():
        each = zip(model.classes_[by_itself].tolist(), n_domains[by_itself].tolist(), strict=True)
        named = ", ".join(f"{name!r} with probability {confidence_text(n)}" for name, n in each)
        said.append(f"promised apart from the others, since too few domains have them: {named}")
    if unpromised.any():
        named = ", ".join(map(repr, model.classes_[unpromised].tolist()))
        said.append(f"not promised, since no domain has {model.min_cell_size} examples of it: {named}")
    return said


def _reached(model: CalibratedPredictor, which: str, counting: str, on_average: bool) -> str:
    """Say what reaches the target: labels, each its own or all the same, or the rows of the domain together."""
    target = model.own_criterion.plain(model.classes_.tolist())
    if model.criterion == "coverage":
        counting = f", if it has {model.min_cell_size} rows or more," if model.min_cell_size > 1 else ""
        return f"the share of rows whose set holds their label{counting} is {target:g} or more"
    if isinstance(target, dict):
        reached = f"its target or more ({', '.join(f'{name} {value:g}' for name, value in target.items())})"
    else:
        reached = f"{target:g} or more"
    return (
        f"the recall of {which} {counting} is {reached}" if on_average else f"{which} {counting} has recall {reached}"
    )


def promise_in_words(model: CalibratedPredictor, which: str, confidence: float | None) -> str:
    """Return what a fitted classifier promises: that labels reach the target, with a confidence or on average."""
    widened = model.classes_[np.isneginf(model.thresholds_)].tolist()
    if len(widened) == len(model.classes_):
        return "Every set holds every label, since there are too few domains to promise anything else."
    rare = _rare_in_words(model)
    counting = f"with at least {model.min_cell_size} examples there" if model.min_cell_size > 1 else "that it has"
    promise = f"In a new domain drawn like the {len(model.calibration_domains_)} that calibrated, "
    promise += _reached(model, which, counting, on_average=confidence is None)
    promise += " on average" if confidence is None else f" with probability {confidence:g} or more"
    if model.calibration == "cross-fit":
        promise += "; cross-fitted, so this is expected but not proved"
    elif model.calibration == "prefit" and hasattr(model, "adaptation_"):
        promise += "; a few numbers are fitted to the same domains, so this is expected but not proved"
    if getattr(model, "domain_order", None) is not None:
        promise += "; the later of them weigh more, which is expected to hold while domains drift slowly"
    promise += "".join(f"; {each}" for each in rare)
    free = model.classes_[~model.own_criterion.constrained].tolist()
    if free:
        promise += f"; not constrained: {', '.join(map(repr, free))}"
    if widened:
        promise += f"; in every set, since too few domains have them: {', '.join(map(repr, widened))}"
    return f"{promise}."
