"""Simulate the learnability theorem: linear SET-COVER trained on m Gaussian domains, evaluated exactly on new ones.

Training uses examples; recall, set size and share below target of a linear set predictor in conditionally Gaussian
domains have a closed form. Two predictors are evaluated: the trained one, and the same weights with intercepts shifted
such that the worst training domain is exactly at target, which gives the smallest sets that the theorem covers. The
bounds are in `domaincover.paper.learning_bounds`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from domaincover.data.synthetic import GaussianDomains
from domaincover.errors import InputError
from domaincover.files import plain_json, write_whole
from domaincover.networks.threads import one_thread
from domaincover.paper.run_directory import check_made_with
from domaincover.prediction_sets import check_target_recall

FILE = "theory.json"
ROW_COUNTS = ("n_domains", "seed")
ROW_NUMBERS = ("share_missing_training", "share_missing_new", "worst_training_recall", "mean_set_size")
FORMAT = 1
LARGEST = 1e15  # of numbers in a file
ROUNDING = 1e-12  # tolerance for recalls exactly at target


@dataclass(frozen=True)
class TheorySettings:
    """The settings that are the same for every number of domains."""

    n_features: int = 10
    n_seeds: int = 5
    target_recall: float = 0.9
    n_new_domains: int = 2_000
    rows_per_domain: int = 1_000
    batch_size: int = 512
    steps: int = 3_000
    learning_rate: float = 0.01
    quick: bool = False  # a smoke run

    def __post_init__(self) -> None:
        check_target_recall(self.target_recall)
        for name in ("n_seeds", "n_new_domains", "rows_per_domain", "batch_size", "steps"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}.")


def run_theory(
    settings: TheorySettings,
    domain_counts: Sequence[int],
    out: Path,
    on_count: Callable[[int], object] = lambda _: None,
) -> dict[str, Any]:
    """Run the domain counts missing in the directory's `theory.json`, write it after each, and return its content."""
    path = out / FILE
    content = _finished(path, settings)
    done = {row["n_domains"] for row in content["rows"]}
    missing = [count for count in domain_counts if count not in done]
    if missing:
        _write(path, content)  # detects a read-only directory before training
    for count in missing:
        rows = content["rows"] + trial(settings, count)
        content["rows"] = sorted(rows, key=lambda row: (row["n_domains"], row["seed"], row["predictor"]))
        _write(path, content)
        on_count(count)
    return content


def read_theory(out: Path) -> dict[str, Any] | None:
    """Return the content of a directory's `theory.json`, None if there is none."""
    path = out / FILE
    return content if path.exists() and (content := _content(path))["rows"] else None


def trial(settings: TheorySettings, n_domains: int) -> list[dict[str, Any]]:
    """Train on the given number of domains, with all seeds in one stack; return two rows per seed."""
    source = GaussianDomains.of_paper(settings.n_features)
    for_seeds = [np.random.SeedSequence(seed, spawn_key=(n_domains,)).spawn(4) for seed in range(settings.n_seeds)]
    rngs = [[np.random.default_rng(sequence) for sequence in sequences] for sequences in for_seeds]
    positions = [source.positions(n_domains, rng[0]) for rng in rngs]
    weights, intercepts = _trained(settings, source, positions, rngs)
    rows = []
    for seed, (w, b, place, rng) in enumerate(zip(weights, intercepts, positions, rngs, strict=True)):
        seen = cells_at(source, place)
        new = cells_at(source, source.positions(settings.n_new_domains, rng[3]))
        lowest = intercepts_at_target(seen, w, settings.target_recall)
        for predictor, chosen in (("trained", b), ("at-target", lowest)):
            found = _judged(seen, new, w, chosen, settings.target_recall)
            rows.append({"n_domains": n_domains, "seed": seed, "predictor": predictor} | found)
    return rows


@dataclass(frozen=True, eq=False)
class GaussianCells:
    """The Gaussians of one label in n domains: means (n × d), standard deviations (n) and a common covariance (d × d).

    In the paper's notation, a deviation is √σ_e.
    """

    means: NDArray[np.float64]
    deviations: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @classmethod
    def of(cls, means: ArrayLike, deviations: ArrayLike = 1.0, covariance: ArrayLike | None = None) -> GaussianCells:
        """Broadcast: one deviation applies to all domains, and the default covariance is the identity."""
        centres = np.asarray(means, dtype=float)
        n_domains, n_features = centres.shape
        shared = np.eye(n_features) if covariance is None else np.asarray(covariance, dtype=float)
        return cls(centres, np.broadcast_to(np.asarray(deviations, dtype=float), n_domains).copy(), shared)

    def recall(self, weights: ArrayLike, intercept: ArrayLike = 0.0) -> NDArray[np.float64]:
        """Return the recall of scorers in every domain: weights (…, d) and intercepts (…) to (…, n).

        >>> GaussianCells.of([[0.0], [1.6449]]).recall([1.0]).round(3)
        array([0.5 , 0.95])
        """
        w, b = np.asarray(weights, dtype=float), np.asarray(intercept, dtype=float)
        centre = w @ self.means.T + b[..., None]
        spread = self.norm(w)[..., None] * self.deviations
        with np.errstate(divide="ignore", invalid="ignore"):
            # with zero weights, the label is in all sets or in none
            return np.where(spread > 0, ndtr(centre / spread), np.where(centre >= 0, 1.0, 0.0))

    def norm(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the standard deviation of weights · x in a domain of deviation 1."""
        return np.sqrt(np.einsum("...i,ij,...j->...", weights, self.covariance, weights))


def min_recall(
    cells: Sequence[GaussianCells], weights: NDArray[np.float64], intercepts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the min recall of linear set predictors in every domain, in closed form.

    `cells` has the Gaussians of each label; weights are (…, labels, features), intercepts (…, labels).
    """
    by_label = [cell.recall(weights[..., y, :], intercepts[..., y]) for y, cell in enumerate(cells)]
    return np.min(by_label, axis=0)


def mean_size(
    cells: Sequence[GaussianCells], weights: NDArray[np.float64], intercepts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean set size in every domain for equally frequent labels, in closed form."""
    held = [[cell.recall(weights[..., y, :], intercepts[..., y]) for y in range(len(cells))] for cell in cells]
    return np.sum(held, axis=(0, 1)) / len(cells)


def share_missing(min_recalls: NDArray[np.float64], target_recall: float) -> NDArray[np.float64]:
    """Return the share of domains (the last axis) whose min recall is below the target."""
    return np.mean(min_recalls < check_target_recall(target_recall) - ROUNDING, axis=-1)


def intercepts_at_target(
    cells: Sequence[GaussianCells], weights: NDArray[np.float64], target_recall: float
) -> NDArray[np.float64]:
    """Return the lowest intercepts (smallest sets) at which every label is at target in all domains."""
    z = ndtri(check_target_recall(target_recall))
    needed = [
        np.max(z * cell.norm(weights[..., y, :])[..., None] * cell.deviations - weights[..., y, :] @ cell.means.T, -1)
        for y, cell in enumerate(cells)
    ]
    return np.stack(needed, axis=-1)


def cells_at(source: GaussianDomains, positions: NDArray[np.float64]) -> list[GaussianCells]:
    """Return the Gaussians of both labels in domains at the given positions."""
    means = source.means(positions)
    return [GaussianCells.of(means[:, label], source.deviation) for label in range(means.shape[1])]


def _trained(
    settings: TheorySettings,
    source: GaussianDomains,
    positions: Sequence[NDArray[np.float64]],
    rngs: Sequence[Sequence[np.random.Generator]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from domaincover.estimators.set_cover import SetCoverClassifier
    from domaincover.estimators.stacked_fit import fit_together

    with one_thread():  # once torch is loaded
        data = [
            source.sample_at(place, settings.rows_per_domain, rng[1])
            for place, rng in zip(positions, rngs, strict=True)
        ]
        n_batches = math.ceil(len(data[0]) / settings.batch_size)
        models = [
            SetCoverClassifier(
                settings.target_recall,
                network="linear",
                epochs=max(1, round(settings.steps / n_batches)),
                batch_size=settings.batch_size,
                learning_rate=settings.learning_rate,
                update_every=max(1, settings.steps // 60),
                recall_from="full-pass",
                initial_multiplier=5.0,
                min_cell_size=1,
                standardize=False,
                validation_domains=0,
                random_state=int(rng[2].integers(2**31)),
            )
            for rng in rngs
        ]
        list(fit_together(models, [(part.examples, part.labels, part.domains) for part in data], as_if_alone=True))
    layers: list[Any] = [model.network_[0] for model in models]
    return (
        np.array([layer.weight.detach().double().numpy() for layer in layers]),
        np.array([layer.bias.detach().double().numpy() for layer in layers]),
    )


def _judged(
    seen: Sequence[GaussianCells],
    new: Sequence[GaussianCells],
    weights: NDArray[np.float64],
    intercepts: NDArray[np.float64],
    target_recall: float,
) -> dict[str, float]:
    in_training = min_recall(seen, weights, intercepts)
    return {
        "share_missing_training": float(share_missing(in_training, target_recall)),
        "share_missing_new": float(share_missing(min_recall(new, weights, intercepts), target_recall)),
        "worst_training_recall": float(in_training.min()),
        "mean_set_size": float(mean_size(new, weights, intercepts).mean()),
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, (json.dumps(content, indent=1) + "\n").encode())


def _finished(path: Path, settings: TheorySettings) -> dict[str, Any]:
    """Return the results of an earlier run, if any; raise if it used other settings."""
    from domaincover.paper.job import versions

    fresh = {"domaincover_theory": FORMAT, "settings": asdict(settings), "versions": versions(), "rows": []}
    if not path.exists():
        return fresh
    content = _content(path)
    check_made_with(asdict(TheorySettings(**content["settings"])), asdict(settings), path)
    return content


def _is_row(row: Any) -> bool:
    numbers = (*ROW_COUNTS, *ROW_NUMBERS)
    return set(row) == {*numbers, "predictor"} and all(_is_number(row[name]) for name in numbers)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST


def _content(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = plain_json(path.read_text(encoding="utf-8"))
        settings = TheorySettings(**content["settings"])
        rows_ok = all(_is_row(row) for row in content["rows"])
        numbers = [getattr(settings, field.name) for field in fields(settings) if field.name != "quick"]
        is_ours = content["domaincover_theory"] == FORMAT and rows_ok and all(map(_is_number, numbers))
        is_ours = is_ours and type(settings.quick) is bool
    except (OSError, ValueError, KeyError, TypeError):
        is_ours = False
    if not is_ours:
        raise InputError(f"{path} is not a result of `domaincover paper theory`; choose another directory.")
    return content
