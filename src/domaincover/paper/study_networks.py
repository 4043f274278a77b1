"""The networks of a job: which there are, which train together, and their training."""

from __future__ import annotations

import hashlib
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from domaincover.data.dataset import DomainDataset
from domaincover.data.examples import LazyExamples, fingerprint
from domaincover.networks.perceptrons import one_thread
from domaincover.options import Penalty
from domaincover.paper.material import Material
from domaincover.paper.study import Run
from domaincover.paper.wilds.source import WildsSource
from domaincover.training.batches import LazyPool, Pool, ShuffledBatches, make_pool, whole_batches
from domaincover.training.checkpoints import Checkpoints
from domaincover.training.domain_batches import DomainBatches
from domaincover.training.domain_objectives import domain_objective
from domaincover.training.engine import Engine
from domaincover.training.history import History
from domaincover.training.listeners import OnEpoch
from domaincover.training.loop import TrainingSettings, train
from domaincover.training.objectives import CrossEntropy, SetCoverLoss
from domaincover.training.run import TrainingRun

CHECKPOINTS = ".checkpoints"
Key = tuple[int, float | None]  # seed, and target recall where the network depends on it


class Replica(NamedTuple):
    """A network to train: the key of its runs, the rows of its seed's data that it trains on, a domain left out."""

    key: Key
    rows: NDArray[np.int64]
    left_out: int | None = None


class Trained(NamedTuple):
    """A network and what its training went through."""

    network: nn.Module
    history: History


class Epochs:
    """Tells of finished epochs, as many in all as one training has, however many trainings share them."""

    def __init__(self, tell: Callable[[], object], n_epochs: int, n_trainings: int) -> None:
        self._tell, self._n_epochs, self._n_trainings = tell, n_epochs, n_trainings
        self._n_done = self._n_told = 0

    def one_more(self) -> None:
        """Count an epoch of one of the trainings."""
        self._n_done += 1
        self._tell_until(self._n_done // self._n_trainings)

    def all_done(self) -> None:
        """Tell of those that checkpoints made needless, too."""
        self._tell_until(self._n_epochs)

    def _tell_until(self, n: int) -> None:
        for _ in range(self._n_told, n):
            self._tell()
        self._n_told = max(n, self._n_told)


def groups_of(replicas: Sequence[Replica], materials: Mapping[int, Material]) -> list[list[Replica]]:
    """Return replicas that train together: those with equally many rows, for each to train as if alone, and columns.

    Whole networks, on examples that are read as they are needed, train by themselves.
    """
    groups: dict[Any, list[Replica]] = defaultdict(list)
    for number, replica in enumerate(replicas):
        examples = materials[replica.key[0]].data.examples
        alike = number if isinstance(examples, LazyExamples) else (len(replica.rows), examples.shape[1:])
        groups[alike].append(replica)
    return list(groups.values())


def train_group(
    run: Run,
    scorer: str,
    group: Sequence[Replica],
    materials: Mapping[int, Material],
    out: Path,
    on_epoch: Callable[[], object],
) -> list[Trained]:
    """Train networks with the settings of a run as one stack."""
    own = {key[0]: materials[key[0]] for key, _, _ in group}
    some = next(iter(own.values())).data
    offsets = dict(zip(own, np.cumsum([0, *(len(m.data) for m in own.values())]), strict=False))
    settings = TrainingSettings(run.epochs, run.learning_rate, run.update_every, run.recall_from, run.keep)  # type: ignore[arg-type]
    is_lazy = isinstance(some.examples, LazyExamples)
    engine = Engine(run.source.device if is_lazy and run.source is not None else "cpu")
    seeds = [own[key[0]] for key, _, _ in group]
    with _reproducible(run.source if is_lazy else None, seeds[0].network_seed, engine.device):
        networks = [m.make_network(np.random.default_rng(m.network_seed)).to(engine.device) for m in seeds]
        batches = _batches(
            run,
            make_pool([m.data for m in own.values()], engine.device),
            [rows + offsets[key[0]] for key, rows, _ in group],
            [own[key[0]].data.domains[rows] for key, rows, _ in group],
            [np.random.default_rng(m.batch_seed) for m in seeds],
        )
        objective = _objective(run, scorer, group, [own[key[0]].data for key, _, _ in group], batches)
        checkpoints = _checkpoints(out, run, scorer, group[0], own[group[0].key[0]]) if is_lazy else None
        histories = train(
            networks,
            batches,
            objective.to(engine.device),
            settings,
            [OnEpoch(on_epoch)],
            engine=engine,
            checkpoints=checkpoints,
        )
    return [Trained(*pair) for pair in zip(networks, histories, strict=True)]


def _batches(
    run: Run,
    pool: Pool,
    rows: Sequence[NDArray[np.int64]],
    domains: Sequence[NDArray[np.int64]],
    rngs: Sequence[np.random.Generator],
) -> ShuffledBatches:
    if run.domains_per_batch is not None:
        return DomainBatches(pool, rows, domains, run.batch_size, rngs, domains_per_batch=run.domains_per_batch)
    is_lazy = isinstance(pool, LazyPool)
    batch_size = whole_batches(run.batch_size, len(rows[0])) if is_lazy else run.batch_size
    return ShuffledBatches(pool, rows, batch_size, rngs)


def _objective(
    run: Run, scorer: str, group: Sequence[Replica], data: Sequence[DomainDataset], batches: ShuffledBatches
) -> nn.Module:
    if isinstance(batches, DomainBatches):
        n_domains = max(part.n_domains for part in data)
        by_replica = [part.domains[rows] for part, (_, rows, _) in zip(data, group, strict=True)]
        there = torch.from_numpy(np.stack([np.bincount(own, minlength=n_domains) > 0 for own in by_replica]))
        n_steps = run.epochs * batches.n_batches
        return domain_objective(scorer, there, weight=run.penalty_weight, n_steps=n_steps)  # type: ignore[arg-type]
    if targets := [target for (_, target), _, _ in group if target is not None]:
        some = data[0]
        penalty: Penalty = "full-set" if scorer == "set-cover-full-set" else "wrong-label"
        start = run.initial_multiplier
        return SetCoverLoss(some.n_domains, some.n_labels, targets, penalty=penalty, initial_multiplier=start)
    return CrossEntropy()


def forget_checkpoints(out: Path, run: Run, scorer: str, replica: Replica, material: Material) -> None:
    """Remove what a training has left to go on from: its runs are written."""
    if isinstance(material.data.examples, LazyExamples):
        shutil.rmtree(_checkpoints(out, run, scorer, replica, material).folder, ignore_errors=True)
        with suppress(OSError):  # another process may have its own in there
            (out / CHECKPOINTS).rmdir()


def threads_for(setting: Any) -> AbstractContextManager[None]:
    """Give torch the threads that a job may have: one for heads and perceptrons, more for whole networks."""
    if not setting.trains_whole_networks:
        return one_thread()
    return nullcontext() if setting.means.threads is None else at_most(setting.means.threads)


@contextmanager
def at_most(n_threads: int) -> Iterator[None]:
    """Run torch in so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _reproducible(source: WildsSource | None, seed: np.random.SeedSequence, device: str) -> Iterator[None]:
    """Seed torch's own generator for whole networks, whose dropout draws from it, and give it back."""
    if source is None:
        yield
        return
    with torch.random.fork_rng([torch.device(device)] if device.startswith("cuda") else []):
        torch.random.manual_seed(int(seed.generate_state(1, np.uint64)[0] >> 1))
        yield


def _checkpoints(out: Path, run: Run, scorer: str, replica: Replica, material: Material) -> Checkpoints:
    """Return where a training's checkpoints are: a place of its own for all that it depends on."""
    digest, data = hashlib.blake2b(fingerprint(material.data.examples), digest_size=16), material.data
    for part in (data.labels, data.domains, replica.rows):
        digest.update(np.ascontiguousarray(part).tobytes())
    free = ("method", "target_recall", "domain_confidence")  # of the sets that scores become
    settings = {name: value for name, value in run.to_dict().items() if name not in free}
    identity = {"scorer": scorer, "key": list(replica.key), "rows": digest.hexdigest(), **settings}
    checkpoints = TrainingRun(checkpoints=out / CHECKPOINTS, resume=True).open_checkpoints(identity)
    assert checkpoints is not None  # noqa: S101 - for the type checker: a folder is given
    return checkpoints
