"""Commands for one's own data: fit, predict, evaluate."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from domaincover.cli import completion, networks
from domaincover.cli.arguments import DomainColumn, LabelColumn, MinCellSize, ModelFolder, Page, TableFile
from domaincover.cli.outputs import (
    check_not_table,
    check_page,
    notes_on_evaluation,
    print_reports,
    say,
    warnings_in_a_line,
    write_page,
)
from domaincover.errors import InputError
from domaincover.options import Base, FittedCalibration, Method

if TYPE_CHECKING:
    import pandas as pd

    from domaincover.cli.inputs import LabelledTable, ModelColumns
    from domaincover.data.tables import Table
    from domaincover.estimators.assessment import Assessment
    from domaincover.estimators.base import SetClassifier
    from domaincover.prediction_sets import Sets

REFITTED = (
    "This is about the model that was judged, which did not see these domains. The final model is fitted again on all "
    "domains, these too: it is made the same way from more data, but it is not itself the one certified here."
)


def fit(
    table: TableFile,
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    label: Annotated[str | None, typer.Option(help="Column to predict.", autocompletion=completion.columns)] = None,
    domain: Annotated[
        str | None,
        typer.Option(
            help="Column that says which domain a row is from: hospital, user, day, …",
            autocompletion=completion.columns,
        ),
    ] = None,
    method: Annotated[
        Method, typer.Option(help="What makes the sets; erm and those after it give single labels.")
    ] = "set-cover",
    base: Annotated[Base, typer.Option(help="What scores the labels; boosting: with robust, pooled, erm.")] = "mlp",
    target_recall: Annotated[float, typer.Option(help="Recall that every label should have in every domain.")] = 0.9,
    domain_confidence: Annotated[
        float | None,
        typer.Option(help="Promise that all labels of a new domain are at target with this probability, such as 0.9."),
    ] = None,
    calibration: Annotated[
        FittedCalibration | None,
        typer.Option(help="How: cross-fit, if not given, is expected to keep the promise, the others are proved to."),
    ] = None,
    on_infeasible: Annotated[
        Literal["raise", "widen"] | None,
        typer.Option(help="With too few domains for the promise: stop, or put what cannot be promised into every set."),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Column to leave out; may be repeated.", autocompletion=completion.columns)
    ] = None,
    hold_out_domains: Annotated[
        float, typer.Option(help="Share of the domains held out for an honest evaluation; 0 for none.")
    ] = 0.25,
    final_fit: Annotated[
        bool, typer.Option("--final-fit/--no-final-fit", help="Fit again on all domains, or keep what was evaluated.")
    ] = True,
    min_cell_size: MinCellSize = None,
    html: Page = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Fixes every draw.")] = 0,
    image_column: networks.ImageColumn = None,
    text_column: networks.TextColumn = None,
    network: networks.Model = None,
    weights: networks.Weights = None,
    learn: networks.LearnOption = "auto",
    image_size: networks.ImageSize = None,
    crop: networks.Crop = 0.0,
    max_unreadable: networks.MaxUnreadable = 0.01,
    text_features: networks.Features = "word-embeddings",
    max_tokens: networks.MaxTokens = None,
    download: networks.Download = False,
    cache: networks.Cache = None,
    workers: networks.Workers = None,
    epochs: networks.Epochs = None,
    batch_size: networks.BatchSize = None,
    learning_rate: networks.LearningRate = None,
    device: networks.Device = "auto",
    checkpoints: networks.CheckpointFolder = None,
    checkpoint_minutes: networks.CheckpointMinutes = 10.0,
    resume: networks.Resume = False,
    precision: networks.PrecisionOption = "full",
    accumulate: networks.Accumulate = 1,
    tracker: networks.Trackers = None,
    tracking: networks.Tracking = Path("tracking"),
) -> None:
    """Fit a set-valued model to a table, images or texts, and tell how it does in domains that it has not seen.

    Example: domaincover fit visits.csv --label outcome --domain hospital --out model
    """
    from domaincover.cli.inputs import feature_columns, kinds_in_words, read_training
    from domaincover.data.tables import open_table
    from domaincover.saving.sealed import check_folder

    _check_options(target_recall, hold_out_domains, final_fit, html)
    _check_promise(domain_confidence, calibration, on_infeasible)
    check_folder(out)
    data = open_table(table)
    check_not_table(html, "--html", table)
    label, domain = _roles(data, label, domain)
    sources = networks.SourceOptions(
        image_column,
        text_column,
        network,
        weights,
        learn,
        image_size,
        crop,
        max_unreadable,
        text_features,
        max_tokens,
        download,
        cache,
        workers,
    ).for_table(data)
    features = sources.learned_columns(feature_columns(data, label, domain, drop or []), label, domain)

    from domaincover.estimators.recipes import make_classifier  # loads torch, for which a wrong name need not wait
    from domaincover.saving.models import save
    from domaincover.training.run import close_checkpoints

    source_network = sources.network()
    run = networks.RunOptions(
        epochs,
        batch_size,
        learning_rate,
        device,
        checkpoints,
        checkpoint_minutes,
        resume,
        precision,
        accumulate,
        tuple(tracker or ()),
        tracking,
    )
    model = make_classifier(
        method,
        base,
        target_recall,
        network=source_network,
        training=run.training(),
        domain_confidence=domain_confidence,
        calibration=calibration or "cross-fit",
        on_infeasible=on_infeasible or "raise",
        random_state=seed,
        verbose=sys.stderr.isatty(),
    )
    fewest = 2 if hold_out_domains > 0 else 1
    training = read_training(data, features, label, domain, fewest, sources.image_column, sources.text_column)
    if domain_confidence is not None and on_infeasible != "widen":
        n_to_train = 1 if calibration == "held-out-domains" else 0
        _check_enough_domains(training.n_domains, hold_out_domains, domain_confidence, n_to_train)
    asked: dict[str, Any] = {"seed": seed, "method": method, "base": base, "target_recall": target_recall}
    asked |= {"label": label, "domain": domain, "features": features}
    asked["network"] = None if source_network is None else networks.what_is_learned(source_network)
    asked |= {"hold_out_domains": hold_out_domains, "domain_confidence": domain_confidence, "calibration": calibration}
    images: list[str] = [] if sources.image_column is None else training.X[sources.image_column].tolist()
    held = run.open_checkpoints(table, images, asked)
    say("\n".join(kinds_in_words(training.X)) if source_network is None else source_network.in_words(device))
    settings = {"label": label, "domain": domain, "method": method, "base": base, "target_recall": target_recall}
    if min_cell_size is None:
        min_cell_size = 1 if domain_confidence is None else model.min_cell_size
    settings |= {"hold_out_domains": hold_out_domains, "min_cell_size": min_cell_size, "seed": seed}
    if domain_confidence is not None:
        settings |= {"method": f"{method}-joint", "domain_confidence": domain_confidence}
        settings["calibration"] = calibration or "cross-fit"
    assessment = _assess(model, training, settings, table.name, html, final_fit) if hold_out_domains > 0 else None
    if assessment is None or final_fit:
        say(f"Fitting the final model on all domains: {training.n_domains}.")
        with warnings_in_a_line():
            fitted = model.fit(training.X, training.labels, domains=training.domains)
        if (promise := fitted.promise) is not None:
            say(f"Promise: {promise}")
    else:
        fitted = assessment.model
    if networks.is_main_process():
        save(fitted, out, extra={"settings": settings, "assessment": assessment.to_dict() if assessment else None})
        if held is not None and checkpoints is not None:
            close_checkpoints(checkpoints)
            held.release()
    say(f"The model is in {out}. Next: domaincover predict {shlex.quote(str(out))} TABLE --out sets.parquet")


def predict(
    model: ModelFolder,
    table: TableFile,
    out: Annotated[Path, typer.Option(help="File for the sets: .parquet, .csv or .csv.gz.")],
    id: Annotated[  # noqa: A002
        list[str] | None,
        typer.Option(help="Column to keep beside the sets; may be repeated.", autocompletion=completion.columns),
    ] = None,
) -> None:
    """Write a set of labels for every row of a table, in its order, block by block.

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
    with warnings_in_a_line():
        n_rows = write_table(out, _sets_of_blocks(fitted, model, labels, data, columns, ids))
    say(f"{n_rows:,} {'set is' if n_rows == 1 else 'sets are'} in {out}.")


def evaluate(
    model: ModelFolder,
    table: TableFile,
    label: LabelColumn = None,
    domain: DomainColumn = None,
    min_cell_size: MinCellSize = None,
    format: Annotated[Literal["table", "json"], typer.Option(help="How to print.")] = "table",  # noqa: A002
    html: Page = None,
) -> None:
    """Tell how a model does in each domain of a table whose labels are known.

    Example: domaincover evaluate model new.csv --label outcome --domain hospital --html report.html
    """
    from domaincover.cli.judging import certificate_if_unseen, judge

    judged = judge(model, table, label, domain, min_cell_size, html)
    report, target = judged.report, judged.target_recall
    notes = notes_on_evaluation(report, judged.model, judged.extra)
    certificate = certificate_if_unseen(report, target, judged.model)
    if html is not None:
        write_page(html, judged.reports, target, notes, judged.settings, kind="", certificate=certificate)
    if format == "table":
        told = [] if certificate is None else [certificate.in_one_line()]
        print_reports(judged.reports, target, [*told, *notes], kind="")
    else:
        plain = {"summary": report.summary(target).to_dict(), "domains": report.records()}
        typer.echo(json.dumps(plain, indent=2, allow_nan=False))


def _roles(data: Table, label: str | None, domain: str | None) -> tuple[str, str]:
    """Return the columns of labels and domains; a folder of images has its own."""
    if data.path.is_dir():
        label, domain = label or "label", domain or "domain"
    for option, name in (("--label", label), ("--domain", domain)):
        if name is None:
            raise InputError(f"{option} is missing: the column of {data.path} to take for it.")
    return str(label), str(domain)


def _check_promise(domain_confidence: float | None, calibration: str | None, on_infeasible: str | None) -> None:
    from domaincover.prediction_sets import check_share

    if domain_confidence is not None:
        check_share(domain_confidence, "--domain-confidence")
        return
    for option, value in (("--calibration", calibration), ("--on-infeasible", on_infeasible)):
        if value is not None:
            raise InputError(f"{option} is about a promise; give --domain-confidence, such as 0.9, as well.")


def _check_options(target_recall: float, hold_out_domains: float, final_fit: bool, html: Path | None) -> None:
    from domaincover.prediction_sets import check_target_recall

    check_target_recall(target_recall)
    check_page(html)
    if not 0 <= hold_out_domains < 1:
        raise InputError(f"--hold-out-domains is a share of the domains, from 0 to below 1, got {hold_out_domains:g}.")
    if hold_out_domains == 0 and not final_fit:
        raise InputError("--no-final-fit keeps the model that was evaluated, but --hold-out-domains 0 evaluates none.")
    if hold_out_domains == 0 and html is not None:
        raise InputError("--html shows the evaluation, but --hold-out-domains 0 leaves it out.")


def _check_enough_domains(n_domains: int, hold_out_domains: float, domain_confidence: float, n_to_train: int) -> None:
    """Refuse a promise that the domains cannot give, before anything else is said or done."""
    from domaincover.calibration.confidence import confidence_text, domains_needed
    from domaincover.estimators.assessment import n_held_out

    n_evaluate = n_held_out(n_domains, hold_out_domains) if hold_out_domains > 0 else 0
    n_left, n_needed = n_domains - n_evaluate - n_to_train, domains_needed(domain_confidence)
    if n_left < n_needed:
        beside = " beside one to train on" if n_to_train else ""
        held_out = f", {n_evaluate} of which are held out to evaluate (--hold-out-domains)" if n_evaluate else ""
        raise InputError(
            f"--domain-confidence {domain_confidence:g} takes {n_needed} domains{beside}, and there are "
            f"{n_domains}{held_out}; the most that {n_left} allow is {confidence_text(n_left)}. Ask for less, "
            "add domains, or take --on-infeasible widen for sets that hold every label."
        )


def _assess(
    model: SetClassifier,
    training: LabelledTable,
    settings: Mapping[str, Any],
    table_name: str,
    html: Path | None,
    final_fit: bool,
) -> Assessment:
    """Judge a copy of the model by domains that it has not seen, print how it did, and write the page."""
    from domaincover.cli.judging import certificate_if_unseen
    from domaincover.estimators.assessment import MODEL, assess, n_held_out

    n_unseen = n_held_out(training.n_domains, settings["hold_out_domains"])
    say(f"Evaluating on {n_unseen} of {training.n_domains} domains that the model has not seen.")
    options = {name: settings[name] for name in ("hold_out_domains", "min_cell_size", "target_recall")}
    with warnings_in_a_line():
        assessment = assess(model, *training, **options, random_state=settings["seed"])
    names = {MODEL: settings["method"]}
    reports = {names.get(name, "erm"): report for name, report in assessment.unseen.items()}
    notes, target = [str(assessment.diagnosis)], settings["target_recall"]
    if (promise := assessment.model.promise) is not None:
        notes.append(f"Promised by the model evaluated here: {promise}")
    print_reports(reports, target, notes, kind="unseen")
    if html is not None:
        shown = {**settings, "table": table_name}
        certificate = certificate_if_unseen(assessment.unseen[MODEL], target, assessment.model)
        about = [REFITTED] if final_fit else []
        write_page(html, reports, target, notes, shown, kind="unseen", certificate=certificate, about=about)
    return assessment


def _columns_of_sets(labels: Sequence[str]) -> list[str]:
    return [*(f"in_set[{label}]" for label in labels), "set", "set_size"]


def _sets_of_blocks(
    model: SetClassifier, folder: Path, labels: Sequence[str], data: Table, columns: ModelColumns, ids: Sequence[str]
) -> Iterator[pd.DataFrame]:
    from domaincover.cli.judging import answering
    from domaincover.data.tables import ROWS_AT_ONCE
    from domaincover.estimators.base import predict_set

    names = _columns_of_sets(labels)
    for X, kept in columns.blocks(data, ROWS_AT_ONCE, ids):
        with answering(folder):
            sets = predict_set(model, X)
        written = [*sets.T, _set_texts(sets, labels), sets.sum(axis=1)]
        yield kept.assign(**dict(zip(names, written, strict=True)))


def _set_texts(sets: Sets, labels: Sequence[str]) -> Any:
    """Return each set as text, such as {mild, severe}; the distinct sets are written once."""
    import numpy as np

    distinct, which = np.unique(np.packbits(sets, axis=1), axis=0, return_inverse=True)
    members = np.unpackbits(distinct, axis=1, count=len(labels)).astype(bool)
    texts = [", ".join(label for label, held in zip(labels, row, strict=True) if held) for row in members]
    return np.array([f"{{{text}}}" for text in texts], dtype=object)[which.reshape(-1)]
