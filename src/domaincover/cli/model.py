"""Commands for one's own data: fit, predict, evaluate."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from domaincover.cli.terminal import text_width
from domaincover.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from domaincover.data.tables import Table
    from domaincover.estimators.base import SetClassifier
    from domaincover.evaluation import DomainReport

Method = Literal["set-cover", "robust", "pooled", "erm"]
Base = Literal["mlp", "linear", "boosting"]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A model's folder.", show_default=False)]
TableFile = Annotated[
    Path, typer.Argument(metavar="TABLE", help="A .csv, .csv.gz or .parquet file.", show_default=False)
]
MinCellSize = Annotated[
    int, typer.Option(min=1, help="A label with fewer rows in a domain does not count in that domain's report.")
]
Page = Annotated[Path | None, typer.Option(help="Write the evaluation as a page, too.")]
MOST_LABELS = 200
ROWS_AT_ONCE = 65_536


def fit(
    table: TableFile,
    label: Annotated[str, typer.Option(help="Column to predict.")],
    domain: Annotated[str, typer.Option(help="Column that says which domain a row is from: hospital, user, day, …")],
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    method: Annotated[Method, typer.Option(help="What makes the sets; erm gives single labels.")] = "set-cover",
    base: Annotated[Base, typer.Option(help="What scores the labels; set-cover needs a network.")] = "mlp",
    target_recall: Annotated[float, typer.Option(help="Recall that every label should have in every domain.")] = 0.9,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    hold_out_domains: Annotated[
        float, typer.Option(help="Share of the domains held out for an honest evaluation; 0 for none.")
    ] = 0.25,
    final_fit: Annotated[
        bool, typer.Option("--final-fit/--no-final-fit", help="Fit again on all domains, or keep what was evaluated.")
    ] = True,
    min_cell_size: MinCellSize = 1,
    html: Page = None,
    seed: Annotated[int, typer.Option(min=0, help="Fixes every draw.")] = 0,
) -> None:
    """Fit a set-valued model to a table, and tell how it does in domains that it has not seen.

    Example: domaincover fit visits.csv --label outcome --domain hospital --out model
    """
    from domaincover.data.tables import open_table
    from domaincover.estimators.assessment import MODEL, assess
    from domaincover.estimators.recipes import make_classifier
    from domaincover.estimators.saving import check_folder, save

    check_folder(out)
    model = make_classifier(method, base, target_recall, random_state=seed, verbose=sys.stderr.isatty())
    X, y, domains = _training_data(open_table(table), label, domain, drop or [])
    settings = {"label": label, "domain": domain, "method": method, "base": base, "target_recall": target_recall}
    settings |= {"hold_out_domains": hold_out_domains, "min_cell_size": min_cell_size, "seed": seed}
    assessment = None
    if hold_out_domains != 0:
        _say(f"Evaluating on domains that the model has not seen: {hold_out_domains:.0%} of {domains.nunique()}.")
        assessment = assess(
            model,
            X,
            y,
            domains,
            hold_out_domains=hold_out_domains,
            min_cell_size=min_cell_size,
            target_recall=target_recall,
            random_state=seed,
        )
        reports = {str(method) if name == MODEL else "erm": one for name, one in assessment.unseen.items()}
        notes = [str(assessment.diagnosis)]
        _print_reports(reports, target_recall, notes, kind="unseen")
        if html is not None:
            _write_page(html, reports, target_recall, notes, settings | {"table": table.name}, kind="unseen")
    if assessment is None or final_fit:
        _say(f"Fitting the final model on all {domains.nunique()} domains.")
        fitted = model.fit(X, y, domains=domains)
    else:
        fitted = assessment.model
    save(fitted, out, extra={"settings": settings, "assessment": assessment.to_dict() if assessment else None})
    _say(f"The model is in {out}. Next: domaincover predict {out} TABLE --out sets.parquet")


def predict(
    model: ModelFolder,
    table: TableFile,
    out: Annotated[Path, typer.Option(help="File for the sets: .parquet, .csv or .csv.gz.")],
    id: Annotated[list[str] | None, typer.Option(help="Column to keep beside the sets; may be repeated.")] = None,  # noqa: A002
) -> None:
    """Write a set of labels for every row of a table, in its order, block by block.

    Example: domaincover predict model new.parquet --id visit --out sets.parquet
    """
    from domaincover.data.tables import open_table, write_table
    from domaincover.estimators.saving import load

    fitted, data, ids = load(model), open_table(table), list(dict.fromkeys(id or []))
    for name in ids:
        data.check_column(name, "--id")
    features = _features(fitted, data)
    n_rows = write_table(out, _sets_of_blocks(fitted, data, features, ids))
    _say(f"{n_rows:,} sets are in {out}.")


def evaluate(
    model: ModelFolder,
    table: TableFile,
    label: Annotated[
        str | None, typer.Option(help="Column with the true labels; the one of `fit` if not given.")
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Column with the domains, if it is not the one of `fit`.")] = None,
    min_cell_size: MinCellSize = 1,
    format: Annotated[Literal["table", "json"], typer.Option(help="How to print.")] = "table",  # noqa: A002
    html: Page = None,
) -> None:
    """Tell how a model does in each domain of a table whose labels are known.

    Example: domaincover evaluate model new.csv --label outcome --domain hospital --html report.html
    """
    from domaincover.data.tables import open_table
    from domaincover.estimators.saving import load, load_extra

    fitted, data, extra = load(model), open_table(table), load_extra(model) or {}
    settings = extra.get("settings", {})
    label, domain = label or settings.get("label"), domain or settings.get("domain")
    if label is None or domain is None:
        raise InputError("the model does not say which columns it was fitted on; give --label and --domain.")
    data.check_column(label, "--label")
    data.check_column(domain, "--domain")
    features = _features(fitted, data)
    frame = data.read(list(dict.fromkeys([*features, label, domain])), text_columns=_text_columns(fitted))
    report = fitted.domain_report(frame[features], frame[label], frame[domain], min_cell_size=min_cell_size)
    target = float(settings.get("target_recall", getattr(fitted, "target_recall", 0.9)))
    if format == "json":
        typer.echo(json.dumps({"summary": report.summary(target).to_dict(), "domains": report.records()}, indent=2))
    notes = _notes_on_evaluation(report, fitted, extra)
    reports = {settings.get("method", "model"): report}
    if format == "table":
        _print_reports(reports, target, notes, kind="")
    if html is not None:
        _write_page(html, reports, target, notes, settings | {"table": table.name}, kind="")


def _training_data(
    data: Table, label: str, domain: str, drop: Sequence[str]
) -> tuple[pd.DataFrame, pd.Series[Any], pd.Series[Any]]:
    """Read features, labels and domains, and say what was recognised."""
    data.check_column(label, "--label")
    data.check_column(domain, "--domain")
    for name in drop:
        data.check_column(name, "--drop")
    if label == domain:
        raise InputError(f"--label and --domain are both {label!r}; they must be two columns.")
    features = [name for name in data.columns if name not in {label, domain, *drop}]
    if not features:
        raise InputError(f"{data.path} has no columns left to learn from beside {label!r} and {domain!r}.")
    frame = data.read([*features, label, domain])
    _check_labels(frame[label])
    _check_domains(frame[domain])
    _say_what_columns_are(frame[features])
    return frame[features], frame[label], frame[domain]


def _check_labels(labels: pd.Series[Any]) -> None:
    _check_missing(labels, "--label")
    n_labels = labels.nunique()
    if n_labels < 2:
        raise InputError(
            f"column {labels.name!r} (--label) has one value only, {labels.iloc[0]!r}; sets need two labels."
        )
    if n_labels > MOST_LABELS:
        raise InputError(
            f"column {labels.name!r} (--label) has {n_labels:,} different values; labels are classes, "
            f"at most {MOST_LABELS}. Was another column meant?"
        )


def _check_domains(domains: pd.Series[Any]) -> None:
    _check_missing(domains, "--domain")
    n_domains = domains.nunique()
    if n_domains > len(domains) / 2:
        raise InputError(
            f"column {domains.name!r} (--domain) has {n_domains:,} different values in {len(domains):,} rows; a domain "
            "is a group of many rows, such as a hospital or a user. Was another column meant?"
        )


def _check_missing(column: pd.Series[Any], option: str) -> None:
    missing = column.isna().to_numpy()
    if missing.any():
        raise InputError(
            f"column {column.name!r} ({option}) is empty in {int(missing.sum()):,} of {len(missing):,} rows, first in "
            f"data row {int(missing.argmax()) + 1}; drop those rows or give the missing value a name."
        )


def _say_what_columns_are(features: pd.DataFrame) -> None:
    from domaincover.data.encoding import column_kind

    by_kind: dict[str, list[str]] = {}
    for name in features:
        by_kind.setdefault(column_kind(features[name]), []).append(str(name))
    plural = {"number": "numbers", "boolean": "booleans", "date": "dates", "category": "categories"}
    plural["ignored"] = "ignored, since almost every row has another text"
    for kind, words in plural.items():
        if kind in by_kind:
            _say(f"{words}: {', '.join(by_kind[kind])}")
    if set(by_kind) == {"ignored"}:
        raise InputError("no column can be learned from: every text is different in almost every row.")


def _features(model: SetClassifier, data: Table) -> list[str]:
    """Return the columns that the model reads, all of which the table must have."""
    features = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if not features:
        raise InputError("the model was fitted on an array without column names; use it from Python.")
    for name in features:
        data.check_column(name, "the model was fitted with it")
    return features


def _text_columns(model: SetClassifier) -> list[str]:
    """Return the columns that hold categories: read as text, whatever they look like."""
    kinds = _encoder(model).kinds_
    return [name for name, kind in kinds.items() if kind == "category"]


def _encoder(model: Any) -> Any:
    """Return the encoder of tables inside a model."""
    while not hasattr(model, "kinds_"):
        if hasattr(model, "encoder_"):
            model = model.encoder_
        elif hasattr(model, "estimator_"):
            model = model.estimator_
        elif hasattr(model, "steps"):
            model = model[0]
        else:
            raise InputError("the model does not read tables by itself; use it from Python.")
    return model


def _sets_of_blocks(model: SetClassifier, data: Table, features: list[str], ids: list[str]) -> Iterator[pd.DataFrame]:
    import pandas as pd

    from domaincover.data.dataset import texts

    labels = texts(model.classes_.tolist())
    wanted = list(dict.fromkeys([*ids, *features]))
    start = 0
    for block in data.blocks(ROWS_AT_ONCE, wanted, text_columns={*_text_columns(model), *ids}):
        sets = model.predict_set(block[features].set_axis(range(start, start + len(block))))
        columns: dict[str, Any] = {name: block[name] for name in ids}
        columns |= {f"in_set[{label}]": sets[:, k] for k, label in enumerate(labels)}
        columns["set"], columns["set_size"] = _set_texts(sets, labels), sets.sum(axis=1)
        yield pd.DataFrame(columns)
        start += len(block)


def _set_texts(sets: Any, labels: list[str]) -> Any:
    """Return each set as text; the distinct sets are written once."""
    import numpy as np

    distinct, which = np.unique(np.packbits(sets, axis=1), axis=0, return_inverse=True)
    members = np.unpackbits(distinct, axis=1, count=len(labels)).astype(bool)
    texts = np.array([", ".join(label for label, held in zip(labels, row, strict=True) if held) for row in members])
    return texts.astype(object)[which.reshape(-1)]


def _notes_on_evaluation(report: DomainReport, model: SetClassifier, extra: Mapping[str, Any]) -> list[str]:
    """Say which domains training had, and what the fit's own evaluation found about single labels."""
    seen = set(map(str, model.domains_.tolist())) & set(map(str, report.domain_names))
    notes = []
    if seen:
        notes.append(
            f"{len(seen)} of these {len(report.domain_names)} domains were in the training data; if the rows were too, "
            "their recall says little about new domains."
        )
    assessment = extra.get("assessment")
    if assessment:
        notes.append(f"When the model was fitted: {assessment['diagnosis']['text']}")
    return notes


def _print_reports(reports: Mapping[str, DomainReport], target: float, notes: Sequence[str], kind: str) -> None:
    from domaincover.report.domain_headline import summary_lines
    from domaincover.report.domain_table import domain_table, summary_table

    look: dict[str, Any] = {"width": text_width(), "color": sys.stdout.isatty()}
    typer.echo(domain_table(reports, target, **look), color=look["color"] or None)
    typer.echo(summary_table(reports, target, **look), color=look["color"] or None)
    typer.echo("\n".join([*summary_lines(reports, target, kind=kind), *notes]))


def _write_page(
    path: Path,
    reports: Mapping[str, DomainReport],
    target: float,
    notes: Sequence[str],
    settings: Mapping[str, Any],
    kind: str,
) -> None:
    from domaincover.report.domain_page import write_domain_page

    shown = {name: str(value) for name, value in settings.items()}
    title = f"Prediction sets for {shown.get('label', 'labels')}, by {shown.get('domain', 'domain')}"
    write_domain_page(path, reports, target, title=title, notes=notes, settings=shown, kind=kind)
    _say(f"The page is {path.resolve().as_uri()}")


def _say(message: str) -> None:
    typer.echo(message, err=True)
