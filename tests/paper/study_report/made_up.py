"""Made-up results in the shape every report takes."""

import numpy as np
import pandas as pd
from scipy.stats import t

from domaincover.paper.collect import RESULT_COLUMNS

METHODS = {
    "erm": (0.885, 1.0),
    "pooled-train": (0.87, 1.01),
    "pooled-held-out": (0.872, 1.035),
    "robust": (0.946, 1.242),
    "set-cover": (0.943, 1.231),
}
SPLITS = ("train", "seen", "unseen")
SCRIPT = "</script><script>alert(1)</script>"
HOSTILE = f"{SCRIPT}<img src=x onerror=alert(1)>\"'\u2028"


def random_domains(
    rng: np.random.Generator,
    datasets: tuple[str, ...] = ("synthetic-10", "synthetic-10-random"),
    methods: dict[str, tuple[float, float]] = METHODS,
    labels: tuple[str, ...] = ("left", "middle", "right"),
    n_seeds: int = 2,
    n_domains: int = 6,
    target_recall: float = 0.9,
    domain_name: str = "domain",
) -> pd.DataFrame:
    rows = []
    for dataset in datasets:
        for method, (recall, size) in methods.items():
            for split in SPLITS:
                for seed in range(n_seeds):
                    for domain in range(n_domains):
                        recalls = np.clip(rng.normal(recall + 0.02, 0.025, len(labels)), 0.3, 1.0)
                        rows.append(
                            {
                                "dataset": dataset,
                                "method": method,
                                "target_recall": target_recall,
                                "split": split,
                                "seed": seed,
                                "domain": f"{domain_name} {domain}",
                                "n": 1000,
                                "min_recall": recalls.min(),
                                "set_size": 1.0 if method == "erm" else rng.normal(size, 0.03),
                                "empty_rate": 0.0,
                                "single_rate": 0.8,
                                "n_labels": len(labels),
                                "recall": dict(zip(labels, recalls.tolist(), strict=True)),
                            }
                        )
    return pd.DataFrame(rows)


def results_of(domains: pd.DataFrame) -> pd.DataFrame:
    """Reduce single domains to one row per data set, method, target and split, as the experiments do."""
    keys = ["dataset", "method", "target_recall", "split"]
    by_seed = domains.assign(at_target=domains["min_recall"] >= domains["target_recall"]).groupby([*keys, "seed"])
    seeds = pd.DataFrame(
        {
            "n_domains": by_seed.size(),
            "min_recall": by_seed["min_recall"].median(),
            "set_size": by_seed["set_size"].median(),
            "share_at_target": by_seed["at_target"].mean(),
            "min_recall_q25": by_seed["min_recall"].quantile(0.25),
            "min_recall_q75": by_seed["min_recall"].quantile(0.75),
            "set_size_q25": by_seed["set_size"].quantile(0.25),
            "set_size_q75": by_seed["set_size"].quantile(0.75),
            "min_recall_p10": by_seed["min_recall"].quantile(0.1),
            "min_recall_worst": by_seed["min_recall"].min(),
        }
    ).groupby(keys)
    spread = seeds[["min_recall", "set_size", "share_at_target"]].std().add_suffix("_std")
    n_labels = domains.groupby(keys)["n_labels"].max()
    half_widths = (t.ppf(0.975, seeds.size() - 1) / np.sqrt(seeds.size())).to_numpy()[:, None] * spread
    half_widths.columns = [name.replace("_std", "_ci") for name in spread]
    results = (
        seeds.mean()
        .join(spread)
        .join(half_widths)
        .assign(n_seeds=seeds.size(), n_labels=n_labels, note="", train_seconds=12.345, share_by_noise=0.61)
        .assign(set_size_by_lot=lambda table: table["n_labels"] * table["min_recall"])
    )
    return results.reset_index().astype({"n_domains": int})[RESULT_COLUMNS]


FIVE = tuple(METHODS)
ALL_METHODS = METHODS | {
    "erm-joint": (0.93, 1.12),
    "erm-adapted": (0.925, 1.1),
    "set-cover-joint": (0.935, 1.2),
    "set-cover-adapted": (0.93, 1.17),
    "set-cover-best": (0.942, 1.215),
    "set-cover-full-set": (0.955, 1.35),
    "set-cover-full-set-best": (0.95, 1.3),
    "irm": (0.45, 1.0),
    "vrex": (0.88, 1.0),
    "mmd": (0.8, 1.0),
    "coral": (0.84, 1.0),
}
SINGLE = ("erm", "irm", "vrex", "mmd", "coral")


def full_study(
    rng: np.random.Generator,
    datasets: tuple[str, ...] = ("synthetic-10", "synthetic-10-random", "synthetic-50", "synthetic-50-random"),
    methods: dict[str, tuple[float, float]] = ALL_METHODS,
    labels: tuple[str, ...] = ("0", "1"),
    n_seeds: int = 5,
    n_domains: int = 25,
    domain_name: str = "domain",
    targets: tuple[float, ...] = (0.8, 0.9, 0.95),
) -> pd.DataFrame:
    """Return single domains of every method at 0.9 and of the paper's five at the other targets, as a study has."""
    runs = pd.DataFrame(
        [
            {"dataset": dataset, "method": method, "target_recall": target, "split": split, "seed": seed}
            for dataset in datasets
            for target in targets
            for method in methods
            if target == 0.9 or method in FIVE
            for split in SPLITS
            for seed in range(n_seeds)
        ]
    )
    rows = runs.loc[runs.index.repeat(n_domains)].reset_index(drop=True)
    recall, size = (rows["method"].map({name: pair[i] for name, pair in methods.items()}) for i in (0, 1))
    single = rows["method"].isin(SINGLE)
    shift = (rows["target_recall"] - 0.9).mask(single, 0.0)
    place = rows.groupby(["dataset", "seed"], sort=False).ngroup() % 3 * 0.004
    recalls = np.clip(
        (recall + shift * 0.9 + place + 0.02).to_numpy()[:, None] + rng.normal(0, 0.03, (len(rows), len(labels))),
        0.2,
        1,
    )
    sizes = (size * (1 + 2.5 * shift) + rng.normal(0, 0.03, len(rows))).mask(single, 1.0)
    numbers = np.tile(np.arange(n_domains), len(runs))
    return rows.assign(
        domain=[f"{domain_name} {number}" for number in numbers],
        n=1000,
        min_recall=recalls.min(axis=1),
        set_size=sizes,
        empty_rate=0.0,
        single_rate=0.8,
        n_labels=len(labels),
        recall=[dict(zip(labels, row, strict=True)) for row in recalls.round(6).tolist()],
    )


def published_numbers(dataset: str, methods: list[str], target_recall: float = 0.9) -> pd.DataFrame:
    """Return published numbers of one data set, in the columns of the paper's table; they have no spread."""
    rows = pd.DataFrame(
        {
            "experiment": "main",
            "dataset": dataset,
            "target_recall": target_recall,
            "method": methods,
            "min_recall": [0.88 + 0.01 * i for i in range(len(methods))],
            "set_size": [1.0 + 0.05 * i for i in range(len(methods))],
            "share_at_target": [0.39 + 0.1 * i for i in range(len(methods))],
            "source": "Table 5",
        }
    )
    return rows.assign(min_recall_std=np.nan, set_size_std=np.nan, share_at_target_std=np.nan)


def made_up_theory() -> dict[str, object]:
    """Return the content of a theory.json of three numbers of domains and two seeds."""
    rows = [
        {
            "predictor": predictor,
            "n_domains": n_domains,
            "seed": seed,
            "share_missing_new": 0.4 / n_domains,
            "share_missing_training": 0.1 * seed if predictor == "trained" else 0.0,
        }
        for predictor in ("trained", "at-target")
        for n_domains in (1, 10, 50)
        for seed in (0, 1)
    ]
    return {"settings": {"n_features": 10, "target_recall": 0.9, "n_seeds": 2}, "rows": rows}


SECONDS = pd.DataFrame(
    {
        "dataset": ["synthetic-10", "synthetic-10-random"],
        "erm_seconds": [10.0, 10.0],
        "set_cover_seconds": [15.0, 15.0],
    }
)
PUBLISHED_TIMES = pd.DataFrame(
    {"dataset": ["synthetic-10"], "erm_minutes": [98], "set_cover_minutes": [133], "source": ["Table 9"]}
)
