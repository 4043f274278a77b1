"""The methods of the study by name: each is a function that creates a public estimator for a run.

A new method is an estimator with `fit` and `predict_set`, and a line in `METHODS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from domaincover.errors import InputError, suggestion
from domaincover.options import DomainPenalty, Iterate
from domaincover.paper.study_datasets import check_plain

if TYPE_CHECKING:
    from domaincover.paper.study import Run

Make = Callable[["Run"], Any]
PROMISED_FOLDS = 5  # of training domains; the mean of their networks predicts


@dataclass(frozen=True)
class Method:
    """A method's name, and the function that creates its estimator for a run.

    Runs of methods with the same `scorer` belong to one job: their networks train as one stack, and a network that
    several of them share is trained once.
    """

    name: str
    make: Make
    shared_scorer: str | None = None
    promises: bool = False  # whether its sets come with a domain confidence
    adapts: bool = False  # whether thresholds are adapted to the rows of each domain
    from_plugin: bool = False  # whether its estimator takes only numeric arrays
    plugin_source: str | None = None  # a digest of the plug-in's source
    iterate: Iterate = "last"  # unless the study sets it; networks without multipliers have only the last

    @property
    def names_iterate(self) -> bool:
        """Whether the method is that of one iterate, whatever the study sets."""
        return self.name.endswith("-best")

    @property
    def scorer(self) -> str:
        """The network behind its sets."""
        return self.shared_scorer or self.name

    @property
    def is_set_cover(self) -> bool:
        """Whether its network depends on the target recall."""
        return self.name.startswith("set-cover")

    @property
    def covers_unknown_labels(self) -> bool:
        """Whether a label without training examples is in every set (with calibration) or in none."""
        return self.from_plugin or self.promises or (self.shared_scorer is not None and not self.is_set_cover)


def _network(run: Run) -> dict[str, Any]:
    """Return the settings of every network of a run: the paper's training, without validation domains."""
    return {
        **run.setting.estimator_settings,
        "epochs": run.epochs,
        "batch_size": run.batch_size,
        "learning_rate": run.learning_rate,
        "learning_rate_decay": False,
        "iterate": run.iterate,
        "validation_domains": 0.0,
        "patience": None,
        "random_state": run.seed,
    }


def _erm(run: Run) -> Any:
    from domaincover.estimators.network_classifiers import ERMClassifier

    return ERMClassifier(loss=run.choices.erm_loss, **_network(run))


def _set_cover(run: Run, penalty: Any = "wrong-label") -> Any:
    from domaincover.estimators.network_classifiers import SetCoverClassifier

    return SetCoverClassifier(
        run.target_recall,
        penalty=penalty,
        initial_multiplier=run.initial_multiplier,
        update_every=run.update_every,
        recall_from=run.recall_from,  # type: ignore[arg-type]
        min_cell_size=1,  # a multiplier for every cell; the split already omits small ones
        **_network(run),
    )


def _domain_generalization(run: Run, penalty: DomainPenalty) -> Any:
    from domaincover.estimators.network_classifiers import DomainGeneralizationClassifier

    return DomainGeneralizationClassifier(
        penalty,
        weight=run.penalty_weight,
        domains_per_batch=run.domains_per_batch or 4,
        **_network(run),
    )


def _calibrated_erm(run: Run, rule: str, calibration: str) -> Any:
    from domaincover.estimators.calibrated_classifiers import ConformalSetClassifier

    n_domains = run.setting.n_train_domains
    half = max(n_domains // 2, 1) / max(n_domains, 2)  # rounded down
    large_only = run.choices.calibration_cells == "large"
    return ConformalSetClassifier(
        _erm(run),
        rule,
        target_recall=run.target_recall,
        calibration=calibration,  # type: ignore[arg-type]
        calibration_domains=half if calibration == "held-out-domains" else None,
        min_cell_size=max(run.min_cell_size - 1, 1) if large_only else 1,
        small_cells="omit" if large_only else "pool",
        random_state=run.seed,
    )


def _promised(run: Run, make: Make) -> Any:
    from domaincover.estimators.calibrated_classifiers import PromisedSetClassifier

    assert run.domain_confidence is not None  # noqa: S101 - for the type checker: such runs have one
    return PromisedSetClassifier(
        make(run),
        target_recall=run.target_recall,
        domain_confidence=run.domain_confidence,
        calibration="cross-fit",
        folds=PROMISED_FOLDS,
        min_cell_size=run.min_cell_size,
        random_state=run.seed,
    )


_full_set = partial(_set_cover, penalty="full-set")
_promised_set_cover = partial(_promised, make=_set_cover)
METHODS = {
    method.name: method
    for method in (
        Method("erm", _erm),
        *(Method(name, partial(_domain_generalization, penalty=name)) for name in get_args(DomainPenalty)),
        # Pooling CDFs (TrainC) and (CVC): half of the training domains train, the other half calibrate
        Method("pooled-train", partial(_calibrated_erm, rule="pooled", calibration="training-data"), "erm"),
        Method("pooled-held-out", partial(_calibrated_erm, rule="pooled", calibration="held-out-domains"), "erm-half"),
        Method("robust", partial(_calibrated_erm, rule="robust", calibration="training-data"), "erm"),
        # Algorithm 1 as printed, which ends with the last weights; and the best weights of the same training
        Method("set-cover", _set_cover),
        Method("set-cover-best", _set_cover, "set-cover", iterate="best"),
        Method("set-cover-full-set", _full_set),
        Method("set-cover-full-set-best", _full_set, "set-cover-full-set", iterate="best"),
        # One promised model, with fixed thresholds and with thresholds adapted to each domain
        Method("erm-joint", partial(_promised, make=_erm), promises=True),
        Method("erm-adapted", partial(_promised, make=_erm), "erm-joint", promises=True, adapts=True),
        Method("set-cover-joint", _promised_set_cover, promises=True, iterate="best"),
        Method("set-cover-adapted", _promised_set_cover, "set-cover-joint", True, adapts=True, iterate="best"),
    )
}


# Groups of methods, as compared in the paper.
GROUPS = {
    "paper": ("erm", "pooled-train", "pooled-held-out", "robust", "set-cover"),
    "single-label": ("erm", *get_args(DomainPenalty), "set-cover"),
    "joint": ("erm-joint", "erm-adapted", "set-cover-joint", "set-cover-adapted"),
}


def study_method(name: str) -> Method:
    """Return a method by its name."""
    if name not in METHODS:
        meant = f" ({near})" if (near := suggestion(name, [*METHODS, *GROUPS])) else ""
        raise InputError(
            f"unknown method {name!r}{meant}; methods are {', '.join(METHODS)}, and groups {', '.join(GROUPS)}."
        )
    return METHODS[name]


def study_methods(names: Iterable[str]) -> tuple[str, ...]:
    """Return methods by their names, each once; the name of a group stands for all its methods."""
    return tuple(dict.fromkeys(method for name in names for method in GROUPS.get(name, (name,))))


def add_method(method: Method) -> None:
    """Register a method under its name."""
    if method.name in METHODS or method.name in GROUPS:
        raise InputError(f"method {method.name!r} is already registered; choose another name.")
    check_plain(method.name, "method")
    METHODS[method.name] = method
