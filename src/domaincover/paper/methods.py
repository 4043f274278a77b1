"""The methods of the study by name: which networks give the scores, and how scores become sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from domaincover.calibration.joint import joint_thresholds
from domaincover.calibration.rules import pooled_thresholds, robust_thresholds
from domaincover.calibration.scales import quantile_scale
from domaincover.errors import InputError, suggestion
from domaincover.options import DomainPenalty, PenaltyOnFeatures, WeightedPenalty
from domaincover.paper.datasets import check_plain
from domaincover.prediction_sets import Sets, sets_from_scores, single_label_sets

# What is trained: cross-entropy on all training domains, on half of them, an objective that compares domains, or
# SET-COVER's loss, also with its full-set penalty. "-each" trains a network without each of the training domains, too,
# which then gives that domain's scores. "own" is an estimator that a function makes.
Scorer = Literal[
    "erm", "erm-half", "set-cover", "set-cover-full-set", "erm-each", "set-cover-each", "own", DomainPenalty
]
Rule = Callable[..., NDArray[np.float64]]
Make = Callable[[float, int], Any]


class Scores(NamedTuple):
    """Scores of all examples; and of the training rows by each network that was trained without one of the domains."""

    predicting: NDArray[Any]
    each: NDArray[Any] | None = None  # domains left out × training rows × labels
    left_out: NDArray[np.int64] | None = None


class Training(NamedTuple):
    """Labels and domains of the training rows, and which of them calibrate."""

    labels: NDArray[np.int64]
    domains: NDArray[np.int64]
    calibrate: NDArray[np.int64]


@dataclass(frozen=True)
class Method:
    """A scorer, and the rule that calibrates thresholds on its scores (none: the scorer's own sets).

    Or an estimator of one's own, which `make` returns for a target recall and a seed.
    """

    name: str
    scorer: Scorer
    rule: Rule | None = None
    make: Make | None = None

    @property
    def is_set_cover(self) -> bool:
        """Whether the networks minimise SET-COVER's loss."""
        return self.scorer.startswith("set-cover")

    @property
    def compares_domains(self) -> bool:
        """Whether the networks' objective compares the domains of a batch."""
        return self.scorer in get_args(DomainPenalty)

    @property
    def compares_features(self) -> bool:
        """Whether it compares what the networks' last layer reads, which must then be learned."""
        return self.scorer in get_args(PenaltyOnFeatures)

    @property
    def has_weight(self) -> bool:
        """Whether it weighs a penalty against the mean risk."""
        return self.scorer in get_args(WeightedPenalty)

    @property
    def promises(self) -> bool:
        """Whether the sets come with a domain confidence: a network is trained without each of the domains, too."""
        return self.scorer.endswith("-each")

    def predict(
        self,
        scores: Scores,
        training: Training,
        target_recall: float,
        domain_confidence: float | None,
        min_cell_size: int = 1,
    ) -> tuple[Sets, NDArray[np.float64] | None]:
        """Return the sets of all examples, and the thresholds behind them where there are any.

        The first examples are the training rows. Cells with fewer than `min_cell_size` examples do not
        count in a promise.
        """
        predicting, rows = scores.predicting, training.calibrate
        if self.rule is None and not self.is_set_cover:
            return single_label_sets(predicting), None
        own = training.labels[rows], training.domains[rows]
        if self.rule is None:
            thresholds = np.zeros(predicting.shape[1])
        elif not self.promises:
            thresholds = self.rule(predicting[rows], *own, target_recall)
        else:
            predicting, calibrating = self._comparable(scores, training, target_recall)
            thresholds = self.rule(calibrating, *own, target_recall, domain_confidence, min_cell_size)
        return sets_from_scores(predicting, thresholds), thresholds

    def _comparable(
        self, scores: Scores, training: Training, target_recall: float
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the scores of all examples, and of each calibration row by the network without its domain.

        All are on the scale of their network's training rows, as in the estimators.
        """
        assert scores.each is not None  # noqa: S101 - for the type checker: such methods have them
        assert scores.left_out is not None  # noqa: S101
        labels, domains, rows = training
        network = np.searchsorted(scores.left_out, domains[rows])
        levels = np.empty((len(rows), scores.predicting.shape[1]))
        for k, (domain, by_network) in enumerate(zip(scores.left_out, scores.each, strict=True)):
            own = self._levels(by_network, labels, domains != domain, target_recall)
            levels[network == k] = own[rows[network == k]]
        return self._levels(scores.predicting, labels, np.ones(len(labels), bool), target_recall), levels

    def _levels(
        self, scores: NDArray[Any], labels: NDArray[np.int64], trains: NDArray[np.bool_], target_recall: float
    ) -> NDArray[Any]:
        """Return a network's scores on the scale of the rows that it was trained on."""
        scores = scores if self.is_set_cover else log_softmax(scores, axis=1)
        scale = quantile_scale(scores[: len(labels)][trains], labels[trains], target_recall)
        base, unit = scale.for_all_labels() if self.is_set_cover else scale
        return (scores - base) / unit


METHODS = {
    method.name: method
    for method in (
        Method("erm", "erm"),
        *(Method(name, name) for name in get_args(DomainPenalty)),
        Method("pooled-train", "erm", pooled_thresholds),
        Method("pooled-held-out", "erm-half", pooled_thresholds),
        Method("robust", "erm", robust_thresholds),
        Method("set-cover", "set-cover"),
        Method("set-cover-full-set", "set-cover-full-set"),
        Method("erm-joint", "erm-each", joint_thresholds),
        Method("set-cover-joint", "set-cover-each", joint_thresholds),
    )
}


# Comparisons of the paper, by a name for all their methods.
GROUPS = {
    "paper": ("erm", "pooled-train", "pooled-held-out", "robust", "set-cover"),
    "single-label": ("erm", *get_args(DomainPenalty), "set-cover"),
    "joint": ("erm-joint", "set-cover-joint"),
}


def study_method(name: str) -> Method:
    """Find a method by its name."""
    if name not in METHODS:
        meant = f" ({near})" if (near := suggestion(name, [*METHODS, *GROUPS])) else ""
        raise InputError(
            f"no method {name!r}{meant}; there are {', '.join(METHODS)}, and for several {', '.join(GROUPS)}."
        )
    return METHODS[name]


def study_methods(names: Iterable[str]) -> tuple[str, ...]:
    """Return methods by their names, each once; the name of a group means all in it."""
    return tuple(dict.fromkeys(method for name in names for method in GROUPS.get(name, (name,))))


def add_method(method: Method) -> None:
    """Make a method known by its name."""
    if method.name in METHODS or method.name in GROUPS:
        raise InputError(f"there is a method {method.name!r} already; choose another name.")
    check_plain(method.name, "method")
    METHODS[method.name] = method
