"""Training of network classifiers, one at a time or as one stack, and the held-out domains that judge it."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from domaincover.calibration.rules import cell_thresholds, order_ranks
from domaincover.criteria import Criterion
from domaincover.data.dataset import DomainDataset
from domaincover.data.examples import LazyExamples, fingerprint, model_key
from domaincover.errors import InputError
from domaincover.terminal.processes import one_thread
from domaincover.training.batches import DomainBatches, ShuffledBatches, make_pool, no_longer_readable, score
from domaincover.training.checkpoints import Checkpoints
from domaincover.training.listeners import Listener, LoggedProgress, ProgressBar
from domaincover.training.loop import DIVERGED, Trained, train
from domaincover.training.settings import TrainingSettings

if TYPE_CHECKING:
    from domaincover.estimators.network import NetworkClassifier, NetworkFit

NUMBERS_IN_A_STACK = 100_000_000  # encoded inputs of all networks in a stack: 400 MB
CONFIDENCE = 0.9  # of the order statistic over held-out domains
OWN_SETTINGS = ("target_recall", "random_state", "run")  # in these, networks of one stack may differ


def fit_together(
    models: Sequence[NetworkClassifier], data: Sequence[tuple[Any, Any, Any]], as_if_alone: bool = False
) -> Iterator[tuple[NetworkFit, Trained]]:
    """Fit network classifiers, each on its own (X, y, domains), and yield the fits in the order in which they end.

    Those with the same settings train as one stack; target recall and random state may differ. All networks of a stack
    train as long as the one with the most rows; `as_if_alone` stacks only those with equally many rows, so that each
    gives what it would give alone, up to rounding.
    """
    alike = defaultdict(list)
    for model, part in zip(models, data, strict=True):
        alike[_settings_key(model)].append((model, part))
    for waiting in alike.values():
        while waiting:
            fits = _prepared(waiting)
            groups = defaultdict(list)
            for fit in fits:
                groups[_group_key(fit), len(fit.examples) if as_if_alone else 0].append(fit)
            for group in groups.values():
                yield from train_together(group)


def _settings_key(model: NetworkClassifier) -> Any:
    if not model._inputs.stacks(model.device):
        return id(model)
    settings = {name: value for name, value in model.get_params(deep=False).items() if name not in OWN_SETTINGS}
    return type(model), repr(settings)


def _prepared(waiting: list[tuple[NetworkClassifier, Any]]) -> list[NetworkFit]:
    """Prepare the first of the waiting classifiers, and as many others with it as memory allows."""
    model, data = waiting.pop(0)
    fits = [model._prepare(*data)]
    n_more = NUMBERS_IN_A_STACK // max(fits[0].examples.examples.size, 1) if waiting else 0
    fits += [other._prepare(*own) for other, own in waiting[:n_more]]
    del waiting[:n_more]
    return fits


def _group_key(fit: NetworkFit) -> Any:
    """Return what networks of a stack have in common: a fold may lack a label, or a category and with it a column."""
    examples = fit.examples
    shape = () if isinstance(examples.examples, LazyExamples) else examples.examples.shape[1:]
    domains_per_batch = min(len(np.unique(examples.domains)), getattr(fit.model, "domains_per_batch", 0))
    return shape, examples.n_labels, fit.judge is None, domains_per_batch


def train_together(fits: Sequence[NetworkFit]) -> list[tuple[NetworkFit, Trained]]:
    """Train the networks of classifiers with the same settings, as one stack where there are several."""
    lead, device, data = fits[0].model, fits[0].device, [fit.examples for fit in fits]
    own_state = torch.random.fork_rng([device] if device.startswith("cuda") else [])
    is_small = lead._inputs.stacks(lead.device) or lead._inputs.is_small  # threads would mostly wait for each other
    with own_state, one_thread() if is_small else nullcontext():
        torch.random.manual_seed(int(fits[0].rngs[0].integers(2**63)))  # of a user's initial weights, and dropout
        networks = [fit.model._inputs.make(fit.model.encoder_, fit.examples.n_labels, fit.rngs[1]) for fit in fits]
        for network in networks:
            network.to(device)
        judges = None if fits[0].judge is None else [fit.judge for fit in fits]
        settings = lead._settings(max(data, key=len), judges is not None)
        ends = np.cumsum(list(map(len, data)))
        pool, rngs = make_pool(data, device), [fit.rngs[2] for fit in fits]
        rows = [np.arange(end - len(part), end) for part, end in zip(data, ends, strict=True)]
        per_batch, domains = getattr(lead, "domains_per_batch", None), [part.domains for part in data]
        batches = (
            ShuffledBatches(pool, rows, settings.batch_size, rngs)
            if per_batch is None
            else DomainBatches(pool, rows, domains, settings.batch_size, rngs, per_batch)
        )
        objective = lead._objective(fits, settings.epochs * batches.n_batches).to(device)
        judge = None if judges is None else partial(verdicts, judges)
        listeners, checkpoints = _listeners(lead, fits), _checkpoints(fits, networks, settings)
        trained = train(networks, batches, objective, settings, listeners, judge, checkpoints)
        for fit, network, own in zip(fits, networks, trained, strict=True):
            fit.model._finish(fit, network, own.history)
    return list(zip(fits, trained, strict=True))


def _checkpoints(
    fits: Sequence[NetworkFit], networks: Sequence[nn.Module], settings: TrainingSettings
) -> Checkpoints | None:
    """Return the checkpoints of this training if requested: of its settings, data and networks."""
    run, lead = fits[0].model.run, fits[0].model
    if run is None or run.checkpoints is None:
        return None
    params = {
        name: _one_or_all([repr(getattr(fit.model, name)) for fit in fits])
        for name in lead.get_params(deep=False)
        if name not in ("run", "verbose", "device", "network", "iterate")  # a checkpoint has both iterates
    }
    digest = hashlib.blake2b(digest_size=16)
    for part in [part for fit in fits for part in (fit.examples, fit.held_out) if part is not None]:
        digest.update(np.ascontiguousarray(part.labels).tobytes() + np.ascontiguousarray(part.domains).tobytes())
        digest.update(fingerprint(part.examples))
    about: dict[str, Any] = {"classifier": type(lead).__name__, "networks": len(fits), "data": digest.hexdigest()}
    about |= {"layout": 6}  # of a stack's weights; raised whenever earlier checkpoints cannot be continued
    about |= {"network": repr(networks[0]), "start": [model_key({}, network.state_dict(), {}) for network in networks]}
    return run.open_checkpoints(about | params | {"settings": asdict(replace(settings, iterate="best"))})


def _one_or_all(values: list[str]) -> str | list[str]:
    return values[0] if len(set(values)) == 1 else values


def _listeners(lead: NetworkClassifier, fits: Sequence[NetworkFit]) -> list[Listener]:
    """Return what follows the training: a bar or a log, and the user's own."""
    name = type(lead).__name__ + (f" × {len(fits)}" if len(fits) > 1 else "")
    own = () if lead.run is None else lead.run.listeners
    return [ProgressBar(name) if lead.verbose else LoggedProgress(name), *own]


class HeldOutDomains:
    """Examples of held-out domains, and their scores under a network."""

    def __init__(self, data: DomainDataset, device: str = "cpu") -> None:
        self.labels, self.domains, self._device = data.labels, data.domains, device
        self._examples: Any = data.examples  # examples in memory are moved to the device once
        if not isinstance(data.examples, LazyExamples):
            self._examples = torch.as_tensor(data.examples).to(device)

    def scores(self, network: Callable[[Tensor], Tensor]) -> NDArray[np.float32]:
        """Return the scores, (example, label)."""
        scores = score(network, self._examples, self._device)
        if isinstance(self._examples, LazyExamples) and (unread := np.isposinf(scores).all(axis=1)).any():
            raise no_longer_readable(self._examples.sources[unread][0])
        if not np.isfinite(scores).all():
            raise InputError(DIVERGED)
        return scores


class SmallestSets(HeldOutDomains):
    """Mean set size at thresholds that bring held-out domains to target.

    This compares early weights, whose sets are too large, fairly with late ones, which overfit the training domains.
    Each label starts at the threshold at which its held-out rows, pooled, are at target, but at most 0, at which the
    multipliers keep the training cells at target. One offset then lowers all labels until every held-out domain is at
    target in all of its (domain, label) cells with `min_cell_size` or more rows; of 19 or more domains, an order
    statistic leaves out up to a tenth. A label that is hard in new domains thus does not lower the others, and neither
    small cells nor the number of cells decide (docs/experiment-log.md compares rules); if all are small, there is no
    offset. With another criterion, its groups stand for the labels; a label without a target keeps the threshold 0.
    """

    def __init__(self, data: DomainDataset, criterion: Criterion, min_cell_size: int, device: str = "cpu") -> None:
        super().__init__(data, device)
        self._criterion, self._min_cell_size = criterion, min_cell_size

    def verdict(self, network: Callable[[Tensor], Tensor]) -> float:
        """Return the mean set size."""
        scores = self.scores(network)
        return float(np.count_nonzero(scores >= self._thresholds(scores)) / len(scores))

    def thresholds(self, network: Callable[[Tensor], Tensor]) -> NDArray[np.float32]:
        """Return the threshold of every label, at most 0."""
        return self._thresholds(self.scores(network))

    def _thresholds(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        labels, domains, target = self.labels, self.domains, self._criterion
        pooled = cell_thresholds(scores, labels, np.zeros_like(domains), target)[0]
        base = np.minimum(pooled, 0.0)
        needed = (cell_thresholds(scores, labels, domains, target, self._min_cell_size) - base).min(axis=1)
        needed = np.sort(needed[np.isfinite(needed)])
        if len(needed) == 0:
            return target.by_label(base, 0.0).astype(scores.dtype)
        rank = max(int(order_ranks(len(needed), CONFIDENCE)), 1)
        return target.by_label(base + min(0.0, float(needed[rank - 1])), 0.0).astype(scores.dtype)


class LowestLoss(HeldOutDomains):
    """Mean cross-entropy on held-out domains."""

    def verdict(self, network: Callable[[Tensor], Tensor]) -> float:
        """Return the mean loss."""
        scores = torch.from_numpy(self.scores(network))
        return float(functional.cross_entropy(scores, torch.as_tensor(self.labels)))


def verdicts(judges: Sequence[SmallestSets | LowestLoss], networks: Sequence[nn.Module]) -> Tensor:
    """Return the criterion of each network, lower is better, as `train` expects it."""
    return torch.tensor([judge.verdict(network) for judge, network in zip(judges, networks, strict=True)])
