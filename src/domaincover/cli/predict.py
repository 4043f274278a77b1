"""The command `predict`: a prediction set for every row of a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from domaincover.cli.arguments import column, model_folder, strict, table_file, workers
from domaincover.cli.outputs import check_not_table, check_output_folder
from domaincover.cli.part_runs import PartRuns, check_workers
from domaincover.errors import InputError
from domaincover.terminal.command_options import REQUIRED, option, takes
from domaincover.terminal.messages import if_stopped, say, warnings_as_notes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from domaincover.cli.apply import WriteSets
    from domaincover.cli.part_scores import AdaptedNames, NumberedPart

FIXED_THRESHOLDS = (
    "Thresholds are fixed. With --domain COLUMN each domain's rows set its own: same promise, often smaller sets."
)
GOES_ON = "; the same command goes on with the others"
SUMMARY = "_sets.json"  # written last; readers of parts skip what starts with an underscore


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """Arguments and options of `predict`."""

    model: Path = model_folder()
    table: Path = table_file()
    out: Path = option(
        "File for the sets: .parquet, .csv or .tsv (also .gz); - for CSV on standard output; for a folder of parts "
        "also a folder, which gets a part for each.",
        REQUIRED,
    )
    domain: str | None = column(
        "Column with the domains: all rows of a domain set its thresholds; default: fixed thresholds."
    )
    id: list[str] | None = column("Column to copy beside the sets; may be repeated.")
    top: bool = option("Also write the most likely label.", False)
    scores: bool = option("Also write the score of each label, which its threshold is compared with.", False)
    strict: bool = strict()
    workers: int | None = workers()


@takes(PredictOptions)
def predict(options: PredictOptions) -> None:
    """Write a prediction set for every row of a table, in the order of its rows.

    Example: domaincover predict model new.parquet --domain hospital --id visit --out sets.parquet
    """
    from domaincover.cli.inputs import ModelColumns, domains_in
    from domaincover.data.tables import check_ending, is_standard_stream, open_table
    from domaincover.data.tables.arrow_tables import PartsTable

    table, out, domain = options.table, options.out, options.domain
    data, ids = open_table(table, allow_empty=True), tuple(dict.fromkeys(options.id or []))
    check_workers(options.workers, data)
    in_parts = isinstance(data, PartsTable) and (out.is_dir() or not out.suffix) and not is_standard_stream(out)
    if in_parts and isinstance(data, PartsTable):
        check_output_folder(out, data, options.model)
        if_stopped("finished parts are kept, and the same command continues from there")
    elif options.workers is not None:
        raise InputError(f"--workers write parts: --out must be a folder, not {out}.")
    else:
        check_ending(out)
    check_not_table(out, "--out", table)
    for name in ids:
        data.check_column(name, "--id")
    if domain is not None:
        data.check_column(domain, "--domain")

    from domaincover.cli.apply import WriteSets
    from domaincover.cli.check import note_on_input
    from domaincover.cli.part_scores import (
        NumberedPart,
        SavedModel,
        can_adapt,
        inner_model,
        meant_for_another_domain,
        parts_of,
    )
    from domaincover.predictors.calibrated_predictors import last_step
    from domaincover.report.domain_reports import sizes_in_words

    saved = SavedModel.at(options.model)
    fitted = saved.load()
    if hasattr(fitted, "predict_interval"):
        from domaincover.cli.interval_commands import predict_intervals

        predict_intervals(options, fitted, data, ids)
        return
    ModelColumns.of(fitted, data)
    if domain is not None:
        inner_model(fitted)
    step = WriteSets(
        saved, out if is_standard_stream(out) else out.absolute(), ids, options.top, options.scores, domain
    )
    for name in ids:
        if name in step.column_names:
            raise InputError(f"--id {name!r} is also the name of a column that predict writes; rename it in {table}.")
    for note in data.notes:
        say(note)
    with warnings_as_notes():
        note_on_input(saved, data, domain, strict=options.strict)
        parts = parts_of(data) if in_parts else [NumberedPart(0, data)]
        sizes, adapted = _write(step, parts, PartRuns(options.workers or 1, in_parts))
    n_sets, place = int(sizes.sum()), "on standard output" if is_standard_stream(out) else f"in {out}"
    written = f"{n_sets:,} {'set is' if n_sets == 1 else 'sets are'} {place}"
    if adapted is not None and (warning := adapted.warning()) is not None:
        say(warning)
    say(f"{written}{'' if adapted is None else _domains_in_words(adapted)}.")
    say(sizes_in_words(sizes) if n_sets else "The table has no rows.")
    if domain is None and can_adapt(fitted):
        say(FIXED_THRESHOLDS)
    if hasattr(last_step(fitted), "adapted_"):
        settings = saved.extra().get("settings", {})
        names = domains_in(data, settings.get("domain"))
        if (line := meant_for_another_domain(fitted, settings.get("adapted_to"), names)) is not None:
            say(f"Note: {line}")


def _write(step: WriteSets, parts: Sequence[NumberedPart], runs: PartRuns) -> tuple[NDArray[Any], AdaptedNames | None]:
    """Write all sets, and return how many have each size and which domains set thresholds, if any did.

    In a folder, parts that an earlier call has finished are left as they are, and a summary comes last.
    """
    from domaincover.cli.part_scores import adapted_table
    from domaincover.files import only_writer, remove_unfinished, write_whole

    adapted: AdaptedNames | None = None
    sizes: Any = 0
    with only_writer(step.out) if runs.in_parts else nullcontext():
        if runs.in_parts:
            with suppress(OSError):  # it must not stand beside parts of another model
                (step.out / SUMMARY).unlink()
        adapts = step.domain is not None and any(part.table.has_rows for part in parts)
        with TemporaryDirectory(prefix="domaincover-") if adapts else nullcontext() as scratch:
            if step.domain is not None and scratch is not None:
                adapted = adapted_table(runs, step.model, step.domain, parts, Path(scratch))
                step = replace(step, scratch=Path(scratch), rows_digest=adapted.rows_digest)
            for _, of_part in runs.each("Parts", step, parts, GOES_ON):
                sizes = sizes + of_part
        if runs.in_parts:
            for folder in {step.place_of(part).parent for part in parts}:
                remove_unfinished(folder)  # of workers that were killed; no other command writes here
            content = {"parts": len(parts), "rows": int(sizes.sum()), "sizes": dict(enumerate(sizes.tolist()))}
            content |= {"domains": len(adapted.names) if adapted else 0, "model": step.model.digest}
            write_whole(step.out / SUMMARY, json.dumps(content).encode())
    return sizes, adapted


def _domains_in_words(adapted: AdaptedNames) -> str:
    n_moved, n_domains = int(adapted.moves.moved.sum()), len(adapted.names)
    own = f"; {n_moved:,} domain{'s set their' if n_moved > 1 else ' sets its'} own thresholds" if n_moved else ""
    too_few = f"{n_domains - n_moved:,} with too few rows, or rows that say too little, have the fixed ones"
    return own if n_moved == n_domains else f"{own}{',' if own else ';'} {too_few}"
