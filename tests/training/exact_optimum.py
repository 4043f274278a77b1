"""The smallest prediction sets that meet given recalls on the paper's Gaussian domains, found exactly.

With a shared covariance σ²I the examples differ between labels and domains along two directions only, `mean` and
`direction`; given these two coordinates the rest is noise that no set can use. On this plane, in units of σ, label 0 is
N((0, 0), I) and label 1 of a domain at Z is N((|mean|/σ, Z·|direction|/σ), I). A set rule is, for each label, a
probability of inclusion at every point; size and recalls are linear in it, and the labels do not meet in any
constraint, so the smallest sets are two linear programmes.

The plane is cut into cells with one inclusion probability each, which can only make the optimum larger; recalls are
asked for at a grid of Z, which can only make it smaller. Both errors fall with the square of the step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array
from scipy.stats import norm

from domaincover.data.synthetic import GaussianDomains

REACH = 5.0  # in σ: farther out the cells go on to infinity; 3e-7 of a normal lies beyond on either side
NEGLIGIBLE = 1e-9  # smaller probabilities are left out: ten thousand cells of them hold less than HIGHEST leaves
HIGHEST = 1 - 1e-5  # a recall that comes nearer to 1 than this is asked for as this
SCALE = 1000  # lifts the coefficients that are kept well above 1e-9, below which HiGHS takes them for 0


class Plane(NamedTuple):
    """The two coordinates of label 1's mean in units of σ, at every position Z of the grid."""

    along_mean: float
    along_direction: np.ndarray


@dataclass(frozen=True)
class Optimum:
    """Size and label recalls of the smallest sets at every position Z of the grid."""

    positions: np.ndarray
    size: np.ndarray
    recall_0: float
    recall_1: np.ndarray

    @property
    def mean_size(self) -> float:
        return float(self.size.mean())

    @property
    def median_size(self) -> float:
        return float(np.median(self.size))


def positions_of(source: GaussianDomains, n_positions: int) -> np.ndarray:
    """Return the midpoints of equal parts of [low, high], so that their mean and median are those of U[low, high],
    and the two ends, which have no weight in either but a recall to keep.
    """
    midpoints = (np.arange(n_positions) + 0.5) / n_positions
    return source.low + (source.high - source.low) * np.concatenate([[0], midpoints, [1]])


def smallest_sets(
    source: GaussianDomains, recall_0: float, recall_1: float | np.ndarray, n_positions: int = 20, step: float = 0.2
) -> Optimum:
    """Minimise the mean size over domains, with `recall_0` for label 0 and `recall_1` for label 1 at every position."""
    positions = positions_of(source, n_positions)
    plane = _plane(source, positions)
    of_0, of_1 = _cell_probabilities(plane, step)
    mean_of_1 = of_1[1:-1].mean(axis=0)
    cost = (of_0 + mean_of_1) / 2  # both labels are equally frequent
    with_0 = _cheapest_inclusion(cost, of_0[None], np.array([recall_0]))
    with_1 = _cheapest_inclusion(cost, of_1, np.broadcast_to(recall_1, len(positions)))
    size = (of_0 @ (with_0 + with_1) + of_1[1:-1] @ (with_0 + with_1)) / 2
    return Optimum(positions[1:-1], size, float(of_0 @ with_0), of_1 @ with_1)


def _plane(source: GaussianDomains, positions: np.ndarray) -> Plane:
    mean, direction = np.asarray(source.mean), np.asarray(source.direction)
    if source.covariance != "shared" or abs(mean @ direction) > 1e-12:
        raise ValueError("only two orthogonal directions matter under a shared covariance; this source is another one")
    along_mean, along_direction = (np.linalg.norm(v) / source.deviation for v in (mean, direction))
    return Plane(float(along_mean), positions * along_direction)


def _cell_probabilities(plane: Plane, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability of every cell under label 0, and under label 1 at every position."""
    across = _edges(0, plane.along_mean, step)
    along = _edges(plane.along_direction.min(), plane.along_direction.max(), step)
    of_0 = np.outer(_between(across, 0), _between(along, 0)).ravel()
    u = _between(across, plane.along_mean)
    of_1 = np.array([np.outer(u, _between(along, centre)).ravel() for centre in plane.along_direction])
    return of_0, of_1


def _edges(lowest: float, highest: float, step: float) -> np.ndarray:
    n = int(np.ceil((highest - lowest + 2 * REACH) / step))
    inner = np.linspace(lowest - REACH, highest + REACH, n + 1)
    return np.concatenate([[-np.inf], inner, [np.inf]])


def _between(edges: np.ndarray, centre: float) -> np.ndarray:
    """Return the probability that N(centre, 1) falls between neighbouring edges."""
    return np.diff(norm.cdf(edges - centre))


def _cheapest_inclusion(cost: np.ndarray, probabilities: np.ndarray, recalls: np.ndarray) -> np.ndarray:
    """Return the inclusion probability of every cell: least cost, and the asked recall under each distribution."""
    kept = csr_array(np.where(probabilities > NEGLIGIBLE, SCALE * probabilities, 0))
    asked = SCALE * np.minimum(recalls, HIGHEST)
    without_presolve = {"presolve": False}  # it now and then loses its way among so many tiny coefficients
    found = linprog(SCALE * cost, A_ub=-kept, b_ub=-asked, bounds=(0, 1), method="highs-ds", options=without_presolve)
    if not found.success:
        raise ArithmeticError(f"the linear programme was not solved: {found.message}")
    return found.x
