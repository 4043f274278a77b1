"""The command line. Bad input ends with one line on standard error and exit code 2."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Annotated, NoReturn

import typer

from domaincover.cli.adapt import adapt
from domaincover.cli.check import check
from domaincover.cli.demo import demo
from domaincover.cli.doctor import doctor
from domaincover.cli.evaluate import evaluate
from domaincover.cli.export import export
from domaincover.cli.fit import fit
from domaincover.cli.predict import predict
from domaincover.cli.promise_commands import certify, plan, recalibrate, record
from domaincover.errors import InputError, torch_needed_for
from domaincover.files import fault, is_full
from domaincover.paper.commands.data_check import data
from domaincover.paper.commands.study_commands import paper, report, results, run
from domaincover.terminal.messages import if_stopped, left_behind, speaks_of_options
from domaincover.terminal.processes import handling

app = typer.Typer(
    help="Set-valued prediction in new domains: every label's recall kept, sets as small as they can be.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
PANELS: dict[str, list[Callable[..., None]]] = {
    "Your own data": [check, fit, predict, adapt, evaluate, export],
    "Promises": [certify, record, recalibrate, plan],
    "Studies": [paper, run, results, report],
}
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel, no_args_is_help=command is paper)(speaks_of_options(command))
app.add_typer(data, name="data", rich_help_panel="Studies")
for command in (demo, doctor):
    app.command(rich_help_panel="Help")(speaks_of_options(command))

NAME = "domaincover"  # also as `python -m domaincover`: completion depends on it
INTERRUPTED, TERMINATED = 130, 143  # 128 plus the number of the signal, as in shells


def main() -> None:
    """Run the command line; the entry point of `domaincover`."""
    accept_any_text()
    if_stopped("nothing was written")
    try:
        with sigterm_as_interrupt() as terminated, torch_needed_for("this command"):
            status = app(prog_name=NAME, standalone_mode=False)
    except (InputError, typer.TyperException) as error:
        message = error.format_message() if isinstance(error, typer.TyperException) else str(error)
        _fail(message.replace("Value error, ", "", 1), 2)
    except MemoryError:
        _fail("out of memory; use less data or a machine with more memory.", 2)
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except OSError as error:  # typer handles a reader that leaves early, as `head` does
        if not is_full(error):
            raise
        discard_output()
        _fail(f"cannot write the output: {fault(error)}.", 2)
    if status == INTERRUPTED:  # also typer's own status of Ctrl-C
        # Python ends `python -m` by SIGINT, whatever the status, if the interrupt came while it ran a text, as modules
        # with dataclasses do when they are imported. It forgets that when it runs the next one, as for a named tuple.
        namedtuple("Forgotten", ())
        _fail(f"stopped; {left_behind()}.", TERMINATED if terminated else INTERRUPTED)
    sys.exit(status if isinstance(status, int) else 0)


def accept_any_text() -> None:
    """Let standard output and error accept any text, whatever their encoding."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the process ends
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Discard what is still buffered: the disk is full."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a stream that tests substituted has no file descriptor
            stream.flush()
            continue
        with suppress(OSError, ValueError):
            os.dup2(nowhere, stream.fileno())


@contextmanager
def sigterm_as_interrupt() -> Iterator[list[int]]:
    """Treat SIGTERM, as of a shutdown or a batch system, as Ctrl-C: partial files are removed, child processes end.

    The signals that were received are appended to the list.
    """
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
        received.append(number)
        raise KeyboardInterrupt

    with handling(signal.SIGTERM, interrupt):
        yield received


def _fail(message: str, status: int) -> NoReturn:
    if message:  # typer's is empty if a command is missing and the help is shown
        with suppress(BrokenPipeError):  # no reader is left
            typer.echo(f"domaincover: {' '.join(message.split())}", err=True)
    sys.exit(status)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        from domaincover import __version__

        typer.echo(__version__)
        raise typer.Exit
