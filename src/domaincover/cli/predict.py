"""The command `predict`: a prediction set for every row of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from domaincover.cli.arguments import ModelFolder, TableFile, complete_columns
from domaincover.cli.outputs import check_not_table
from domaincover.errors import InputError
from domaincover.terminal.messages import say, warnings_as_notes

if TYPE_CHECKING:
    import pandas as pd

    from domaincover.cli.domain_sets import DomainSets
    from domaincover.cli.inputs import ModelColumns
    from domaincover.data.tables import Table
    from domaincover.prediction_sets import Sets

FIXED_THRESHOLDS = (
    "Thresholds are fixed. With --domain COLUMN each domain's rows set its own: same promise, often smaller sets."
)


def predict(
    model: ModelFolder,
    table: TableFile,
    out: Annotated[Path, typer.Option(help="File for the sets: .parquet, .csv or .csv.gz.")],
    domain: Annotated[
        str | None,
        typer.Option(
            help="Column with the domains: all rows of a domain set its thresholds; default: fixed thresholds.",
            autocompletion=complete_columns,
        ),
    ] = None,
    id: Annotated[  # noqa: A002
        list[str] | None,
        typer.Option(help="Column to copy beside the sets; may be repeated.", autocompletion=complete_columns),
    ] = None,
) -> None:
    """Write a prediction set for every row of a table, in the order of its rows.

    Example: domaincover predict model new.parquet --domain hospital --id visit --out sets.parquet
    """
    from domaincover.cli.inputs import ModelColumns
    from domaincover.data.dataset import texts
    from domaincover.data.tables import open_table, write_table

    data, ids = open_table(table), list(dict.fromkeys(id or []))
    check_not_table(out, "--out", table)
    for option, name in [*(("--id", name) for name in ids), *([("--domain", domain)] if domain else [])]:
        data.check_column(name, option)

    from domaincover.cli.domain_sets import can_adapt, inner_model, with_domain_sets
    from domaincover.saving.models import load

    fitted = load(model)
    labels, columns = texts(fitted.classes_.tolist()), ModelColumns.of(fitted, data)
    for name in ids:
        if name in _columns_of_sets(labels):
            raise InputError(f"--id {name!r} is also the name of a column that predict writes; rename it in {table}.")
    if domain is not None:
        inner_model(fitted)

        def write(found: DomainSets, is_grouped: bool) -> int:
            return write_table(out, _adapted_blocks(found, is_grouped, labels, data, columns, ids, domain))

        with warnings_as_notes():
            found, n_rows = with_domain_sets(fitted, model, write, domain)
        if (warning := found.warning()) is not None:
            say(warning)
        where = f"; {len(found.names):,} domain{'s' if len(found.names) > 1 else ''} set their own thresholds"
    else:
        with warnings_as_notes():
            n_rows = write_table(out, _fixed_blocks(fitted, model, labels, data, columns, ids))
        where = ""
    say(f"{n_rows:,} {'set is' if n_rows == 1 else 'sets are'} in {out}{where}.")
    if domain is None and can_adapt(fitted):
        say(FIXED_THRESHOLDS)


def _columns_of_sets(labels: Sequence[str]) -> list[str]:
    return [*(f"in_set[{label}]" for label in labels), "set", "set_size"]


def _fixed_blocks(
    model: Any, folder: Path, labels: Sequence[str], data: Table, columns: ModelColumns, ids: Sequence[str]
) -> Iterator[pd.DataFrame]:
    from domaincover.cli.evaluate import corrupt_model_as_input_error
    from domaincover.data.tables import ROWS_AT_ONCE
    from domaincover.estimators.base import predict_set

    for X, kept in columns.blocks(data, ROWS_AT_ONCE, ids):
        with corrupt_model_as_input_error(folder):
            sets = predict_set(model, X)
        yield _with_sets(kept, sets, labels)


def _adapted_blocks(
    found: DomainSets,
    is_grouped: bool,
    labels: Sequence[str],
    data: Table,
    columns: ModelColumns,
    ids: Sequence[str],
    domain: str,
) -> Iterator[pd.DataFrame]:
    from domaincover.cli.domain_sets import UnadaptedBlock
    from domaincover.cli.inputs import domain_names
    from domaincover.data.tables import ROWS_AT_ONCE

    blocks = (
        UnadaptedBlock(X, domain_names(kept[domain], X.index), kept[list(ids)])
        for X, kept in columns.blocks(data, ROWS_AT_ONCE, list(dict.fromkeys([*ids, domain])))
    )
    for block in found.blocks(blocks, is_grouped):
        yield _with_sets(block.kept, block.sets, labels)


def _with_sets(kept: pd.DataFrame, sets: Sets, labels: Sequence[str]) -> pd.DataFrame:
    written = [*sets.T, _set_texts(sets, labels), sets.sum(axis=1)]
    return kept.assign(**dict(zip(_columns_of_sets(labels), written, strict=True)))


def _set_texts(sets: Sets, labels: Sequence[str]) -> Any:
    """Return each set as text, such as {mild, severe}; distinct sets are formatted once."""
    import numpy as np

    distinct, which = np.unique(np.packbits(sets, axis=1), axis=0, return_inverse=True)
    members = np.unpackbits(distinct, axis=1, count=len(labels)).astype(bool)
    texts = [", ".join(label for label, held in zip(labels, row, strict=True) if held) for row in members]
    return np.array([f"{{{text}}}" for text in texts], dtype=object)[which.reshape(-1)]
