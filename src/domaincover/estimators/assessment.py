"""Does a model hold in domains that it has not seen? Some are held out, a model is fitted on the rest, and judged."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _num_samples, column_or_1d

from domaincover.data.dataset import Coded, code_names
from domaincover.data.splits import Split, draw_domains, hold_out_share
from domaincover.errors import InputError
from domaincover.estimators.base import SetClassifier
from domaincover.estimators.conformal import ConformalSetClassifier
from domaincover.estimators.erm import ERMClassifier
from domaincover.estimators.seeds import generators
from domaincover.estimators.set_cover import SetCoverClassifier
from domaincover.evaluation import DomainReport, domain_report
from domaincover.prediction_sets import Sets

Failure = Literal["none", "overlap", "drop", "both"]
SMALLEST_DROP = 0.02  # of accuracy, worth the name
MODEL, BASELINE = "model", "ERM"


class Diagnosis(NamedTuple):
    """Why a single label fails: labels overlap everywhere, accuracy drops in new domains, both, or not at all."""

    failure: Failure
    accuracy_seen: float
    accuracy_unseen: float
    standard_error: float
    min_recall_seen: float
    target_recall: float

    def __str__(self) -> str:
        accuracy = f"{self.accuracy_seen:.0%} on new rows of seen domains, {self.accuracy_unseen:.0%} in unseen ones"
        overlap = f"even in domains it was trained on, it finds only {self.min_recall_seen:.0%} of the hardest label"
        drop = f"a single-label model's accuracy drops in new domains: {accuracy}"
        if self.failure == "none":
            return f"One label is enough here: the accuracy of a single-label model is {accuracy}."
        if self.failure == "drop":
            return f"Domains differ: {drop}. More training domains would help."
        if self.failure == "both":
            return f"Two things go wrong with one label. Domains differ: {drop}. And labels overlap: {overlap}."
        return (
            f"Labels overlap everywhere: a single-label model's accuracy holds in new domains ({accuracy}), "
            f"but {overlap}. Better features would help; more domains would not."
        )


@dataclass(frozen=True, eq=False)
class Assessment:
    """How a model and a single-label baseline did on unseen domains, and on new rows of the seen ones.

    `model` is what was judged: fitted on the training rows of the seen domains.
    """

    target_recall: float
    unseen: Mapping[str, DomainReport]
    seen: Mapping[str, DomainReport]
    diagnosis: Diagnosis
    model: SetClassifier

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "target_recall": self.target_recall,
            "diagnosis": self.diagnosis._asdict() | {"text": str(self.diagnosis)},
            "unseen": {name: self._plain(report) for name, report in self.unseen.items()},
            "seen": {name: self._plain(report) for name, report in self.seen.items()},
        }

    def _plain(self, report: DomainReport) -> dict[str, Any]:
        return {"summary": report.summary(self.target_recall).to_dict(), "domains": report.records()}


def assess(
    model: SetClassifier,
    X: Any,
    y: Any,
    domains: Any,
    *,
    hold_out_domains: float = 0.25,
    hold_out_rows: float = 0.2,
    min_cell_size: int = 1,
    target_recall: float | None = None,
    random_state: Any = None,
) -> Assessment:
    """Fit a copy of the model on some of the domains, and report how it does on the others.

    Beside it stands a single-label model on the same split: ERM with the same network, or the same estimator without
    sets. Some rows of the training domains are held out too, to tell what goes wrong with one label: labels that
    overlap everywhere, or accuracy that drops in new domains.
    """
    X, y, domains = indexable(X, y, domains)
    n_rows = _num_samples(X)
    labels = code_names(column_or_1d(y), "labels", n_rows)
    of_domains = code_names(domains, "domains", n_rows)
    split = _split(of_domains, hold_out_domains, hold_out_rows, *generators(random_state, 1))
    target = getattr(model, "target_recall", 0.9) if target_recall is None else target_recall
    unseen: dict[str, DomainReport] = {}
    seen: dict[str, DomainReport] = {}
    judged = _Judged(X, labels, of_domains, min_cell_size)
    train = [_safe_indexing(part, split.train) for part in (X, y, domains)]
    fitted = {name: clone(one).fit(*train[:2], domains=train[2]) for name, one in _candidates(model).items()}
    for name, one in fitted.items():
        unseen[name], seen[name] = judged.report(one, split.unseen), judged.report(one, split.seen)
    single = BASELINE if BASELINE in unseen else MODEL
    return Assessment(target, unseen, seen, diagnose(seen[single], unseen[single], target), fitted[MODEL])


def single_label_version(model: SetClassifier) -> SetClassifier | None:
    """Return the unfitted single-label model that a set-valued one is compared with; None if it is one itself."""
    params = model.get_params(deep=False)
    if isinstance(model, SetCoverClassifier):
        return ERMClassifier(**{name: params[name] for name in ERMClassifier().get_params() if name in params})
    if isinstance(model, ConformalSetClassifier) and model.rule != "single" and model.calibration != "prefit":
        return ConformalSetClassifier(clone(model.estimator), rule="single")
    return None


def diagnose(seen: DomainReport, unseen: DomainReport, target_recall: float) -> Diagnosis:
    """Tell from a single-label model's reports which failure it has; a drop counts beyond two standard errors."""
    of_seen, of_unseen = _accuracy(seen), _accuracy(unseen)
    error = float(np.sqrt(sum(_squared_error(accuracy) for accuracy in (of_seen, of_unseen))))
    drop = of_seen.mean() - of_unseen.mean()
    drops = drop > max(SMALLEST_DROP, 2 * error)
    min_recall = float(np.median(seen.min_recall))
    overlaps = min_recall < target_recall
    failure: Failure = "both" if drops and overlaps else "drop" if drops else "overlap" if overlaps else "none"
    return Diagnosis(failure, float(of_seen.mean()), float(of_unseen.mean()), error, min_recall, target_recall)


class _Judged(NamedTuple):
    """All rows with the codes of all labels, those included that training may not have met."""

    X: Any
    labels: Coded
    domains: Coded
    min_cell_size: int

    def report(self, model: SetClassifier, rows: NDArray[np.int64]) -> DomainReport:
        sets = self._widened(model.predict_set(_safe_indexing(self.X, rows)), model.classes_.tolist())
        names: tuple[Hashable, ...] = self.labels.names
        return domain_report(
            sets, self.labels.codes[rows], self.domains.codes[rows], names, self.domains.names, self.min_cell_size - 1
        )

    def _widened(self, sets: Sets, classes: list[Any]) -> Sets:
        """Add the labels that the model does not know: they are in none of its sets."""
        all_sets = np.zeros((len(sets), len(self.labels.names)), dtype=bool)
        all_sets[:, [self.labels.names.index(name) for name in classes]] = sets
        return all_sets


def _candidates(model: SetClassifier) -> dict[str, SetClassifier]:
    baseline = single_label_version(model)
    return {MODEL: model} if baseline is None else {MODEL: model, BASELINE: baseline}


def _split(domains: Coded, hold_out_domains: float, hold_out_rows: float, rng: np.random.Generator) -> Split:
    for share, what in ((hold_out_domains, "domains"), (hold_out_rows, "rows")):
        if not 0 < share < 1:
            raise InputError(f"the share of {what} to hold out must lie between 0 and 1, got {share:g}.")
    n_domains = len(domains.names)
    if n_domains < 2:
        raise InputError("there is only one domain; holding some out for an honest evaluation needs at least two.")
    n_unseen = min(max(1, round(hold_out_domains * n_domains)), n_domains - 1)
    drawn = draw_domains(domains.codes, n_domains - n_unseen, n_unseen, rng)
    rows = np.arange(len(domains.codes))
    is_unseen = np.isin(domains.codes, drawn.unseen)
    train, seen = hold_out_share(domains.codes, rows[~is_unseen], hold_out_rows, rng)
    return Split(train, seen, rows[is_unseen])


def _accuracy(report: DomainReport) -> NDArray[np.float64]:
    """Return the share of each domain's examples whose set holds their label."""
    hits = np.nansum(report.recall * report.n_by_label, axis=1)
    return hits / np.where(np.isnan(report.recall), 0, report.n_by_label).sum(axis=1)


def _squared_error(values: NDArray[np.float64]) -> float:
    return float(values.var(ddof=1) / len(values)) if len(values) > 1 else 0.0
