"""Simulate the learnability theorem: linear SET-COVER trained on m Gaussian domains, evaluated exactly on new ones.

Training uses examples; everything else is in closed form. Two predictors are evaluated: the trained one, and the same
weights with intercepts shifted such that the worst training domain is exactly at target, which gives the smallest sets
that the theorem covers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.data.synthetic import GaussianDomains
from domaincover.errors import InputError
from domaincover.files import plain_json, write_whole
from domaincover.networks.threads import one_thread
from domaincover.paper.run_directory import check_made_with
from domaincover.paper.theory.gaussian import GaussianCells, intercepts_at_target, mean_size, min_recall, share_missing
from domaincover.prediction_sets import check_target_recall

FILE = "theory.json"
ROW_COUNTS = ("n_domains", "seed")
ROW_NUMBERS = ("share_missing_training", "share_missing_new", "worst_training_recall", "mean_set_size")
FORMAT = 1
LARGEST = 1e15  # of numbers in a file


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
    if not path.exists():
        return None
    content = _content(path)
    return content if content["rows"] else None


def trial(settings: TheorySettings, n_domains: int) -> list[dict[str, Any]]:
    """Train on the given number of domains, with all seeds in one stack; return two rows per seed."""
    if n_domains < 1:
        raise InputError(f"the number of training domains must be at least 1, got {n_domains}.")
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
