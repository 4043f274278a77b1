"""Run training in this process, or through accelerate in several processes or with mixed precision.

Only this module knows about processes and precision; only `pools` knows about files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast, get_args

import torch
from torch import Tensor, nn

from domaincover.errors import InputError, check_installed
from domaincover.networks.stacks import Pass, StackOutputs
from domaincover.options import Precision
from domaincover.training.pools import ALONE, Batch, Shard


class Engine:
    """Training in one process with full precision, without accelerate."""

    shard: Shard = ALONE

    def __init__(self, device: str = "cpu", accumulate: int = 1) -> None:
        if accumulate < 1:
            raise InputError(f"accumulate must be at least 1, got {accumulate}.")
        self.device, self.accumulate = device, accumulate

    @property
    def is_alone(self) -> bool:
        """Whether training runs in this process only."""
        return type(self) is Engine

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.shard.rank == 0

    def prepare(self, network: StackOutputs, optimizer: Any) -> tuple[Callable[[Tensor, Tensor], Pass], Any]:
        """Return the passes of training, of examples and domains, and the optimiser."""
        return network.training_pass, optimizer

    def pieces(self, batch: Batch) -> Iterator[tuple[Batch, AbstractContextManager[Any]]]:
        """Yield a batch in `accumulate` pieces, each with the context of its backward pass."""
        n_examples = batch.labels.shape[1]
        n_pieces = min(self.accumulate, n_examples // 2)  # at least two examples each, which BatchNorm needs
        if n_pieces <= 1:
            yield batch, nullcontext()
            return
        for k in range(n_pieces):
            part = Shard(k, n_pieces).part(n_examples)
            share = batch.share * (part.stop - part.start) / n_examples
            piece = Batch(batch.examples[:, part], batch.labels[:, part], batch.domains[:, part], share)
            yield piece, nullcontext() if k == n_pieces - 1 else self._without_exchange()

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over processes."""
        return values

    def whole(self, own: Tensor, n: int) -> Tensor:
        """Return the complete batch of n examples, (replica, example, …), gathered from all processes."""
        whole = own.new_zeros(len(own), n, *own.shape[2:])
        whole[:, self.shard.part_of_batch(n)] = own
        return self.sum(whole)

    def own_part(self, whole: Tensor) -> Tensor:
        """Return this process's part of a complete batch."""
        return whole[:, self.shard.part_of_batch(whole.shape[1])]

    def agree(self, wish: bool) -> bool:
        """Return whether any process passes True."""
        return bool(self.sum(torch.tensor(float(wish))) > 0)

    def share_buffers(self, network: nn.Module) -> None:
        """Copy the main process's buffers, such as running means, to all processes."""

    def saved_state(self) -> dict[str, Tensor]:
        """Return the state as named tensors."""
        return {}

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore a saved state."""

    def _without_exchange(self) -> AbstractContextManager[Any]:
        return nullcontext()


class Accelerated(Engine):
    """Training in several processes started by torchrun, or with mixed precision, through accelerate."""

    def __init__(self, device: str = "cpu", accumulate: int = 1, precision: Precision = "full") -> None:
        super().__init__(device, accumulate)
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState

        AcceleratorState._reset_state()  # otherwise the precision of the first training in a process is kept
        mixed = "no" if precision == "full" else precision
        self._accelerator: Any = Accelerator(mixed_precision=mixed, cpu=device == "cpu")
        self.shard = Shard(self._accelerator.process_index, self._accelerator.num_processes)
        self.device = str(self._accelerator.device)

    def prepare(self, network: StackOutputs, optimizer: Any) -> tuple[Callable[[Tensor, Tensor], Pass], Any]:
        """Return the passes in several processes and with mixed precision, and the optimiser."""
        # accelerate modifies its forward; passes without gradient call the stack inside, which stays as it is.
        self._wrapped = self._accelerator.prepare_model(network)
        return self._training_pass, self._accelerator.prepare_optimizer(optimizer)

    def _training_pass(self, examples: Tensor, domains: Tensor) -> Pass:
        outputs = self._wrapped(examples, domains)
        return Pass(outputs, partial(self._backward, outputs))

    def _backward(self, outputs: Sequence[Tensor], slopes: Sequence[Tensor]) -> None:
        """Accumulate the gradient by way of a loss, which accelerate needs for half-precision scaling."""
        parts = [(output * slope).sum() for output, slope in zip(outputs, slopes, strict=True)]
        # accelerate averages over processes, and a sum is needed
        self._accelerator.backward(torch.stack(parts).sum() * self.shard.n_processes)

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over processes."""
        on_device = values.to(self._accelerator.device)
        return cast(Tensor, self._accelerator.reduce(on_device, "sum")).to(values.device)

    def share_buffers(self, network: nn.Module) -> None:
        """Copy the main process's buffers to all processes."""
        if self.shard.n_processes > 1:
            from accelerate.utils import broadcast

            for buffer in network.buffers():
                buffer.copy_(broadcast(buffer.contiguous()))

    def saved_state(self) -> dict[str, Tensor]:
        """Return the scale of half-precision gradients, if any."""
        scaler = self._accelerator.scaler
        return {} if scaler is None else {name: torch.tensor(value) for name, value in scaler.state_dict().items()}

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore that scale."""
        if self._accelerator.scaler is not None and state:
            self._accelerator.scaler.load_state_dict({name: value.item() for name, value in state.items()})

    def _without_exchange(self) -> AbstractContextManager[Any]:
        return cast("AbstractContextManager[Any]", self._accelerator.no_sync(self._wrapped))


def n_processes() -> int:
    """Return the number of processes started by torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def make_engine(device: str = "cpu", precision: Precision = "full", accumulate: int = 1) -> Engine:
    """Return an engine for the given settings and the way this process was started."""
    check_precision(device, precision)
    if n_processes() == 1 and precision == "full":
        return Engine(device, accumulate)
    return Accelerated(device, accumulate, precision)


def check_precision(device: str, precision: str) -> None:
    """Reject an unknown precision, or one that the device does not support."""
    if precision not in get_args(Precision):
        raise InputError(f"precision must be 'full', 'bf16' or 'fp16', got {precision!r}.")
    if precision == "fp16" and device == "cpu":
        raise InputError("precision 'fp16' needs a GPU; on a CPU use 'bf16' or 'full'.")
    if precision != "full" or n_processes() > 1:
        check_installed("accelerate", "several processes and mixed precision", "accelerate")
