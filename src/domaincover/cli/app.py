"""The command line. Bad input ends with one line on standard error and exit code 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Annotated, NoReturn

import typer

from domaincover.cli import data, doctor, experiments, model, promises, study, wilds_study  # noqa: F401
from domaincover.cli.networks import is_main_process
from domaincover.cli.streams import sigterm_as_interrupt, take_any_text, write_no_more
from domaincover.errors import InputError
from domaincover.files import fault, is_full

app = typer.Typer(
    help="Set-valued prediction in new domains: every label's recall kept, sets as small as they can be.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
PANELS: dict[str, list[Callable[..., None]]] = {
    "Your own data": [model.fit, model.predict, model.evaluate],
    "Promises": [promises.certify, promises.plan],
    "Studies": [experiments.run, study.results, study.report, study.figures],
}
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(study.paper, name="paper", rich_help_panel="Studies", cls=experiments.ExperimentsOrCommand)
app.add_typer(data.data, name="data", rich_help_panel="Studies")
app.command(rich_help_panel="Help")(doctor.doctor)

NAME = "domaincover"  # also as `python -m domaincover`: completion goes by it
INTERRUPTED, TERMINATED = 130, 143  # 128 and the signal's number, as shells have it


def main() -> None:
    """Run the command line; the entry point of `domaincover`."""
    take_any_text()
    try:
        with sigterm_as_interrupt() as ending, _one_talks():
            status = app(prog_name=NAME, standalone_mode=False)
    except (InputError, typer.TyperException) as error:
        _fail(error.format_message() if isinstance(error, typer.TyperException) else str(error), 2)
    except MemoryError:
        _fail("memory ran out; give fewer or smaller data, or more memory.", 2)
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except OSError as error:  # a reader who leaves, as `head` does, is typer's to see to
        if not is_full(error):
            raise
        write_no_more()
        _fail(f"cannot write what there is to say: {fault(error)}.", 2)
    if status == INTERRUPTED and is_main_process():  # typer's own way of saying Ctrl-C
        _fail(f"stopped; {_left_behind(sys.argv[1:])}.", TERMINATED if ending.was_asked else INTERRUPTED)
    sys.exit(status if isinstance(status, int) else 0)


@contextmanager
def _one_talks() -> Iterator[None]:
    """Let only the first of several processes say how it goes; what goes wrong is told by each, afterwards."""
    if is_main_process():
        yield
        return
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def _left_behind(arguments: Sequence[str]) -> str:
    """Say what a command that was stopped leaves behind."""
    if arguments[:1] in (["paper"], ["run"]):
        return "what is finished is kept, and the same command goes on from there"
    if "fit" in arguments[:1] and any(given.split("=")[0] == "--checkpoints" for given in arguments):
        return "its checkpoints are kept, and the same command with --resume goes on from them"
    if "figures" in arguments[:1]:
        return "figures that are finished are kept, and the same command draws all"
    return "no model was written" if "fit" in arguments[:1] else "nothing was written"


def _fail(message: str, status: int) -> NoReturn:
    if message:  # typer's is empty where a command was left out and the help is shown
        process = "" if is_main_process() else f"[process {os.environ['RANK']}] "
        with suppress(BrokenPipeError):  # nobody reads it
            typer.echo(f"domaincover: {process}{' '.join(message.split())}", err=True)
    sys.exit(status)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if version:
        from domaincover import __version__

        typer.echo(__version__)
        raise typer.Exit
