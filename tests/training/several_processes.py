"""Trains on a few rows and writes what came out; the tests start it in one process and in two."""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from domaincover import DiskTable, GaussianDomains, SetCoverClassifier, SetCoverLoss
from domaincover.networks.perceptrons import perceptron
from domaincover.training.batches import MemoryPool, ShuffledBatches
from domaincover.training.checkpoints import Checkpoints
from domaincover.training.domain_batches import DomainBatches
from domaincover.training.domain_objectives import domain_objective
from domaincover.training.engine import make_engine
from domaincover.training.loop import TrainingSettings, train

N_ROWS = 211  # batches of 30 do not divide it, nor can two processes share the last batch, which is one row


def trained(recall_from="batches", accumulate=1, precision="full", checkpoints=None):
    """Return weights, multipliers and losses after three epochs of SET-COVER."""
    data = GaussianDomains.of_paper(10).sample(4, 53, np.random.default_rng(0)).subset(np.arange(N_ROWS))
    engine = make_engine("cpu", precision, accumulate)
    network = perceptron(10, 5, 2, np.random.default_rng(1))
    batches = ShuffledBatches(MemoryPool([data]), [np.arange(len(data))], 30, [np.random.default_rng(2)], engine.shard)
    loss = SetCoverLoss(4, 2, [0.9])
    settings = TrainingSettings(epochs=3, learning_rate=0.01, update_every=4, recall_from=recall_from)
    states = None if checkpoints is None else Checkpoints(Path(checkpoints), {"test": 1})
    (history,) = train([network], batches, loss, settings, engine=engine, checkpoints=states)
    weights = torch.cat([weight.detach().flatten() for weight in network.parameters()]).numpy()
    return {"weights": weights, "multipliers": history.multipliers, "loss": history.loss, "size": history.set_size}


def compared(penalty, precision="full"):
    """Return weights and losses after three epochs of an objective that compares domains, the first being warm-up.

    Batches have five examples of four of six domains each: two processes have 2½ of each.
    """
    data = GaussianDomains.of_paper(10).sample(6, 20, np.random.default_rng(0))
    engine = make_engine("cpu", precision)
    network = perceptron(10, 5, 2, np.random.default_rng(1))
    rows, rngs = [np.arange(len(data))], [np.random.default_rng(2)]
    batches = DomainBatches(MemoryPool([data]), rows, [data.domains], 20, rngs, engine.shard)
    weight = {"irm": 10.0, "mmd": 1.0, "coral": 1.0, "vrex": 10.0}.get(penalty)
    objective = domain_objective(penalty, torch.ones(1, 6), weight=weight, warmup_steps=6, rate=0.1)
    (history,) = train([network], batches, objective, TrainingSettings(epochs=3, learning_rate=0.01), engine=engine)
    weights = torch.cat([weight.detach().flatten() for weight in network.parameters()]).numpy()
    return {"weights": weights, "loss": history.loss} | {k: v.numpy() for k, v in objective.state_dict().items()}


def of_table(on_disk):
    """Return weights and thresholds of SET-COVER on a table in memory or on disk; a process has a copy of its own."""
    data = GaussianDomains.of_paper(10).sample(6, 41, np.random.default_rng(0))
    table = pd.DataFrame(data.examples.astype(np.float32), columns=[f"x{k}" for k in range(10)])
    model = SetCoverClassifier(hidden=5, epochs=3, batch_size=30, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        if on_disk:
            table.to_parquet(f"{folder}/rows.parquet")
            table = DiskTable(f"{folder}/rows.parquet", scratch=folder)
        model.fit(table, data.labels, domains=data.domains)
    weights = torch.cat([weight.detach().flatten() for weight in model.network_.parameters()]).numpy()
    return {"weights": weights, "thresholds": model.thresholds_}


CASES = {"gathered": ("batches", 1), "full pass, in pieces": ("full-pass", 3)}
PENALTIES = ("irm", "vrex", "mmd", "coral", "group-dro", "qrm")

if __name__ == "__main__":
    for name, case in CASES.items():
        np.savez(f"{sys.argv[1]}/{name}-{os.environ['RANK']}.npz", **trained(*case))
    for name in PENALTIES:
        np.savez(f"{sys.argv[1]}/{name}-{os.environ['RANK']}.npz", **compared(name))
    np.savez(f"{sys.argv[1]}/on disk-{os.environ['RANK']}.npz", **of_table(on_disk=True))
