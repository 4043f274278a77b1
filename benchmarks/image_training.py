"""Training ResNet-18 on 96 × 96 images: what SET-COVER's epoch costs against ERM's.

    python -m benchmarks.image_training

One thread, and the processor's time beside the clock's, since other work on the machine disturbs the clock.
"""

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.measure import Row
from domaincover import ERMClassifier, ImageNetwork, SetCoverClassifier
from domaincover.data.dataset import DomainDataset
from domaincover.data.examples import LazyExamples
from domaincover.data.readers import ImageReader
from domaincover.estimators.source_network import with_head
from domaincover.networks.image_models import image_backbone
from domaincover.networks.perceptrons import linear
from domaincover.training.batches import ShuffledBatches, make_pool
from domaincover.training.loop import train
from domaincover.training.objectives import CrossEntropy, SetCoverLoss
from domaincover.training.settings import TrainingSettings

N_IMAGES, BATCH, SIZE, N_DOMAINS, N_LABELS, REPEATS = 128, 32, 96, 10, 3, 4


class Cost(NamedTuple):
    """Seconds by the clock, and of the processor."""

    clock: float
    processor: float


def rows() -> Iterator[Row]:
    """Yield the table's lines."""
    torch.set_num_threads(1)
    data = _images()
    pool = make_pool([data])
    network = _resnet_18(np.random.default_rng(0))
    erm, gathered, passed, evaluation = in_turns(
        lambda: _epoch(pool, CrossEntropy(), "batches"),
        lambda: _epoch(pool, _set_cover_loss(), "batches"),
        lambda: _epoch(pool, _set_cover_loss(), "full-pass"),
        lambda: _evaluate(network, pool),
    )
    what = f"ResNet-18, {SIZE} x {SIZE}: SET-COVER's epoch / ERM's ({median(c.clock for c in erm):.1f} s)"
    yield from _both(f"{what}, gathered", gathered, erm, "<= 1.05 x")
    yield from _both(f"{what}, full pass", passed, erm)
    with_pass = [Cost(*np.add(*both)) for both in zip(erm, evaluation, strict=True)]
    yield from _both("the same / ERM's epoch and one evaluation pass", passed, with_pass, "~ 1 x")
    X, y, domains = data.examples.sources, data.labels, data.domains
    settings = {"network": ImageNetwork(workers=0), "epochs": 2, "batch_size": BATCH, "random_state": 0}
    erm, set_cover = in_turns(
        lambda: ERMClassifier(**settings).fit(X, y, domains=domains),
        lambda: SetCoverClassifier(**settings).fit(X, y, domains=domains),
    )
    yield from _both("two epochs of SetCoverClassifier / ERMClassifier, three of ten domains judge", set_cover, erm)


def in_turns(*calls: Callable[[], object]) -> list[list[Cost]]:
    """Return what each call cost, once for every turn; the first turn, which pays for caches, does not count."""
    costs: list[list[Cost]] = [[] for _ in calls]
    for _ in range(REPEATS + 1):
        for call, own in zip(calls, costs, strict=True):
            started = time.perf_counter(), time.process_time()
            call()
            own.append(Cost(time.perf_counter() - started[0], time.process_time() - started[1]))
    return [own[1:] for own in costs]


def _both(what: str, ours: list[Cost], other: list[Cost], wanted: str = "") -> Iterator[Row]:
    """Yield the ratio of medians, by the clock and by the processor."""
    for kind in Cost._fields:
        found = median(getattr(cost, kind) for cost in ours) / median(getattr(cost, kind) for cost in other)
        yield Row(f"{what}, {kind}", f"{found:.3f} x", wanted)


def _images() -> DomainDataset:
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(N_IMAGES, SIZE, SIZE, 3), dtype=np.uint8)
    labels, domains = rng.integers(N_LABELS, size=N_IMAGES), np.arange(N_IMAGES) % N_DOMAINS
    names = tuple(range(N_LABELS)), tuple(range(N_DOMAINS))
    return DomainDataset(LazyExamples(images, ImageReader(), 0), labels, domains, *names)


def _resnet_18(rng: np.random.Generator) -> torch.nn.Module:
    backbone = image_backbone(generator=rng)
    return with_head(backbone, linear(backbone.n_features, N_LABELS, rng))


def _set_cover_loss() -> SetCoverLoss:
    return SetCoverLoss(N_DOMAINS, N_LABELS, [0.9])


def _epoch(pool, objective: torch.nn.Module, recall_from: str) -> None:
    """Train one epoch from the same start on the same batches; multipliers move at its end."""
    rng = np.random.default_rng(0)
    batches = ShuffledBatches(pool, [np.arange(N_IMAGES)], BATCH, [rng])
    train([_resnet_18(rng)], batches, objective, TrainingSettings(epochs=1, recall_from=recall_from))


@torch.no_grad()
def _evaluate(network: torch.nn.Module, pool) -> None:
    network.eval()
    for batch in pool.batches(np.arange(N_IMAGES)[None], pool.rows_at_once):
        network(batch.examples[0])


if __name__ == "__main__":
    for row in rows():
        print(f"{row.what:<90} {row.measured:>10} {row.wanted:>10}", flush=True)
