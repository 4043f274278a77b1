"""The paper's five methods on rotated digits, a small convolutional network trained from scratch; unseen angles.

    python -m benchmarks.rotated_digits rotated_mnist.npz [--unseen random|inside|outside] [--seeds 0,1] [--promise]

The file has `X` (image, 28, 28) uint8, `label` and `domain` (degrees). Of 16 angles five are unseen: drawn anew for
every seed; or drawn, but not −60 or 60, so that all lie between angles that train; or the five outermost. A tenth of
the rows of the other angles is held out too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import nn

from domaincover import ConformalSetClassifier, ERMClassifier, ImageNetwork, PromisedSetClassifier, SetCoverClassifier

TARGET, N_UNSEEN, HELD_OUT_ROWS = 0.9, 5, 0.1


class Digits(NamedTuple):
    """Images, labels and angles."""

    X: NDArray[np.uint8]
    labels: NDArray[np.int64]
    angles: NDArray[np.int64]

    def rows(self, chosen: NDArray[np.bool_]) -> Digits:
        """Return the chosen rows."""
        return Digits(*(part[chosen] for part in self))


def main() -> None:
    """Run, print means over seeds, write every number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--unseen", choices=["random", "inside", "outside"], default="random")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--promise", action="store_true", help="only SET-COVER with a domain confidence of 0.9")
    parser.add_argument("--out", type=Path, default=Path("rotated_digits.csv"))
    options = parser.parse_args()
    if not options.file.exists():
        print(f"skipped: {options.file} is not there.")
        return
    torch.set_num_threads(1)
    with np.load(options.file) as parts:
        digits = Digits(parts["X"], parts["label"].astype(np.int64), parts["domain"].astype(np.int64))
    rows = []
    for seed in map(int, options.seeds.split(",")):
        rows += [{"seed": seed} | row for row in run_seed(digits, seed, options)]
        pd.DataFrame(rows).to_csv(options.out, index=False)
    print(table(pd.DataFrame(rows)))


def run_seed(digits: Digits, seed: int, options: Any) -> Iterator[dict[str, Any]]:
    """Yield the figures of every method, all of them on the same split."""
    rng = np.random.default_rng(seed)
    unseen = np.isin(digits.angles, unseen_angles(np.unique(digits.angles), options.unseen, rng))
    held_out = ~unseen & (rng.random(len(unseen)) < HELD_OUT_ROWS)
    train = digits.rows(~unseen & ~held_out)
    print(f"seed {seed}: unseen {np.unique(digits.angles[unseen]).tolist()}", flush=True)
    for method, model, seconds in fitted_methods(train, seed, options.epochs, options.promise):
        for kind, rows in (("unseen", unseen), ("seen", held_out)):
            there = digits.rows(rows)
            summary = model.domain_report(there.X, there.labels, there.angles).summary(TARGET)
            found = {"min_recall": summary.min_recall, "size": summary.set_size, "share": summary.share_at_target}
            print("  ", method, kind, *(f"{value:.3f}" for value in found.values()), f"{seconds:.0f} s", flush=True)
            yield {"method": method, "angles": kind} | found | {"seconds": seconds}


def unseen_angles(angles: NDArray[np.int64], kind: str, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the angles that no method trains on."""
    if kind == "outside":
        return angles[np.argsort(-np.abs(angles), kind="stable")][:N_UNSEEN]
    return rng.choice(angles[1:-1] if kind == "inside" else angles, N_UNSEEN, replace=False)


def fitted_methods(train: Digits, seed: int, epochs: int | None, promise: bool) -> Iterator[tuple[str, Any, float]]:
    """Yield the methods by name, fitted, with the seconds of their own fit; ERM is trained once for three of them."""
    settings = {"network": ImageNetwork(module=small_network, workers=0), "epochs": epochs, "random_state": seed}
    erm = ERMClassifier(**settings)

    def conformal(rule: Any, **how: Any) -> ConformalSetClassifier:
        return ConformalSetClassifier(erm, rule, target_recall=TARGET, random_state=seed, **how)

    models = {
        "ERM": erm,
        "pooled, training data": conformal("pooled", calibration="prefit"),
        "pooled, held out": conformal("pooled", calibration="held-out-domains", calibration_domains=0.5),
        "robust, training data": conformal("robust", calibration="prefit"),
        "SET-COVER": SetCoverClassifier(TARGET, **settings),
    }
    if promise:
        promised = PromisedSetClassifier(SetCoverClassifier(TARGET, **settings), folds=5, random_state=seed)
        models = {"SET-COVER, promise": promised}
    for name, model in models.items():
        started = time.perf_counter()
        model.fit(train.X, train.labels, domains=train.angles)
        yield name, model, time.perf_counter() - started


def small_network(n_labels: int) -> nn.Module:
    """Return three convolutions and a hidden layer: 120,000 weights."""
    blocks = [
        part
        for channels_in, channels, stride in ((3, 16, 2), (16, 32, 2), (32, 32, 1))
        for part in (nn.Conv2d(channels_in, channels, 3, stride, 1), nn.BatchNorm2d(channels), nn.ReLU())
    ]
    return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(32 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, n_labels))


def table(results: pd.DataFrame) -> str:
    """Return mean ± standard deviation over seeds."""
    grouped = results.drop(columns="seed").groupby(["angles", "method"], sort=False)
    mean, deviation = grouped.mean().map("{:.3f}".format), grouped.std().map("{:.3f}".format)
    return (mean + " ± " + deviation).to_string()


if __name__ == "__main__":
    main()
