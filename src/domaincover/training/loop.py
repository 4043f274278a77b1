"""The training loop: epochs of primal and dual steps, for one network or a stack, and its optimiser."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from domaincover.errors import InputError
from domaincover.networks.perceptrons import stack
from domaincover.training.batches import Batch, ShuffledBatches
from domaincover.training.checkpoints import BestWeights, Checkpoints, State, shortfall, worst_recall
from domaincover.training.listeners import Listener, Step, why_stopped
from domaincover.training.objectives import Objective, SetCoverLoss
from domaincover.training.settings import TrainingSettings

DIVERGED = "training diverged: the network's scores are NaN or infinite; lower learning_rate."
PROGRESS = ("n_steps", "n_steps_judged", "first_epoch", "n_done", "is_finished")  # numbers that checkpoints hold
Judge = Callable[[Sequence[nn.Module]], Tensor]
WIDTH = 64  # numbers; a multiple of any processor's vector registers


class FlatAdam:
    """Adam (Kingma and Ba 2015) on all parameters as one vector.

    Takes the same steps as `torch.optim.Adam(fused=True)`, and has its attributes; its `step` takes several times as
    long as the kernel that it calls for a small network. The parameters permanently become views of one vector, so this
    is for stacks only, not for users' networks.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        trained = list(parameters)
        weights = torch.cat([parameter.detach().reshape(-1) for parameter in trained])
        # Whole vector registers, since a rest is computed apart, and rounded otherwise.
        self._weights = nn.functional.pad(weights, (0, -len(weights) % WIDTH))
        self._gradient = torch.zeros_like(self._weights)
        self.param_groups: list[dict[str, Any]] = [{"params": [self._weights], "lr": lr}]
        self.state: dict[Tensor, dict[str, Tensor]] = {}
        start = 0
        for parameter in trained:
            part = slice(start, start + parameter.numel())
            parameter.data = self._weights[part].view_as(parameter)
            parameter.grad = self._gradient[part].view_as(parameter)  # backward adds into it
            start = part.stop

    def zero_grad(self) -> None:
        """Reset the gradient."""
        self._gradient.zero_()

    def step(self) -> None:
        """Update the parameters with the accumulated gradient."""
        if not (own := self.state.get(self._weights)):
            moments = {name: torch.zeros_like(self._weights) for name in ("exp_avg", "exp_avg_sq")}
            own = self.state[self._weights] = {"step": self._weights.new_zeros((), dtype=torch.float32)} | moments
        own["step"] += 1
        torch._fused_adam_(
            [self._weights],
            [self._gradient],
            [own["exp_avg"]],
            [own["exp_avg_sq"]],
            [],
            [own["step"]],
            lr=self.param_groups[0]["lr"],
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


def saved_state(adam: Any) -> dict[str, Tensor]:
    """Return the state of an optimiser as named tensors."""
    parameters = enumerate(adam.param_groups[0]["params"])
    return {f"{k}.{name}": value for k, own in parameters for name, value in adam.state.get(own, {}).items()}


@torch.no_grad()
def load_saved_state(adam: Any, state: Mapping[str, Tensor]) -> None:
    """Restore a saved state."""
    parameters, is_flat = adam.param_groups[0]["params"], isinstance(adam, FlatAdam)
    for name, value in state.items():
        number, key = name.split(".")
        own = parameters[int(number)]
        device = own.device if is_flat or key != "step" else "cpu"  # torch's Adam counts its steps on the processor
        adam.state.setdefault(own, {})[key] = value.to(device).clone()


@dataclass(frozen=True)
class History:
    """The training history of one network, with one row per dual step (per epoch if there are none).

    `recall` and `multipliers` have the shape (steps, domains, labels), the multipliers after the step; None for
    objectives without multipliers.
    """

    epoch: NDArray[np.int64]
    batch: NDArray[np.int64]
    loss: NDArray[np.float64]
    set_size: NDArray[np.float64] | None = None
    recall: NDArray[np.float64] | None = None
    multipliers: NDArray[np.float64] | None = None


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
    checkpoints: Checkpoints | None = None,
) -> list[Trained]:
    """Train the networks in place, each as if alone, and return their histories and last weights.

    Replica r of the batches and of the objective belongs to `networks[r]`. A judge, if given, evaluates the weights
    after every dual step (epoch, if there are none) by a criterion per network, lower is better. With checkpoints,
    training resumes from the newest one, with the same result as without the interruption, if the batches are those
    that the interrupted training began with.
    """
    training = _Training(networks, batches, objective, settings, listeners, judge, checkpoints)
    try:
        training.run()
        return training.finish()
    finally:
        training.tell("finish", training.end)


@dataclass
class _Training:
    """The primal steps of a stack, and what happens between them."""

    networks: Sequence[nn.Module]
    batches: ShuffledBatches
    objective: Objective
    settings: TrainingSettings
    listeners: Sequence[Listener]
    judge: Judge | None
    checkpoints: Checkpoints | None
    n_steps: int = 0
    n_steps_judged: int = 0
    first_epoch: int = 0
    n_done: int = 0  # batches of the first epoch
    is_finished: bool = False
    end: str | None = None

    def __post_init__(self) -> None:
        _check(self.objective, self.batches)
        self.stacked = stack(self.networks)
        self.objective.train()
        self.stacked.train()
        kind: Any = FlatAdam if self.stacked.owns_parameters else torch.optim.Adam
        self.adam = kind(self.stacked.parameters(), lr=self.settings.learning_rate)
        self.set_cover = self.objective if isinstance(self.objective, SetCoverLoss) else None
        self.target: Any = getattr(self.objective, "target_recall", None)
        self.best = BestWeights(self.stacked, len(self.networks))
        self.record = _Record()
        self.modules = {"network": self.stacked, "objective": self.objective, "best": self.best}
        if self.checkpoints is not None and (state := self.checkpoints.newest()) is not None:
            self._load(state)

    def tell(self, what: str, *about: Any) -> None:
        for listener in self.listeners:
            getattr(listener, what)(*about)

    def run(self) -> None:
        epochs = self.settings.epochs
        self.tell("start", epochs, self.batches.n_batches, len(self.networks))
        if self.is_finished:
            return
        while self.first_epoch < epochs and not self.best.all_closed:
            self._epoch(self.first_epoch)
            self.first_epoch += 1
            if self.settings.patience is not None:
                self.best.close(self.settings.patience, len(self.record))
            self._keep()
            self.tell("epoch", self.first_epoch)
        self.is_finished, self.end = True, why_stopped(self.first_epoch, epochs)
        self._keep()

    def _epoch(self, epoch: int) -> None:
        for batch in self.batches.epoch(self.n_done):
            self._primal_step(batch)
            self.n_done += 1
            self.tell("batch", batch.labels.shape[1])
            if self.set_cover is not None and self.n_done % self.settings.update_every == 0:
                self._between(epoch, self.n_done)
            if self.checkpoints is not None and self.checkpoints.is_due:
                self._keep()
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
            self.adam.param_groups[0]["lr"] = self.settings.learning_rate * min(1.0, 2 * share_left)
        if self.objective.begin_step(self.n_steps):
            self.adam.state.clear()
        self.adam.zero_grad()
        loss = self._backward(batch)
        self.adam.step()
        self.record.losses.append(loss)
        self.n_steps += 1

    def _backward(self, batch: Batch) -> Tensor:
        """Add the gradient of the loss to the parameters', and return the loss by replica."""
        found = self.stacked.training_pass(batch.examples, batch.domains, self.objective.needs_features)
        scores, *features = found.outputs
        if self.set_cover is not None and self.settings.recall_from == "batches":
            self.set_cover.counts.add(scores.detach(), batch.labels, batch.domains)
        value, slopes = self.objective.value_and_slopes(scores, batch.labels, batch.domains, *features)
        found.backward(slopes)
        return value

    def _between(self, epoch: int, number: int) -> None:
        """Update the multipliers, evaluate the weights, record."""
        self.best.hold()
        if not all(bool(weights.isfinite().all()) for weights in self.stacked.parameters()):
            raise InputError(DIVERGED)
        moved = None if self.set_cover is None else self._dual_step(self.set_cover)
        self.record.add_step(epoch, number, *(moved or ()))
        if self.n_steps == self.n_steps_judged:  # two updates in a row: the weights have not changed
            return
        self.n_steps_judged = self.n_steps
        seen = () if moved is None else (worst_recall(moved.recall, self.target), moved.set_size)
        self.tell("step", Step(epoch, number, self.n_steps, *(float(x.mean()) for x in (self.record.mean_loss, *seen))))
        if self.judge is not None and self.objective.is_warm:
            if self.settings.judge_at == "epochs" and number < self.batches.n_batches:
                return
            self.stacked.eval()
            self.stacked.write_back()
            found = self.judge(self.networks)
            self.best.offer(found, torch.zeros_like(found))
            self.stacked.train()
        elif moved is not None:
            self.best.offer(shortfall(moved.recall, self.target), moved.set_size)

    @torch.no_grad()
    def _dual_step(self, loss: SetCoverLoss) -> DualStep:
        """Update the multipliers from the recall of the training examples."""
        if self.settings.recall_from == "full-pass":
            loss.counts.reset()
            self.stacked.eval()
            for block, counts in self.batches.in_order():
                loss.counts.add(self.stacked(block.examples), block.labels, block.domains, counts)
            self.stacked.train()
        set_size = loss.counts.mean_set_size()
        recall = loss.update(over_processes=False)
        return DualStep(set_size, recall, loss.multipliers.clone())

    def _keep(self) -> None:
        """Write a checkpoint from which training can resume."""
        if self.checkpoints is not None:
            self.checkpoints.write(self._state())

    def _state(self) -> State:
        parts = {name: part.state_dict() for name, part in self.modules.items()}
        parts |= {"optimizer": saved_state(self.adam), "record": self.record.saved_state()}
        parts["generators"] = {"cpu": torch.get_rng_state()}  # of dropout
        if self.batches.pool.device.type == "cuda":
            parts["generators"]["cuda"] = torch.cuda.get_rng_state(self.batches.pool.device)
        tensors = {f"{name}.{key}": value for name, part in parts.items() for key, value in part.items()}
        return State(tensors, {name: getattr(self, name) for name in PROGRESS})

    def _load(self, state: State) -> None:
        """Resume from a checkpoint."""
        parts: dict[str, dict[str, Tensor]] = defaultdict(dict)
        for key, value in state.tensors.items():
            name, _, rest = key.partition(".")
            parts[name][rest] = value
        for name, module in self.modules.items():
            module.load_state_dict(parts[name])
        load_saved_state(self.adam, parts["optimizer"])
        self.record.load_saved_state(parts["record"])
        torch.set_rng_state(parts["generators"]["cpu"])
        if self.batches.pool.device.type == "cuda":
            torch.cuda.set_rng_state(parts["generators"]["cuda"], self.batches.pool.device)
        for name in PROGRESS:
            setattr(self, name, state.content[name])
        self.batches.skip(self.first_epoch)
        # As the last step left it, since the end of an epoch may still be due.
        self.objective.begin_step(max(self.n_steps - 1, 0))


class _Record:
    """Collect the values of training histories."""

    def __init__(self) -> None:
        self.losses: list[Tensor] = []  # of the batches since the last row
        self._rows: list[tuple[Tensor, ...]] = []  # epoch and batch; mean loss; of dual steps size, recall, multipliers

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def mean_loss(self) -> Tensor:
        """The mean loss between the last two steps, by replica."""
        return self._rows[-1][1]

    def add_step(self, epoch: int, batch: int, *dual: Tensor) -> None:
        """Record a dual step or an epoch."""
        if self.losses:
            # Losses from a checkpoint may be on another device.
            losses = torch.stack([loss.to(self.losses[-1].device) for loss in self.losses])
            loss = losses.mean(0).cpu()
        else:
            loss = self.mean_loss
        self.losses = []
        self._rows.append((torch.tensor((epoch, batch)), loss, *(value.cpu() for value in dual)))

    def histories(self, ends: Sequence[int | None]) -> list[History]:
        """Return the history of each network, up to its end; None is the whole history."""
        steps, *columns = map(torch.stack, zip(*self._rows, strict=True))
        epoch, batch = steps.T.numpy()
        return [
            History(epoch[:end], batch[:end], *(column[:end, network].double().numpy() for column in columns))
            for network, end in enumerate(ends)
        ]

    def saved_state(self) -> dict[str, Tensor]:
        """Return the state as named tensors."""
        columns = {f"{k}": torch.stack(column) for k, column in enumerate(zip(*self._rows, strict=True))}
        return columns | ({"losses": torch.stack(self.losses)} if self.losses else {})

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore a saved state."""
        self.losses = [*state.get("losses", ())]
        self._rows = list(zip(*(state[name] for name in sorted(state) if name != "losses"), strict=True))


def _check(objective: Objective, batches: ShuffledBatches) -> None:
    """Reject an objective for other networks, domains or labels than the batches have."""
    if isinstance(objective, SetCoverLoss):
        n_networks = len(batches.rows)
        if objective.shape[:-2] != (n_networks,):
            raise InputError(
                f"SetCoverLoss needs a list of target recalls, one for each of the {n_networks} networks trained."
            )
        batches.pool.check_codes(objective.shape[-2], objective.n_labels)
