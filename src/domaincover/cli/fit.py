"""The command `fit`: from a table, images or texts to a saved model and its evaluation in unseen domains."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from domaincover.cli.fit_options import FitOptions
from domaincover.cli.outputs import Shown, check_model_folder, say_model, shown_name
from domaincover.errors import torch_needed_for
from domaincover.terminal.command_options import takes
from domaincover.terminal.messages import if_stopped, logs_as_messages, say, warnings_as_notes

if TYPE_CHECKING:
    from domaincover.cli.inputs import LabelledTable
    from domaincover.estimators.assessment import Assessment
    from domaincover.estimators.base import SetClassifier

REFITTED = (
    "This is about the evaluated model, which has not seen these domains. The final model is refitted on all domains, "
    "including these: it is fitted the same way to more data, but it is not itself the one certified here."
)


@takes(FitOptions)
def fit(options: FitOptions) -> None:
    """Fit a set-valued model to a table, images or texts, and evaluate it on domains that it has not seen.

    Example: domaincover fit visits.csv --label outcome --domain hospital --out model
    """
    from domaincover.cli.inputs import kinds_in_words
    from domaincover.data.tables import open_table
    from domaincover.saving.models import is_model

    if_stopped("no model was written")
    options.check()
    if options.number is not None:
        from domaincover.cli.interval_commands import fit_intervals

        fit_intervals(options)
        return
    check_model_folder(options.out)
    data = open_table(options.table)
    options = options.for_table(data)
    features = options.feature_columns(data)

    from domaincover.cli.check import learned_input
    from domaincover.cli.part_scores import can_adapt
    from domaincover.saving.models import save

    with torch_needed_for("training"):
        import torch  # noqa: F401 - a mistyped option need not wait for it

    network = options.sources.make_network()
    options.make_classifier(network)  # rejects options that contradict each other before the table is read
    training = options.read(data, features)
    order = options.domain_order(data, training.domains)
    options, promise = options.with_promise(training, order)
    model, settings = options.make_classifier(network), options.saved_settings()
    if order is not None:
        model.set_params(domain_order=order)
    with options.training.keeping_checkpoints():
        for note in data.notes:
            say(note)
        if is_model(options.out):
            say(f"Note: {options.out} holds a model, which this one will replace.")
        say("\n".join(kinds_in_words(training.X)) if network is None else network.in_words(options.training.device))
        for line in _misleading(training, options, order):
            say(line)
        if promise is not None:
            say(promise)
        if network is not None and network.learns(options.training.device) == "all":
            _say_time_left(model, training.n_domains, options)
        assessment = _assess(model, training, settings, options) if options.hold_out_domains > 0 else None
        fitted = _final_fit(model, training, options) if assessment is None or options.final_fit else assessment.model
        extra = {"settings": settings, "assessment": assessment.to_dict() if assessment else None}
        extra["input"] = learned_input(fitted, training.X, training.domains, fingerprints=options.fingerprints)
        save(fitted, options.out, extra=extra)
    say_model(options.out, f" --domain {shlex.quote(str(options.domain))}" if can_adapt(fitted) else "")


def _misleading(training: LabelledTable, options: FitOptions, order: Sequence[Any] | None) -> list[str]:
    """Return what `check` calls misleading, as notes; nothing of images, texts and tables on disk."""
    import pandas as pd

    from domaincover.checks.table_check import DRIFTS, check_table

    if not isinstance(training.X, pd.DataFrame) or options.sources.column is not None or training.n_domains < 2:
        return []
    found = [each for each in check_table(*training, random_state=options.seed).findings if each.harm == "misleads"]
    return [
        f"Note: {each.what} {each.advice}{' To leave out: --drop ' + each.drop[0] if each.drop else ''}"
        for each in found
        if order is None or not each.what.startswith(DRIFTS)
    ]


def _say_time_left(model: SetClassifier, n_domains: int, options: FitOptions) -> None:
    """Let the model say how long the whole command takes, of which almost all is the training of networks."""
    from domaincover.data.dataset import n_held_out
    from domaincover.estimators.assessment import n_fits, single_label_version
    from domaincover.training.listeners import TimeLeft
    from domaincover.training.settings import TrainingRun

    n_trainings = 0 if options.hold_out_domains > 0 and not options.final_fit else n_fits(model, n_domains)
    if options.hold_out_domains > 0:
        n_trainings += n_fits(model, n_domains - n_held_out(n_domains, options.hold_out_domains))
        n_trainings += single_label_version(model) is not None
    for name, run in model.get_params().items():
        if name.split("__")[-1] == "run":
            follows = replace(run or TrainingRun(), listeners=(TimeLeft(n_trainings, say),))
            model.set_params(**{name: follows})


def _assess(
    model: SetClassifier, training: LabelledTable, settings: Mapping[str, Any], options: FitOptions
) -> Assessment:
    """Evaluate a copy of the model on held-out domains, print the result, and write the page."""
    from domaincover.cli.evaluate import certificate_if_unseen
    from domaincover.data.dataset import n_held_out
    from domaincover.estimators.assessment import FIXED, MODEL, assess

    n_unseen = n_held_out(training.n_domains, options.hold_out_domains)
    which = f"the last by {options.order}" if options.order else "that the model has not seen"
    say(f"Evaluating on {n_unseen} of {training.n_domains} domains {which}.")
    chosen = {name: settings[name] for name in ("hold_out_domains", "target_recall")}
    with warnings_as_notes(), logs_as_messages(all_of_them=options.verbose):
        assessment = assess(model, *training, **chosen, min_cell_size=options.min_cell_size, random_state=options.seed)
    method, report, promise = settings["method"], assessment.unseen[MODEL], assessment.model.promise
    adapted = method.removesuffix("-joint") + "-adapted" if FIXED in assessment.unseen else method
    names = {MODEL: adapted, FIXED: method}
    promised = None if promise is None else f"Promise of the model evaluated here: {promise}"
    shown = Shown(
        {shown_name(names.get(name, "erm")): one for name, one in assessment.unseen.items()},
        options.target,
        list(filter(None, [report.not_counted(), str(assessment.diagnosis), promised])),
        {**settings, "table": options.table.name, "min_cell_size": report.min_cell_size},
        kind="unseen",
        certificate_notes=[REFITTED] if options.final_fit else [],
        verdict=assessment.verdict_lines,
    )
    shown.print()
    if options.html is not None:
        certificate = certificate_if_unseen(report, options.target, assessment.model)
        gain = getattr(assessment.model, "label_gain", None)
        shown._replace(certificate=certificate, label_gain=gain).write_page(options.html)
    return assessment


def _final_fit(model: SetClassifier, training: LabelledTable, options: FitOptions) -> SetClassifier:
    from domaincover.cli.part_scores import gain_in_words

    say(f"Fitting the final model on all domains: {training.n_domains}.")
    with warnings_as_notes(), logs_as_messages(all_of_them=options.verbose):
        fitted = model.fit(training.X, training.labels, domains=training.domains)
    if (promise := fitted.promise) is not None:
        say(f"Promise: {promise}")
    if (line := gain_in_words(fitted, options.domain)) is not None:
        say(line)
    return fitted
