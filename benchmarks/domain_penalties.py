"""Training with objectives that compare domains, against ERM at equal batch size, networks and steps."""

from collections.abc import Iterator
from functools import partial
from typing import get_args

import numpy as np
import torch

from benchmarks.measure import Row, ratio
from domaincover.data.synthetic import GaussianDomains
from domaincover.networks.perceptrons import perceptron
from domaincover.options import DomainPenalty
from domaincover.training.batches import DomainBatches, MemoryPool, ShuffledBatches
from domaincover.training.domain_objectives import domain_objective
from domaincover.training.loop import train
from domaincover.training.objectives import CrossEntropy
from domaincover.training.settings import TrainingSettings

N_DOMAINS, N_ROWS, BATCH, N_LABELS = 25, 400, 128, 2


def rows() -> Iterator[Row]:
    """Yield the table's lines."""
    torch.set_num_threads(1)
    for n_networks, n_features, hidden in ((1, 10, 5), (1, 50, 25), (5, 10, 5), (5, 50, 25)):
        data = GaussianDomains.of_paper(n_features).sample(N_DOMAINS, N_ROWS, np.random.default_rng(0))
        sizes = data, n_networks, hidden
        for penalty in get_args(DomainPenalty):
            found = ratio(partial(_train, penalty, *sizes), partial(_train, None, *sizes), repeats=9)
            networks = "one perceptron" if n_networks == 1 else f"{n_networks} stacked"
            yield Row(
                f"{n_features}-d, {networks}: {penalty} / ERM, an epoch",
                f"{found:.2f} x",
                "",
            )


def _train(penalty: DomainPenalty | None, data, n_networks: int, hidden: int) -> None:
    rngs = [np.random.default_rng(seed) for seed in range(n_networks)]
    networks = [perceptron(data.examples.shape[1], hidden, N_LABELS, rng) for rng in rngs]
    pool, own = MemoryPool([data]), [np.arange(len(data))] * n_networks
    batches: ShuffledBatches
    if penalty is None:
        batches, objective = ShuffledBatches(pool, own, BATCH, rngs), CrossEntropy()
    else:
        batches = DomainBatches(pool, own, [data.domains] * n_networks, BATCH, rngs)
        objective = domain_objective(penalty, warmup_steps=0)
    train(networks, batches, objective, TrainingSettings(epochs=2))
