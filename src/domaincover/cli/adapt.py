"""The command `adapt`: a model for one domain, from a first batch of its rows."""

from __future__ import annotations

import copy
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from domaincover.cli.arguments import column, model_folder, strict, table_file
from domaincover.cli.part_runs import rejected_rows_as_input_error
from domaincover.errors import InputError
from domaincover.terminal.command_options import REQUIRED, option, takes
from domaincover.terminal.messages import if_stopped, say, warnings_as_notes
from domaincover.terminal.text import counted, listed

if TYPE_CHECKING:
    from domaincover.data.tables import Table
    from domaincover.predictors.promised_predictor import PromisedPredictor


@dataclass(frozen=True, kw_only=True)
class AdaptOptions:
    """Arguments and options of `adapt`."""

    model: Path = model_folder()
    table: Path = table_file()
    out: Path = option("Folder for the adapted model.", REQUIRED)
    strict: bool = strict()
    label: str | None = column("Column with true labels, empty where unknown; default: no labels are used.")


@takes(AdaptOptions)
def adapt(options: AdaptOptions) -> None:
    """Adapt the thresholds of a model to one domain, by a first batch of its rows, some with labels or none.

    Example: domaincover adapt model ward-7.csv --out ward-7 --label outcome
    """
    from domaincover.cli.inputs import ModelColumns
    from domaincover.data.tables import open_table
    from domaincover.saving.sealed import check_folder

    model, out, label = options.model, options.out, options.label
    if_stopped("no model was written")
    check_folder(out)
    if out.exists() and model.exists() and out.samefile(model):
        raise InputError(f"--out would overwrite the model {model}; choose another folder.")
    data = open_table(options.table)
    if label is not None:
        data.check_column(label, "--label")

    from domaincover.cli.adaptable import inner_model
    from domaincover.cli.input_checks import note_on_input
    from domaincover.cli.part_scores import SavedModel, scored_rows, scored_with_features
    from domaincover.saving.models import load_extra, load_to_predict, save

    fitted, extra = load_to_predict(model), load_extra(model) or {}
    inner, columns = inner_model(fitted), ModelColumns.of(fitted, data)
    labels = None if label is None else columns.read_some_labels(data, label, inner.classes_.tolist())
    settings = extra.get("settings", {})
    adapted_to = _only_domain(data, settings.get("domain"))
    note_on_input(SavedModel.at(model), data, strict=options.strict)
    with warnings_as_notes(), rejected_rows_as_input_error(model):
        if labels is None:
            adapted = inner.adapt_to_scored(scored_rows(fitted, data))
        else:
            scored, encoded = scored_with_features(fitted, data)
            adapted = inner.adapt_to_scored(scored, labels, encoded)
    if adapted.adapted_["rows"] == 0:
        raise InputError(f"no row of {options.table} can be read by the model; there is nothing to adapt to.")
    extra = {**extra, "settings": {**settings, "adapted_to": adapted_to}}
    save(_with_last_step(fitted, adapted), out, extra=extra)
    typer.echo("\n".join(_in_words(inner, adapted)))
    folder = shlex.quote(str(out))
    say(f"The model is in {out}. Next: domaincover predict {folder} TABLE --out sets.parquet")


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


def _with_last_step(fitted: Any, adapted: PromisedPredictor) -> Any:
    """Return the adapted model, within its pipeline if it was in one."""
    if not hasattr(fitted, "steps"):
        return adapted
    pipeline = copy.copy(fitted)
    pipeline.steps = [*fitted.steps[:-1], (fitted.steps[-1][0], adapted)]
    return pipeline


def _in_words(model: PromisedPredictor, adapted: PromisedPredictor) -> list[str]:
    """Say what the thresholds were set by, how usual the domain is, and by how much they moved."""
    import numpy as np

    from domaincover.data.dataset import texts
    from domaincover.report.domain_adaptation import DomainAdaptation

    used, level = adapted.adapted_, model.unfamiliar_level
    rows = f"{counted(used['rows'], 'row')}, {used['labels']:,} of them labelled"
    p_value = used["p_value"]
    if p_value is None:
        familiar = "No p-value of the domain: the rows are too few to compare it with those that calibrated."
    else:
        unlike = f", unlike the domains that calibrated (p ≤ {level:.2g}): the promise may not hold here"
        familiar = f"p-value of the domain: {p_value:.2g}{unlike if p_value <= level else ''}."
    if not used["moved"]:
        fewest = model.later_adaptation_["n_rows"][1:2].tolist()
        why = f"it takes {fewest[0]} rows or more" if fewest and used["rows"] < fewest[0] else "they say too little"
        return [f"Thresholds are the fixed ones: {rows}, did not move them ({why}).", familiar]
    shift = DomainAdaptation(adapted.thresholds_[None], model.thresholds_, np.array([p_value]), level)
    by_label = ", ".join(
        f"{name} {'in every set' if value != value else f'{value:+.2f}'}"
        for name, value in zip(texts(model.classes_.tolist()), shift.shift[0].tolist(), strict=True)
    )
    return [
        f"Thresholds set by {rows}.",
        familiar,
        f"Thresholds moved by {shift.mean_shift[0]:+.2f} on average (log-odds): {by_label}.",
    ]
