"""Training: SET-COVER against ERM, the stack against Algorithm 1 as one would write it with a DataLoader, and `fit`
against skorch and a plain PyTorch loop that train the same network on cross-entropy.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.measure import Row, ratio
from domaincover import SetCoverClassifier
from domaincover.data.synthetic import GaussianDomains
from domaincover.networks.perceptrons import perceptron
from domaincover.training.batches import MemoryPool, ShuffledBatches
from domaincover.training.loop import train
from domaincover.training.objectives import CrossEntropy, SetCoverLoss
from domaincover.training.settings import TrainingSettings

N_SEEDS, N_DOMAINS, N_ROWS, BATCH = 5, 25, 2_000, 128


def rows() -> Iterator[Row]:
    """Yield the table's lines."""
    torch.set_num_threads(1)
    for n_features in (10, 50):
        datasets = [_data(n_features, seed) for seed in range(N_SEEDS)]
        pool = MemoryPool(datasets)
        for recall_from in ("full-pass", "batches"):
            settings = TrainingSettings(epochs=3, recall_from=recall_from)
            found = ratio(
                partial(_train_stack, pool, n_features, _set_cover_loss, settings),
                partial(_train_stack, pool, n_features, CrossEntropy, settings),
                repeats=9,
            )
            what = f"{n_features}-d, 5 seeds stacked: SET-COVER / ERM, recall from {recall_from}"
            yield Row(what, f"{found:.2f} x", "<= 1.05 x" if recall_from == "batches" else "<= 1.10 x")
        found = ratio(
            partial(_train_literally, datasets[0]),
            partial(_train_stack, pool, n_features, _set_cover_loss, TrainingSettings(epochs=1)),
            repeats=5,
        )
        what = f"{n_features}-d: Algorithm 1 with a per-item loader / ours, per network"
        yield Row(what, f"{found * N_SEEDS:.0f} x", ">= 25 x")

    yield from _against_loops()


def _against_loops() -> Iterator[Row]:
    """Compare fits of one network, 64 hidden units, batches of 256, two epochs, no held-out domains to judge by."""
    data = GaussianDomains.of_paper(50).sample(N_DOMAINS, N_ROWS, np.random.default_rng(0))
    X, y, domains = data.examples.astype(np.float32), data.labels, data.domains
    ours = SetCoverClassifier(epochs=2, batch_size=256, validation_domains=0, patience=None, random_state=0)
    of_ours = partial(ours.fit, X, y, domains=domains)
    for name, other in (("a plain PyTorch loop with a DataLoader", _plain_loop), ("skorch", _skorch)):
        found = ratio(partial(other, X, y), of_ours, repeats=5)
        yield Row(f"50,000 x 50, 25 domains, one thread: {name} (ERM) / our SET-COVER", f"{found:.1f} x", "")


def _plain_loop(X: np.ndarray, y: np.ndarray) -> None:
    network = _network(50, 64, 2)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    rows = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    for _ in range(2):
        for examples, labels in DataLoader(rows, 256, shuffle=True):
            loss = nn.functional.cross_entropy(network(examples), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def _skorch(X: np.ndarray, y: np.ndarray) -> None:
    from skorch import NeuralNetClassifier

    NeuralNetClassifier(
        partial(_network, 50, 64, 2),
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=1e-3,
        max_epochs=2,
        batch_size=256,
        iterator_train__shuffle=True,
        train_split=None,
        verbose=0,
    ).fit(X, y)


def _network(n_features: int, hidden: int, n_labels: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_features, hidden), nn.ReLU(), nn.Linear(hidden, n_labels))


def _data(n_features: int, seed: int):
    return GaussianDomains.of_paper(n_features).sample(N_DOMAINS, N_ROWS, np.random.default_rng(seed))


def _set_cover_loss() -> SetCoverLoss:
    return SetCoverLoss(N_DOMAINS, 2, [0.9] * N_SEEDS)


def _train_stack(pool: MemoryPool, n_features: int, make_objective, settings: TrainingSettings) -> None:
    n = N_DOMAINS * N_ROWS
    rngs = [np.random.default_rng(seed) for seed in range(N_SEEDS)]
    networks = [perceptron(n_features, n_features // 2, 2, rng) for rng in rngs]
    rows_of = [np.arange(n) + n * k for k in range(N_SEEDS)]
    train(networks, ShuffledBatches(pool, rows_of, BATCH, rngs), make_objective(), settings)


class _Items(Dataset):
    """One example at a time, as a data set of one's own usually is."""

    def __init__(self, data) -> None:
        self._parts = tuple(map(torch.as_tensor, (data.examples, data.labels, data.domains)))

    def __len__(self) -> int:
        return len(self._parts[0])

    def __getitem__(self, row: int) -> tuple[Tensor, ...]:
        return tuple(part[row] for part in self._parts)


def _train_literally(data) -> None:
    """One epoch of Algorithm 1 for one network: items by a DataLoader, labels and cells in loops."""
    n_features = data.examples.shape[1]
    network = perceptron(n_features, n_features // 2, 2, np.random.default_rng(0))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    items = _Items(data)
    multipliers = torch.full((N_DOMAINS, 2), 5.0)
    for number, (examples, labels, domains) in enumerate(DataLoader(items, BATCH, shuffle=True), start=1):
        scores = network(examples)
        loss = sum(_loss_of_label(y, scores, labels, domains, multipliers) for y in range(2)) / len(labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 500 == 0:
            _update_literally(network, items, multipliers)
    _update_literally(network, items, multipliers)


def _loss_of_label(y: int, scores: Tensor, labels: Tensor, domains: Tensor, multipliers: Tensor) -> Tensor:
    wrong = (labels != y) * (1 + scores[:, y]).clamp(min=0)
    own = (labels == y) * multipliers[domains, y] * (1 - scores[:, y]).clamp(min=0)
    return (wrong + own).sum()


@torch.no_grad()
def _update_literally(network: nn.Module, items: Dataset, multipliers: Tensor) -> None:
    parts = [(network(examples), labels, domains) for examples, labels, domains in DataLoader(items, BATCH)]
    scores, labels, domains = (torch.cat(part) for part in zip(*parts, strict=True))
    for e in range(N_DOMAINS):
        for y in range(2):
            coverage = (scores[(domains == e) & (labels == y), y] >= 0).float().mean()
            nu = 1 - (coverage - 0.9)
            multipliers[e, y] *= (2 if nu > 1 else 1) * nu
