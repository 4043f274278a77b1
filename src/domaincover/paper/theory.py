"""Simulate the learnability theorem: linear SET-COVER trained on m Gaussian domains, evaluated exactly on new ones.

Training uses examples; recall, set size and share below target of a linear set predictor in conditionally Gaussian
domains have a closed form. Two predictors are evaluated: the trained one, and the same weights with intercepts shifted
such that the worst training domain is exactly at target, which gives the smallest sets that the theorem covers.

Bounds on the share of new domains that miss the target, whatever the predictor and the distribution of domains.

docs/theory.md derives them, with D the VC dimension of one label's events (features + 1 for linear scorers in
conditionally Gaussian domains), L labels and m training domains. Growth: Π(n) ≤ min(2ⁿ, (Σ_{k ≤ D} C(n, k))^L).
`uniform`: 4·Π(2m)·exp(−m·ε²/8) (Anthony and Bartlett 1999, theorem 4.3), for all predictors at once. `no_failure`:
2·Π(2m)·2^(−m·ε/2) (Devroye, Györfi and Lugosi 1996, theorem 12.7), for those at target in every training domain.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from domaincover.criteria import check_target_recall
from domaincover.data.synthetic import GaussianDomains
from domaincover.errors import InputError
from domaincover.files import plain_json, write_whole
from domaincover.paper.published import QUICK_MARK
from domaincover.paper.run_directory import check_made_with
from domaincover.paper.study_report.style import KNOWN_METHODS
from domaincover.report.charts import INK, Spec, chart_config, layer, rows_for_json
from domaincover.report.readable import sentence
from domaincover.terminal.processes import one_thread

FILE = "theory.json"
ROW_NUMBERS = (
    *("n_domains", "seed"),
    *("share_missing_training", "share_missing_new", "worst_training_recall", "mean_set_size"),
)
FORMAT = 1
LARGEST = 1e15  # of numbers in a file
ROUNDING = 1e-12  # tolerance for recalls exactly at target
N_LABELS = 2  # of the paper's Gaussian domains
DELTA = 0.05
MOST_DOMAINS = 100_000  # how far the bounds are drawn
# The name, colour and dashes of each line.
LINES: dict[str, tuple[str, str, list[int]]] = {
    "trained": ("SET-COVER as trained", KNOWN_METHODS["set-cover"].color, []),
    "at-target": ("the same weights with the smallest sets at target in training", KNOWN_METHODS["erm"].color, []),
    "uniform": ("bound for all predictors", "#a0a2a4", [6, 4]),
    "consistent": ("bound for those at target in all training domains", "#747677", [6, 4]),
}
MARKS_IN_WORDS = [
    "Points: seeds, hollow where a training domain is below the target; lines: medians. Recall is exact.",
    f"The bounds hold with probability {1 - DELTA:g}; up to some hundred domains they say nothing (100 %).",
]
GRAIN = 0.0005  # one of 2,000 domains: below it the axis is straight, so that "none" has a place
HEADS = "training domains   as trained   exactly at target   bound   seeds at target in training, as trained"


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
    settings: TheorySettings, domain_counts: Sequence[int], out: Path, say: Callable[[str], object] = lambda _: None
) -> dict[str, Any]:
    """Run the domain counts missing in the directory's `theory.json`, write it after each, and return its content."""
    from domaincover.paper.job import versions

    path = out / FILE
    content: dict[str, Any] = {
        "domaincover_theory": FORMAT,
        "settings": asdict(settings),
        "versions": versions(),
        "rows": [],
    }
    if path.exists():
        content = _read(path)
        check_made_with(asdict(TheorySettings(**content["settings"])), asdict(settings), path)
    done = {row["n_domains"] for row in content["rows"]}
    for place, count in enumerate(count for count in domain_counts if count not in done):
        if place == 0:
            _write(path, content)  # detects a read-only directory before training
        rows = content["rows"] + trial(settings, count)
        content["rows"] = sorted(rows, key=lambda row: (row["n_domains"], row["seed"], row["predictor"]))
        _write(path, content)
        say(f"Theory: trained on {count} domains.")
    return content


def read_theory(out: Path) -> dict[str, Any] | None:
    """Return the content of a directory's `theory.json`, None if there is none."""
    path = out / FILE
    return content if path.exists() and (content := _read(path))["rows"] else None


def trial(settings: TheorySettings, n_domains: int) -> list[dict[str, Any]]:
    """Train on the given number of domains, with all seeds in one stack; return two rows per seed."""
    source = GaussianDomains.of_paper(settings.n_features)
    for_seeds = [np.random.SeedSequence(seed, spawn_key=(n_domains,)).spawn(4) for seed in range(settings.n_seeds)]
    rngs = [[np.random.default_rng(sequence) for sequence in sequences] for sequences in for_seeds]
    positions = [source.positions(n_domains, rng[0]) for rng in rngs]
    weights, intercepts = _trained(settings, source, positions, rngs)
    rows = []
    for seed, (w, b, place, rng) in enumerate(zip(weights, intercepts, positions, rngs, strict=True)):
        places = place, source.positions(settings.n_new_domains, rng[3])
        seen, new = (source.means(where) for where in places)
        lowest = intercepts_at_target(seen, source.deviation, w, settings.target_recall)
        for predictor, chosen in (("trained", b), ("at-target", lowest)):
            in_seen, in_new = (recalls(means, source.deviation, w, chosen) for means in (seen, new))
            worst_seen, worst_new = (held.diagonal().min(axis=1) for held in (in_seen, in_new))  # over labels
            least = settings.target_recall - ROUNDING
            found = {
                "share_missing_training": np.mean(worst_seen < least),
                "share_missing_new": np.mean(worst_new < least),
                "worst_training_recall": worst_seen.min(),
                "mean_set_size": in_new.sum(axis=0).mean(),
            }
            numbers = {name: float(value) for name, value in found.items()}
            rows.append({"n_domains": n_domains, "seed": seed, "predictor": predictor} | numbers)
    return rows


def recalls(
    means: NDArray[np.float64], deviation: float, weights: NDArray[np.float64], intercepts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the share of examples whose sets hold each label: label of the set × label of the example × domain.

    `means` are those of Gaussians with one deviation in all directions, domains × labels × features; a label is in the
    set where its score, weights · x + intercept, is not negative.
    """
    centres = np.einsum("kd,eld->kle", weights, means) + intercepts[:, None, None]
    spreads = deviation * np.linalg.norm(weights, axis=1)[:, None, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        # with zero weights, the label is in all sets or in none
        return np.where(spreads > 0, ndtr(centres / spreads), np.where(centres >= 0, 1.0, 0.0))


def intercepts_at_target(
    means: NDArray[np.float64], deviation: float, weights: NDArray[np.float64], target_recall: float
) -> NDArray[np.float64]:
    """Return the lowest intercepts (smallest sets) at which every label is at target in all domains."""
    margins = ndtri(target_recall) * deviation * np.linalg.norm(weights, axis=1) - np.einsum(
        "kd,ekd->ek", weights, means
    )
    return np.asarray(margins.max(axis=0))


def _trained(
    settings: TheorySettings,
    source: GaussianDomains,
    positions: Sequence[NDArray[np.float64]],
    rngs: Sequence[Sequence[np.random.Generator]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from domaincover.estimators.network_classifiers import SetCoverClassifier
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


def _write(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, (json.dumps(content, indent=1) + "\n").encode())


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a file; raise if it is not of this format."""
    try:
        content: dict[str, Any] = plain_json(path.read_text(encoding="utf-8"))
        settings = asdict(TheorySettings(**content["settings"]))
        numbers = [value for name, value in settings.items() if name != "quick"]
        for row in content["rows"]:
            if set(row) != {*ROW_NUMBERS, "predictor"}:
                raise ValueError("a row has other columns")
            numbers += [row[name] for name in ROW_NUMBERS]
        is_ours = content["domaincover_theory"] == FORMAT and type(settings["quick"]) is bool
        is_ours &= all(type(value) in (int, float) and -LARGEST <= value <= LARGEST for value in numbers)
    except (OSError, ValueError, KeyError, TypeError):
        is_ours = False
    if not is_ours:
        raise InputError(f"{path} is not a result of `domaincover paper theory`; choose another directory.")
    return content


def log_growth(n: int, dimension: int, n_labels: int = 1) -> float:
    """Return the logarithm of a bound on the number of subsets of n domains that set predictors can be at target in.

    >>> log_growth(5, dimension=5) == 5 * math.log(2)
    True
    >>> round(math.exp(log_growth(10, dimension=2)))  # 1 + 10 + 45, as many as intervals cut out of ten points
    56
    """
    if dimension < 1 or n_labels < 1:
        raise InputError(f"dimension and n_labels must be at least 1, got {dimension} and {n_labels}.")
    every_subset = n * math.log(2)
    if n <= dimension:
        return every_subset
    k = np.arange(1, dimension + 1)
    log_binomials = np.cumsum(np.log((n - k + 1) / k))
    of_label = float(np.logaddexp.reduce(log_binomials, initial=0.0))  # 0.0: the empty subset, k = 0
    return min(n_labels * of_label, every_subset)


def uniform_bound(n_domains: int, dimension: int, n_labels: int = 1, delta: float = 0.05) -> float:
    """Bound the gap between the shares of training and of new domains that miss the target, for all predictors at once.

    It holds with probability 1 − δ over the training domains. At most 1, which says nothing.

    >>> uniform_bound(100, dimension=11, n_labels=2), round(uniform_bound(10_000, dimension=11, n_labels=2), 3)
    (1.0, 0.387)
    """
    exponent = math.log(4 / delta) + log_growth(2 * _checked(n_domains, delta), dimension, n_labels)
    return min(1.0, math.sqrt(8 * exponent / n_domains))


def no_failure_bound(n_domains: int, dimension: int, n_labels: int = 1, delta: float = 0.05) -> float:
    """Bound the share of new domains that miss the target, for all predictors at target in every training domain.

    It holds with probability 1 − δ over the training domains. At most 1, which says nothing.

    >>> round(no_failure_bound(1000, dimension=11, n_labels=2), 3)
    0.392
    """
    exponent = math.log(2 / delta) + log_growth(2 * _checked(n_domains, delta), dimension, n_labels)
    return min(1.0, 2 * exponent / (n_domains * math.log(2)))


def _checked(n_domains: int, delta: float) -> int:
    if n_domains < 1:
        raise InputError(f"n_domains must be at least 1, got {n_domains}.")
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, got {delta:g}.")
    return n_domains


def theory_notes(content: Mapping[str, Any]) -> list[str]:
    """Return what must be said wherever these results stand: whether they are of a quick run."""
    return [QUICK_MARK] if content["settings"].get("quick") else []


class LearnabilityData(NamedTuple):
    """Shares of new domains that miss the target by seed, their medians, and the bounds."""

    seeds: pd.DataFrame
    medians: pd.DataFrame
    bounds: pd.DataFrame


def learnability_data(content: Mapping[str, Any]) -> LearnabilityData:
    """Return the chart's data from `theory.json`; "line" names the predictor or bound."""
    seeds = pd.DataFrame(content["rows"]).rename(columns={"predictor": "line"})
    medians = seeds.groupby(["line", "n_domains"])["share_missing_new"].median().reset_index()
    dimension = content["settings"]["n_features"] + 1
    counts = np.unique(np.geomspace(seeds["n_domains"].min(), MOST_DOMAINS, 120).round().astype(int)).tolist()
    rows = [
        {"line": name, "n_domains": count, "share_missing_new": bound(count, dimension, N_LABELS, DELTA)}
        for name, bound in (("uniform", uniform_bound), ("consistent", no_failure_bound))
        for count in counts
    ]
    return LearnabilityData(seeds, medians, pd.DataFrame(rows))


def learnability_table(content: Mapping[str, Any]) -> str:
    """Return the same as a small table: medians over seeds, and how many seeds the theorem covers as trained."""
    data = learnability_data(content)
    dimension = content["settings"]["n_features"] + 1
    by_count = data.medians.pivot(index="n_domains", columns="line", values="share_missing_new")
    trained = data.seeds[data.seeds["line"] == "trained"].groupby("n_domains")["share_missing_training"]
    lines = [
        *map(sentence, theory_notes(content)),
        f"New domains that miss the target (median of {content['settings']['n_seeds']} seeds)",
        HEADS,
    ]
    for count, shares in by_count.iterrows():
        n_covered = int((trained.get_group(count) == 0).sum())
        bound = no_failure_bound(int(str(count)), dimension, N_LABELS, DELTA)
        lines.append(
            f"{count:>16}   {shares['trained']:>10.1%}   {shares['at-target']:>17.1%}   {bound:>5.0%}   "
            f"{n_covered} of {trained.get_group(count).size}"
        )
    return "\n".join(lines)


def theory_figure(content: Mapping[str, Any]) -> Spec:
    """Return the chart of the share of new domains that miss the target against the number of training domains."""
    data = learnability_data(content)
    title = f"New domains below the target recall of {content['settings']['target_recall']:g}"
    labels, colors, dashes = zip(*LINES.values(), strict=True)
    legend = {"orient": "bottom", "columns": 2, "title": None, "symbolType": "stroke", "symbolSize": 400}
    look = {"type": "nominal", "field": "label", "legend": legend | {"symbolStrokeWidth": 2}}
    color = look | {"scale": {"domain": labels, "range": colors}}
    dash = look | {"scale": {"domain": labels, "range": dashes}}
    is_covered = {"test": "datum.share_missing_training == 0", "value": 0.5}
    tables = {"seeds": data.seeds, "lines": pd.concat([data.bounds, data.medians])}
    filled = {"stroke": color, "fill": color, "fillOpacity": {"condition": is_covered, "value": 0}}
    layers = [
        layer("lines", {"type": "line", "strokeWidth": 2}, **_axes(data), color=color, strokeDash=dash),
        layer("seeds", {"type": "point", "size": 36, "strokeWidth": 1.2}, **_axes(data), **filled),
    ]
    return {
        "datasets": {
            name: rows_for_json(table.assign(label=[LINES[line][0] for line in table["line"]]))
            for name, table in tables.items()
        },
        "title": {"text": title, "subtitle": [*map(sentence, theory_notes(content)), *MARKS_IN_WORDS]},
        "layer": layers,
        "width": 640,
        "height": 360,
        "config": chart_config(INK),
    }


def _axes(data: LearnabilityData) -> Spec:
    domains = {"type": "log", "domain": [0.85 * int(data.seeds["n_domains"].min()), MOST_DOMAINS], "nice": False}
    ticks = {"values": [1, 2, 5, 10, 25, 50, 100, 1000, 10_000, 100_000], "format": ",d", "tickCount": 30}
    shares = {"type": "symlog", "constant": GRAIN, "domain": [0, 1], "nice": False}
    named = {"values": [0, 0.001, 0.01, 0.1, 1], "labelExpr": "datum.value == 0 ? 'none' : format(datum.value, '~%')"}
    x = {"field": "n_domains", "title": "Training domains", "scale": domains, "axis": ticks | {"grid": False}}
    y = {"field": "share_missing_new", "title": "New domains that miss the target", "scale": shares, "axis": named}
    return {"x": x | {"type": "quantitative"}, "y": y | {"type": "quantitative"}}
