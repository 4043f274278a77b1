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

    from domaincover.cli.inputs import ModelColumns
    from domaincover.data.tables import Table
    from domaincover.estimators.base import SetClassifier
    from domaincover.prediction_sets import Sets


def predict(
    model: ModelFolder,
    table: TableFile,
    out: Annotated[Path, typer.Option(help="File for the sets: .parquet, .csv or .csv.gz.")],
    id: Annotated[  # noqa: A002
        list[str] | None,
        typer.Option(help="Column to copy beside the sets; may be repeated.", autocompletion=complete_columns),
    ] = None,
) -> None:
    """Write a prediction set for every row of a table, in the order of its rows.

    Example: domaincover predict model new.parquet --id visit --out sets.parquet
    """
    from domaincover.cli.inputs import ModelColumns
    from domaincover.data.dataset import texts
    from domaincover.data.tables import open_table, write_table

    data, ids = open_table(table), list(dict.fromkeys(id or []))
    check_not_table(out, "--out", table)
    for name in ids:
        data.check_column(name, "--id")

    from domaincover.saving.models import load

    fitted = load(model)
    labels, columns = texts(fitted.classes_.tolist()), ModelColumns.of(fitted, data)
    for name in ids:
        if name in _columns_of_sets(labels):
            raise InputError(f"--id {name!r} is also the name of a column that predict writes; rename it in {table}.")
    with warnings_as_notes():
        n_rows = write_table(out, _sets_of_blocks(fitted, model, labels, data, columns, ids))
    say(f"{n_rows:,} {'set is' if n_rows == 1 else 'sets are'} in {out}.")


def _columns_of_sets(labels: Sequence[str]) -> list[str]:
    return [*(f"in_set[{label}]" for label in labels), "set", "set_size"]


def _sets_of_blocks(
    model: SetClassifier, folder: Path, labels: Sequence[str], data: Table, columns: ModelColumns, ids: Sequence[str]
) -> Iterator[pd.DataFrame]:
    from domaincover.cli.evaluate import corrupt_model_as_input_error
    from domaincover.data.tables import ROWS_AT_ONCE
    from domaincover.estimators.base import predict_set

    names = _columns_of_sets(labels)
    for X, kept in columns.blocks(data, ROWS_AT_ONCE, ids):
        with corrupt_model_as_input_error(folder):
            sets = predict_set(model, X)
        written = [*sets.T, _set_texts(sets, labels), sets.sum(axis=1)]
        yield kept.assign(**dict(zip(names, written, strict=True)))


def _set_texts(sets: Sets, labels: Sequence[str]) -> Any:
    """Return each set as text, such as {mild, severe}; distinct sets are formatted once."""
    import numpy as np

    distinct, which = np.unique(np.packbits(sets, axis=1), axis=0, return_inverse=True)
    members = np.unpackbits(distinct, axis=1, count=len(labels)).astype(bool)
    texts = [", ".join(label for label, held in zip(labels, row, strict=True) if held) for row in members]
    return np.array([f"{{{text}}}" for text in texts], dtype=object)[which.reshape(-1)]
