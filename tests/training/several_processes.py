"""Trains SET-COVER on a few rows and writes what came out; the tests start it in one process and in two."""

import os
import sys
from pathlib import Path

import numpy as np
import torch

from domaincover import GaussianDomains, SetCoverLoss
from domaincover.networks.perceptrons import perceptron
from domaincover.training.batches import MemoryPool, ShuffledBatches
from domaincover.training.checkpoints import Checkpoints
from domaincover.training.engine import make_engine
from domaincover.training.loop import TrainingSettings, train

N_ROWS = 211  # batches of 30 do not divide it, nor can two processes share the last batch, which is one row


def trained(recall_from="batches", accumulate=1, precision="full", checkpoints=None):
    """Return weights, multipliers and losses after three epochs."""
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


CASES = {"gathered": ("batches", 1), "full pass, in pieces": ("full-pass", 3)}

if __name__ == "__main__":
    for name, case in CASES.items():
        np.savez(f"{sys.argv[1]}/{name}-{os.environ['RANK']}.npz", **trained(*case))
