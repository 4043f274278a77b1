"""What the guides hold: their blocks of code, and the commands in these."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from typer.main import get_command

import domaincover
from domaincover import datasets, scoring, study, thresholds
from domaincover.cli import app

PUBLIC = {module.__name__: module.__all__ for module in (domaincover, datasets, scoring, study, thresholds)}
ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
OF_COMMANDS = DOCS / "command-line.md"  # made from the commands themselves, and tested with them
GUIDES = sorted({*DOCS.glob("*.md")} - {OF_COMMANDS})
TEXTS = [*GUIDES, *sorted(DOCS.glob("*/*.md")), ROOT / "README.md", ROOT / "examples/README.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND_LINE = get_command(app)
OF_READER = (
    "fit",
    "predict",
    "adapt",
    "evaluate",
    "certify",
    "record",
)  # commands that work on files which a reader has


class Block(NamedTuple):
    """A block of code, its language, and where it begins."""

    language: str
    code: str
    line: int


def blocks(path):
    """Return the blocks of a guide in order."""
    text = path.read_text(encoding="utf-8")
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 1) for found in BLOCK.finditer(text)]


def commands(code):
    """Return the arguments of each call of domaincover in a block for the shell."""
    lines = [shlex.split(line, comments=True) for line in code.replace("\\\n", " ").splitlines()]
    calls = [words[1:] for words in lines if words[:1] == ["domaincover"]]
    return [call[: call.index("|")] if "|" in call else call for call in calls]


def parse(arguments):
    """Read arguments as the command line does, without doing anything; what is wrong raises."""
    command, context = COMMAND_LINE, None
    while hasattr(command, "resolve_command"):
        context = command.make_context(command.name, [*arguments], parent=context)
        _, command, arguments = command.resolve_command(context, arguments)
    command.make_context(command.name, [*arguments], parent=context)


def can_run(arguments):
    """Tell whether all files that a command reads are here; studies are run elsewhere in the tests."""
    if arguments[0] == "plan":
        return True
    files = [word for word in arguments[1:] if not word.startswith("-")]
    n_files = 1 if arguments[0] == "fit" else 2
    return arguments[0] in OF_READER and all(Path(file).exists() for file in files[:n_files])


def write_tables():
    """Write the small tables that the guides speak of: visits to hospitals, old and new, by how they ended."""
    rng = np.random.default_rng(0)

    def visits(hospitals, n=60):
        hospital = np.repeat(hospitals, n)
        outcome = rng.choice(["recovered", "readmitted"], size=len(hospital))
        pressure = 120 + 15 * (outcome == "readmitted") + rng.normal(0, 10, len(hospital))
        ward = rng.choice(["A", "B", ""], size=len(hospital))
        visit = np.arange(len(hospital))
        columns = {"visit": visit, "hospital": hospital, "pressure": pressure, "ward": ward, "outcome": outcome}
        return pd.DataFrame(columns)

    visits([f"h{k}" for k in range(24)]).to_csv("visits.csv", index=False)
    Path("visits").mkdir()  # the same as parts
    for k in range(3):
        pd.read_csv("visits.csv")[k::3].to_parquet(f"visits/part-{k}.parquet")
    new = visits([f"new {k}" for k in range(6)])
    new.drop(columns="outcome").to_parquet("new.parquet")
    for name in ("labelled.csv", "new-hospitals.csv"):
        new.to_csv(name, index=False)
    visits(["h30"], n=120).to_csv("ward-7.csv", index=False)
