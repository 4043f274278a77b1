"""The command `predict`: a prediction set for every row of a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domaincover.cli.arguments import LocalWorkers, ModelFolder, Scheduler, Scratch, TableFile, complete_columns
from domaincover.cli.outputs import check_not_table, check_output_folder
from domaincover.cli.part_runs import PartWorkers
from domaincover.errors import InputError
from domaincover.terminal.messages import say, warnings_as_notes

if TYPE_CHECKING:
    import pandas as pd

    from domaincover.cli.domain_sets import DomainSets
    from domaincover.cli.inputs import ModelColumns
    from domaincover.cli.set_columns import SetColumns
    from domaincover.data.tables import Table

FIXED_ONES = "have the fixed ones"
FIXED_THRESHOLDS = (
    "Thresholds are fixed. With --domain COLUMN each domain's rows set its own: same promise, often smaller sets."
)


def predict(
    model: ModelFolder,
    table: TableFile,
    out: Annotated[
        Path,
        typer.Option(
            help="File for the sets: .parquet, .csv or .tsv (also .gz); - for CSV on standard output; for a "
            "folder of parts also a folder, which gets a part for each."
        ),
    ],
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
    top: Annotated[bool, typer.Option("--top", help="Also write the most likely label.")] = False,
    scores: Annotated[
        bool, typer.Option("--scores", help="Also write the score of each label, which its threshold is compared with.")
    ] = False,
    workers: LocalWorkers = None,
    scheduler: Scheduler = None,
    scratch: Scratch = None,
) -> None:
    """Write a prediction set for every row of a table, in the order of its rows.

    Example: domaincover predict model new.parquet --domain hospital --id visit --out sets.parquet
    """
    from domaincover.cli.inputs import ModelColumns, domains_in
    from domaincover.cli.set_columns import SetColumns
    from domaincover.data.part_tables import PartsTable
    from domaincover.data.table_writer import check_ending
    from domaincover.data.tables import is_standard_stream, open_table, write_table

    data, ids = open_table(table, allow_empty=True), list(dict.fromkeys(id or []))
    running = PartWorkers(workers, scheduler, scratch)
    running.check(data)
    writes_parts = isinstance(data, PartsTable) and (out.is_dir() or not out.suffix) and not is_standard_stream(out)
    if isinstance(data, PartsTable) and writes_parts:
        check_output_folder(out, data, model)
    elif running != PartWorkers():
        raise InputError(f"--workers, --scheduler and --scratch write parts: --out must be a folder, not {out}.")
    ending = ".parquet" if writes_parts else check_ending(out)
    check_not_table(out, "--out", table)
    for option, name in [*(("--id", name) for name in ids), *([("--domain", domain)] if domain else [])]:
        data.check_column(name, option)

    from domaincover.cli.domain_sets import can_adapt, inner_model, meant_for_another_domain, with_domain_sets
    from domaincover.predictors.label_scoring import last_step
    from domaincover.saving.models import load_extra, load_to_predict

    fitted = load_to_predict(model)
    columns = ModelColumns.of(fitted, data)
    written = SetColumns(fitted, model, ids, top=top, scores=scores, as_lists=ending in (".parquet", ".pq"))
    for name in ids:
        if name in written.names:
            raise InputError(f"--id {name!r} is also the name of a column that predict writes; rename it in {table}.")
    for note in data.notes:
        say(note)
    where = ""
    if domain is not None:
        inner_model(fitted)
    if isinstance(data, PartsTable) and writes_parts:
        from domaincover.cli.part_predictions import predict_parts

        with warnings_as_notes():
            parts = predict_parts(data, model, out, domain, ids, running, top=top, scores=scores)
        written.count_sizes(parts.sizes)
        if parts.warning is not None:
            say(parts.warning)
        where = _domains_in_words(parts.n_moved, parts.n_domains)
    elif not data.has_rows:
        write_table(out, [written.empty()])
    elif domain is not None:

        def write(found: DomainSets, is_grouped: bool) -> None:
            written.forget_sizes()
            write_table(out, _adapted_blocks(found, is_grouped, written, data, columns, domain))

        with warnings_as_notes():
            found, _ = with_domain_sets(fitted, model, write, domain)
        if (warning := found.warning()) is not None:
            say(warning)
        where = _domains_in_words(found.n_moved, len(found.names))
    else:
        with warnings_as_notes():
            write_table(out, _fixed_blocks(written, data, columns))
    place = "on standard output" if is_standard_stream(out) else f"in {out}"
    say(f"{written.n_sets_in_words()} {place}: {written.sizes_in_words()}{where}.")
    if domain is None and can_adapt(fitted):
        say(FIXED_THRESHOLDS)
    if hasattr(last_step(fitted), "adapted_"):
        settings = (load_extra(model) or {}).get("settings", {})
        column = settings.get("domain")
        names = domains_in(data, column) if column in data.columns else []
        if (line := meant_for_another_domain(fitted, settings.get("adapted_to"), names)) is not None:
            say(f"Note: {line}")


def _domains_in_words(n_moved: int, n_domains: int) -> str:
    if n_domains == 0:
        return ""
    own = f"{n_moved:,} domain{'s set their' if n_moved > 1 else ' sets its'} own thresholds" if n_moved else ""
    fixed = f"{n_domains - n_moved:,} with too few rows, or rows that say too little, {FIXED_ONES}"
    return "; " + ", ".join([*([own] if own else []), *([fixed] if n_moved < n_domains else [])])


def _fixed_blocks(written: SetColumns, data: Table, columns: ModelColumns) -> Iterator[pd.DataFrame]:
    from domaincover.cli.evaluate import rejected_rows_as_input_error
    from domaincover.data.tables import ROWS_AT_ONCE
    from domaincover.predictors.set_predictor import predict_set

    for X, kept in columns.blocks(data, ROWS_AT_ONCE, written.ids):
        with rejected_rows_as_input_error(written.folder):
            sets = predict_set(written.model, X)
        yield written.block(written.beside(kept, X), sets)


def _adapted_blocks(
    found: DomainSets, is_grouped: bool, written: SetColumns, data: Table, columns: ModelColumns, domain: str
) -> Iterator[pd.DataFrame]:
    from domaincover.cli.domain_sets import UnadaptedBlock
    from domaincover.cli.inputs import domain_names
    from domaincover.data.tables import ROWS_AT_ONCE

    blocks = (
        UnadaptedBlock(X, domain_names(data.text_of(kept[domain]), X.index), written.beside(kept[written.ids], X))
        for X, kept in columns.blocks(data, ROWS_AT_ONCE, list(dict.fromkeys([*written.ids, domain])))
    )
    for block in found.blocks(blocks, is_grouped):
        yield written.block(block.kept, block.sets)
