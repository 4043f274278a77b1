"""Training of network classifiers: one at a time, or several with the same settings as one stack."""

from __future__ import annotations

import copy
import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import DomainDataset
from domaincover.data.examples import LazyExamples, fingerprint
from domaincover.data.feature_cache import model_key
from domaincover.estimators.base import Targets
from domaincover.estimators.judges import StackJudge
from domaincover.networks.perceptrons import to_layers
from domaincover.training.batches import make_pool
from domaincover.training.engine import Engine
from domaincover.training.history import History
from domaincover.training.listeners import Listener, OnEpoch
from domaincover.training.loop import TrainingSettings, train
from domaincover.training.progress import LoggedProgress, ProgressBar
from domaincover.training.run import TrainingRun
from domaincover.training.trackers import Tracker

if TYPE_CHECKING:
    from domaincover.estimators.network import NetworkClassifier, Plan

NUMBERS_IN_A_STACK = 100_000_000  # encoded inputs of all networks in a stack: 400 MB
OWN_SETTINGS = ("target_recall", "random_state", "run")  # in these, networks of one stack may differ


class Prepared(NamedTuple):
    """A classifier that is ready to train: its targets, training rows and their examples, judge and generators."""

    model: NetworkClassifier
    targets: Targets
    trains: NDArray[np.bool_]
    examples: DomainDataset
    held_out: DomainDataset | None
    judge: Any
    rngs: list[np.random.Generator]
    engine: Engine
    last: NetworkClassifier | None = None  # the same classifier, which keeps the last iterate of this training

    @property
    def domains_per_batch(self) -> int:
        """Domains in a batch, where batches are drawn by domain; the same for all networks of a stack."""
        return min(len(np.unique(self.examples.domains)), getattr(self.model, "domains_per_batch", 0))


class Waiting(NamedTuple):
    """A classifier to fit, its X, y and domains, and the classifier that keeps the last iterate of its training."""

    model: NetworkClassifier
    data: tuple[Any, Any, Any]
    last: NetworkClassifier | None

    def prepared(self) -> Prepared:
        """Return the classifier ready to train."""
        return self.model._prepare(*self.data)._replace(last=self.last)


class Trained(NamedTuple):
    """What training leaves for one classifier to learn from."""

    prepared: Prepared
    history: History


def fit_together(
    models: Sequence[NetworkClassifier],
    data: Sequence[tuple[Any, Any, Any]],
    as_if_alone: bool = False,
    last: Mapping[int, NetworkClassifier] | None = None,
) -> None:
    """Fit network classifiers, each on its own (X, y, domains).

    Those with the same settings train as one stack; target recall and random state may differ. All networks of a stack
    train as long as the one with the most rows; `as_if_alone` stacks only those with equally many rows, so that each
    gives what it would give alone, up to rounding. `last[k]` equals `models[k]` but for the iterate: it is fitted with
    the last weights of the same training.
    """
    alike = defaultdict(list)
    for k, (model, part) in enumerate(zip(models, data, strict=True)):
        alike[_settings_key(model)].append(Waiting(model, part, (last or {}).get(k)))
    for waiting in alike.values():
        while waiting:
            _fit_stack(waiting, as_if_alone)


def _settings_key(model: NetworkClassifier) -> Any:
    if not model._inputs.stacks(model.device):
        return id(model)
    settings = {name: value for name, value in model.get_params(deep=False).items() if name not in OWN_SETTINGS}
    return type(model), repr(settings)


def _fit_stack(waiting: list[Waiting], as_if_alone: bool) -> None:
    """Fit the first of the waiting classifiers, and as many others with it as memory allows."""
    first = waiting.pop(0).prepared()
    n_more = NUMBERS_IN_A_STACK // max(first.examples.examples.size, 1) if waiting else 0
    prepared = [first, *(each.prepared() for each in waiting[:n_more])]
    del waiting[:n_more]
    groups = defaultdict(list)
    for each in prepared:  # a fold may lack a label, or a category and with it a column
        examples = each.examples
        shape = () if isinstance(examples.examples, LazyExamples) else examples.examples.shape[1:]
        rows = len(examples) if as_if_alone else 0
        groups[shape, examples.n_labels, each.judge is None, each.domains_per_batch, rows].append(each)
    for group in groups.values():
        train_together(group)


def train_together(group: Sequence[Prepared]) -> None:
    """Train the networks of classifiers with the same settings, as one stack where there are several."""
    lead = group[0].model
    with lead._reproducible(group[0].rngs[0]):
        for prepared in group:
            model = prepared.model
            model.__dict__.pop("layers_", None)  # of an earlier fit
            model.network_ = model._inputs.make(model.encoder_, prepared.examples.n_labels, prepared.rngs[1])
            model.network_.to(prepared.engine.device)
            if prepared.last is not None:
                _copy_prepared(model, prepared.last)
        for trained in _trained(group, lead):
            for fitted in filter(None, (trained.prepared.model, trained.prepared.last)):
                if fitted._inputs.is_dense:  # from here on the layers score, and network_ is made from them on demand
                    fitted.layers_ = to_layers(fitted.__dict__.pop("network_").to("cpu"))
                fitted._learn(trained)
                fitted._history = trained.history
                if not fitted._inputs.is_dense:
                    fitted.network_.to("cpu")


def _copy_prepared(model: NetworkClassifier, last: NetworkClassifier) -> None:
    """Give a classifier what another has before training; its network is a copy."""
    own = {name: value for name, value in vars(model).items() if name not in model.get_params(deep=False)}
    last.__dict__.update(own | {"network_": copy.deepcopy(model.network_)})


def _trained(group: Sequence[Prepared], lead: NetworkClassifier) -> Iterator[Trained]:
    data, engine, run = [prepared.examples for prepared in group], group[0].engine, lead.run or TrainingRun()
    ends = np.cumsum([len(part) for part in data])
    rows = [np.arange(end - len(part), end) for part, end in zip(data, ends, strict=True)]
    plan = lead._plan_training(max(map(len, data)))
    batches = lead._batches(
        make_pool(data, engine.device),
        rows,
        [part.domains for part in data],
        plan.batch_size,
        [prepared.rngs[2] for prepared in group],
        engine.shard,
    )
    judges = [prepared.judge for prepared in group]
    judge = None if None in judges else StackJudge(judges)
    objective = lead._objective(group, plan.epochs * batches.n_batches).to(engine.device)
    settings = TrainingSettings(
        plan.epochs,
        lead.learning_rate,
        plan.update_every,
        plan.recall_from,
        lead.iterate,
        decay=lead.learning_rate_decay,
        patience=lead.patience if judge is not None else None,
        judge_at="epochs" if isinstance(data[0].examples, LazyExamples) else "steps",
    )
    networks = [prepared.model.network_ for prepared in group]
    checkpoints = run.open_checkpoints(_identity(group, plan)) if run.checkpoints is not None else None
    last = [None if prepared.last is None else prepared.last.network_ for prepared in group]
    histories = train(networks, batches, objective, settings, _listeners(lead, group), judge, engine, checkpoints, last)
    yield from map(Trained, group, histories)


def _identity(group: Sequence[Prepared], plan: Plan) -> dict[str, Any]:
    """Return what a training's checkpoints belong to: settings, data and network, as plain data."""
    lead = group[0].model
    settings = {
        name: _one_or_all([repr(getattr(prepared.model, name)) for prepared in group])
        for name in lead.get_params(deep=False)
        if name not in ("run", "verbose", "device", "network", "iterate")  # a checkpoint has both iterates
    }
    data = [part for prepared in group for part in (prepared.examples, prepared.held_out) if part is not None]
    digest = hashlib.blake2b(digest_size=16)
    for part in data:
        digest.update(np.ascontiguousarray(part.labels).tobytes() + np.ascontiguousarray(part.domains).tobytes())
        digest.update(fingerprint(part.examples))
    networks = [prepared.model.network_ for prepared in group]
    about: dict[str, Any] = {"classifier": type(lead).__name__, "networks": len(group), "data": digest.hexdigest()}
    about |= {"layout": 3}  # of a stack's weights; raised whenever earlier checkpoints cannot be continued
    about |= {"network": repr(networks[0]), "start": [model_key({}, network.state_dict(), {}) for network in networks]}
    return about | settings | {"plan": list(plan)}


def _one_or_all(values: list[str]) -> str | list[str]:
    return values[0] if len(set(values)) == 1 else values


def _listeners(lead: NetworkClassifier, group: Sequence[Prepared]) -> list[Listener]:
    """Return what follows the training: a bar or a log, trackers, a callback; of several processes, only the main's."""
    if not group[0].engine.is_main:
        return []
    name = type(lead).__name__ + (f" × {len(group)}" if len(group) > 1 else "")
    run = lead.run or TrainingRun()
    settings = {key: value for key, value in lead.get_params(deep=False).items() if key != "run"}
    listeners: list[Listener] = [ProgressBar(name) if lead.verbose else LoggedProgress(name)]
    listeners += [Tracker(kind, run.tracking, name, settings) for kind in run.trackers]
    return listeners + ([] if run.on_epoch is None else [OnEpoch(partial(run.on_epoch, len(group)))])
