"""The reference of all commands as Markdown, made from the commands themselves.

`python -m domaincover.cli.reference > docs/command-line.md` writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from textwrap import dedent
from typing import Any, NamedTuple

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from domaincover.cli.app import NAME, app

EXAMPLE = "Example: "
HEAD = dedent(
    """\
    <!-- Made by `python -m domaincover.cli.reference > docs/command-line.md`: change the commands, not this page. -->

    # Command line

    {about} `domaincover COMMAND --help` shows the same as this page.

    {contents}

    ## For all commands

    Results go to standard output; what is said beside them goes to standard error. A file or folder is written under
    another name and then renamed, so it is there whole or not at all.

    **Exit codes**

    | Code | When |
    | --- | --- |
    | 0 | All went well. |
    | 1 | `paper` and `run`: some runs failed, and the others are kept. `doctor`: something needed does not work. |
    | 2 | The input is bad: one line on standard error says what, where, and what to do. |
    | 130 | It was stopped by Ctrl-C: one line says what is kept. |

    **Environment**

    | Variable | Meaning |
    | --- | --- |
    | `DOMAINCOVER_CACHE` | Folder for features of images and texts, where no `--cache` is given. |
    | `XDG_CACHE_HOME` | Without the former, features are kept in `domaincover` in this folder, else in `~/.cache`. |
    | `MLFLOW_TRACKING_URI` | Where `--tracker mlflow` writes; a database in the folder of `--tracking` if not set. |
    | `WANDB_MODE` | Of `--tracker wandb`; `offline` if not set, so that nothing leaves the machine. |
    | `RANK`, `WORLD_SIZE` | Set by `torchrun`, which starts `fit` in several processes; only the first one talks. |

    **Files**

    | What | Where |
    | --- | --- |
    | Tables | `.csv` (comma, semicolon or tab, UTF-8), `.csv.gz` and `.parquet`; read, never changed. |
    | Images | A folder `DOMAIN/LABEL/*.png` (and other formats), or paths in a column of a table. |
    | Model | A folder that `fit --out` makes: JSON, safetensors and skops, data that runs no code. |
    | Checkpoints | The folder of `fit --checkpoints`, gone when the model is there. |
    | Study | A directory of runs that `paper` and `run` add to; a finished run is marked `DONE` and kept. |

    **Completion**

    ```sh
    domaincover --install-completion    # for the shell that it is typed in: bash, zsh, fish or PowerShell
    ```

    A new terminal then completes commands, options, methods, experiments, data sets, paths, and, after the name of a
    table, its columns. It adds a line to `~/.bashrc` or `~/.zshrc`, or a file to `~/.config/fish/completions`. To have
    it in a place of your own:

    ```sh
    _DOMAINCOVER_COMPLETE=source_bash domaincover > ~/.bash_completions/domaincover.sh    # and source it in ~/.bashrc
    _DOMAINCOVER_COMPLETE=source_zsh domaincover > ~/.zfunc/_domaincover                  # a folder in fpath
    _DOMAINCOVER_COMPLETE=source_fish domaincover > ~/.config/fish/completions/domaincover.fish
    ```
    """
)


class Described(NamedTuple):
    """A command with its name as it is typed, what it does, and its example."""

    name: str
    command: TyperCommand
    about: list[str]  # paragraphs
    example: str


def described_commands() -> list[Described]:
    """Return all commands that do something, in the order of the help."""
    return list(_walk(get_command(app), NAME))


def reference() -> str:
    """Return the whole page."""
    commands = described_commands()
    contents = "\n".join(f"- [`{one.name}`](#{_anchor(one.name)}): {_escaped(one.about[0])}" for one in commands)
    head = HEAD.format(about=app.info.help, contents=contents)
    return "\n".join([head, *(_section(command) for command in commands)])


def _walk(command: Any, name: str) -> Iterator[Described]:
    if isinstance(command, TyperGroup):
        for inner, one in command.commands.items():
            # A hidden command is one that is meant where no name of a command is typed: `paper NAME…`.
            yield from _walk(one, f"{name} {one.params[0].metavar}" if one.hidden else f"{name} {inner}")
        return
    paragraphs = [" ".join(part.split()) for part in (command.help or "").split("\n\n")]
    examples = [part.removeprefix(EXAMPLE) for part in paragraphs if part.startswith(EXAMPLE)]
    about = [part for part in paragraphs if not part.startswith(EXAMPLE)]
    yield Described(name, command, about, examples[0] if examples else "")


def _section(one: Described) -> str:
    arguments = [parameter for parameter in one.command.params if isinstance(parameter, TyperArgument)]
    options = [parameter for parameter in one.command.params if isinstance(parameter, TyperOption)]
    names = [str(argument.metavar) for argument in arguments]
    typed = one.name.removesuffix(f" {names[0]}") if names else one.name
    synopsis = " ".join([typed, *names, *(f"{_flag(o)} {_metavar(o)}" for o in options if o.required), "[OPTIONS]"])
    parts = [f"## `{one.name}`", *map(_escaped, one.about), f"```sh\n{synopsis if options else typed}\n```"]
    parts.append(f"Example:\n\n```sh\n{one.example}\n```")
    if arguments:
        rows = [[f"`{argument.metavar}`", _escaped(argument.help or "")] for argument in arguments]
        parts.append(_table(["Argument", "Meaning"], rows))
    for panel in dict.fromkeys(option.rich_help_panel for option in options):
        rows = [_option_row(option) for option in options if option.rich_help_panel == panel]
        parts.append(_table([panel or "Option", "Value", "Default", "Meaning"], rows))
    return "\n\n".join(parts) + "\n"


def _option_row(option: TyperOption) -> list[str]:
    default = "" if option.default is None or option.is_flag else f"`{option.default}`"
    if option.secondary_opts:
        default = f"`{(option.opts if option.default else option.secondary_opts)[0]}`"
    flags = ", ".join(f"`{flag}`" for flag in [*option.opts, *option.secondary_opts])
    return [
        flags,
        "" if option.is_flag else _metavar(option),
        "required" if option.required else default if default != "``" else "",
        _escaped(option.help or ""),
    ]


def _metavar(option: TyperOption) -> str:
    """Return what a value is: its choices, or its kind in capitals."""
    kind = option.type_descriptor
    if kind.is_choice:
        return ", ".join(f"`{choice}`" for choice in kind.choices or ())
    name = "path" if kind.is_path else option.bare_type()
    return {"str": "TEXT", "list[str]": "TEXT", "int": "NUMBER", "float": "NUMBER", "path": "PATH"}[name]


def _flag(option: TyperOption) -> str:
    return str(option.opts[0])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *rows])


def _anchor(name: str) -> str:
    """Return the anchor of a heading, as Markdown makes it.

    >>> _anchor("domaincover paper NAME…")
    'domaincover-paper-name'
    """
    return "".join(letter for letter in name.lower().replace(" ", "-") if letter.isalnum() or letter == "-")


def _escaped(text: str) -> str:
    """Return a text that Markdown shows as it is; what stands in backticks is code already."""
    code = text.split("`")
    code[::2] = [part.replace("*", r"\*").replace("<", "&lt;").replace("|", r"\|") for part in code[::2]]
    return "`".join(code)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.write(reference())
