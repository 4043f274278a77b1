"""Which rows fit scorers and which calibrate them, and the fits: of networks as one stack, of others by joblib."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import _num_samples, has_fit_parameter

from domaincover.calibration.rules import domains_needed
from domaincover.criteria import criterion_for, targets_among
from domaincover.data.dataset import hold_out_rows, texts
from domaincover.data.encoding import TableEncoder, as_table, learned_rows
from domaincover.errors import InputError, one_line, torch_needed_for
from domaincover.estimators.base import Targets
from domaincover.estimators.fitted_trees import TreesClassifier, takes_codes_only
from domaincover.estimators.network import NetworkClassifier
from domaincover.options import Calibration
from domaincover.predictors.calibrated_predictors import LEAVES_OUT, last_step
from domaincover.terminal.text import listed

FOLDS = 5  # their mean predicts, so more of them cost time at every prediction
FEWEST_LEFT_OUT = 25  # by jackknife-minmax, if there are as many domains
DEFAULT_SHARE = 0.25
LARGE = 5_000  # rows that take seconds to fit

logger = logging.getLogger(__name__)


class Part(NamedTuple):
    """Rows that fit a scorer, and rows that calibrate it."""

    train: NDArray[np.int64]
    calibrate: NDArray[np.int64]


def plan_parts(
    targets: Targets,
    calibration: Calibration,
    folds: int | None,
    share: float | None,
    confidence: float | None,
    rng: np.random.Generator,
    places: NDArray[np.int64] | None = None,
) -> list[Part]:
    """Return the rows of every scorer to fit; `confidence` is the promised domain confidence, if any.

    `places` are those of the domains in their order, if it matters: the last ones are held out, and no scorer is fitted
    on domains that come after those that it calibrates.
    """
    rows = np.arange(len(targets.labels))
    if calibration == "held-out-domains":
        held_out = _held_out_rows(targets, share, confidence, rng, places)
        return [Part(rows[~held_out], rows[held_out])]
    if calibration not in LEAVES_OUT:
        return [Part(rows, rows)]
    n_domains = len(targets.domain_names)
    if n_domains < 2:
        raise InputError(f"calibration={calibration!r} leaves domains out in turn and needs at least 2; there is 1.")
    n_folds = n_folds_of(n_domains, calibration, folds, confidence)
    if places is not None:
        block = (places * (n_folds + 1) // n_domains)[targets.domains]  # the first one only trains
        return [Part(rows[block < k], rows[block == k]) for k in range(1, n_folds + 1) if (block == k).any()]
    # Jackknife-minmax leaves out single domains, since its proof needs exchangeable folds; the others only train.
    most = n_folds if calibration == "jackknife-minmax" else n_domains
    return folds_of(targets.domains, rows, n_folds, rng, most)


def places_in_order(names: Sequence[Any], order: Sequence[Any]) -> NDArray[np.int64]:
    """Return the place of each domain among those of the data, in an order of names."""
    place_of = {name: place for place, name in enumerate(texts(order))}
    if len(place_of) < len(order):
        raise InputError("domain_order names a domain twice.")
    missing = [name for name in texts(names) if name not in place_of]
    if missing:
        raise InputError(f"domain_order does not name domain {listed(missing, 5)}; name all domains, first to last.")
    return np.argsort(np.argsort([place_of[name] for name in texts(names)]))


def folds_of(
    domains: NDArray[np.int64], rows: NDArray[np.int64], n_folds: int, rng: np.random.Generator, most: int | None = None
) -> list[Part]:
    """Leave out folds of the domains of these rows in turn; with `most`, so many random domains, and not the others."""
    order = rng.permutation(np.unique(domains[rows]))
    fold_of_domain = np.full(int(domains.max(initial=0)) + 1, -1)
    left_out = order[:most]
    fold_of_domain[left_out] = np.arange(len(left_out)) % n_folds
    fold = fold_of_domain[domains[rows]]
    return [Part(rows[fold != k], rows[fold == k]) for k in range(min(n_folds, len(left_out)))]


def n_folds_of(n_domains: int, calibration: Calibration, folds: int | None, confidence: float | None) -> int:
    """Return how many scorers are fitted; `confidence` is the promised domain confidence, if any."""
    if calibration not in LEAVES_OUT:
        return 1
    if folds is None:
        needed = domains_needed(confidence) if confidence is not None else 0
        folds = FOLDS if calibration == "cross-fit" else max(FEWEST_LEFT_OUT, needed)
    return min(folds, n_domains)


def _held_out_rows(
    targets: Targets,
    share: float | None,
    confidence: float | None,
    rng: np.random.Generator,
    places: NDArray[np.int64] | None,
) -> NDArray[np.bool_]:
    n_domains = len(targets.domain_names)
    n_held_out = round((DEFAULT_SHARE if share is None else share) * n_domains)
    if confidence is not None and share is None:
        n_held_out = max(n_held_out, domains_needed(confidence))
    n_held_out = min(max(1, n_held_out), n_domains - 1)
    if places is not None:
        return np.asarray((places >= n_domains - n_held_out)[targets.domains])
    if confidence is not None:  # entire domains, drawn independently of their data: exchangeable
        return np.isin(targets.domains, rng.permutation(n_domains)[:n_held_out])
    share = DEFAULT_SHARE if share is None else share
    held_out = hold_out_rows(targets.domains, targets.labels, n_held_out, share, rng)
    if not held_out.any():
        raise InputError(f"there are too few rows of each label to hold out {share:.0%} of them for calibration.")
    return held_out


def fit_on_rows(
    estimator: BaseEstimator, X: Any, y: Any, domains: Any, rows: NDArray[np.int64], sample_weight: Any = None
) -> Any:
    """Fit a clone of the estimator on some rows, with their domains if it accepts them, and their weights."""
    own = taken(y, rows)
    fitted = with_codes(clone_for(estimator, y, rows), own)
    params = _row_params(fitted, "domains", taken(domains, rows))
    params |= _row_params(fitted, "sample_weight", taken(sample_weight, rows))
    try:
        return fitted.fit(taken(X, rows), own, **params)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        table = as_table(X)
        others = [] if table is None else [name for name in table if table[name].dtype.kind not in "biuf"]
        if not others or isinstance(fitted, Pipeline):
            raise
        name = type(fitted).__name__
        raise InputError(
            f"{name} cannot be fitted on a table whose column {others[0]!r} is not of numbers; encode it first: "
            f"make_pipeline(TableEncoder(), {name}()). ({one_line(error)})"
        ) from error


def fit_on_each(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    domains: Any,
    rows: Sequence[NDArray[np.int64]],
    as_if_alone: bool = False,
    *,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> list[Any]:
    """Fit a clone of the estimator on each set of rows; domaincover's networks are trained as one stack.

    With `as_if_alone`, no fit depends in any way on rows outside its own set. Other estimators are fitted by `n_jobs`
    processes, as joblib counts them.
    """
    check_takes_weights(estimator, sample_weight)
    if hasattr(estimator, "_fit_on_each"):  # a mean, whose networks are stacked by themselves
        return estimator._fit_on_each(X, y, domains, rows, as_if_alone, sample_weight, n_jobs)
    stacks = isinstance(estimator, NetworkClassifier) and estimator._inputs.stacks(estimator.device)
    if not stacks:
        one = joblib.delayed(fit_on_rows)
        fits = (one(estimator, X, y, domains, part, sample_weight) for part in _logged(rows, estimator))
        return list(joblib.Parallel(n_jobs=n_jobs if len(rows) > 1 else None)(fits))
    with torch_needed_for("training"):
        from domaincover.estimators.stacked_fit import fit_together

    fitted = [clone_for(estimator, y, own) for own in rows]
    for _ in fit_together(fitted, [tuple(taken(part, own) for part in (X, y, domains)) for own in rows], as_if_alone):
        pass  # what comes out is for studies; the classifiers are fitted in place
    return fitted


def _logged(rows: Sequence[NDArray[np.int64]], estimator: Any) -> Iterator[NDArray[np.int64]]:
    """Log each fit as it begins, and how long all may still take; of small tables and networks at the level DEBUG."""
    started = time.monotonic()
    for number, part in enumerate(rows, start=1):
        left = (time.monotonic() - started) / max(number - 1, 1) * (len(rows) - number + 1)
        about = f"; about {left:,.0f} s left" if number > 1 else ""
        tells_itself = isinstance(estimator, NetworkClassifier)  # epoch by epoch
        level = logging.INFO if len(part) >= LARGE and not tells_itself else logging.DEBUG
        name = type(last_step(estimator)).__name__
        logger.log(level, "%s: fit %d of %d, on %s rows%s", name, number, len(rows), f"{len(part):,}", about)
        yield part


def check_takes_weights(estimator: Any, sample_weight: Any) -> None:
    """Reject weights of rows that the estimator would not use."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if sample_weight is not None and not has_fit_parameter(last, "sample_weight"):
        raise InputError(f"{type(last).__name__}.fit takes no sample_weight; leave it out, or use another estimator.")


def clone_for(estimator: Any, y: Any, rows: NDArray[np.int64]) -> Any:
    """Return a clone to fit on some rows, which may lack a label that has a target of its own."""
    copy = clone(estimator)
    target = getattr(copy, "target_recall", None)
    if isinstance(target, Mapping):
        y = np.asarray(y)
        criterion_for(target, np.unique(y).tolist())  # rejects labels that no row has
        copy.set_params(target_recall=targets_among(target, np.unique(y[rows]).tolist()))
    return copy


def taken(part: Any, rows: NDArray[np.int64]) -> Any:
    """Return the given rows, without copying if they are all rows."""
    return part if part is None or len(rows) == _num_samples(part) else _safe_indexing(part, rows)


def encoder_of_tables(X: Any, rows: NDArray[np.int64]) -> TableEncoder | None:
    """Return an encoder fitted to some rows; None of texts, or a sparse matrix, which a model's own pipeline reads."""
    try:
        return TableEncoder().fit(learned_rows(taken(X, rows)))
    except (InputError, ValueError, TypeError):
        return None


def _row_params(estimator: BaseEstimator, name: str, values: Any) -> dict[str, Any]:
    """Return the fit parameter that passes values of rows to an estimator, or last step, that takes them."""
    if values is None:
        return {}
    is_routed = get_config()["enable_metadata_routing"]
    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        if not has_fit_parameter(last, name):
            return {}
        if is_routed:
            _request(estimator, name)
        return {name if is_routed else f"{step}__{name}": values}
    requested = is_routed and get_routing_for_object(estimator).consumes("fit", [name])  # such as a search
    return {name: values} if requested or has_fit_parameter(estimator, name) else {}


def _request(pipeline: Pipeline, name: str) -> None:
    """Request a parameter for the last step, and for others only where they ask for it; the pipeline is a clone."""
    for _, step in pipeline.steps[:-1]:
        if has_fit_parameter(step, name) and step.get_metadata_routing().fit.requests.get(name) is None:
            step.set_fit_request(**{name: False})
    pipeline.steps[-1][1].set_fit_request(**{name: True})


def with_codes(estimator: Any, y: Any) -> Any:
    """Return the classifier itself, or with trees that code the labels where XGBoost would reject these.

    The steps of a pipeline are changed in place.
    """
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    labels = np.unique(np.asarray(y))
    is_coded = labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(len(labels)))
    if is_coded or not takes_codes_only(last):
        return estimator
    trees = TreesClassifier(last)
    if not isinstance(estimator, Pipeline):
        return trees
    estimator.steps[-1] = estimator.steps[-1][0], trees
    return estimator
