"""Intervals for a number in new domains, around any regressor, with the promise that sets have."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import _num_samples, check_is_fitted

from domaincover.calibration.few_labels import FeatureScale
from domaincover.calibration.interval_thresholds import KnownLevel, Rows, fit_level
from domaincover.calibration.rules import domains_needed
from domaincover.criteria import check_share, check_target_recall
from domaincover.data.dataset import code_names, draw_domains, n_held_out
from domaincover.errors import InputError, check_choice
from domaincover.estimators.base import generators, indexed, takes_inputs_of
from domaincover.estimators.scorer_fits import DEFAULT_SHARE, FOLDS, Part, encoder_of_tables, folds_of, taken
from domaincover.predictors.interval_predictor import (
    SMALLEST_SCALE,
    IntervalPredictor,
    IntervalReport,
    numbers_of,
    predicted,
)
from domaincover.predictors.set_predictor import as_column, as_names, coded_domains
from domaincover.promises.verdict import Verdict

IntervalScore = Literal["scaled", "absolute", "quantile"]
IntervalCalibration = Literal["cross-fit", "held-out-domains", "prefit"]
IntervalCoverage = Literal["counted", "true"]
N_DRAWS = 5
FEWEST_TO_LEARN = 5  # domains that show how domains differ
FEWEST_COUNTED = 20  # rows of a domain beside those whose values are known
ERROR_SHARE = 0.25  # of 1 − confidence, that a promise of true coverage spends on counting


@dataclass(kw_only=True, eq=False, repr=False)
class PromisedIntervalRegressor(IntervalPredictor, RegressorMixin, BaseEstimator):
    """Intervals that hold the target share of a new domain's values with a given probability.

    The promise: in a new domain drawn like the calibration domains, at least `target_coverage` of the values lie in
    their intervals, with probability at least `domain_confidence` (docs/intervals.md).

    Parameters
    ----------
    estimator : regressor
        A scikit-learn regressor or pipeline; clones of it are fitted. With `score="quantile"` it has a parameter
        `quantile`, such as `HistGradientBoostingRegressor(loss="quantile")`.
    target_coverage : float, default=0.9
    domain_confidence : float, default=0.9
        Probability that a new domain is at target.
    score : {"scaled", "absolute", "quantile"}, default="scaled"
        Intervals are as wide as a second fit expects the error to be, equally wide, or between two quantiles.
    coverage : {"counted", "true"}, default="counted"
        The coverage counted on the rows of a new domain with about as many rows as the calibration domains, or the
        coverage of a domain of any size, known exactly only with endless rows; its intervals are wider.
    calibration : {"cross-fit", "held-out-domains", "prefit"}, default="cross-fit"
        As in `PromisedSetClassifier`: "held-out-domains" is proved, the others are expected to hold.
    calibration_domains, folds
        As in `PromisedSetClassifier`.
    few_labels : sequence of int, default=(10, 30, 100)
        Numbers of known values of a new domain that `adapt` is calibrated for, as far as domains have the rows.
    min_domain_size : int, default=20
        Domains with fewer rows count neither in calibration nor in the promise.
    random_state : int, RandomState or None, default=None
        Determines which domains calibrate, and draws known values.

    Attributes
    ----------
    domains_, calibration_domains_ : arrays
        Domains seen in `fit`, and those that calibrated.
    reach_ : float
        Intervals reach so many scales beyond what the regressors predict; infinite where too few domains calibrate.
    promise_ : str
        The promise in a sentence.
    label_gain : DataFrame
        Mean width of intervals and share of domains at target by number of known values.

    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> school, x = np.arange(3000) % 30, rng.normal(size=(3000, 1))
    >>> y = 2 * x[:, 0] + rng.normal(size=30)[school] + rng.normal(size=3000)
    >>> model = PromisedIntervalRegressor(LinearRegression(), random_state=0).fit(x, y, domains=school)
    >>> model.predict_interval(x[:5]).shape
    (5, 2)
    """

    estimator: Any = field(kw_only=False)
    target_coverage: float = 0.9
    domain_confidence: float = 0.9
    score: IntervalScore = "scaled"
    coverage: IntervalCoverage = "counted"
    calibration: IntervalCalibration = "cross-fit"
    calibration_domains: float | None = None
    folds: int | None = None
    few_labels: Sequence[int] = (10, 30, 100)
    min_domain_size: int = 20
    random_state: Any = None

    def fit(self, X: Any, y: Any, *, domains: Any = None) -> Self:
        """Fit the regressor and calibrate its intervals.

        Parameters
        ----------
        X : array-like or DataFrame
        y : array-like
            Finite numbers.
        domains : array-like
            The domain of each row.
        """
        self._check_settings()
        if domains is None:
            raise InputError(f"{type(self).__name__}.fit needs the domain of each row: fit(X, y, domains=…).")
        X, y, domains = indexed(X, y, domains)
        values, coded = numbers_of(y, _num_samples(X)), coded_domains(domains, _num_samples(X))
        if values.min() == values.max():
            raise InputError(f"y is {values[0]:g} in all rows; there is nothing to predict.")
        fold_rng, inner_rng, draw_rng = generators(self.random_state, "intervals", 3)
        self.domains_ = as_names(coded.names)
        parts = self._parts(coded.codes, fold_rng)
        self.members_ = self._fitted(X, values, coded.codes, parts, inner_rng)
        self._calibrate(self._scored(X, values, coded.codes, parts), draw_rng)
        return self

    def _check_settings(self) -> None:
        check_target_recall(self.target_coverage)
        check_share(self.domain_confidence, "domain confidence")
        for name, kind in (
            ("score", IntervalScore),
            ("coverage", IntervalCoverage),
            ("calibration", IntervalCalibration),
        ):
            check_choice(name, getattr(self, name), get_args(kind))
        if not hasattr(self.estimator, "predict"):
            raise InputError(f"{type(self.estimator).__name__} has no predict; give a regressor.")
        if hasattr(self.estimator, "predict_proba"):
            raise InputError(f"{type(self.estimator).__name__} is a classifier; PromisedSetClassifier predicts sets.")
        if self.calibration == "prefit" and self.score != "absolute":
            raise InputError(
                f"calibration='prefit' fits nothing, and score={self.score!r} needs a fit; give score='absolute'."
            )
        if self.score == "quantile":
            _quantile_name(self.estimator)

    def _parts(self, domains: NDArray[np.int64], rng: np.random.Generator) -> list[Part]:
        """Return the rows that fit each regressor, and those that it calibrates."""
        rows, n_domains = np.arange(len(domains)), int(domains.max()) + 1
        if self.calibration == "prefit":
            return [Part(rows[:0], rows)]
        if n_domains < 2:
            raise InputError("intervals for new domains take domains to fit on and others to calibrate; there is 1.")
        if self.calibration == "cross-fit":
            return folds_of(domains, rows, min(self.folds or FOLDS, n_domains), rng)
        needed = domains_needed(self._rank_confidence)
        share = DEFAULT_SHARE if self.calibration_domains is None else self.calibration_domains
        n_held_out = max(round(share * n_domains), needed if self.calibration_domains is None else 1)
        is_held_out = np.isin(domains, rng.permutation(n_domains)[: min(n_held_out, n_domains - 1)])
        return [Part(rows[~is_held_out], rows[is_held_out])]

    def _fitted(
        self, X: Any, values: NDArray[np.float64], domains: NDArray[np.int64], parts: Sequence[Part], rng: Any
    ) -> list[dict[str, Any]]:
        """Return the regressors of each part."""
        if self.calibration == "prefit":
            check_is_fitted(self.estimator)
            return [{"centre": self.estimator}]
        if self.score == "quantile":
            name, tail = _quantile_name(self.estimator), (1 - self.target_coverage) / 2
            sides = {"low": {name: tail}, "high": {name: 1 - tail}}
            return [
                {side: self._fit(X, values, part.train, **settings) for side, settings in sides.items()}
                for part in parts
            ]
        members = [{"centre": self._fit(X, values, part.train)} for part in parts]
        if self.score == "scaled":
            inner = parts if len(parts) > 1 else folds_of(domains, parts[0].train, FOLDS, rng)
            centres = members if len(parts) > 1 else [{"centre": self._fit(X, values, part.train)} for part in inner]
            errors = np.full(len(values), np.nan)
            for own, member in zip(inner, centres, strict=True):
                errors[own.calibrate] = np.abs(
                    values[own.calibrate] - member["centre"].predict(taken(X, own.calibrate))
                )
            for member, part in zip(members, parts, strict=True):
                member["scale"] = self._fit(X, errors, part.train)
        return members

    def _fit(self, X: Any, values: NDArray[np.float64], rows: NDArray[np.int64], **settings: Any) -> Any:
        return clone(self.estimator).set_params(**settings).fit(taken(X, rows), values[rows])

    def _scored(self, X: Any, values: NDArray[np.float64], domains: NDArray[np.int64], parts: Sequence[Part]) -> Rows:
        """Return what each part's regressors predict of the rows that it calibrates."""
        n_rows = np.bincount(domains)
        rows = np.concatenate([part.calibrate for part in parts])
        self.usual_scale_ = 1.0
        found = [
            predicted(member, taken(X, part.calibrate), 0.0) for member, part in zip(self.members_, parts, strict=True)
        ]
        centre, half, scale = (np.concatenate(parts_of) for parts_of in zip(*found, strict=True))
        self.usual_scale_ = float(np.median(np.abs(values[rows] - centre))) or float(np.std(values)) or 1.0
        scale = (
            np.maximum(scale, SMALLEST_SCALE * self.usual_scale_)
            if self.score == "scaled"
            else scale + self.usual_scale_
        )
        counts = n_rows[domains[rows]] >= self.min_domain_size
        rows, centre, half, scale = (part[counts] for part in (rows, centre, half, scale))
        if not len(rows):
            raise InputError(f"no domain has {self.min_domain_size} rows or more; lower min_domain_size.")
        self.feature_encoder_ = encoder_of_tables(X, rows)
        own = taken(X, rows)
        no_features = np.empty((len(rows), 0))
        features = no_features if self.feature_encoder_ is None else self.feature_encoder_.transform(own)
        self.feature_scale_ = FeatureScale.of(features)._asdict()
        codes = np.unique(domains[rows], return_inverse=True)[1]
        self.calibration_domains_ = self.domains_[np.unique(domains[rows])]
        standardised = FeatureScale(**self.feature_scale_).standardised(features)
        return Rows(values[rows], centre, half, scale, standardised, codes.astype(np.int64))

    @property
    def _rank_confidence(self) -> float:
        """The confidence of the order statistic; counting takes a part of the error where true coverage is promised."""
        return self.domain_confidence + (ERROR_SHARE * (1 - self.domain_confidence) if self.coverage == "true" else 0.0)

    def _calibrate(self, rows: Rows, rng: np.random.Generator) -> None:
        """Set the reach of intervals, without known values and with each number of them."""
        n_by_domain, needed = np.bincount(rows.domains), domains_needed(self._rank_confidence)
        error = None if self.coverage == "counted" else self._rank_confidence - self.domain_confidence
        levels: dict[int, KnownLevel] = {}
        for n_known in (0, *sorted(set(self.few_labels))):
            has_rows = (n_by_domain >= n_known + FEWEST_COUNTED) if n_known else np.ones(len(n_by_domain), bool)
            if n_known and has_rows.sum() < max(needed, FEWEST_TO_LEARN):
                break
            own = rows.of(has_rows)
            goal = self.target_coverage, self._rank_confidence, error
            if (level := fit_level(own, n_known, *goal, N_DRAWS, rng)) is not None:
                levels[n_known] = level
        if len(n_by_domain) < needed or np.isinf(levels[0].reach):
            warnings.warn(
                f"intervals are infinite: a domain confidence of {self.domain_confidence:g} takes {needed} calibration "
                f"domains with rows enough, and there are {len(n_by_domain)}; add domains, or ask for less.",
                stacklevel=3,
            )
        self.reach_ = levels[0].reach
        self.levels_ = {k: {**level._asdict(), "prior": level.prior._asdict()} for k, level in levels.items()}
        self.promise_ = self._promise_in_words(n_by_domain)

    def _promise_in_words(self, n_by_domain: NDArray[np.int64]) -> str:
        sizes = f"{n_by_domain.min():,} to {n_by_domain.max():,} rows"
        what = f"truly at least {self.target_coverage:g}, whatever its number of rows"
        if self.coverage == "counted":
            what = f"at least {self.target_coverage:g}, counted on about as many rows as domains had here ({sizes})"
        proof = "" if self.calibration == "held-out-domains" else " This is expected to hold, but not proved."
        chance = f"with probability {self.domain_confidence:g} or more"
        return f"In a new domain drawn like these, coverage is {what}, {chance}.{proof}"

    def __sklearn_tags__(self) -> Tags:
        return takes_inputs_of(super().__sklearn_tags__(), [self.estimator])


@dataclass(frozen=True, eq=False)
class IntervalAssessment:
    """A model of intervals, fitted on some domains, and its report on the others."""

    model: PromisedIntervalRegressor
    unseen: IntervalReport

    @property
    def verdict(self) -> Verdict | None:
        """Whether the unseen domains contradict the promise."""
        return self.model.verdict(self.unseen)

    def __str__(self) -> str:
        return f"{self.verdict}\n{self.unseen}"


def assess_intervals(
    model: PromisedIntervalRegressor,
    X: Any,
    y: Any,
    domains: Any,
    *,
    hold_out_domains: float = 0.25,
    random_state: Any = None,
) -> IntervalAssessment:
    """Fit a copy of a model of intervals on some of the domains, and evaluate it on the others."""
    X, y, domains = indexed(X, as_column(y), domains)
    coded = code_names(domains, "domains", _num_samples(X))
    n_unseen = n_held_out(len(coded.names), hold_out_domains)
    (rng,) = generators(random_state, "assessment")
    unseen = draw_domains(coded.codes, len(coded.names) - n_unseen, n_unseen, rng).unseen
    is_unseen = np.isin(coded.codes, unseen)
    (own_X, own_y, own), new = (
        [taken(part, np.flatnonzero(mask)) for part in (X, y, domains)] for mask in (~is_unseen, is_unseen)
    )
    fitted = clone(model).fit(own_X, own_y, domains=own)
    return IntervalAssessment(fitted, fitted.domain_report(*new))


def _quantile_name(estimator: Any) -> str:
    """Return the parameter that says which quantile a regressor predicts."""
    names = [name for name in estimator.get_params() if name.rpartition("__")[2] == "quantile"]
    if not names:
        raise InputError(
            f"score='quantile' needs a regressor with the parameter quantile, such as "
            f"HistGradientBoostingRegressor(loss='quantile'); {type(estimator).__name__} has none."
        )
    return names[0]
