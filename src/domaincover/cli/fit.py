"""The command `fit`: from a table, images or texts to a saved model and its evaluation in unseen domains."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from domaincover.cli.checkpoint_folder import close_checkpoints
from domaincover.cli.fit_options import FitOptions
from domaincover.cli.network_options import learned_settings
from domaincover.cli.outputs import print_reports, shown_name, versions_here, write_page
from domaincover.errors import torch_needed_for
from domaincover.terminal.command_options import takes
from domaincover.terminal.messages import logs_as_messages, say, warnings_as_notes
from domaincover.terminal.processes import is_main_process, memory_of_machine

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
    from domaincover.cli.inputs import kinds_in_words, note_on_memory, read_training
    from domaincover.data.tables import open_table
    from domaincover.saving.sealed import check_folder, is_model

    options.check()
    check_folder(options.out)
    data = open_table(options.table)
    options = options.for_table(data)
    features, sources = options.feature_columns(data), options.sources

    from domaincover.cli.adaptable import can_adapt
    from domaincover.saving.models import save

    with torch_needed_for("training"):
        import torch  # noqa: F401 - a mistyped option need not wait for it

    network = sources.make_network()
    options.make_classifier(network)  # rejects options that contradict each other before the table is read
    min_domains = 2 if options.hold_out_domains > 0 else 1
    if options.training.on_disk:
        from domaincover.data.disk_table import DiskTable

        training = read_training(data, [], *options.roles, min_domains)
        training = training._replace(X=DiskTable.of(data, features, options.training.scratch, first_row=1))
    else:
        if (note := note_on_memory(data, len(features), memory_of_machine())) is not None:
            say(note)
        training = read_training(data, features, *options.roles, min_domains, sources.image_column, sources.text_column)
    options.check_enough_domains(training.n_domains)
    options, promise = options.with_promise(training)
    model = options.make_classifier(network)
    images = [] if sources.image_column is None else training.X[sources.image_column].tolist()
    command = {**options.identity(), "features": features, "network": learned_settings(network)}
    lock = options.training.open_checkpoints(data, images, command)
    for note in data.notes:
        say(note)
    if is_model(options.out):
        say(f"Note: {options.out} holds a model, which this one will replace.")
    say("\n".join(kinds_in_words(training.X)) if network is None else network.in_words(options.training.device))
    if promise is not None:
        say(promise)
    settings = options.saved_settings()
    assessment = _assess(model, training, settings, options) if options.hold_out_domains > 0 else None
    fitted = _final_fit(model, training, options) if assessment is None or options.final_fit else assessment.model
    if is_main_process():
        extra = {"settings": settings, "assessment": assessment.to_dict() if assessment else None}
        save(fitted, options.out, extra=extra)
        if lock is not None and options.training.checkpoints is not None:
            close_checkpoints(options.training.checkpoints)
            lock.release()
    folder = shlex.quote(str(options.out))
    adapts = f" --domain {shlex.quote(options.domain)}" if options.domain and can_adapt(fitted) else ""
    say(f"The model is in {options.out}. Next: domaincover predict {folder} TABLE{adapts} --out sets.parquet")


def _assess(
    model: SetClassifier, training: LabelledTable, settings: Mapping[str, Any], options: FitOptions
) -> Assessment:
    """Evaluate a copy of the model on held-out domains, print the result, and write the page."""
    from domaincover.cli.evaluate import certificate_if_unseen
    from domaincover.data.splits import n_held_out
    from domaincover.estimators.assessment import FIXED, MODEL, assess

    n_unseen = n_held_out(training.n_domains, options.hold_out_domains)
    say(f"Evaluating on {n_unseen} of {training.n_domains} domains that the model has not seen.")
    chosen = {name: settings[name] for name in ("hold_out_domains", "target_recall")}
    with warnings_as_notes(), logs_as_messages(all_of_them=options.verbose):
        assessment = assess(model, *training, **chosen, min_cell_size=options.min_cell_size, random_state=options.seed)
    method = settings["method"]
    adapts = FIXED in assessment.unseen
    names = {MODEL: method.removesuffix("-joint") + "-adapted" if adapts else method, FIXED: method}
    reports = {shown_name(names.get(name, "erm")): report for name, report in assessment.unseen.items()}
    notes, target = [str(assessment.diagnosis)], options.target
    if (line := assessment.unseen[MODEL].not_counted()) is not None:
        notes.insert(0, line)
    if assessment.unseen[MODEL].is_useless:
        notes.insert(0, options.what_to_try())
    if (promise := assessment.model.promise) is not None:
        notes.append(f"Promise of the model evaluated here: {promise}")
    print_reports(reports, target, notes, "unseen", assessment.verdict_lines)
    if options.html is not None:
        size = assessment.unseen[MODEL].min_cell_size
        shown = {**settings, "table": options.table.name, "min_cell_size": size, **versions_here()}
        certificate = certificate_if_unseen(assessment.unseen[MODEL], target, assessment.model)
        about = [REFITTED] if options.final_fit else []
        said: dict[str, Any] = {"certificate": certificate, "about": about, "verdict": assessment.verdict_lines}
        write_page(options.html, reports, target, notes, shown, kind="unseen", **said)
    return assessment


def _final_fit(model: SetClassifier, training: LabelledTable, options: FitOptions) -> SetClassifier:
    say(f"Fitting the final model on all domains: {training.n_domains}.")
    with warnings_as_notes(), logs_as_messages(all_of_them=options.verbose):
        fitted = model.fit(training.X, training.labels, domains=training.domains)
    if (promise := fitted.promise) is not None:
        say(f"Promise: {promise}")
    return fitted
