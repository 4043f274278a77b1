"""Intervals with a promise about new domains, what a few known values of a domain correct, and the report on them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.few_labels import FeatureScale
from domaincover.calibration.interval_thresholds import Prior, Shift, learn_shift
from domaincover.criteria import criterion_for
from domaincover.data.dataset import texts
from domaincover.errors import InputError
from domaincover.evaluation import DomainReport, Tallies
from domaincover.predictors.promised_predictor import encoded_by
from domaincover.predictors.set_predictor import as_column, check_fitted, coded_domains, n_rows_of
from domaincover.promises.certificates import seen_among
from domaincover.promises.verdict import Verdict, judged
from domaincover.terminal.text import counted, table_lines, wrapped

if TYPE_CHECKING:
    import pandas as pd

SMALLEST_SCALE = 0.05  # of the usual scale
INSIDE = "value"
MOST_ROWS, WIDTH = 30, 100  # of a printed report


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


@dataclass(frozen=True, eq=False)
class IntervalReport(DomainReport):
    """Coverage of every domain, with the mean width of its intervals where sets have a size.

    `own_width` is the width of the interval that a domain's own values would need, `below` and `above` are the shares
    of values under and over their intervals.
    """

    widths: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    own_width: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    below: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    above: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @property
    def set_size(self) -> NDArray[np.float64]:
        """The mean width of each domain's intervals."""
        return self.widths

    @property
    def size_by_lot(self) -> NDArray[np.float64]:
        """The width that each domain's own values would need."""
        return self.own_width

    @property
    def is_useless(self) -> bool:
        """Whether intervals are as wide as if nothing were known of a row but its domain, in the median domain."""
        return bool(np.median(self.widths - self.own_width) > 0)

    def __str__(self) -> str:
        order = np.argsort(self.coverage, kind="stable")
        columns = [self.n, self.coverage, self.widths, self.own_width, self.below, self.above]
        formats = ["{:,}", "{:.3f}", "{:.3g}", "{:.3g}", "{:.3f}", "{:.3f}"]
        names = texts(self.domain_names)
        rows = [
            [names[k], *(how.format(column[k]) for how, column in zip(formats, columns, strict=True))]
            for k in order[:MOST_ROWS]
        ]
        heads = ["domain", "rows", "coverage", "width", "own width", "below", "above"]
        n_more = len(order) - len(rows)
        more = [f"… and {n_more} more domains"] if n_more else []
        return "\n".join([*table_lines(heads, rows, 1, WIDTH), *more, "", *wrapped(self.in_words, WIDTH)])

    @property
    def in_words(self) -> str:
        """How many domains are at target, and how wide their intervals are."""
        target, n_at_target = self.judged_by.given, int(self.at_target().sum())
        return (
            f"In {n_at_target} of {counted(len(self.domain_names), 'domain')} the coverage is at least {target:g}. "
            f"Intervals are {np.median(self.widths):.3g} wide at the median; {np.median(self.own_width):.3g} would do "
            "if a domain's values were known, but nothing of its rows."
        )

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def subset(self, rows: Any) -> Self:
        """Return the given domains (row numbers or a mask) in the given order."""
        own = {name: getattr(self, name)[rows] for name in ("widths", "own_width", "below", "above")}
        return replace(super().subset(rows), **own)  # type: ignore[return-value]

    def _measures(self) -> dict[str, NDArray[Any]]:
        return {
            "n": self.n,
            "coverage": self.coverage,
            "width": self.widths,
            "own_width": self.own_width,
            "below": self.below,
            "above": self.above,
        }


def interval_report(
    intervals: NDArray[np.float64],
    values: NDArray[np.float64],
    domains: NDArray[np.int64],
    domain_names: tuple[Hashable, ...],
    target_coverage: float,
    min_domain_size: int = 1,
) -> IntervalReport:
    """Report on intervals (rows × 2), values and domain codes; domains with fewer rows than the size are left out."""
    n_domains = len(domain_names)
    low, high = intervals[:, 0], intervals[:, 1]
    n_rows = np.bincount(domains, minlength=n_domains)
    under, over = (np.bincount(domains[which], minlength=n_domains) for which in (values < low, values > high))
    hits = n_rows - under - over
    counts = np.maximum(n_rows, 1)
    kept = np.flatnonzero(n_rows >= max(min_domain_size, 1))
    if not len(kept):
        raise InputError(f"no domain has {min_domain_size} rows or more, so there is nothing to report.")
    tallies = Tallies(n_rows[:, None], hits[:, None], np.stack([np.zeros_like(n_rows), n_rows], axis=1))
    return IntervalReport(
        domain_names=tuple(domain_names[k] for k in kept),
        label_names=(INSIDE,),
        tallies=tallies.of(kept),
        min_cell_size=min_domain_size,
        left_out=tuple(domain_names[k] for k in np.flatnonzero((n_rows > 0) & (n_rows < max(min_domain_size, 1)))),
        criterion=criterion_for(target_coverage, (INSIDE,), "coverage"),
        widths=(np.bincount(domains, high - low, minlength=n_domains) / counts)[kept],
        own_width=_own_widths(values, domains, n_rows, target_coverage)[kept],
        below=(under / counts)[kept],
        above=(over / counts)[kept],
    )


def _own_widths(
    values: NDArray[np.float64], domains: NDArray[np.int64], n_rows: NDArray[np.int64], target: float
) -> NDArray[np.float64]:
    """Return the distance between the outer quantiles of each domain's values that leave the target between them."""
    ordered = values[np.lexsort([values, domains])]
    starts, last = np.cumsum(n_rows) - n_rows, np.maximum(n_rows - 1, 0)
    cut = np.floor((1 - target) / 2 * last).astype(np.int64)
    low = np.minimum(starts + cut, len(ordered) - 1)
    return np.asarray(ordered[np.minimum(starts + last - cut, len(ordered) - 1)] - ordered[low])
