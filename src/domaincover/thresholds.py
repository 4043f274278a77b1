"""Rules that make thresholds of scores, whoever made the scores, and the criteria that they calibrate for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from domaincover.calibration.links import log_odds, softmax
from domaincover.calibration.rules import (
    cell_thresholds,
    hierarchical_thresholds,
    joint_thresholds,
    order_thresholds,
    pooled_thresholds,
    robust_thresholds,
)
from domaincover.criteria import Criterion, criterion_for
from domaincover.data.dataset import code_names, draw_domains, n_held_out
from domaincover.errors import InputError
from domaincover.estimators.calibrated_classifiers import PromisedSetClassifier
from domaincover.evaluation import DomainReport, domain_report
from domaincover.predictors.domain_record import sets_with_labels
from domaincover.predictors.set_predictor import label_codes

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Criterion",
    "cell_thresholds",
    "compare_scores",
    "criterion_for",
    "hierarchical_thresholds",
    "joint_thresholds",
    "order_thresholds",
    "pooled_thresholds",
    "robust_thresholds",
]
SUMS_TO_ONE = 1e-3


def compare_scores(
    scores: Any,
    y: Any,
    domains: Any,
    *,
    labels: Sequence[Any] | None = None,
    target_recall: float = 0.9,
    domain_confidence: float = 0.9,
    few_labels: Sequence[int] = (30, 100),
    unseen: float = 0.5,
    min_cell_size: int = 20,
    random_state: int = 0,
) -> pd.DataFrame:
    """Compare every way to make sets from scores of a model that has not been trained on these domains.

    Some of the domains calibrate, and the others are new. Rows of the table are methods; "one label" is the most likely
    one, and "split conformal, by label" takes each row for a domain, which is what conformal prediction by class does.

    Parameters
    ----------
    scores : array-like
        Rows × labels: probabilities, or logits, of which the softmax is taken.
    y, domains : array-like
        Label and domain of each row.
    labels : sequence or None, default=None
        The labels in the order of the columns; None is their sorted order in `y`.
    target_recall, domain_confidence : float
        What is promised: every label's recall in a new domain, and with which probability.
    few_labels : sequence of int
        Numbers of labels of a new domain to adapt with, where these make sets smaller; its other rows are judged.
    unseen : float
        Share of the domains that are new.
    min_cell_size : int
        Rows of a label that a domain needs for it to count there.
    random_state : int
        Which domains are new.

    Returns
    -------
    DataFrame
        By method: `share_at_target` of the new domains, the 10th percentile of their `min_recall` and the median
        `set_size`.

    >>> from domaincover import GaussianDomains
    >>> from domaincover.thresholds import compare_scores
    >>> from sklearn.linear_model import LogisticRegression
    >>> draw, rng = GaussianDomains.of_paper(n_features=10), np.random.default_rng(0)
    >>> old, new = draw.sample(10, 200, rng), draw.sample(40, 200, rng)
    >>> logits = LogisticRegression().fit(old.examples, old.labels).decision_function(new.examples)
    >>> table = compare_scores(np.stack([-logits, logits], axis=1) / 2, new.labels, new.domains)
    >>> bool(table.share_at_target["joint"] > table.share_at_target["split conformal, by label"])
    True
    """
    import pandas as pd

    probabilities = _probabilities(scores)
    names = np.unique(np.asarray(y)) if labels is None else np.asarray(labels)
    if probabilities.shape[1] != len(names):
        raise InputError(f"scores have {probabilities.shape[1]} columns, and there are {len(names)} labels.")
    codes, coded = label_codes(np.asarray(y), names), code_names(domains, "domains", len(probabilities))
    n_new = n_held_out(len(coded.names), unseen)
    rng = np.random.default_rng(random_state)
    new = np.isin(coded.codes, draw_domains(coded.codes, len(coded.names) - n_new, n_new, rng).unseen)
    found = log_odds(probabilities)
    known = found[~new], codes[~new], np.unique(coded.codes[~new], return_inverse=True)[1]
    of_new = np.unique(coded.codes[new], return_inverse=True)[1]

    def judged(sets: NDArray[Any], rows: Any = slice(None)) -> DomainReport:
        return domain_report(sets, codes[new][rows], of_new[rows], min_cell_size=min_cell_size)

    options: dict[str, Any] = {"min_cell_size": min_cell_size, "on_infeasible": "widen"}
    rows_as_domains = known[0], known[1], np.arange(len(known[0]))
    thresholds = {
        "split conformal, by label": order_thresholds(*rows_as_domains, target_recall, target_recall),
        "pooled": pooled_thresholds(*known, target_recall, min_cell_size),
        "robust": robust_thresholds(*known, target_recall, min_cell_size),
        "hierarchical": hierarchical_thresholds(*known, target_recall, **options),
        "order, by label": order_thresholds(*known, target_recall, domain_confidence, **options),
        "joint": joint_thresholds(*known, target_recall, domain_confidence, **options),
    }
    reports = {"one label": judged(found[new] == found[new].max(axis=1, keepdims=True))}
    reports |= {name: judged(found[new] >= each) for name, each in thresholds.items()}
    promise: dict[str, Any] = {"target_recall": target_recall, "domain_confidence": domain_confidence, **options}
    model = PromisedSetClassifier(GivenProbabilities(names), calibration="prefit", few_labels=few_labels, **promise)
    model.set_params(random_state=random_state).fit(probabilities[~new], names[codes[~new]], domains=known[2])
    reports["adapted to rows"] = judged(model.predict_set(probabilities[new], domains=of_new))
    for number in getattr(model, "few_labels_", ()):
        rows = model.scored_with_features(probabilities[new])
        reports[f"adapted to {number} labels"] = judged(*sets_with_labels(model, rows, codes[new], of_new, number))
    summaries = {name: report.summary(target_recall) for name, report in reports.items()}
    columns = ("share_at_target", "min_recall_p10", "set_size")
    table = {key: {name: getattr(each, key) for name, each in summaries.items()} for key in columns}
    return pd.DataFrame(table).rename_axis("method")


class GivenProbabilities(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are its own probabilities."""

    def __init__(self, classes: Any = None):
        self.classes = classes

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of the columns."""
        return np.asarray(self.classes)

    def fit(self, X: Any, y: Any) -> GivenProbabilities:  # noqa: ARG002
        """Learn nothing."""
        return self

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the features."""
        return np.asarray(X)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _probabilities(scores: Any) -> NDArray[np.float64]:
    """Return probabilities, rows × labels, from probabilities or logits."""
    given = np.asarray(scores, dtype=float)
    if given.ndim != 2 or given.shape[1] < 2 or not np.isfinite(given).all():
        raise InputError(f"scores must be finite numbers, rows × two or more labels, got shape {given.shape}.")
    are_probabilities = given.min(initial=0) >= 0 and np.abs(given.sum(axis=1) - 1).max(initial=0) < SUMS_TO_ONE
    return given if are_probabilities else softmax(given)
