"""Trains on a few rows and writes what came out; the tests start it in one process and in two."""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from domaincover import DiskTable, GaussianDomains, SetCoverClassifier, SetCoverLoss
from domaincover.networks.perceptrons import perceptron
from domaincover.training.batches import DomainBatches, ShuffledBatches
from domaincover.training.checkpoints import Checkpoints
from domaincover.training.domain_objectives import domain_objective
from domaincover.training.engine import make_engine
from domaincover.training.loop import train
from domaincover.training.pools import MemoryPool
from domaincover.training.settings import TrainingSettings

N_ROWS = 211  # batches of 30 do not divide it, nor can two processes share the last batch, which is one row


def trained(recall_from="batches", accumulate=1, precision="full", checkpoints=None):
    """Return weights, multipliers and losses after three epochs of SET-COVER."""
    data = GaussianDomains.of_paper(10).sample(4, 53, np.random.default_rng(0)).subset(np.arange(N_ROWS))
    engine = make_engine("cpu", precision, accumulate)
    network = perceptron(10, 5, 2, np.random.default_rng(1))
    batches = ShuffledBatches(MemoryPool([data]), [np.arange(len(data))], 30, [np.random.default_rng(2)], engine.shard)
    loss = SetCoverLoss(4, 2, [0.9])
    settings = TrainingSettings(epochs=3, learning_rate=0.01, update_every=4, recall_from=recall_from)
    states = None if checkpoints is None else Checkpoints(Path(checkpoints))
    ((history, _),) = train([network], batches, loss, settings, engine=engine, checkpoints=states)
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
    ((history, _),) = train(
        [network], batches, objective, TrainingSettings(epochs=3, learning_rate=0.01), engine=engine
    )
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


def own_loop(rank=0, n_processes=1):
    """Return weights, multipliers and recalls of a loop of one's own, of which each process has a part of every batch.

    The processes have equally many rows of a batch, but other domains: each alone would see other recalls.
    """
    data = GaussianDomains.of_paper(10).sample(4, 60, np.random.default_rng(0))
    order = np.lexsort((data.domains, np.arange(len(data)) % 6))  # six batches of 40, each sorted by domain
    network, loss_of = perceptron(10, 5, 2, np.random.default_rng(1)).double(), SetCoverLoss(4, 2)
    parallel = DistributedDataParallel(network) if n_processes > 1 else network
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    recalls = []
    for _ in range(3):
        for batch in order.reshape(6, -1):
            rows = batch.reshape(n_processes, -1)[rank]
            parts = (torch.as_tensor(part[rows]) for part in (data.examples.astype(float), data.labels, data.domains))
            examples, labels, domains = parts
            loss = loss_of(parallel(examples), labels, domains)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        recalls.append(loss_of.update())
    weights = torch.cat([weight.detach().flatten() for weight in network.parameters()])
    return {"weights": weights, "multipliers": loss_of.multipliers, "recalls": torch.stack(recalls)}


def updates_apart(rank):
    """Return the multipliers of two updates with counts of one process only, first by itself, then over all."""
    loss_of = SetCoverLoss(2, 2)
    loss_of.count(torch.full((2, 2), -1.0), torch.tensor([0, 1]), torch.full((2,), rank))
    apart = loss_of.update(over_processes=False).numpy()
    if rank == 0:  # the other has had no batch
        loss_of.count(torch.ones(1, 2), torch.tensor([0]), torch.tensor([1]))
    return {"apart": apart, "together": loss_of.update().numpy()}


CASES = {"gathered": ("batches", 1), "full pass, in pieces": ("full-pass", 3)}
PENALTIES = ("irm", "vrex", "mmd", "coral", "group-dro", "qrm")

if __name__ == "__main__":
    distributed.init_process_group("gloo")
    own_rank = distributed.get_rank()
    np.savez(f"{sys.argv[1]}/own loop-{own_rank}.npz", **own_loop(own_rank, distributed.get_world_size()))
    np.savez(f"{sys.argv[1]}/updates-{own_rank}.npz", **updates_apart(own_rank))
    for name, case in CASES.items():
        np.savez(f"{sys.argv[1]}/{name}-{os.environ['RANK']}.npz", **trained(*case))
    for name in PENALTIES:
        np.savez(f"{sys.argv[1]}/{name}-{os.environ['RANK']}.npz", **compared(name))
    np.savez(f"{sys.argv[1]}/on disk-{os.environ['RANK']}.npz", **of_table(on_disk=True))
