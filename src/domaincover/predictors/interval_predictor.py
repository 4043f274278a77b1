"""Intervals with a promise about new domains, and what a few known values of a domain correct."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.few_labels import FeatureScale
from domaincover.calibration.interval_thresholds import Prior, Shift, learn_shift
from domaincover.errors import InputError
from domaincover.predictors.interval_report import IntervalReport, interval_report
from domaincover.predictors.promised_predictor import encoded_by
from domaincover.predictors.set_predictor import as_column, check_fitted, coded_domains, n_rows_of
from domaincover.promises.certificates import seen_among
from domaincover.promises.verdict import Verdict, judged

if TYPE_CHECKING:
    import pandas as pd

SMALLEST_SCALE = 0.05  # of the usual scale


class CentreAndScale(NamedTuple):
    """Intervals are centre ± (half + reach · scale)."""

    centre: NDArray[np.float64]
    half: NDArray[np.float64]
    scale: NDArray[np.float64]


class IntervalPredictor:
    """A fitted model of intervals."""

    target_coverage: float
    domain_confidence: float
    min_domain_size: int
    domains_: NDArray[Any]
    members_: list[dict[str, Any]]  # of each member: `centre`, or `low` and `high`, and perhaps `scale`, all regressors
    usual_scale_: float
    reach_: float
    levels_: dict[int, dict[str, Any]]  # by number of known values: `prior`, `reach`, `width`, `share_at_target`
    feature_encoder_: Any
    feature_scale_: dict[str, Any]
    shift_: dict[str, Any]
    adapted_: dict[str, Any]
    promise_: str

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the middle of each interval."""
        check_fitted(self)
        return self._shifted(X).centre

    def predict_interval(self, X: Any) -> NDArray[np.float64]:
        """Return the lower and upper end of each row's interval, rows × 2; infinite where nothing can be promised."""
        check_fitted(self)
        found = self._shifted(X)
        with np.errstate(invalid="ignore"):
            reach = np.maximum(found.half + self.reach_ * found.scale, 0.0)
        return np.stack([found.centre - reach, found.centre + reach], axis=1)

    def adapt(self, X: Any, y: Any) -> Self:
        """Return a model of one domain that has learned from some of its values.

        Parameters
        ----------
        X : array-like or DataFrame
            Rows of one domain.
        y : array-like
            Their values, as far as known: NaN or None elsewhere. The promise is for later rows, where the known ones
            are drawn at random; with a number of them in `few_labels` as in calibration, with another as expected.
        """
        check_fitted(self)
        if hasattr(self, "adapted_"):
            raise InputError("this model is adapted to one domain already; adapt the model that it came from.")
        values = numbers_of(y, n_rows_of(X), may_lack=True)
        known = ~np.isnan(values)
        level = max(k for k in self.levels_ if k <= known.sum())
        adapted = copy.copy(self)
        adapted.adapted_ = {"rows": len(values), "labels": int(known.sum()), "level": level}
        if not level:
            fewest = min((k for k in self.levels_ if k), default=None)
            learns = "known values teach this model nothing" if fewest is None else f"it takes {fewest} or more"
            warnings.warn(f"{int(known.sum())} values are known, which changes nothing: {learns}.", stacklevel=2)
            return adapted
        own = self._predicted(X)
        residuals = np.where(known, (values - own.centre) / own.scale, 0.0)
        features, found = self._features(X), self.levels_[level]
        shift = learn_shift(residuals[None], features[None], known[None], Prior(**found["prior"]))
        adapted.shift_ = {name: value[0] for name, value in shift._asdict().items()}
        adapted.reach_ = found["reach"]
        adapted.promise_ = f"{self.promise_} {int(known.sum())} known values of one domain moved its intervals."
        return adapted

    def domain_report(
        self, X: Any, y: Any, domains: Any = None, *, min_domain_size: int | None = None
    ) -> IntervalReport:
        """Report coverage and width by domain."""
        intervals = self.predict_interval(X)
        values, coded = numbers_of(y, len(intervals)), coded_domains(domains, len(intervals))
        size = self.min_domain_size if min_domain_size is None else min_domain_size
        return interval_report(intervals, values, coded.codes, coded.names, self.target_coverage, size)

    def verdict(self, report: IntervalReport) -> Verdict | None:
        """Return whether the new domains of a report contradict the promise; None without any."""
        is_new = ~np.array(seen_among(report.domain_names, self.domains_.tolist()), dtype=bool)
        if hasattr(self, "adapted_") or not is_new.any():
            return None
        return judged(report.subset(is_new).at_target(self.target_coverage), self.domain_confidence)

    @property
    def label_gain(self) -> pd.DataFrame:
        """Mean width of intervals and share of domains at target, by number of known values of a domain."""
        import pandas as pd

        check_fitted(self)
        columns = ("width", "share_at_target")
        found = {k: [level[name] for name in columns] for k, level in self.levels_.items()}
        return pd.DataFrame.from_dict(found, orient="index", columns=columns).rename_axis("labels")

    def _shifted(self, X: Any) -> CentreAndScale:
        """Return what is predicted, with what an adapted model has learned."""
        found = self._predicted(X)
        if not hasattr(self, "shift_"):
            return found
        shift = Shift(**self.shift_)
        moved = found.centre + found.scale * shift.of(self._features(X))
        return CentreAndScale(moved, found.half, found.scale * float(shift.factor))

    def _predicted(self, X: Any) -> CentreAndScale:
        """Return the mean of the members' predictions."""
        of_members = [predicted(member, X, self.usual_scale_) for member in self.members_]
        return CentreAndScale(*(np.mean(parts, axis=0) for parts in zip(*of_members, strict=True)))

    def _features(self, X: Any) -> NDArray[np.float64]:
        if self.feature_encoder_ is None:
            return np.empty((n_rows_of(X), 0))
        return FeatureScale(**self.feature_scale_).standardised(encoded_by(self.feature_encoder_, X))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")


def predicted(member: dict[str, Any], X: Any, usual_scale: float) -> CentreAndScale:
    """Return the centre, half width and scale that one member predicts."""
    if "low" in member:
        low, high = (np.asarray(member[name].predict(X), dtype=float) for name in ("low", "high"))
        return CentreAndScale((low + high) / 2, (high - low) / 2, np.full(len(low), usual_scale))
    centre = np.asarray(member["centre"].predict(X), dtype=float)
    scale = np.full(len(centre), usual_scale)
    if "scale" in member:
        scale = np.maximum(np.asarray(member["scale"].predict(X), dtype=float), SMALLEST_SCALE * usual_scale)
    return CentreAndScale(centre, np.zeros(len(centre)), scale)


def numbers_of(y: Any, n_rows: int, *, may_lack: bool = False) -> NDArray[np.float64]:
    """Return values to predict as finite numbers; with `may_lack`, NaN where they are not known."""
    if n_rows_of(y) != n_rows:
        raise InputError(f"X has {n_rows} rows and y {n_rows_of(y)}; they must agree.")
    given = np.asarray(as_column(y))
    if given.dtype.kind in "Mm":
        raise InputError("y holds dates or times; intervals are for numbers: give days since a date.")
    try:
        values = np.asarray([np.nan if value is None else value for value in given.tolist()], dtype=float)
    except (TypeError, ValueError):
        text = next(value for value in given.tolist() if not isinstance(value, int | float))
        raise InputError(f"y holds {text!r}, which is not a number; classes take PromisedSetClassifier.") from None
    if values.ndim != 1:
        raise InputError(f"y must have one dimension, got shape {values.shape}.")
    unusable = np.isinf(values) if may_lack else ~np.isfinite(values)
    if unusable.any():
        raise InputError(
            f"y holds {values[unusable][0]} in row {int(unusable.argmax()) + 1}; drop rows without a finite value."
        )
    return values
