"""Trains in a loop of one's own and writes what came out; the tests start it in one process and in two."""

import sys

import numpy as np
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from domaincover import GaussianDomains, SetCoverLoss
from domaincover.networks.perceptrons import perceptron


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


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    own_rank = distributed.get_rank()
    np.savez(f"{sys.argv[1]}/own loop-{own_rank}.npz", **own_loop(own_rank, distributed.get_world_size()))
    np.savez(f"{sys.argv[1]}/updates-{own_rank}.npz", **updates_apart(own_rank))
