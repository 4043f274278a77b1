"""SET-COVER's relaxed problem for one label and a linear scorer, solved exactly: it is a linear programme.

Minimise the mean over all examples of relu(1 + score), so that in every domain the mean over its own examples of
relu(1 − score) is at most γ. The Lagrangian adds Σ_e C_e · (that mean − γ) with C ≥ 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_array, csr_array, eye_array


class Solution(NamedTuple):
    value: float
    scorer: np.ndarray  # weights, then the intercept
    multipliers: np.ndarray


@dataclass(frozen=True)
class RelaxedProblem:
    x: np.ndarray  # all examples, whatever their label
    own: np.ndarray  # which of them have the label
    domain: np.ndarray
    gamma: float

    @property
    def n_domains(self) -> int:
        return int(self.domain.max()) + 1

    @property
    def averages(self) -> np.ndarray:
        """Domains × own examples: what takes the mean over a domain's own examples."""
        member = self.domain[self.own] == np.arange(self.n_domains)[:, None]
        return member / member.sum(axis=1, keepdims=True)

    def slack(self, scorer: np.ndarray) -> np.ndarray:
        """Mean of relu(1 − score) by domain, less γ: the constraints, and the slope of the dual."""
        scores = self.x[self.own] @ scorer[:-1] + scorer[-1]
        return self.averages @ np.maximum(0, 1 - scores) - self.gamma

    def primal(self) -> Solution:
        """Variables: scorer, ξ of every example, ζ of every own example."""
        a, b, cost = self._hinges()
        means = csr_array((self.averages.shape[0], a.shape[1] - self.averages.shape[1]))
        constrained = block_array([[a], [block_array([[means, csr_array(self.averages)]])]])
        found = self._solve(cost, constrained, np.append(b, np.full(self.n_domains, self.gamma)))
        return Solution(found.fun, found.x[: self.n_weights], -found.ineqlin.marginals[-self.n_domains :])

    def least_lagrangian(self, multipliers: np.ndarray) -> Solution:
        """The dual's value: the minimum over scorers at fixed multipliers."""
        a, b, cost = self._hinges()
        cost[-self.averages.shape[1] :] = multipliers @ self.averages
        found = self._solve(cost, a, b)
        return Solution(found.fun - self.gamma * multipliers.sum(), found.x[: self.n_weights], multipliers)

    def best_dual(self, most: float = 1e4, tolerance: float = 1e-9) -> Solution:
        """Maximise the dual by cutting planes (Kelley 1960): finitely many, since it is piecewise linear."""
        cuts, limits = [], []
        best = self.least_lagrangian(np.zeros(self.n_domains))
        trial = best
        for _ in range(500):
            slope = self.slack(trial.scorer)
            cuts.append(np.append(-slope, 1))
            limits.append(trial.value - slope @ trial.multipliers)
            bounds = [(0, most)] * self.n_domains + [(None, None)]
            above = linprog(np.append(np.zeros(self.n_domains), -1), np.array(cuts), np.array(limits), bounds=bounds)
            trial = self.least_lagrangian(above.x[:-1])
            best = max(best, trial, key=lambda solution: solution.value)
            if -above.fun - best.value < tolerance:
                return best
        raise ArithmeticError("the cutting planes did not meet the dual")

    @property
    def n_weights(self) -> int:
        return self.x.shape[1] + 1

    def _hinges(self):
        """ξ ≥ 1 + score for all examples and ζ ≥ 1 − score for own ones, both ≥ 0; cost of the mean of ξ."""
        with_one = np.column_stack([self.x, np.ones(len(self.x))])
        n, n_own = len(self.x), int(self.own.sum())
        a = block_array([[with_one, -eye_array(n), None], [-with_one[self.own], None, -eye_array(n_own)]])
        cost = np.concatenate([np.zeros(self.n_weights), np.full(n, 1 / n), np.zeros(n_own)])
        return a, np.full(n + n_own, -1.0), cost

    def _solve(self, cost, a, b):
        free = [(None, None)] * self.n_weights + [(0, None)] * (len(cost) - self.n_weights)
        found = linprog(cost, a, b, bounds=free)
        if not found.success:
            raise ArithmeticError(found.message)
        return found
