"""Run steps on the parts of a table: in this process, or in several.

A file is a table of one part: its steps run as they are. Of several parts, one that fails does not stop the others,
unless they would fail as well, as on a full disk. Steps write files that appear whole, so that the same command goes on
where this one ended.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import typer

from domaincover.errors import InputError, one_line
from domaincover.files import is_full
from domaincover.terminal.processes import in_processes, in_turn

if TYPE_CHECKING:
    from domaincover.data.tables import Table

Item = TypeVar("Item")
Result = TypeVar("Result")
PACKAGES = ("sklearn", "lightgbm", "xgboost")  # whose classifiers a model may contain


class PartOutcome(NamedTuple):
    """What a step returned and warned of; or why it failed, and whether others would too."""

    result: Any = None
    notes: tuple[str, ...] = ()
    reason: str | None = None
    stops_others: bool = False


def check_workers(n_workers: int | None, table: Table) -> None:
    """Reject workers for a table that is not in parts."""
    if n_workers is not None and not hasattr(table, "parts"):
        raise InputError(f"--workers is for the parts of a folder, and {table.path} is one table.")


@dataclass(frozen=True)
class PartRuns:
    """Runs steps on items: one after the other, or in several processes."""

    n_processes: int = 1
    in_parts: bool = True

    def each(
        self, what: str, step: Callable[[Item], Result], items: Sequence[Item], hint: str = ""
    ) -> Iterator[tuple[Item, Result]]:
        """Yield items with what a step returned, as they end; afterwards raise if any failed.

        `what` says on a terminal what is counted, `hint` after a failure what is kept.
        """
        if not self.in_parts:
            yield from ((item, _done(step, item)) for item in items)
            return
        work = partial(_outcome, step)
        if (n_processes := min(self.n_processes, len(items))) > 1:
            ended = in_processes(items, work, n_processes, lambda reason: PartOutcome(reason=f"{reason}."))
        else:
            ended = in_turn(items, work)
        failures: list[str] = []
        n_done = 0
        try:
            for item, outcome in ended:
                for note in outcome.notes:
                    warnings.warn(note, stacklevel=2)
                if outcome.reason is None:
                    n_done += 1
                    _tell(f"{what}: {n_done:,} of {len(items):,}")
                    yield item, outcome.result
                    continue
                named = outcome.stops_others or str(item) in outcome.reason
                failures.append(outcome.reason if named else f"{item}: {outcome.reason}")
                if outcome.stops_others:
                    break
        finally:
            ended.close()  # type: ignore[attr-defined]
            _tell("")
        if failures:
            more = f" {len(failures) - 1:,} more failed." if len(failures) > 1 else ""
            kept = f" {n_done:,} of {len(items):,} are finished{hint}." if n_done and hint else ""
            raise InputError(f"{failures[0]}{more}{kept}")

    def all(self, what: str, step: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return what a step returned of each item, in the order of the items."""
        done = {id(item): result for item, result in self.each(what, step, items)}
        return [done[id(item)] for item in items]


def _outcome(step: Callable[[Item], Result], item: Item) -> PartOutcome:
    """Do a step in one thread, since rounding may depend on their number; what a user can fix becomes a reason."""
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", UserWarning)
        try:
            if (model := getattr(step, "model", None)) is not None:
                model.load()  # first, since it imports what is to have one thread
            with threadpool_limits(limits=1):
                result = _done(step, item)
        except InputError as error:
            return PartOutcome(reason=str(error), stops_others=_is_full(error))
        except MemoryError:
            return PartOutcome(reason=f"out of memory at {item}; use smaller parts.", stops_others=True)
        except OSError as error:
            return PartOutcome(reason=f"{one_line(error)}.", stops_others=is_full(error))
    return PartOutcome(result, tuple(dict.fromkeys(str(warning.message) for warning in caught)))


def _done(step: Callable[[Item], Result], item: Item) -> Result:
    with rejected_rows_as_input_error(step.model.folder) if hasattr(step, "model") else nullcontext():
        return step(item)


@contextmanager
def rejected_rows_as_input_error(model: str | Path) -> Iterator[None]:
    """Report rows that a classifier of another package rejects in one line; faults of our own keep their traceback."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        called = [str(frame.f_globals.get("__name__")).partition(".")[0] for frame, _ in walk_tb(error.__traceback__)]
        after_ours = called[len(called) - called[::-1].index("domaincover") :]
        package = after_ours[0] if after_ours else ""
        if package not in PACKAGES or not (isinstance(error, ValueError) or type(error).__module__.startswith(package)):
            raise
        raise InputError(f"{model} cannot predict these rows ({one_line(error)}).") from error


def _is_full(error: BaseException | None) -> bool:
    return error is not None and (is_full(error) or _is_full(error.__cause__))


def _tell(progress: str) -> None:
    """Show how far it is on a terminal, in one line that is written over."""
    if sys.stderr.isatty():
        typer.echo(f"\r\033[K{progress}", nl=False, err=True)
