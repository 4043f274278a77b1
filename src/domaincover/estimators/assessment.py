"""Assessment on unseen domains: fit a model on some domains, evaluate it on the others, and say why one label fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from domaincover.criteria import Criterion, Sets, TargetRecall, criterion_for, share
from domaincover.data.dataset import (
    Coded,
    Split,
    chosen_cell_size,
    code_names,
    count_cells,
    draw_domains,
    hold_out_share,
    n_held_out,
)
from domaincover.errors import InputError
from domaincover.estimators.base import SetClassifier, generators, indexed
from domaincover.estimators.calibrated import CalibratedSetClassifier
from domaincover.estimators.calibrated_classifiers import ConformalSetClassifier, PromisedSetClassifier
from domaincover.estimators.intervals import PromisedIntervalRegressor, assess_intervals
from domaincover.estimators.network_classifiers import DomainGeneralizationClassifier, ERMClassifier, SetCoverClassifier
from domaincover.estimators.scorer_fits import clone_for, n_folds_of, places_in_order
from domaincover.evaluation import DomainReport, domain_report
from domaincover.options import CriterionName, ThresholdKind
from domaincover.predictors.calibrated_predictors import last_step
from domaincover.predictors.set_predictor import as_column
from domaincover.promises.verdict import Verdict, verdict_lines

if TYPE_CHECKING:
    import altair as alt

Failure = Literal["none", "overlap", "drop", "both"]
Counts = NDArray[np.int64]  # domains × labels, or groups of labels
SMALLEST_DROP = 0.02  # smallest drop of accuracy that is reported
BROKEN_BY = 0.1  # a domain breaks where a recall is lower by more than this than in seen domains, beyond chance
CHANCE = 0.05  # of calling any domain broken where none is


class Diagnosis(NamedTuple):
    """Why a single label fails: labels overlap everywhere, domains differ, both, or not at all.

    Domains differ if accuracy drops in new ones, or if some of them break: there, a label's recall is more than ten
    points below its recall in seen domains, beyond chance. `min_recall_seen` is the recall of the hardest label over
    new rows of the seen domains that do not break, together; with coverage as criterion, that of all labels.
    """

    failure: Failure
    accuracy_seen: float
    accuracy_unseen: float
    standard_error: float
    min_recall_seen: float
    target_recall: float | dict[str, float]
    criterion: CriterionName
    n_broken: int  # unseen domains that break
    n_unseen: int

    @property
    def drops(self) -> bool:
        """Whether mean accuracy is lower in unseen domains, beyond two standard errors."""
        return self.accuracy_seen - self.accuracy_unseen > max(SMALLEST_DROP, 2 * self.standard_error)

    def __str__(self) -> str:
        shares = self.accuracy_seen, self.accuracy_unseen, self.min_recall_seen
        seen, unseen, hardest = (f"{100 * part:.0f} %" for part in shares)
        accuracy = f"{seen} on new rows of seen domains, {unseen} in unseen ones"
        what = "labels" if self.criterion == "coverage" else "hardest label"
        overlap = f"even in domains it was trained on, it finds only {hardest} of the {what}"
        if self.failure == "none":
            return (
                f"One label is enough here: a single-label model's accuracy is {accuracy}, "
                f"and it finds {hardest} of the {what}."
            )
        holds = f"holds in new domains ({accuracy})"
        if self.accuracy_seen - self.accuracy_unseen > SMALLEST_DROP:
            holds = f"is {accuracy}, which so few domains cannot tell apart"
        if self.failure == "overlap":
            return f"Labels overlap everywhere: a single-label model's accuracy {holds}, but {overlap}."
        moves = f"drops in new domains: {accuracy}" if self.drops else holds
        recall = "coverage" if self.criterion == "coverage" else "a label's recall"
        below = f"{recall} is more than {100 * BROKEN_BY:.0f} points below that in seen ones"
        breaks = f"; in {self.n_broken} of {self.n_unseen} unseen ones, {below}" if self.n_broken else ""
        said = f"Domains differ: a single-label model's accuracy {moves}{breaks}."
        if self.failure == "drop":
            return said
        return f"Two things go wrong with one label. {said} And labels overlap: {overlap}."


def diagnose(seen: DomainReport, unseen: DomainReport, target_recall: TargetRecall) -> Diagnosis:
    """Diagnose a single-label model's failure from its reports; a drop counts beyond two standard errors."""
    criterion = seen.under(target_recall).judged_by
    # Of what has a target, over all domains together: the lowest of many recalls from a few rows each is low by chance.
    reference = _usual_recall(*map(criterion.group_counts, seen.tallies[:2]))
    n, hits = map(criterion.group_counts, unseen.tallies[:2])
    n_broken = int(_broken(n, hits, reference).any(axis=1).sum())
    found = Diagnosis(
        failure="none",
        accuracy_seen=float(seen.coverage.mean()),
        accuracy_unseen=float(unseen.coverage.mean()),
        standard_error=_error_of_difference(seen, unseen),
        min_recall_seen=float(np.nanmin(reference)),
        target_recall=criterion.plain(seen.label_names),
        criterion=criterion.name,
        n_broken=n_broken,
        n_unseen=len(n),
    )
    overlaps = bool((reference < criterion.group_targets).any())
    if found.drops or n_broken > 0:
        return found._replace(failure="both" if overlaps else "drop")
    return found._replace(failure="overlap" if overlaps else "none")


def _usual_recall(n: Counts, hits: Counts) -> NDArray[np.float64]:
    """Return the recall over seen domains that do not break.

    A model may fail in some domains that it was trained on, where their labels contradict those of others: that is not
    overlap, which is everywhere.
    """
    broken = np.zeros(len(n), dtype=bool)
    while True:
        reference = share(hits[~broken].sum(axis=0), n[~broken].sum(axis=0))
        more = broken | _broken(n, hits, reference).any(axis=1)
        if more.all() or np.array_equal(more, broken):
            return reference
        broken = more


def _broken(n: Counts, hits: Counts, reference: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return in which cells recall is below the reference by more than `BROKEN_BY`, beyond chance over all cells."""
    from scipy.stats import binom

    p_values = binom.cdf(hits, n, np.maximum(reference - BROKEN_BY, 0))
    return np.asarray((n > 0) & (p_values < CHANCE / max(int((n > 0).sum()), 1)))


def _error_of_difference(seen: DomainReport, unseen: DomainReport) -> float:
    """Return the standard error of the difference of mean accuracies.

    The variance between domains is pooled over both sides, since there may be a single unseen domain. Each side has at
    least its own binomial variance, since numbers of rows differ.
    """
    sides = seen.coverage, unseen.coverage
    n_free = max(sum(len(side) - 1 for side in sides), 1)
    between = sum(((side - side.mean()) ** 2).sum() for side in sides) / n_free
    counting = sum((r.coverage * (1 - r.coverage) / r.n).mean() / len(r.n) for r in (seen, unseen))
    return float(np.sqrt(max(between * sum(1 / len(side) for side in sides), counting)))


MODEL, FIXED, BASELINE = "model", "model, fixed thresholds", "ERM"


@dataclass(frozen=True, eq=False)
class Assessment:
    """Results of a model and a single-label baseline on unseen domains, and on new rows of the seen ones.

    `model` was fitted on the training rows of the seen domains. If it can adapt, the reports under "model" have
    thresholds adapted to each domain's rows, and those under "model, fixed thresholds" the fixed ones.
    """

    target_recall: TargetRecall
    unseen: Mapping[str, DomainReport]
    seen: Mapping[str, DomainReport]
    diagnosis: Diagnosis
    model: SetClassifier

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
            "target_recall": self.diagnosis.target_recall,
            "criterion": self.diagnosis.criterion,
            "diagnosis": self.diagnosis._asdict() | {"text": str(self.diagnosis)},
            "unseen": {name: self._plain(report) for name, report in self.unseen.items()},
            "seen": {name: self._plain(report) for name, report in self.seen.items()},
        }

    @property
    def verdict(self) -> Verdict | None:
        """Whether the unseen domains contradict the promise of the model; None where it has none."""
        return self.model.verdict(self.unseen[MODEL])

    @property
    def methods(self) -> dict[str, DomainReport]:
        """The reports on unseen domains by display name."""
        name = _shown_name(self.model)
        names = {MODEL: f"{name}, adapted" if FIXED in self.unseen else name, FIXED: name}
        return {names.get(key, key): report for key, report in self.unseen.items()}

    def summary_table(self, width: int = 110) -> str:
        """Return the results on unseen domains as text, one row per method; no line is longer than the width."""
        from domaincover.report.domain_table import summary_table

        return summary_table(self.methods, self.target_recall, width=width)

    def plot(self, title: str = "Recall by unseen domain") -> alt.HConcatChart:
        """Return an Altair chart of recall and set size by unseen domain, worst first.

        Beside the model it shows its fixed thresholds if it can adapt, else the single-label baseline.

        Save it with `assessment.plot().save("domains.png")`.
        """
        (name, report), *others = self.methods.items()
        return report.plot(self.target_recall, name=name, baseline=dict(others), title=title)

    def __str__(self) -> str:
        first, said = ([fill(line, width=110) for line in lines] for lines in (self.verdict_lines, self._said()))
        return "\n".join([*first, self.summary_table(), *said])

    def _repr_html_(self) -> str:
        """Return the diagnosis, the summary and the unseen domains for a notebook; names are escaped."""
        from domaincover.report.domain_table import reports_html

        said = "".join(f"<p>{escape(line)}</p>" for line in (*self.verdict_lines, *self._said()))
        return f"{said}{reports_html(self.methods, self.target_recall)}"

    @property
    def verdict_lines(self) -> list[str]:
        """The verdict in words, and where it contradicts, what the unseen domains missed."""
        return verdict_lines(self.verdict, self.unseen[MODEL])

    def _said(self) -> list[str]:
        """Return the headline, the labels and domains that do not count, and the diagnosis."""
        from domaincover.report.domain_reports import summary_lines

        headline = summary_lines(self.methods, self.target_recall)[0]
        lines = (headline, self.unseen[MODEL].not_counted(), str(self.diagnosis))
        return [line for line in lines if line is not None]

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
    min_cell_size: int | None = None,
    target_recall: TargetRecall | None = None,
    random_state: Any = None,
) -> Any:
    """Fit a copy of the model on some of the domains, and evaluate it on the others: the last ones with `domain_order`.

    A single-label model on the same split is the baseline: ERM with the same network, or the same estimator without
    sets. A model that can adapt is evaluated twice: with thresholds adapted to the rows of each domain, and with its
    fixed thresholds. Some rows of the training domains are held out too, to diagnose why a single label fails: labels
    that overlap everywhere, or accuracy that drops in new domains. Of these few rows all cells count; in unseen
    domains, cells with fewer than `min_cell_size` examples do not: None is the model's own, 20 unless set, or 1 with a
    warning where no cell of an unseen domain has so many.
    """
    if isinstance(model, PromisedIntervalRegressor):
        shares = {"hold_out_domains": hold_out_domains, "random_state": random_state}
        return assess_intervals(model, X, y, domains, **shares)
    target = model._own_target if target_recall is None else target_recall
    candidates = _candidates(model)
    X, y, domains = indexed(X, as_column(y), domains)
    n_rows = _num_samples(X)
    labels = code_names(y, "labels", n_rows)
    criterion = criterion_for(target, labels.names, getattr(model, "criterion", "min-recall"))
    judged = _Judged(X, labels, code_names(domains, "domains", n_rows), criterion)
    (rng,) = generators(random_state, "assessment")
    order = getattr(model, "domain_order", None)
    split = _split(judged.domains, hold_out_domains, hold_out_rows, rng, order)
    min_cell_size = judged.cell_size(split.unseen, min_cell_size, candidates[MODEL].usual_cell_size)
    *examples, of_domains = (_safe_indexing(part, split.train) for part in (X, y, domains))
    fitted = {
        name: clone_for(one, y, split.train).fit(*examples, domains=of_domains) for name, one in candidates.items()
    }
    unseen: dict[str, DomainReport] = {}
    seen: dict[str, DomainReport] = {}
    for name, one in fitted.items():
        unseen |= judged.reports(name, one, split.unseen, min_cell_size)
        seen |= judged.reports(name, one, judged.rows_of(set(one.training_domains_.tolist()), split.seen))
    if unseen[MODEL].thresholds == "fixed":  # no unseen domain's rows moved its thresholds
        for reports in (unseen, seen):
            reports.pop(FIXED, None)
    single = BASELINE if BASELINE in fitted else MODEL
    diagnosis = diagnose(seen[single], judged.report(fitted[single], split.unseen), target)
    return Assessment(target, unseen, seen, diagnosis, fitted[MODEL])


def rows_to_train_on(
    domains: Any,
    hold_out_domains: float = 0.25,
    hold_out_rows: float = 0.2,
    random_state: Any = None,
    domain_order: Sequence[Any] | None = None,
) -> NDArray[np.int64]:
    """Return the rows that `assess` fits on with the same settings."""
    coded = code_names(domains, "domains", _num_samples(domains))
    (rng,) = generators(random_state, "assessment")
    return _split(coded, hold_out_domains, hold_out_rows, rng, domain_order).train


def n_fits(model: SetClassifier, n_domains: int) -> int:
    """Return how often a model fits its estimator, on data with so many domains."""
    if not isinstance(model, CalibratedSetClassifier):
        return 1
    return n_folds_of(n_domains, model.calibration, model.folds, model._promised)


def single_label_version(model: SetClassifier) -> SetClassifier | None:
    """Return the unfitted single-label baseline of a model; None if the model is itself the baseline."""
    inner = model.estimator if isinstance(model, PromisedSetClassifier) else model
    if isinstance(inner, SetCoverClassifier | DomainGeneralizationClassifier) or (
        isinstance(inner, ERMClassifier) and inner is not model
    ):
        params = inner.get_params(deep=False)
        return ERMClassifier(**{name: params[name] for name in ERMClassifier().get_params() if name in params})
    if isinstance(model, CalibratedSetClassifier) and model.calibration != "prefit":
        already_single = isinstance(model, ConformalSetClassifier) and model.rule == "single"
        return None if already_single else ConformalSetClassifier(clone(model.estimator), rule="single")
    return None


class _Judged(NamedTuple):
    """All rows, with codes of all labels, including those absent from training."""

    X: Any
    labels: Coded
    domains: Coded
    criterion: Criterion

    def cell_size(self, rows: NDArray[np.int64], asked: int | None, usual: int) -> int:
        """Return from how many examples on cells count; reject, before fitting, data in which none would."""
        shape = len(self.domains.names), len(self.labels.names)
        counts = count_cells(self.domains.codes[rows], self.labels.codes[rows], *shape)
        return chosen_cell_size(asked, self.criterion.group_counts(counts), usual)

    def rows_of(self, names: set[Any], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of the named domains; all rows if there are none."""
        named = np.array([name in names for name in self.domains.names])
        theirs = rows[named[self.domains.codes[rows]]]
        return theirs if len(theirs) > 0 else rows

    def reports(
        self, name: str, model: SetClassifier, rows: NDArray[np.int64], min_cell_size: int = 1
    ) -> dict[str, DomainReport]:
        """Return a model's report by name; if it can adapt, also the report with fixed thresholds."""
        if not isinstance(model, PromisedSetClassifier):
            return {name: self.report(model, rows, min_cell_size)}
        if not model.can_adapt:
            return {name: self.report(model, rows, min_cell_size, "fixed")}
        kinds: dict[str, ThresholdKind] = {name: "adapted", FIXED: "fixed"}
        return {key: self.report(model, rows, min_cell_size, kind) for key, kind in kinds.items()}

    def report(
        self,
        model: SetClassifier,
        rows: NDArray[np.int64],
        min_cell_size: int = 1,
        thresholds: ThresholdKind | None = None,
    ) -> DomainReport:
        (labels, label_names), (domains, domain_names) = self.labels, self.domains
        settings = min_cell_size, self.criterion
        X = _safe_indexing(self.X, rows)
        if thresholds == "adapted" and isinstance(model, PromisedSetClassifier):
            sets, thresholds = model.adapted_sets(X, domains[rows])
        else:
            sets = model.predict_set(X)
        sets = self._widened(sets, model.classes_.tolist())
        found = domain_report(sets, labels[rows], domains[rows], label_names, domain_names, *settings)
        return replace(found, thresholds=thresholds)

    def _widened(self, sets: Sets, classes: list[Any]) -> Sets:
        """Add labels unknown to the model, which are in none of its sets."""
        all_sets = np.zeros((len(sets), len(self.labels.names)), dtype=bool)
        all_sets[:, [self.labels.names.index(name) for name in classes]] = sets
        return all_sets


def _shown_name(model: Any) -> str:
    """Return a classifier's name in the paper, or else its class name."""
    if isinstance(model, PromisedSetClassifier):
        return f"{_shown_name(last_step(model.estimator))}, promised"
    if isinstance(model, SetCoverClassifier):
        return "SET-COVER"
    return "ERM" if type(model) is ERMClassifier else type(model).__name__


def _candidates(model: SetClassifier) -> dict[str, SetClassifier]:
    if getattr(model, "calibration", None) == "prefit":
        raise InputError("a prefit model may have been trained on the held-out domains; use another calibration.")
    baseline = single_label_version(model)
    return {MODEL: model} if baseline is None else {MODEL: model, BASELINE: baseline}


def _split(
    domains: Coded,
    hold_out_domains: float,
    hold_out_rows: float,
    rng: np.random.Generator,
    domain_order: Sequence[Any] | None,
) -> Split:
    for part, what in ((hold_out_domains, "domains"), (hold_out_rows, "rows")):
        if not 0 < part < 1:
            raise InputError(f"the share of {what} to hold out must lie between 0 and 1, got {part:g}.")
    n_domains = len(domains.names)
    if n_domains < 2:
        raise InputError("there is only one domain; holding out domains needs at least two.")
    n_unseen = n_held_out(n_domains, hold_out_domains)
    unseen = draw_domains(domains.codes, n_domains - n_unseen, n_unseen, rng).unseen
    if domain_order is not None:
        unseen = np.flatnonzero(places_in_order(domains.names, domain_order) >= n_domains - n_unseen)
    rows = np.arange(len(domains.codes))
    is_unseen = np.isin(domains.codes, unseen)
    train, seen = hold_out_share(domains.codes, rows[~is_unseen], hold_out_rows, rng)
    if len(seen) == 0:
        raise InputError(
            f"no domain has enough rows to hold out {hold_out_rows:.0%} of them; domains are groups of many rows."
        )
    return Split(train, seen, rows[is_unseen])
