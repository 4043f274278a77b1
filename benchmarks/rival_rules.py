"""Other ways to make sets for new domains, each in a few lines from its paper; `benchmarks.rivals` compares them.

Without labels of new domains a rule is a function of calibration rows and new rows. It returns margins, new rows ×
labels: a set holds the labels whose margin is 0 or more. With labels, a rule first looks at the calibration rows, and
then makes the margins of later rows of one domain from a first batch of it. Wherever a rival can be had label by label,
it is, since every label's recall is what counts here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import binom, entropy
from sklearn.linear_model import LogisticRegression

from benchmarks.class_conditional import LOWEST, class_thresholds
from domaincover.calibration.adaptation_fit import random_ranks
from domaincover.calibration.few_labels import FeatureScale, learn_correction, log_probabilities
from domaincover.calibration.links import log_odds
from domaincover.criteria import hits_needed
from domaincover.thresholds import hierarchical_thresholds, order_thresholds, pooled_thresholds

TARGET, CONFIDENCE, MIN_CELL_SIZE = 0.9, 0.9, 20
PAC_CONFIDENCE = 0.8  # of meta-PAC's two steps; at 0.9 it takes 22 calibration domains
PRIOR_SCALE = 0.4  # of the correction that adapts a scorer to a few labels
MDCP_LABELS = 6
Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]


class Rows(NamedTuple):
    """Scores of rows (higher is more likely), with labels (−1: unknown) and domains; intervals lack probabilities."""

    scores: Numbers
    labels: Codes
    domains: Codes
    features: Numbers
    probabilities: Numbers

    def of(self, rows: NDArray[np.bool_]) -> Rows:
        """Return some of the rows."""
        return Rows(*(each[rows] for each in self))

    @property
    def labelled(self) -> Rows:
        """The rows whose label is known."""
        return self.of(self.labels >= 0)

    def parts(self) -> list[NDArray[np.bool_]]:
        """Return the rows of each domain."""
        return [self.domains == domain for domain in range(int(self.domains.max()) + 1)]


Rule = Callable[[Rows, Rows], Numbers]


def own_of(scores: Numbers, labels: Codes) -> Numbers:
    """Return the value of each row's own label."""
    return scores[np.arange(len(labels)), labels]


def conformal_threshold(own: Numbers) -> float:
    """Return the lowest score that is in the set at the target: the ⌈target · (n + 1)⌉-th highest, if there is one."""
    rank = int(hits_needed(len(own) + 1, TARGET))
    return float(np.sort(own)[len(own) - rank]) if rank <= len(own) else LOWEST


# Without labels


def by_row(calibration: Rows, new: Rows) -> Numbers:
    """Split conformal prediction for each label, as if rows of all domains were exchangeable."""
    return new.scores - class_thresholds(calibration, TARGET)


def by_rule(rule: Callable[..., Any], *confidence: float, **options: Any) -> Rule:
    """Return the library's rule: pooled CDFs, hierarchical conformal prediction, order statistic by label or joint."""

    def margins(calibration: Rows, new: Rows) -> Numbers:
        thresholds = rule(*calibration[:3], TARGET, *confidence, min_cell_size=MIN_CELL_SIZE, **options)
        return new.scores - np.maximum(thresholds, LOWEST)

    return margins


pooled_cdfs = by_rule(pooled_thresholds)
hierarchical = by_rule(hierarchical_thresholds, on_infeasible="widen")
order_statistic = by_rule(order_thresholds, CONFIDENCE, on_infeasible="widen")


def resized(calibration: Rows, new: Rows) -> Numbers:
    """The order statistic resized (Duchi and others): in units of the mean entropy of a domain's rows, our choice."""
    units = [mean_entropy(rows)[:, None] for rows in (calibration, new)]
    scaled = [
        rows._replace(scores=log_probabilities(rows.probabilities) / unit)
        for rows, unit in zip((calibration, new), units, strict=True)
    ]
    return order_statistic(*scaled) * units[1]


def mean_entropy(rows: Rows) -> Numbers:
    """Return for each row the mean entropy of its domain's rows."""
    means = np.bincount(rows.domains, entropy(rows.probabilities, axis=1)) / np.bincount(rows.domains)
    return np.maximum(means, 1e-3)[rows.domains]


def worst_source(calibration: Rows, new: Rows) -> Numbers:
    """Max-p over sources (Yang, Jin, MDCP): a label is in the set if any domain's conformal p-value admits it."""
    lowest = np.full(new.scores.shape[1], np.inf)
    for part in calibration.parts():
        source = calibration.of(part)
        counted = np.bincount(source.labels, minlength=len(lowest)) >= MIN_CELL_SIZE
        lowest = np.minimum(lowest, np.where(counted, class_thresholds(source, TARGET), np.inf))
    return new.scores - np.where(np.isfinite(lowest), lowest, LOWEST)


def covariate_shift(calibration: Rows, new: Rows) -> Numbers:
    """Weighted conformal prediction (Tibshirani and others) for each label, with a learnt density ratio."""
    margins = np.empty_like(new.scores)
    for part in new.parts():
        old_weights, new_weights = density_ratios(calibration.features, new.features[part])
        for label in range(new.scores.shape[1]):
            own = calibration.labels == label
            thresholds = weighted_thresholds(calibration.scores[own, label], old_weights[own], new_weights)
            margins[part, label] = new.scores[part, label] - thresholds
    return margins


def density_ratios(old: Numbers, new: Numbers) -> tuple[Numbers, Numbers]:
    """Return new density over old one at old and new rows, by logistic regression; mean 1 over old rows."""
    both, is_new = np.vstack([old, new]), np.repeat([0, 1], [len(old), len(new)])
    features = FeatureScale.of(both).standardised(both)
    odds = np.exp(LogisticRegression(C=0.1, max_iter=300).fit(features, is_new).decision_function(features))
    weights = odds / odds[: len(old)].mean()
    return weights[: len(old)], weights[len(old) :]


def weighted_thresholds(scores: Numbers, weights: Numbers, new_weights: Numbers) -> Numbers:
    """Return for each new row the score that the target share of the weight reaches, its own weight counted as lost."""
    order = np.argsort(-scores)
    reached = np.cumsum(weights[order])
    total = reached[-1] if len(reached) else 0.0
    place = np.searchsorted(reached, TARGET * (total + new_weights) * (1 - 1e-12))
    return np.append(scores[order], LOWEST)[place]


def label_shift(calibration: Rows, new: Rows) -> Numbers:
    """Label-shift-weighted conformal prediction (Podkopaev, Ramdas); one threshold for all labels."""
    own = own_of(log_probabilities(calibration.probabilities), calibration.labels)
    margins = log_probabilities(new.probabilities)
    for part in new.parts():
        weights = em_weights(calibration.labels, new.probabilities[part])
        margins[part] -= weighted_thresholds(own, weights[calibration.labels], weights)
    return margins


def em_weights(labels: Codes, new: Numbers) -> Numbers:
    """Return how much more frequent each label is in new rows, by EM (Saerens, Latinne, Decaestecker)."""
    known = np.maximum(np.bincount(labels, minlength=new.shape[1]) / len(labels), 1e-6)
    share = known
    for _ in range(100):
        posterior = new * (share / known)
        share = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
    return np.maximum(share / known, 1e-3)


def entropy_scaled(calibration: Rows, new: Rows) -> Numbers:
    """ECP (Kasa, Zhang, Yang, Taylor): probabilities times the squared upper quantile of a domain's entropies.

    The quantile counts as 1 where it is less: with few labels sets would otherwise shrink under any shift.
    """
    threshold = conformal_threshold(own_of(log_probabilities(calibration.probabilities), calibration.labels))
    margins = log_probabilities(new.probabilities) - threshold
    for part in new.parts():
        margins[part] += 2 * np.log(max(np.quantile(entropy(new.probabilities[part], axis=1), TARGET), 1.0))
    return margins


def by_seen_domain(calibration: Rows, new: Rows) -> Numbers:
    """Conditional conformal prediction (Gibbs, Cherian, Candès) with domain indicators, for each label.

    For indicators its sets are those of split conformal prediction in each domain by itself.
    """
    margins = np.empty_like(new.scores)
    for domain in np.unique(new.domains):
        part = new.domains == domain
        margins[part] = new.scores[part] - class_thresholds(calibration.of(calibration.domains == domain), TARGET)
    return margins


def by_likely_domain(calibration: Rows, new: Rows) -> Numbers:
    """The same for unseen domains: by the calibration domain that a row looks like, which half of the rows teach."""
    teaches = np.random.default_rng(0).random(len(calibration.labels)) < 0.5
    scale, learner = FeatureScale.of(calibration.features), LogisticRegression(C=0.1, max_iter=100)
    learner.fit(scale.standardised(calibration.features[teaches]), calibration.domains[teaches])
    known, fresh = (
        rows._replace(domains=learner.predict(scale.standardised(rows.features)))
        for rows in (calibration.of(~teaches), new)
    )
    return by_seen_domain(known, fresh)


# With labels


def first_rows(rows: Rows, number: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which rows are the first of their domain in a random order, half of them at most."""
    return random_ranks(rows.domains, rng) < np.minimum(number, np.bincount(rows.domains) / 2)[rows.domains]


def few_shot(calibration: Rows, n_labelled: int, rng: np.random.Generator) -> Rule:
    """Few-shot conformal prediction (Fisch and others): the domain's own quantile, lowered as domains needed it."""
    first = first_rows(calibration, n_labelled, rng)
    later = calibration.of(~first)
    parts = [calibration.of(part & first) for part in calibration.parts()]
    level = np.array([conformal_threshold(own_of(few.scores, few.labels)) for few in parts])
    needed = pooled_cdfs(later._replace(scores=later.scores - level[later.domains, None]), later) - later.scores

    def margins(batch: Rows, later: Rows) -> Numbers:
        few = batch.labelled
        return later.scores - conformal_threshold(own_of(few.scores, few.labels)) + needed[0]

    return margins


def meta_pac(calibration: Rows, n_labelled: int, rng: np.random.Generator) -> Rule:
    """Meta-PAC sets (Park and others): a scorer that adapts, and a threshold for all labels with two binomial bounds.

    The share of rows whose set holds their label is promised; a domain counts as missed unless its bound says so.
    """
    first, allowed = first_rows(calibration, n_labelled, rng), []
    for part in calibration.parts():
        later = calibration.of(part & ~first)
        own = np.sort(own_of(corrected(calibration.of(part & first), later), later.labels))
        misses = binomial_misses(len(own), 1 - TARGET)
        allowed.append(own[misses] if misses >= 0 else LOWEST)
    missed = binomial_misses(len(allowed), 1 - CONFIDENCE)
    threshold = np.sort(allowed)[missed] if missed >= 0 else LOWEST
    return lambda batch, later: corrected(batch.labelled, later) - threshold


def binomial_misses(n: int, share: float) -> int:
    """Return the most misses of n that still show a share of misses below this one; −1 if not even none does."""
    return int(np.searchsorted(binom.cdf(np.arange(n + 1), n, share), 1 - PAC_CONFIDENCE, side="right")) - 1


def corrected(few: Rows, later: Rows) -> Numbers:
    """Return log-odds as a few labelled rows correct them, from probabilities alone (vector scaling)."""
    old, new = (log_probabilities(rows.probabilities)[None] for rows in (few, later))
    correction = learn_correction(old, few.probabilities[None], few.labels[None], PRIOR_SCALE)
    return log_odds(correction.probabilities(later.probabilities[None], new)[0])


def audited(calibration: Rows, *_: Any) -> Rule:
    """Audited conformal prediction, ACP-MC (Zhou, Fathony, Nguyen, Sesia): half the labels learn where the scorer errs.

    The likeliest label gets the audited probability of being right, and the others share the rest; the other half of
    the labels calibrates one threshold for all labels.
    """
    scale = FeatureScale.of(calibration.features)

    def margins(batch: Rows, later: Rows) -> Numbers:
        learns = np.arange(len(batch.labelled.labels)) % 2 == 0
        audit, rest = batch.labelled.of(learns), batch.labelled.of(~learns)
        threshold = conformal_threshold(own_of(audited_logs(audit, rest, scale), rest.labels))
        return audited_logs(audit, later, scale) - threshold

    return margins


def audited_logs(audit: Rows, rows: Rows, scale: FeatureScale) -> Numbers:
    """Return log-probabilities in which those of the likeliest labels are as audited."""
    seen, new = (
        np.hstack([scale.standardised(each.features), log_probabilities(each.probabilities)]) for each in (audit, rows)
    )
    right = audit.probabilities.argmax(axis=1) == audit.labels
    share = np.full(len(new), right.mean())
    if 0 < right.mean() < 1:
        share = LogisticRegression(C=0.1, max_iter=300).fit(seen, right).predict_proba(new)[:, 1]
    best = np.eye(rows.scores.shape[1], dtype=bool)[rows.probabilities.argmax(axis=1)]
    others = np.where(best, 0.0, rows.probabilities)
    others = others / np.maximum(others.sum(axis=1, keepdims=True), 1e-12)
    return log_probabilities(np.where(best, share[:, None], (1 - share[:, None]) * others))


# Published simulations


def mdcp_sources(n_sources: int, n_rows: int, rng: np.random.Generator) -> tuple[Numbers, Codes]:
    """Return features and labels of each source of MDCP's linear simulation: 10 features, 6 labels, temperature 2.5."""
    temperature, informative = 2.5, rng.choice(10, 4, replace=False)
    common = np.zeros((MDCP_LABELS, 10))
    common[:, informative] = rng.normal(size=(MDCP_LABELS, 4))
    X = rng.multivariate_normal(np.zeros(10), np.where(np.eye(10, dtype=bool), 1.0, 0.2), (n_sources, n_rows))
    X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
    own = np.tile(common, (n_sources, 1, 1))
    own[..., informative] += temperature * rng.normal(0, 0.15, (n_sources, MDCP_LABELS, 4))
    logits = X @ own.swapaxes(1, 2) + rng.normal(0, 0.4 * temperature, (n_sources, 1, MDCP_LABELS))
    logits *= 2.5 * (1 + 0.25 * temperature * rng.uniform(-1, 1, (n_sources, 1, 1)))
    return X, (logits + rng.gumbel(size=logits.shape)).argmax(axis=2)


def mdcp_weights(by_source: Numbers) -> Numbers:
    """Return the weight of each source's probabilities (sources × rows × labels) in the smallest sets that hold all.

    MDCP's optimal score is the weighted sum; weights maximise the dual of "smallest size with the target in every
    source", here one for each source where MDCP lets them vary with the features.
    """

    def loss(weights: Numbers) -> tuple[float, Numbers]:
        over = np.tensordot(weights, by_source, 1) - 1
        slope = (by_source * (over > 0)).sum(axis=2).mean(axis=1) - TARGET
        return float(np.maximum(over, 0).sum(axis=1).mean() - TARGET * weights.sum()), slope

    bounds = [(1e-3, None)] * len(by_source)
    return np.asarray(minimize(loss, np.ones(len(by_source)), jac=True, method="L-BFGS-B", bounds=bounds).x)


def dunn_groups(n_groups: int, n_rows: int, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Return x and y of the supervised simulation of Dunn and others: y = θ x + noise, with a standard normal θ."""
    x, noise = rng.normal(size=(2, n_groups, n_rows))
    return x, rng.normal(size=(n_groups, 1)) * x + noise
