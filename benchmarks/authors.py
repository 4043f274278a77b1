"""The code that the paper's authors released against ours, at equal steps: training, and the rules of two baselines.

    git clone https://github.com/ront65/set-valued-ood CLONE
    python -m benchmarks.authors CLONE

Training: their `SetCoverTrainer` and our loop on the same data (the paper's synthetic domains, 25 × 2,000 rows), the
same perceptron, batches of 128, one epoch, then recall by a pass over all training rows and one update of the
multipliers; one thread. Rules: Pooling CDFs and robust conformal prediction, on the same scores. WILDS data sets, and
its package, are not needed; their trainer imports wandb, which is not used.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.measure import ratio, seconds, timed
from benchmarks.peers import made_up
from domaincover.calibration.rules import pooled_thresholds, robust_thresholds
from domaincover.criteria import sets_from_scores
from domaincover.data.synthetic import GaussianDomains
from domaincover.networks.perceptrons import perceptron
from domaincover.training.batches import MemoryPool, ShuffledBatches
from domaincover.training.loop import train
from domaincover.training.objectives import SetCoverLoss
from domaincover.training.settings import TrainingSettings

TARGET, BATCH, N_DOMAINS, N_ROWS = 0.9, 128, 25, 2_000
N_STACKED = 5


class Clone(NamedTuple):
    """What is used of the authors' code."""

    trainer: Any
    perceptron: Any
    as_sets: Any
    robust: Any
    pooling: Any


def main() -> None:
    """Compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path)
    clone = imported(parser.parse_args().clone)
    torch.set_num_threads(1)
    for n_features in (10, 50):
        data = GaussianDomains.of_paper(n_features).sample(N_DOMAINS, N_ROWS, np.random.default_rng(0))
        theirs = partial(train_theirs, clone, data)
        for n_networks in (1, N_STACKED):
            found = n_networks * ratio(theirs, partial(train_ours, data, n_networks), repeats=3)
            print(f"{n_features}-d, an epoch of SET-COVER, {n_networks} at once: authors / ours, each: {found:.1f} x")
        print(f"    the authors' epoch takes {seconds(theirs):.2f} s")
    compare_rules(clone)


def imported(clone: Path) -> Clone:
    """Import from a clone, or end with what is missing."""
    if not (clone / "experiments" / "nn_trainers.py").exists():
        sys.exit(
            f"{clone} is no clone of the authors' code: git clone https://github.com/ront65/set-valued-ood {clone}"
        )
    sys.path.insert(0, str(clone.absolute()))
    try:
        from experiments.nn_trainers import SetCoverTrainer
        from models.custom_mlp import CustomMLP
        from models.pooling_classification import PoolingCdf__Classification
        from models.robust_conformal import RobustConformal
        from models.utils import PositiveOutputsAsClassPreds
    except ImportError as error:
        sys.exit(f"the authors' code in {clone} cannot be imported: {error}")
    return Clone(SetCoverTrainer, CustomMLP, PositiveOutputsAsClassPreds, RobustConformal, PoolingCdf__Classification)


class Items(torch.utils.data.Dataset):
    """One example at a time, with the attributes that the authors' trainer reads, as their synthetic data have them."""

    def __init__(self, data: Any) -> None:
        self.examples = torch.as_tensor(data.examples, dtype=torch.float32)
        self.labels, self.domains = torch.as_tensor(data.labels), torch.as_tensor(data.domains)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, ...]:
        return self.examples[row], self.labels[row], self.domains[row]


def train_theirs(clone: Clone, data: Any) -> None:
    """Train for an epoch, measure recall on all training rows, and update the multipliers."""
    items, n_features = Items(data), data.examples.shape[1]
    network = clone.as_sets(clone.perceptron(n_features, n_features // 2))
    with contextlib.redirect_stdout(io.StringIO()):
        trainer = clone.trainer(
            network,
            torch.optim.Adam(network.parameters(), lr=1e-3),
            None,
            torch.device("cpu"),
            items,
            items,
            items,
            batch_size=BATCH,
            C=5.0,
            coverage=TARGET,
            use_alternative_size_loss=True,
        )
        trainer._run_epoch(0)
        trainer._update_C_param(trainer._eval(trainer._predict_batched_data(trainer.train_dataloader)))


def train_ours(data: Any, n_networks: int) -> None:
    """Do the same, for one network or several that are trained as a stack."""
    n, n_features = data.examples.shape
    rngs = [np.random.default_rng(seed) for seed in range(n_networks)]
    networks = [perceptron(n_features, n_features // 2, 2, rng) for rng in rngs]
    batches = ShuffledBatches(MemoryPool([data]), [np.arange(n)] * n_networks, BATCH, rngs)
    train(networks, batches, SetCoverLoss(N_DOMAINS, 2, [TARGET] * n_networks), TrainingSettings(epochs=1))


def compare_rules(clone: Clone) -> None:
    """Print the times of two rules, and how many sets differ."""
    calibration, test = made_up(N_DOMAINS, 20_000, 0), made_up(N_DOMAINS, 100_000, 1)
    rules = {
        "robust conformal": (clone.robust, robust_thresholds),
        "Pooling CDFs": (clone.pooling, pooled_thresholds),
    }
    for name, (theirs, ours) in rules.items():
        their_time, their_sets = timed(sets_of_theirs, theirs, calibration, test)
        our_time, our_sets = timed(sets_of_ours, ours, calibration, test, repeats=3)
        print(
            f"{name}, 20,000 rows to calibrate, 100,000 to predict, 20 labels: authors ({their_time:.2f} s) / ours",
            end=" ",
        )
        differ = (their_sets != our_sets).any(axis=1).mean()
        sizes = f"{their_sets.sum(axis=1).mean():.3f}, {our_sets.sum(axis=1).mean():.3f}"
        print(
            f"({our_time:.3f} s): {their_time / our_time:.0f} x; {differ:.1%} of sets differ; labels in a set {sizes}"
        )


def sets_of_theirs(rule: Any, calibration: Any, test: Any) -> NDArray[np.bool_]:
    """Return the sets of a rule of the authors."""
    model = rule(None, num_classes=calibration.probabilities.shape[1], pretrained=True, coverage=TARGET)
    model.calibrate_from_preds(*calibration)
    return model.predict(None, base_model_logits=test.probabilities).astype(bool)


def sets_of_ours(rule: Any, calibration: Any, test: Any) -> NDArray[np.bool_]:
    """Return the sets of one of our rules."""
    return sets_from_scores(test.probabilities, rule(*calibration, TARGET))


if __name__ == "__main__":
    main()
