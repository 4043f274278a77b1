"""Is a promise contradicted by the domains that came? Tests that may be read after every domain.

h of t new domains were at target, where a share of c was promised. B(x; a, b) is the incomplete beta function. Each
e-value is a likelihood ratio: in the numerator the mean over all shares p below c, uniformly, and in the denominator
what is to be contradicted. Where that holds, the e-value is a supermartingale, so that it ever reaches 1 / α with a
probability of α at most (Ville 1939), however often one looks.

- *Model*: this model's share is c or more. E = B(c; h + 1, t − h + 1) / (c^(h + 1) (1 − c)^(t − h)). It is
  about the probability of each domain given those before: no domain needs to be like another.
- *Promise*: over draws of the m calibration domains, of which the k-th lowest residual is the offset, a model's share
  follows Beta(m + 1 − k, k), and falls short of c in about half of the draws by luck.
  E = B(c; h + 1, t − h + 1) / c · B(m + 1 − k, k) / B(m + 1 − k + h, k + t − h).
  It takes held-out domains and an offset that stays.
- *Assumption*: the domains are drawn like those that calibrated. The ranks of their residuals among these and all
  that came before, with ties at random, are then independent and uniform (Vovk), and 1[rank > 1 − c] goes into the
  first test.

The shares p with p^h (1 − p)^(t − h) > α · B(h + 1, t − h + 1) hold the model's own with probability 1 − α at all t at
once (Robbins 1970). That nothing is contradicted is no proof: a verdict says "contradicted" or "not contradicted".
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.criteria import check_share
from domaincover.evaluation import DomainReport
from domaincover.terminal.text import cut

CONFIDENCE = 0.95
LARGEST = 700.0  # logarithm of the largest e-value that is told apart
STEPS = 60  # halvings of an interval
LONGEST_NAME, MOST_LABELS = 40, 3
About = Literal["model", "promise", "assumption"]
ABOUT: dict[About, str] = {
    "model": "contradicted here",
    "promise": "contradicted, and not by an unlucky draw of the calibration domains",
    "assumption": "contradicted: these domains are not drawn like those that calibrated",
}


class HeldOut(NamedTuple):
    """How many held-out domains calibrated, and the place of the offset among their residuals, the lowest first."""

    n_domains: int
    rank: int


@dataclass(frozen=True)
class Verdict:
    """What new domains say of a promise: `about` the model's own share, the promise itself, or its assumption.

    `interval` holds the model's share; `e_value` is that of the test which `about` names.
    """

    promised: float
    domains: int
    at_target: int
    e_value: float
    interval: tuple[float, float]
    about: About = "model"
    says: Literal["contradicted", "not contradicted"] = "not contradicted"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for strict JSON."""
        return asdict(self) | {"interval": list(self.interval)}

    @property
    def is_contradicted(self) -> bool:
        """Whether a test contradicts."""
        return self.says == "contradicted"

    def __str__(self) -> str:
        low, high = np.floor(100 * self.interval[0]) / 100, np.ceil(100 * self.interval[1]) / 100
        found = ABOUT[self.about] if self.is_contradicted else self.says
        return (
            f"Promised {self.promised:g}, seen {self.at_target} of {self.domains}: {found} (this model's share is "
            f"between {low:.2f} and {high:.2f})."
        )


def judged(
    at_target: NDArray[np.bool_],
    promised: float,
    *,
    held_out: HeldOut | None = None,
    ranks: NDArray[np.float64] | None = None,
    confidence: float = CONFIDENCE,
) -> Verdict:
    """Return the verdict on a promise from new domains, in the order in which they came.

    With `held_out` the promise itself is tested, too, and with the `ranks` of the domains (`residual_ranks`) that they
    are drawn like those that calibrated.

    >>> print(judged(np.arange(40) < 37, 0.9))
    Promised 0.9, seen 37 of 40: not contradicted (this model's share is between 0.72 and 1.00).
    >>> print(judged(np.arange(40) < 15, 0.9))
    Promised 0.9, seen 15 of 40: contradicted here (this model's share is between 0.17 and 0.62).
    """
    n, n_hits = len(at_target), int(np.count_nonzero(at_target))
    level = 1 - check_share(confidence, "confidence")
    tests: dict[About, Any] = {"model": log_e_model(n_hits, n, promised)}
    if held_out is not None:
        tests["promise"] = log_e_promise(n_hits, n, promised, held_out)
    if ranks is not None:
        tests["assumption"] = log_e_model(np.count_nonzero(ranks > 1 - promised), n, promised)
    against = [about for about, log_e in tests.items() if log_e >= -np.log(level)]
    about = against[-1] if against else "model"
    low, high = share_bounds(n_hits, n, level)
    return Verdict(
        promised=float(promised),
        domains=n,
        at_target=n_hits,
        e_value=float(np.exp(min(float(tests[about]), LARGEST))),
        interval=(float(low), float(high)),
        about=about,
        says="contradicted" if against else "not contradicted",
    )


def log_e_model(n_hits: Any, n: Any, promised: float) -> NDArray[np.float64]:
    """Return the logarithm of the e-value against a share of `promised` or more, element-wise.

    >>> n_misses_in_a_row = np.arange(4)
    >>> np.exp(log_e_model(0, n_misses_in_a_row, 0.9)).round(1)
    array([  1. ,   5.5,  37. , 277.8])
    """
    hits, misses = np.asarray(n_hits, float), np.asarray(n, float) - n_hits
    return log_mean_below(hits, misses, promised) - hits * np.log(promised) - misses * np.log1p(-promised)


def log_e_promise(n_hits: Any, n: Any, promised: float, held_out: HeldOut) -> NDArray[np.float64]:
    """Return the logarithm of the e-value against the promise over draws of calibration domains, element-wise."""
    from scipy.special import betaln

    hits, misses = np.asarray(n_hits, float), np.asarray(n, float) - n_hits
    a, b = held_out.n_domains + 1 - held_out.rank, held_out.rank
    return np.asarray(log_mean_below(hits, misses, promised) - (betaln(a + hits, b + misses) - betaln(a, b)))


def log_mean_below(hits: NDArray[np.float64], misses: NDArray[np.float64], promised: float) -> NDArray[np.float64]:
    """Return the logarithm of the mean of p^hits (1 − p)^misses over the shares p below the promised one."""
    from scipy.special import betainc, betaln

    with np.errstate(divide="ignore"):  # of thousands of domains at target
        below = np.log(betainc(hits + 1, misses + 1, promised))
    return np.asarray(below + betaln(hits + 1, misses + 1) - np.log(promised))


def share_bounds(n_hits: Any, n: Any, level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds of the confidence sequence for the model's share, element-wise: at all t at once."""
    from scipy.special import betaln, xlog1py, xlogy

    hits, misses = np.broadcast_arrays(np.asarray(n_hits, float), np.asarray(n, float) - n_hits)
    least = np.log(level) + betaln(hits + 1, misses + 1)
    likeliest = hits / np.maximum(hits + misses, 1)
    bounds = []
    for end in (0.0, 1.0):
        outside, inside = np.full(hits.shape, end), likeliest.copy()
        for _ in range(STEPS):
            middle = (outside + inside) / 2
            holds = xlogy(hits, middle) + xlog1py(misses, -middle) > least
            outside, inside = np.where(holds, outside, middle), np.where(holds, middle, inside)
        bounds.append(outside)
    return bounds[0], bounds[1]


def residual_ranks(calibration: NDArray[np.float64], new: NDArray[np.float64], seed: int = 0) -> NDArray[np.float64]:
    """Return the rank of each new residual among those that calibrated and all new ones before, ties at random.

    Between 0 and 1; independent and uniform if all domains are exchangeable.
    """
    everything, m = np.concatenate([calibration, new]), len(calibration)
    before = np.tri(len(new), len(everything), m - 1, dtype=bool)
    lower = (before & (everything < new[:, None])).sum(axis=1)
    equal = 1 + (before & (everything == new[:, None])).sum(axis=1)
    at_random = np.random.default_rng(seed).random(len(new))
    return np.asarray((lower + at_random * equal) / (before.sum(axis=1) + 1))


def verdict_lines(
    verdict: Verdict | None, report: DomainReport, p_values: NDArray[np.float64] | None = None, level: float = 0.05
) -> list[str]:
    """Return a verdict in words, and where it contradicts, by how much domains missed and where.

    `p_values` say how much each domain is like those that calibrated; up to `level` a domain is flagged: that tells
    whether unlabelled rows could have told. The report is under its target.
    """
    missed = report.margin < 0
    if verdict is None or not verdict.is_contradicted or not missed.any():
        return [] if verdict is None else [str(verdict)]
    below, worst = -report.margin[missed], int(report.margin.argmin())
    lines = [
        str(verdict),
        f"{missed.sum()} of {len(missed)} domains missed, by {np.median(below):.2f} at the median and "
        f"{below.max():.2f} at most (domain “{cut(str(report.domain_names[worst]), LONGEST_NAME)}”).",
    ]
    if not report.is_coverage:
        by_label = (report.recall < report.judged_by.targets).sum(axis=0)
        most = [k for k in np.argsort(-by_label, kind="stable").tolist() if by_label[k]][:MOST_LABELS]
        named = [f"“{cut(str(report.label_names[k]), LONGEST_NAME)}” in {by_label[k]}" for k in most]
        more = " …" if np.count_nonzero(by_label) > len(most) else ""
        lines.append(f"Labels below their target, in how many domains: {', '.join(named)}{more}.")
    if p_values is not None:
        flagged = p_values <= level
        told = f"No domain was flagged as unlike those that calibrated (p ≤ {level:.2g}): unlabelled rows did not tell"
        if flagged.any():
            too = " too" if (missed & ~flagged).any() else ""
            told = (
                f"{(missed & flagged).sum()} of {flagged.sum()} flagged domains (p ≤ {level:.2g}) missed, "
                f"{(missed & ~flagged).sum()} of {(~flagged).sum()} unflagged{too}"
            )
        lines.append(f"{told}; that a domain is not flagged does not make it safe.")
    return lines
