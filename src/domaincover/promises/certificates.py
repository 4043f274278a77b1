"""Certificates: finite-sample bounds on the next domain, from a report on unseen domains.

Two statements, both for independent, identically drawn domains and a model fixed before they were observed:

- *Observed.* k of m domains had every label's observed recall at the target. So does the next domain, with probability
  at least the lower Clopper-Pearson bound of k of m.
- *True.* With few rows in a domain, an observed recall at the target is partly chance. So each domain is tested. It is
  *shown at target* if every label's one-sided lower bound on its true recall reaches the target, at a row error β. If
  some true recall is below the target, that label passes with probability at most β, and so does the domain (an
  intersection-union test, Berger 1982: no correction for the number of labels). With p the probability that a domain is
  truly at target, P(shown) ≤ p + (1 − p)·β, hence p ≥ (P(shown) − β) / (1 − β), and P(shown) is bounded from the number
  of domains shown. A domain is *shown below* if some label's upper bound, at β / (number of its labels), is below the
  target, and *undecided* otherwise. Where the rows of a domain set its thresholds, its hits are not binomial given
  these, and many more than β of the domains truly below would pass: nothing is said about true recall there.

Labels that are absent from a domain, or have too few examples there, are ignored in that domain.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.criteria import TargetRecall, check_share
from domaincover.data.dataset import texts
from domaincover.data.identity import can_compare, canonical, in_words, look_alikes
from domaincover.errors import InputError
from domaincover.evaluation import DomainReport
from domaincover.options import CriterionName, ThresholdKind
from domaincover.promises.verdict import Verdict
from domaincover.terminal.text import listed

MOST_NAMES = 5
AT_TARGET, UNDECIDED, BELOW = 1, 0, -1


def lower_bound(n_hits: Any, n: Any, confidence: Any) -> NDArray[np.float64]:
    """Return the one-sided Clopper-Pearson lower confidence bound of a proportion, element-wise.

    >>> float(lower_bound(0, 10, 0.95)), round(float(lower_bound(10, 10, 0.95)), 4) == round(0.05 ** 0.1, 4)
    (0.0, True)
    """
    from scipy.special import betaincinv

    hits, total = np.asarray(n_hits, dtype=float), np.asarray(n, dtype=float)
    some = hits > 0
    bound = betaincinv(np.where(some, hits, 1.0), np.where(some, total - hits, 0.0) + 1, 1 - np.asarray(confidence))
    return np.asarray(np.where(some, bound, 0.0))


def upper_bound(n_hits: Any, n: Any, confidence: Any) -> NDArray[np.float64]:
    """Return the one-sided Clopper-Pearson upper confidence bound of a proportion, element-wise."""
    return 1 - lower_bound(np.asarray(n) - np.asarray(n_hits), n, confidence)


@dataclass(frozen=True)
class Evidence:
    """Number of domains at the target, and bounds for the next one.

    `low` and `high` are the two-sided interval of the probability that a domain is counted at the target, and
    `next_at_least` is its one-sided lower bound. `n_shown`, `n_undecided` and `n_shown_below` count the domains by a
    test of true recall, and `next_truly_at_least` bounds the probability that the next domain's true recall
    is at the target: None where the rows counted set the thresholds. `share` is None where no domain has the label.
    """

    n_domains: int
    n_at_target: int
    share: float | None
    low: float
    high: float
    next_at_least: float
    n_shown: int | None = None
    n_undecided: int | None = None
    n_shown_below: int | None = None
    next_truly_at_least: float | None = None


@dataclass(frozen=True)
class Certificate:
    """Bounds for the next domain: for all labels together (`domains`), and for each label separately.

    Each statement separately holds with the given confidence. `row_error` bounds the share of domains truly below the
    target that are shown at target. `share_by_noise` is the share that would be counted at the target if no
    domain differed from another. `smallest_cell` is the smallest number of examples that a recall rests on.
    `thresholds` are those of the report: adapted to each domain's rows or fixed; None where the model has one kind.
    `known_unseen` tells whether the domains were compared with those that the model has seen. `criterion` says what is
    at target: every constrained label's recall, or the coverage of a domain, about which no label has a statement.
    `doubt` names domains that were taken for new but look like some that the model has seen; None where none does.
    `verdict` says whether the model's promise is contradicted by these domains; None without a promise.
    """

    target_recall: float | dict[str, float]
    confidence: float
    row_error: float
    n_examples: int
    smallest_cell: int
    domains: Evidence
    labels: Mapping[str, Evidence]
    share_by_noise: float
    thresholds: ThresholdKind | None = None
    known_unseen: bool = False
    criterion: CriterionName = "min-recall"
    doubt: str | None = None
    verdict: Verdict | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for strict JSON, the verdict first."""
        return {"verdict": None, **asdict(self)} | ({} if self.verdict is None else {"verdict": self.verdict.to_dict()})

    def text(self, width: int = 100) -> str:
        """Return the certificate as sentences, no line longer than the width, and a table of the labels."""
        from domaincover.promises.certificate_text import certificate_text

        return certificate_text(self, width)

    def in_one_line(self) -> str:
        """Return a one-line summary."""
        from domaincover.promises.certificate_text import one_line

        return one_line(self)

    def __str__(self) -> str:
        return self.text()


def certify(
    report: DomainReport,
    target_recall: TargetRecall,
    *,
    confidence: float = 0.95,
    row_error: float | None = None,
    seen_domains: Collection[Hashable] | None = None,
    verdict: Verdict | None = None,
) -> Certificate:
    """Bound the probability that the next domain is at the target, from domains that the model must not have seen.

    The certificate applies to sets made as in the report: for a `PromisedSetClassifier`, with either adapted or fixed
    thresholds (`report.thresholds`). `seen_domains` are the model's (`model.seen_domains_`): a report that contains one
    of them is rejected; without them the certificate does not say that the domains are new. The method `certify` of a
    classifier knows them. `row_error` bounds the share of domains truly below the target that are shown at target, by
    default 1 − confidence; it must be chosen before the report is seen. `target_recall` is a number or a mapping by
    label, which leaves other labels out; a report under the criterion of coverage is certified for its coverage. The
    `verdict` on the model's promise (`model.verdict(report)`) stands first on the certificate.

    >>> import numpy as np
    >>> from domaincover import certify, domain_report
    >>> labels, domains = np.tile([0, 1], 1200), np.repeat(np.arange(12), 200)
    >>> sets = np.random.default_rng(0).random((2400, 2)) < 0.93
    >>> found = certify(domain_report(sets, labels, domains, ("ill", "well"), tuple(range(12))), 0.9).domains
    >>> found.n_at_target, round(found.next_at_least, 2)
    (11, 0.66)
    """
    report = report.under(target_recall)
    check_share(confidence, "confidence")
    beta = check_share(1 - confidence if row_error is None else row_error, "row error")
    _check_domains(report, seen_domains)
    criterion, recall = report.judged_by, report.group_recall
    targets = criterion.group_targets
    counts = ~np.isnan(recall)
    by_row = _shown(report, targets, beta)
    at_target = recall >= targets

    def evidence(hits: NDArray[np.bool_], shown: NDArray[np.int64]) -> Evidence:
        return _evidence(hits, None if report.thresholds == "adapted" else shown, confidence, beta)

    every_label = np.where(counts, by_row, AT_TARGET).min(axis=1)
    below = (_upper_bounds(report, 1 - beta / counts.sum(axis=1, keepdims=True)) < targets).any(axis=1)
    decided = np.where(below, BELOW, np.where(every_label == AT_TARGET, AT_TARGET, UNDECIDED))
    return Certificate(
        target_recall=criterion.plain(report.label_names),
        confidence=float(confidence),
        row_error=beta,
        n_examples=int(report.group_n[counts].sum()),
        smallest_cell=int(report.group_n[counts].min()),
        domains=evidence(report.at_target(), decided),
        labels={
            name: evidence(at_target[counts[:, k], k], by_row[counts[:, k], k])
            for k, name in enumerate([] if report.is_coverage else criterion.group_names(texts(report.label_names)))
        },
        share_by_noise=report.share_by_noise(),
        thresholds=report.thresholds,
        known_unseen=seen_domains is not None,
        criterion=criterion.name,
        doubt=_doubt(report, seen_domains),
        verdict=verdict,
    )


def seen_among(domain_names: Collection[Hashable], seen_domains: Collection[Hashable]) -> list[bool]:
    """Return for each domain whether it is among the seen ones; 7, 7.0 and "7" are equal.

    >>> seen_among(["7", "north", 8.0], [7, "south", "8"])
    [True, False, True]
    """
    seen = {canonical(name) for name in seen_domains}
    return [canonical(name) in seen for name in domain_names]


def _check_domains(report: DomainReport, seen_domains: Collection[Hashable] | None) -> None:
    is_seen = seen_among(report.domain_names, () if seen_domains is None else seen_domains)
    if any(is_seen):
        names = [name for name, known in zip(texts(report.domain_names), is_seen, strict=True) if known]
        raise InputError(
            f"{len(names)} of {len(is_seen)} domains were seen in training ({listed(names, MOST_NAMES)}); "
            "a certificate is about new domains: leave them out."
        )
    if len(is_seen) < 2:
        raise InputError(
            f"the report has one domain, {texts(report.domain_names)[0]}; what one domain did says next to nothing "
            "about the next: a certificate needs at least two, and is worth something from about ten."
        )
    if seen_domains is not None and not can_compare(report.domain_names, seen_domains):
        new, old = report.domain_names[0], next(iter(seen_domains), None)
        raise InputError(
            f"no domain can be compared with those seen in training, which are written in another way: {new!r} here, "
            f"{old!r} in training; a certificate is about new domains: write their names as in training."
        )


def _doubt(report: DomainReport, seen_domains: Collection[Hashable] | None) -> str | None:
    pairs = [] if seen_domains is None else look_alikes(report.domain_names, seen_domains)
    if not pairs:
        return None
    return f"Of these domains, some look like domains seen in training: {in_words(pairs)}; they were taken for new."


def _upper_bounds(report: DomainReport, confidence: Any) -> NDArray[np.float64]:
    """Return an upper bound on the true recall of every cell, 1 where the cell does not count."""
    bounds = upper_bound(report.group_hits, report.group_n, confidence)
    return np.where(np.isnan(report.group_recall), 1.0, bounds)


def _shown(report: DomainReport, targets: NDArray[np.float64], beta: float) -> NDArray[np.int64]:
    """Return the test of each cell's true recall from its rows."""
    above = lower_bound(report.group_hits, report.group_n, 1 - beta) >= targets
    below = _upper_bounds(report, 1 - beta) < targets
    return np.where(above, AT_TARGET, np.where(below, BELOW, UNDECIDED))


def _evidence(hits: NDArray[np.bool_], shown: NDArray[np.int64] | None, confidence: float, beta: float) -> Evidence:
    n, n_hits = len(hits), int(hits.sum())
    each_side = (1 + confidence) / 2
    found = Evidence(
        n_domains=n,
        n_at_target=n_hits,
        share=n_hits / n if n else None,
        low=float(lower_bound(n_hits, n, each_side)),
        high=float(upper_bound(n_hits, n, each_side)),
        next_at_least=float(lower_bound(n_hits, n, confidence)),
    )
    if shown is None:
        return found
    n_shown, n_undecided, n_below = (int((shown == which).sum()) for which in (AT_TARGET, UNDECIDED, BELOW))
    truly = (float(lower_bound(n_shown, n, confidence)) - beta) / (1 - beta)
    return replace(
        found,
        n_shown=n_shown,
        n_undecided=n_undecided,
        n_shown_below=n_below,
        next_truly_at_least=max(0.0, truly),
    )
