"""The command `check`: what to change in a table before a fit; and how new rows differ from those of training."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from domaincover.cli.arguments import DOMAIN, LABEL, column, output_format, table_file
from domaincover.errors import InputError
from domaincover.options import MIN_CELL_SIZE
from domaincover.terminal.command_options import option, takes
from domaincover.terminal.messages import say, text_width

if TYPE_CHECKING:
    import pandas as pd

    from domaincover.checks.input_profile import Difference
    from domaincover.cli.part_scores import SavedModel
    from domaincover.data.tables import Table

MOST_ROWS = 200_000  # that are compared
COMPARED = ("number", "boolean", "date", "category")


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Arguments and options of `check`."""

    table: Path = table_file()
    label: str | None = column(LABEL)
    domain: str | None = column(DOMAIN)
    model: Path | None = option("A saved model: compare the table with its training rows, column by column.")
    drop: list[str] | None = column("Column to leave out; may be repeated.")
    min_cell_size: int = option("Rows of a label that a domain needs to count in a promise.", MIN_CELL_SIZE, min=1)
    style: Literal["text", "json"] = output_format("text")


@takes(CheckOptions)
def check(options: CheckOptions) -> None:
    """Check a table before a fit: leaks, small cells, missing values, column types, and promises within reach.

    Example: domaincover check visits.csv --label outcome --domain hospital
    """
    from domaincover.cli.inputs import feature_columns, read_training
    from domaincover.data.tables import open_table

    if options.model is not None:
        _compare(options, options.model)
        return
    if options.label is None or options.domain is None:
        raise InputError("give --label and --domain, or a model to compare the table with (--model).")
    table, roles, drop = options.table, (options.label, options.domain), options.drop or []
    data = open_table(table)
    if data.is_images:
        raise InputError(f"{table} is a folder of images; check is for tables.")
    read = read_training(data, feature_columns(data, *roles, drop), *roles, 1, may_lack_names=True)

    from domaincover.checks.table_check import check_table

    for note in data.notes:
        say(note)
    found = check_table(*read, min_cell_size=options.min_cell_size)
    typer.echo(found.to_json() if options.style == "json" else found.text(text_width(), for_shell=True))
    dropped = [word for name in dict.fromkeys([*drop, *found.drop]) for word in ("--drop", name)]
    start = ["domaincover", "fit", str(table), "--label", options.label, "--domain", options.domain]
    say(f"Next: {shlex.join([*start, *dropped, '--out', 'model'])}")


def _compare(options: CheckOptions, model: Path) -> None:
    """Print how the columns of a table differ from those of a model's training."""
    from domaincover.cli.part_scores import SavedModel
    from domaincover.data.tables import open_table

    if options.label is not None or options.drop:
        raise InputError("--model compares columns only; leave out --label and --drop.")
    seen, found = compared_input(SavedModel.at(model), open_table(options.table), options.domain)
    if options.style == "json":
        typer.echo(json.dumps({"seen_rows": seen, "differences": [each._asdict() for each in found]}))
        return
    columns = [f"{each}." for each in found] or ["No column differs from training more than its own domains do."]
    typer.echo("\n".join([*columns, *filter(None, [seen])]))


def learned_input(model: Any, X: Any, domains: Any, *, fingerprints: bool) -> dict[str, Any]:
    """Return what is kept of training rows to compare new ones with; nothing for images and texts."""
    from domaincover.checks.input_profile import InputProfile
    from domaincover.checks.seen_rows import SeenRows
    from domaincover.data.columns import plain_table
    from domaincover.data.encoding import evenly_spaced
    from domaincover.data.tables import DiskTable

    kinds, spellings = _compared_columns(model)
    if not kinds:
        return {}
    rows = evenly_spaced(len(X), MOST_ROWS)
    own = X[rows].read() if isinstance(X, DiskTable) else X.iloc[rows]
    own, own_domains = plain_table(own[list(kinds)], spellings), domains.iloc[rows]
    profile = InputProfile.learn(own, own_domains, kinds)
    seen = SeenRows.of(own, own_domains, kinds) if fingerprints else None
    kept = {"profile": profile, "seen_rows": seen}
    return {name: value.to_dict() for name, value in kept.items() if value is not None}


def note_on_input(saved: SavedModel, data: Table, domain: str | None = None, *, strict: bool = False) -> None:
    """Say in a line how columns differ most from training, and how many rows were in it; with `strict`, refuse them.

    The domains are in the column given, or in that of the fit.
    """
    seen, found = compared_input(saved, data, domain)
    if seen is not None:
        say(f"Note: {seen}")
    if found:
        more = f" ({len(found) - 1:,} more: domaincover check TABLE --model MODEL)" if len(found) > 1 else ""
        line = f"{found[0]}{more}."
        if strict:
            raise InputError(f"{data.path} is unlike the training rows: {line}")
        say(f"Note: {line}")


def compared_input(saved: SavedModel, data: Table, domain: str | None) -> tuple[str | None, tuple[Difference, ...]]:
    """Return a line about rows that were in training, and how columns differ from training."""
    from domaincover.checks.input_profile import InputProfile
    from domaincover.checks.seen_rows import SeenRows
    from domaincover.data.columns import plain_table

    extra = saved.extra()
    kept, domain = extra.get("input", {}), domain or extra.get("settings", {}).get("domain")
    kinds, spellings = _compared_columns(saved.load()) if kept else ({}, {})
    if not kinds or not data.has_rows:
        return None, ()
    X, domains = _rows_of(saved, data, domain)
    own = plain_table(X[list(kinds)], spellings)
    seen = SeenRows.from_dict(kept["seen_rows"]).note(own, kinds) if "seen_rows" in kept else None
    found = InputProfile.from_dict(kept["profile"]).differences(own, domains) if "profile" in kept else ()
    return seen, found


def _compared_columns(model: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the kinds of a model's columns, and how those are written that texts are read from."""
    from domaincover.predictors.calibrated_predictors import input_encoder_of

    encoder = input_encoder_of(model)
    kinds = {str(name): kind for name, kind in getattr(encoder, "kinds_", {}).items() if kind in COMPARED}
    return kinds, {str(name): way for name, way in getattr(encoder, "spellings_", {}).items() if str(name) in kinds}


def _rows_of(saved: SavedModel, data: Table, domain: str | None) -> tuple[pd.DataFrame, pd.Series[Any] | None]:
    """Return the first rows of a table as the model reads them, and their domains where it has that column."""
    import pandas as pd

    from domaincover.cli.inputs import ModelColumns
    from domaincover.data.identity import canonical_texts

    blocks, n_rows, ids = [], 0, [domain] if domain in data.columns else []
    for X, kept in ModelColumns.of(saved.load(), data).blocks(data, ids):
        blocks.append((X, kept))
        n_rows += len(X)
        if n_rows >= MOST_ROWS:
            break
    X = pd.concat([X for X, _ in blocks])
    names = pd.concat([canonical_texts(kept[domain]) for _, kept in blocks]) if ids else None
    return X, names
