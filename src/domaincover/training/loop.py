"""The training loop: epochs of primal and dual steps, for one network or a stack."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from domaincover.errors import InputError
from domaincover.networks.stacks import StackOutputs, stack
from domaincover.training.adam import FlatAdam, TorchAdam
from domaincover.training.batches import DomainBatches, ShuffledBatches
from domaincover.training.checkpoints import Checkpoints, State
from domaincover.training.engine import Engine
from domaincover.training.history import History, Record
from domaincover.training.listeners import Listener, Step
from domaincover.training.multipliers import CellCounts
from domaincover.training.objectives import Objective, SetCoverLoss
from domaincover.training.pools import Batch
from domaincover.training.selection import BestWeights, shortfall
from domaincover.training.settings import TrainingSettings

DIVERGED = "training diverged: the network's scores are NaN or infinite; lower learning_rate."
PROGRESS = ("n_steps", "n_steps_judged", "is_finished")  # numbers of a training that its checkpoints hold
Judge = Callable[[Sequence[nn.Module]], Tensor]


class Trained(NamedTuple):
    """What training leaves of one network: its history, and the last weights, whichever iterate the network keeps."""

    history: History
    last: dict[str, Tensor]


class DualStep(NamedTuple):
    """Set size, recall by cell, and the multipliers after the step, by replica."""

    set_size: Tensor
    recall: Tensor
    multipliers: Tensor


def train(
    networks: Sequence[nn.Module],
    batches: ShuffledBatches,
    objective: Objective,
    settings: TrainingSettings,
    listeners: Sequence[Listener] = (),
    judge: Judge | None = None,
    engine: Engine | None = None,
    checkpoints: Checkpoints | None = None,
) -> list[Trained]:
    """Train the networks in place, each as if alone, and return their histories and last weights.

    Replica r of the batches and of the objective belongs to `networks[r]`. A judge, if given, evaluates the weights
    after every dual step (epoch, if there are none) by a criterion per network, lower is better. With checkpoints,
    training resumes from the newest one, with the same result as without the interruption.
    """
    engine = engine or Engine(str(batches.pool.device))
    training = _Training(networks, batches, objective, settings, listeners, judge, engine, checkpoints)
    try:
        training.run()
        return training.finish()
    finally:
        training.tell("finish")


class _Training:
    """The primal steps of a stack, and what happens between them."""

    def __init__(
        self,
        networks: Sequence[nn.Module],
        batches: ShuffledBatches,
        objective: Objective,
        settings: TrainingSettings,
        listeners: Sequence[Listener],
        judge: Judge | None,
        engine: Engine,
        checkpoints: Checkpoints | None,
    ) -> None:
        if objective.compares_domains:
            _check_comparison(batches, engine)
        if isinstance(objective, SetCoverLoss):
            _check_cells(objective, batches)
        self.networks, self.stacked = networks, stack(networks)
        self.batches, self.objective, self.settings, self.judge = batches, objective, settings, judge
        self.listeners, self.engine, self.checkpoints = listeners, engine, checkpoints
        self.objective.train()
        self.stacked.train()
        own = self.stacked.owns_parameters and engine.is_alone
        self.adam = (FlatAdam if own else TorchAdam)(self.stacked.parameters(), lr=settings.learning_rate)
        outputs = StackOutputs(self.stacked, objective.needs_features)
        self.training_pass, self.optimizer = engine.prepare(outputs, self.adam)
        self.set_cover = objective if isinstance(objective, SetCoverLoss) else None
        self.best = BestWeights(self.stacked, len(networks))
        self.record = Record(engine)
        self.n_steps = self.n_steps_judged = 0
        self.first_epoch = self.n_done = 0
        self.is_finished = False
        if checkpoints is not None and (state := checkpoints.newest()) is not None:
            self._load(state)

    def tell(self, what: str, *about: Any) -> None:
        for listener in self.listeners:
            getattr(listener, what)(*about)

    def run(self) -> None:
        self.tell("start", self.settings.epochs, self.batches.n_batches)
        n_epochs = self.first_epoch
        for epoch in range(self.first_epoch, self.settings.epochs):
            if self.is_finished or self.best.all_closed:
                break
            self._epoch(epoch)
            n_epochs = epoch + 1
            if self.settings.patience is not None:
                self.best.close(self.settings.patience, len(self.record))
            self.batches.remember()
            self._keep(epoch + 1, 0)
            self.tell("epoch", epoch + 1)
        if not self.is_finished:
            self.is_finished = True
            self._keep(self.settings.epochs, 0)
            self.tell("stop", n_epochs, self.settings.epochs)

    def _epoch(self, epoch: int) -> None:
        for number, batch in enumerate(self.batches.epoch(self.n_done), start=self.n_done + 1):
            self._primal_step(batch)
            self.tell("batch", batch.labels.shape[1] * self.engine.shard.n_processes)
            if self.set_cover is not None and number % self.settings.update_every == 0:
                self._between(epoch, number)
            if self.checkpoints is not None and self.engine.agree(self.checkpoints.is_due):
                self._keep(epoch, number)
        self.n_done = 0
        self._between(epoch, self.batches.n_batches)

    def finish(self) -> list[Trained]:
        """Write the weights to the networks."""
        self.stacked.write_back()
        last = [network.state_dict() for network in self.networks]
        if self.settings.iterate == "best":
            last = copy.deepcopy(last)
            self.best.restore()
            self.stacked.write_back()
        return list(map(Trained, self.record.histories(self.best.stopped_at), last))

    def _primal_step(self, batch: Batch) -> None:
        if self.settings.decay:
            share_left = 1 - self.n_steps / (self.settings.epochs * self.batches.n_batches)
            self.adam.rate = self.settings.learning_rate * min(1.0, 2 * share_left)
        if self.objective.begin_step(self.n_steps):
            self.adam.restart()
        self.optimizer.zero_grad()
        loss = self._backward(batch)
        self.optimizer.step()
        self.record.add_loss(loss)
        self.n_steps += 1

    def _backward(self, batch: Batch) -> Tensor:
        """Accumulate the gradient of this process's part of the loss, piece by piece, and return that part."""
        losses: list[Tensor] = []
        for piece, context in self.engine.pieces(batch):
            with context:
                outputs, backward = self.training_pass(piece.examples, piece.domains)
                value, slopes = self._value_and_slopes(outputs, piece)
                backward(slopes)
            losses.append(value)
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum(0)

    def _value_and_slopes(self, outputs: Sequence[Tensor], batch: Batch) -> tuple[Tensor, Sequence[Tensor]]:
        """Return a batch's part of the complete batch's loss, by replica, and its gradients."""
        parts = outputs[0], batch.labels, batch.domains, *outputs[1:]
        if self.objective.compares_domains and self.engine.shard.n_processes > 1:
            # Every process computes the complete loss; the gradients of their own outputs add up to that of one.
            whole = [self.engine.whole(part.detach(), self.batches.batch_size) for part in parts]
            value, slopes = self.objective.value_and_slopes(*whole)
            return value * batch.share, [self.engine.own_part(slope) for slope in slopes]
        if self.set_cover is not None and self.settings.recall_from == "batches" and batch.share > 0:
            # Not the examples of a placeholder, whose share is 0.
            self.set_cover.counts.add(outputs[0].detach(), batch.labels, batch.domains)
        value, slopes = self.objective.value_and_slopes(*parts)
        return (value, slopes) if batch.share == 1 else (value * batch.share, [part * batch.share for part in slopes])

    def _between(self, epoch: int, number: int) -> None:
        """Update the multipliers, evaluate the weights, record."""
        self.best.hold()
        if not all(bool(weights.isfinite().all()) for weights in self.stacked.parameters()):
            raise InputError(DIVERGED)
        self.engine.share_buffers(self.stacked)
        moved = self._dual_step() if self.set_cover is not None else None
        self.record.add_step(epoch, number, *(moved or ()))
        if self.n_steps == self.n_steps_judged:  # two updates in a row: the weights have not changed
            return
        self.n_steps_judged = self.n_steps
        self._tell_step(epoch, number, moved)
        if self.judge is not None and self.objective.is_warm:
            if self.settings.judge_at == "epochs" and number < self.batches.n_batches:
                return
            self.stacked.eval()
            self.stacked.write_back()
            found = self.judge(self.networks)
            self.best.offer(found, torch.zeros_like(found))
            self.stacked.train()
        elif self.set_cover is not None and moved is not None:
            self.best.offer(shortfall(moved.recall, self.set_cover.target_recall), moved.set_size)

    @torch.no_grad()
    def _dual_step(self) -> DualStep:
        """Update the multipliers from the recall of the training examples."""
        loss: Any = self.set_cover
        if self.settings.recall_from == "full-pass":
            loss.counts.reset()
            self.stacked.eval()
            for block, counts in self.batches.in_order():
                loss.counts.add(self.stacked(block.examples), block.labels, block.domains, counts)
            self.stacked.train()
        self._sum_counts(loss.counts)
        set_size = loss.counts.mean_set_size()
        recall = loss.update(over_processes=False)
        return DualStep(set_size, recall, loss.multipliers.clone())

    def _sum_counts(self, counts: CellCounts) -> None:
        """Replace the counts by their sums over processes."""
        if not self.engine.is_alone:
            counts.totals = self.engine.sum(counts.totals)

    def _tell_step(self, epoch: int, number: int, moved: DualStep | None) -> None:
        seen: tuple[float, ...] = ()
        if self.set_cover is not None and moved is not None:
            counted = moved.recall + 0 * self.set_cover.target_recall
            worst = counted.nan_to_num(torch.inf).amin((-2, -1))
            seen = float(worst.mean()), float(moved.set_size.mean())
        self.tell("step", Step(epoch, number, self.n_steps, float(self.record.mean_loss.mean()), *seen))

    def _keep(self, epoch: int, n_done: int) -> None:
        """Write a checkpoint from which training can resume."""
        if self.checkpoints is None:
            return
        if self.set_cover is not None:  # the main process stores the counts of all
            self._sum_counts(self.set_cover.counts)
        if self.engine.is_main:
            self.checkpoints.write(self._state(epoch, n_done))
        elif self.set_cover is not None:
            self.set_cover.counts.reset()

    def _state(self, epoch: int, n_done: int) -> State:
        tensors = {
            f"{name}.{key}": value
            for name, part in self._parts.items()
            for key, value in (part.state_dict() if isinstance(part, nn.Module) else part.saved_state()).items()
        }
        content = {"epoch": epoch, "n_done": n_done, "generators": self.batches.states}
        content |= {name: getattr(self, name) for name in PROGRESS}
        return State(tensors | _generator_states(self.batches.pool.device), content)

    @torch.no_grad()
    def _load(self, state: State) -> None:
        """Resume from a checkpoint."""
        for name, part in self._parts.items():
            saved = {key[len(name) + 1 :]: value for key, value in state.tensors.items() if key.startswith(f"{name}.")}
            if isinstance(part, nn.Module):
                part.load_state_dict(saved)
            else:
                part.load_saved_state(saved)
        _set_generator_states(state.tensors, self.batches.pool.device)
        self.batches.states = state.content["generators"]
        self.first_epoch, self.n_done = state.content["epoch"], state.content["n_done"]
        for name in PROGRESS:
            setattr(self, name, state.content[name])
        # As the last step left it, since the end of an epoch may still be due.
        self.objective.begin_step(max(self.n_steps - 1, 0))

    @property
    def _parts(self) -> dict[str, Any]:
        """All that changes during training, by name."""
        modules = {"network": self.stacked, "objective": self.objective}
        others = {"optimizer": self.adam, "best": self.best, "record": self.record}
        return modules | others | {"engine": self.engine, "batches": self.batches}


def _generator_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of torch's global generators, which dropout uses."""
    states = {"generator.cpu": torch.get_rng_state()}
    return states | ({"generator.cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})


def _set_generator_states(tensors: Mapping[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(tensors["generator.cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(tensors["generator.cuda"], device)


def _check_comparison(batches: ShuffledBatches, engine: Engine) -> None:
    """Reject what would split the batches of an objective that compares their domains."""
    if engine.accumulate > 1:
        raise InputError(
            "accumulate splits batches, but this objective compares the domains of complete batches; use "
            "accumulate=1, and lower batch_size if memory is short."
        )
    if engine.shard.n_processes > 1 and not isinstance(batches, DomainBatches):
        raise InputError("comparing domains in several processes needs DomainBatches.")


def _check_cells(loss: SetCoverLoss, batches: ShuffledBatches) -> None:
    """Reject a loss with other networks, domains or labels than the batches have."""
    n_networks = len(batches.rows)
    if loss.shape[:-2] != (n_networks,):
        raise InputError(
            f"SetCoverLoss needs a list of target recalls, one for each of the {n_networks} networks trained."
        )
    batches.pool.check_codes(loss.shape[-2], loss.n_labels)
