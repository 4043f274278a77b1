"""The command `adapt`: a model for one domain, from a first batch of its rows."""

from __future__ import annotations

import copy
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from domaincover.cli.arguments import column, model_folder, strict, table_file
from domaincover.cli.outputs import check_model_folder, check_not_table, say_model
from domaincover.cli.part_runs import rejected_rows_as_input_error
from domaincover.errors import InputError
from domaincover.terminal.command_options import REQUIRED, option, takes
from domaincover.terminal.messages import if_stopped, say, warnings_as_notes
from domaincover.terminal.text import counted, listed

ROW = "row chosen"  # column with the number of a row to label, in the table that it was chosen from

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from domaincover.data.tables import Table
    from domaincover.predictors.promised_predictor import PromisedPredictor


@dataclass(frozen=True, kw_only=True)
class AdaptOptions:
    """Arguments and options of `adapt`."""

    model: Path = model_folder()
    table: Path = table_file()
    out: Path = option("Folder for the adapted model; with --choose, a CSV file.", REQUIRED)
    label: str | None = column("Column with true labels, empty where unknown; default: no labels are used.")
    rows: Path | None = option("A table with more rows of the domain: with --label, the one that --choose chose from.")
    choose: int | None = option(
        "Write so many rows to label, those to label first first, instead of a model.", min=1, metavar="NUMBER"
    )
    strict: bool = strict()


@takes(AdaptOptions)
def adapt(options: AdaptOptions) -> None:
    """Adapt a model to one domain by a first batch of its rows: thresholds, and with labels the scores, too.

    Example: domaincover adapt model ward-7.csv --choose 100 --out to-label.csv
    """
    from domaincover.data.tables import open_table
    from domaincover.saving.models import load_extra, load_to_predict, save

    if hasattr(fitted := load_to_predict(options.model), "predict_interval"):
        from domaincover.cli.interval_commands import adapt_intervals

        adapt_intervals(options, fitted, (load_extra(options.model) or {}).get("settings", {}))
        return
    if options.choose is not None:
        _choose(options)
        return

    model, out, label = options.model, options.out, options.label
    if_stopped("no model was written")
    check_model_folder(out, model)
    if options.rows is not None and label is None:
        raise InputError("--rows are beside rows with labels; give their column: --label.")
    data = [open_table(path) for path in (options.table, options.rows) if path is not None]
    if label is not None:
        data[0].check_column(label, "--label")

    import numpy as np

    from domaincover.cli.check import note_on_input
    from domaincover.cli.inputs import ModelColumns
    from domaincover.cli.part_scores import SavedModel, inner_model, scored_rows
    from domaincover.predictors.calibrated_predictors import Scored

    extra = load_extra(model) or {}
    inner, settings = inner_model(fitted), extra.get("settings", {})
    columns = [ModelColumns.of(fitted, each) for each in data]
    labels = None if label is None else columns[0].read_some_labels(data[0], label, inner.classes_.tolist())
    names = dict.fromkeys(_only_domain(each, settings.get("domain")) for each in data)
    if len(names) > 1:
        named = listed([str(name) for name in names])
        raise InputError(f"{options.table} and {options.rows} are of different domains: {named}.")
    note_on_input(SavedModel.at(model), data[-1], strict=options.strict)
    with warnings_as_notes(), rejected_rows_as_input_error(model):
        scored = [scored_rows(fitted, each, with_features=label is not None) for each in data]
        rows = Scored.joined(scored, len(inner.classes_))
        if options.rows is not None:
            given = _rows_given_twice(data[0], len(scored[-1].scores))
            kept = np.concatenate([np.full(len(scored[0].scores), True), ~given])
            labels = np.concatenate([labels, np.full(len(given), None)])[kept]
            rows = rows.of(kept)
        adapted = inner.adapt(rows, labels)
    if adapted.adapted_["rows"] == 0:
        raise InputError(f"no row of {options.table} can be read by the model; there is nothing to adapt to.")
    extra = {**extra, "settings": {**settings, "adapted_to": next(iter(names))}}
    save(with_last_step(fitted, adapted), out, extra=extra)
    typer.echo("\n".join(_in_words(inner, adapted)))
    say_model(out)


def _choose(options: AdaptOptions) -> None:
    """Write the rows to label as a CSV file, with an empty column for the labels if there is none."""
    from domaincover.cli.part_scores import inner_model, scored_rows
    from domaincover.data.tables import open_table
    from domaincover.files import write_whole
    from domaincover.saving.models import load_extra, load_to_predict

    if options.label is not None or options.rows is not None:
        raise InputError("--choose writes rows to label; --label and --rows come afterwards, with the labels.")
    if options.out.suffix != ".csv":
        raise InputError(f"--choose writes a CSV file; give --out a name that ends in .csv, not {options.out}.")
    check_not_table(options.out, "--out", options.table)
    data = open_table(options.table)
    fitted, settings = load_to_predict(options.model), (load_extra(options.model) or {}).get("settings", {})
    inner = inner_model(fitted)
    _only_domain(data, settings.get("domain"))
    with warnings_as_notes(), rejected_rows_as_input_error(options.model):
        rows = scored_rows(fitted, data, with_features=True)
        chosen = inner.choose_rows(rows, int(options.choose or 0))
    label = str(settings.get("label", "label"))
    frame = data.read(data.columns, data.columns).iloc[chosen]
    frame.insert(0, ROW, chosen + 1)
    if label not in frame:
        frame[label] = ""
    write_whole(options.out, frame.to_csv(index=False).encode())
    told = " ".join(map(shlex.quote, [str(options.model), str(options.out), "--label", label, "--rows"]))
    say(
        f"{counted(len(chosen), 'row')} to label, in order, are in {options.out}. Fill in column {label!r}, then: "
        f"domaincover adapt {told} {shlex.quote(str(options.table))} --out FOLDER"
    )


def _rows_given_twice(labelled: Table, n_rows: int) -> NDArray[np.bool_]:
    """Return which rows of the table that rows to label were chosen from are among these."""
    import numpy as np

    given = np.zeros(n_rows, dtype=bool)
    if ROW not in labelled.columns:
        return given
    numbers = labelled.read([ROW])[ROW].to_numpy()
    if numbers.dtype.kind not in "iu" or numbers.min(initial=1) < 1 or numbers.max(initial=1) > n_rows:
        raise InputError(f"column {ROW!r} of {labelled.path} does not number rows of --rows, which has {n_rows:,}.")
    given[numbers - 1] = True
    return given


def _only_domain(data: Table, domain: str | None) -> str | None:
    """Return the domain of the rows, if the table has the column with which the model was fitted; reject several."""
    from domaincover.cli.inputs import domains_in

    names = domains_in(data, domain)
    if len(names) > 1:
        raise InputError(
            f"{data.path} has rows of {len(names):,} domains (column {domain!r}): {listed(names)}; adapt takes those "
            "of one. For many domains at once use domaincover predict --domain."
        )
    return names[0] if names else None


def with_last_step(fitted: Any, adapted: PromisedPredictor) -> Any:
    """Return a changed model, within its pipeline if it was in one."""
    if not hasattr(fitted, "steps"):
        return adapted
    pipeline = copy.copy(fitted)
    pipeline.steps = [*fitted.steps[:-1], (fitted.steps[-1][0], adapted)]
    return pipeline


def _in_words(model: PromisedPredictor, adapted: PromisedPredictor) -> list[str]:
    """Say what the thresholds were set by, how usual the domain is, and by how much they moved."""
    import numpy as np

    from domaincover.data.dataset import texts
    from domaincover.predictors.domain_record import AdaptedDomains

    used, level = adapted.adapted_, model.unfamiliar_level
    p_value = used["p_value"]
    if p_value is None:
        familiar = "No p-value of the domain: the rows are too few to compare it with those that calibrated."
    else:
        unlike = f", unlike the domains that calibrated (p ≤ {level:.2g}): the promise may not hold here"
        familiar = f"p-value of the domain: {p_value:.2g}{unlike if p_value <= level else ''}."
    rows = counted(used["rows"], "row")
    if used["level"]:
        size, before = used["set_size"], used["set_size_before"]
        smaller = "" if size is None else f", with {size:.2f} labels per set in the others instead of {before:.2f}"
        return [f"The scorer has learned from the labels of {used['labels']:,} of {rows}{smaller}.", familiar]
    if not used["moved"]:
        fewest = model.later_adaptation_["n_rows"][1:2].tolist()
        why = f"it takes {fewest[0]} rows or more" if fewest and used["rows"] < fewest[0] else "they say too little"
        return [f"Thresholds are the fixed ones: {rows} did not move them ({why}).", familiar]
    shift = AdaptedDomains(adapted.thresholds_[None], np.array([p_value]), model.thresholds_, level)
    by_label = ", ".join(
        f"{name} {'in every set' if value != value else f'{value:+.2f}'}"
        for name, value in zip(texts(model.classes_.tolist()), shift.shift[0].tolist(), strict=True)
    )
    return [
        f"Thresholds set by {rows}.",
        familiar,
        f"Thresholds moved by {shift.mean_shift[0]:+.2f} on average (log-odds): {by_label}.",
    ]
