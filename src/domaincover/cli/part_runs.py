"""Run steps on the parts of a table: in this process, on workers of this machine, or on a dask scheduler's.

A step that fails on a part does not stop the others, unless they would fail as well: the disk is full, or the cluster
is gone. Steps write files that appear whole, so that the same command goes on where this one ended.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import typer

from domaincover.errors import InputError, one_line
from domaincover.files import is_full
from domaincover.terminal.executors import DIED, in_turn, local_cluster, on_cluster

Item = TypeVar("Item")
Result = TypeVar("Result")


class PartOutcome(NamedTuple):
    """What a step returned and warned of; or why it failed, and whether others would too; or a fault's traceback."""

    result: Any = None
    notes: tuple[str, ...] = ()
    reason: str | None = None
    stops_others: bool = False
    fault: str = ""


@dataclass(frozen=True)
class PartWork(Generic[Item, Result]):
    """A step as it runs on a worker: in one thread, since rounding may depend on their number."""

    step: Callable[[Item], Result]

    def __call__(self, item: Item) -> PartOutcome:
        """Do the step; what a user can fix becomes a reason."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default", UserWarning)
            try:
                if (model := getattr(self.step, "model", None)) is not None:
                    model.load()  # first, since it imports what is to have one thread
                with _threads(len(sys.modules)).limit(limits=1):
                    result = self.step(item)
            except InputError as error:
                return PartOutcome(reason=str(error), stops_others=_is_full(error))
            except MemoryError:
                return PartOutcome(reason=f"out of memory at {item}; use smaller parts.", stops_others=True)
            except OSError as error:
                return PartOutcome(reason=f"{one_line(error)}.", stops_others=is_full(error))
            except Exception:  # a fault of our own, of which a scheduler would pass on no traceback
                return PartOutcome(fault=traceback.format_exc())
        return PartOutcome(result, tuple(dict.fromkeys(str(warning.message) for warning in caught)))


@dataclass(frozen=True)
class PartWorkers:
    """Where steps run: here, on workers of this machine, or on those of a scheduler; and a folder that they share."""

    workers: int | None = None
    scheduler: str | None = None
    scratch: Path | None = None

    def check(self, table: Any) -> None:
        """Reject what contradicts each other, and workers for a table that is not in parts."""
        if self.workers is None and self.scheduler is None:
            return
        option = "--scheduler" if self.workers is None else "--workers"
        if self.workers is not None and self.scheduler is not None:
            raise InputError("--workers starts workers on this machine, --scheduler uses others; give one of them.")
        if self.scheduler is not None and "://" not in self.scheduler:
            raise InputError(f"a scheduler's address has the form tcp://host:8786, got {self.scheduler!r}.")
        if not hasattr(table, "parts"):
            raise InputError(f"{option} is for the parts of a folder, and {table.path} is one table.")

    @contextmanager
    def started(self) -> Iterator[PartRuns]:
        """Start what steps run on, and end it."""
        with ExitStack() as running:
            address = self.scheduler
            if self.workers is not None:
                address = running.enter_context(local_cluster(self.workers))
            yield PartRuns(address)


@dataclass(frozen=True)
class PartRuns:
    """Runs steps on items, one after the other or on the workers of a scheduler."""

    scheduler: str | None = None

    def each(
        self, what: str, step: Callable[[Item], Result], items: Sequence[Item], hint: str = ""
    ) -> Iterator[tuple[Item, Result]]:
        """Yield items with what a step returned, as they end; afterwards raise if any failed.

        `what` says on a terminal what is counted, `hint` after a failure what is kept.
        """
        work = PartWork(step)
        ended = in_turn(items, work) if self.scheduler is None else on_cluster(items, work, self.scheduler, _lost)
        failures: list[str] = []
        n_done = 0
        try:
            for item, outcome in ended:
                if outcome.fault:
                    raise RuntimeError(f"at {item}: {outcome.fault}")
                for note in outcome.notes:
                    warnings.warn(note, stacklevel=2)
                if outcome.reason is None:
                    n_done += 1
                    _tell(f"{what}: {n_done:,} of {len(items):,}")
                    yield item, outcome.result
                    continue
                failures.append(outcome.reason if outcome.stops_others else _located(outcome.reason, item))
                if outcome.stops_others:
                    break
        finally:
            ended.close()  # type: ignore[attr-defined]
            _tell("")
        if failures:
            more = f" {len(failures) - 1:,} more failed." if len(failures) > 1 else ""
            kept = f" {n_done:,} of {len(items):,} are finished{hint}." if n_done and hint else ""
            raise InputError(f"{failures[0]}{more}{kept}")


@lru_cache(maxsize=1)
def _threads(n_modules: int) -> Any:  # noqa: ARG001 - looked for anew only where modules were loaded since
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _lost(reason: str) -> PartOutcome:
    return PartOutcome(reason=f"{reason}.", stops_others=reason != DIED)


def _located(message: str, item: Any) -> str:
    """Name the part in a message that does not."""
    where = str(item)
    return message if where in message else f"{where}: {message}"


def _is_full(error: BaseException | None) -> bool:
    return error is not None and (is_full(error) or _is_full(error.__cause__))


def _tell(progress: str) -> None:
    """Show how far it is on a terminal, in one line that is written over."""
    if sys.stderr.isatty():
        typer.echo(f"\r\033[K{progress}", nl=False, err=True)
