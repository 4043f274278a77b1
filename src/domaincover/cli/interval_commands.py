"""Intervals on the command line: what the commands do where a model predicts a number (`fit --target`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from domaincover.cli.inputs import ModelColumns, feature_columns
from domaincover.cli.outputs import check_model_folder, print_json, say_model
from domaincover.errors import InputError
from domaincover.predictors.interval_predictor import IntervalPredictor, numbers_of
from domaincover.terminal.messages import if_stopped, say, text_width, warnings_as_notes
from domaincover.terminal.text import wrapped

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from domaincover.cli.adapt import AdaptOptions
    from domaincover.cli.evaluate import EvaluateOptions, EvaluationOptions
    from domaincover.cli.fit_options import FitOptions
    from domaincover.cli.part_scores import SavedModel
    from domaincover.cli.predict import PredictOptions
    from domaincover.cli.promise_commands import CertifyOptions
    from domaincover.data.tables import Table
    from domaincover.predictors.interval_report import IntervalReport

COLUMNS = ["low", "high", "width"]
LIKE_CLASSES = 10  # so few different values may be classes
FOR_SETS = ("label", "method", "base", "on_infeasible", "order", "html", "network", "text_column", "image_column")


def fit_intervals(options: FitOptions) -> None:
    """Fit intervals for a number, and evaluate them on domains that the model has not seen."""
    from domaincover.data.tables import open_table
    from domaincover.saving.models import save

    values = {**vars(options), **vars(options.sources)}
    _refuse({name: values.get(name) for name in FOR_SETS}, "fit --target makes intervals")
    if not isinstance(options.target, float):
        raise InputError("--target-recall takes one number with --target: the coverage of intervals.")
    if options.domain_confidence == "none" or options.domain is None:
        raise InputError("intervals promise the coverage of new domains: name the column of domains (--domain).")
    check_model_folder(options.out)
    data, target = open_table(options.table), str(options.number)
    names = feature_columns(data, target, options.domain, options.drop or [])
    y, X = read_number(data, target, "--target"), data.read(names)
    domains = _domains(data, options.domain)
    if len(set(y.tolist())) <= LIKE_CLASSES:
        say(f"Note: {target!r} has few different values; if they are classes, give --label instead of --target.")

    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.pipeline import make_pipeline

    from domaincover.data.encoding import TableEncoder
    from domaincover.estimators.intervals import PromisedIntervalRegressor, assess_intervals

    trees = HistGradientBoostingRegressor(random_state=options.seed)
    model = PromisedIntervalRegressor(
        make_pipeline(TableEncoder(scale=False), trees),
        target_coverage=options.target,
        domain_confidence=0.9 if options.confidence is None else options.confidence,
        calibration=_calibration(options.calibration),
        min_domain_size=options.cell_size,
        random_state=options.seed,
    )
    with warnings_as_notes():
        fitted = model
        if options.hold_out_domains > 0:
            share = options.hold_out_domains
            found = assess_intervals(model, X, y, domains, hold_out_domains=share, random_state=options.seed)
            typer.echo(str(found))
            fitted = found.model
        if options.final_fit or options.hold_out_domains == 0:
            say(f"Fitting the final model on all domains: {domains.nunique()}.")
            fitted = model.fit(X, y, domains=domains)
    say(f"Promise: {fitted.promise_}")
    settings = {"target": target, "domain": options.domain, "method": "intervals", "seed": options.seed}
    save(fitted, options.out, extra={"settings": settings})
    say_model(options.out)


def predict_intervals(options: PredictOptions, model: IntervalPredictor, data: Table, ids: Sequence[str]) -> None:
    """Write the interval of every row: its ends and its width."""
    from domaincover.data.tables import check_ending, write_table

    asked = {"domain": options.domain, "top": options.top or None, "scores": options.scores or None}
    _refuse(asked, "the model predicts intervals")
    if options.out.is_dir():
        raise InputError(f"{options.out} is a folder; intervals are written to one file.")
    check_ending(options.out)
    if clash := sorted(set(ids) & set(COLUMNS)):
        raise InputError(f"--id {clash[0]!r} is also the name of a column that predict writes; rename it.")

    def blocks() -> Iterator[pd.DataFrame]:
        columns = _columns(model, data)
        for X, kept in columns.blocks(data, ids):
            low, high = model.predict_interval(X).T
            frame = kept[list(ids)].reset_index(drop=True)
            yield frame.assign(**dict(zip(COLUMNS, (low, high, high - low), strict=True)))

    with warnings_as_notes():
        n_rows = write_table(options.out, blocks())
    say(f"{n_rows:,} intervals are in {options.out}.")


def adapt_intervals(options: AdaptOptions, model: IntervalPredictor, settings: dict[str, Any]) -> None:
    """Write a model of one domain, whose intervals known values of it have moved."""
    from domaincover.data.tables import open_table
    from domaincover.saving.models import save

    _refuse({"rows": options.rows, "choose": options.choose}, "the model predicts intervals")
    if_stopped("no model was written")
    check_model_folder(options.out, options.model)
    data, target = open_table(options.table), options.label or settings.get("target")
    y = read_number(data, str(target), "--label", may_lack=True)
    if (domain := settings.get("domain")) in data.columns and _domains(data, domain).nunique() > 1:
        raise InputError(f"{options.table} has rows of several domains (column {domain!r}); adapt takes those of one.")
    with warnings_as_notes():
        adapted = model.adapt(_read(model, data), y)
    save(adapted, options.out, extra={"settings": settings})
    used = adapted.adapted_
    typer.echo(f"Intervals have learned from {used['labels'] if used['level'] else 0:,} known values of one domain.")
    say_model(options.out)


def evaluate_intervals(options: EvaluateOptions, saved: SavedModel) -> None:
    """Print coverage and width by domain."""
    _refuse({"by": options.by, "few_labels": options.few_labels, "html": options.html}, "the model predicts intervals")
    model, report = _evaluated(options, saved)
    verdict = model.verdict(report)
    if options.style == "json":
        content = {"verdict": None if verdict is None else verdict.to_dict(), "model_sha256": saved.digest}
        summary = report.summary(model.target_coverage).to_dict()
        print_json({**content, "summary": summary, "domains": report.records()})
        return
    for line in [] if verdict is None else wrapped(str(verdict), text_width()):
        typer.echo(line)
    typer.echo(str(report))


def certify_intervals(options: CertifyOptions, saved: SavedModel) -> None:
    """Print a certificate of the coverage in new domains."""
    from domaincover.promises import certificates

    _refuse({"target_recall": options.target_recall, "html": options.html}, "the model predicts intervals")
    model, report = _evaluated(options, saved)
    seen = model.domains_.tolist()
    if options.unseen_only:
        report = report.subset([not known for known in certificates.seen_among(report.domain_names, seen)])
    confidence, verdict = options.confidence, model.verdict(report)
    target = model.target_coverage
    found = certificates.certify(report, target, confidence=confidence, seen_domains=seen, verdict=verdict)
    if options.style == "json":
        print_json(found.to_dict())
    else:
        typer.echo(found.text(text_width()))


def read_number(data: Table, name: str, option: str, *, may_lack: bool = False) -> NDArray[Any]:
    """Read a column of finite numbers; with `may_lack`, NaN where they are not known."""
    data.check_column(name, option)
    column = data.read([name])[name]
    try:
        return numbers_of(column, len(column), may_lack=may_lack)
    except InputError as error:
        raise InputError(f"column {name!r} ({option}): {str(error).removeprefix('y ')}") from None


def _evaluated(options: EvaluationOptions, saved: SavedModel) -> tuple[IntervalPredictor, IntervalReport]:
    model, settings, data = saved.load(), saved.extra().get("settings", {}), options.open_table()
    target, domain = options.label or settings.get("target"), options.domain or settings.get("domain")
    if target is None or domain is None:
        raise InputError("the model does not record its columns; give --label and --domain.")
    y, domains = read_number(data, target, "--label"), _domains(data, domain)
    with warnings_as_notes():
        return model, model.domain_report(_read(model, data), y, domains, min_domain_size=options.min_cell_size)


def _columns(model: IntervalPredictor, data: Table) -> ModelColumns:
    """Return the columns of the regressors, which all read the same ones."""
    return ModelColumns.of(next(iter(model.members_[0].values())), data)


def _read(model: IntervalPredictor, data: Table) -> pd.DataFrame:
    import pandas as pd

    return pd.concat([X for X, _ in _columns(model, data).blocks(data)])


def _domains(data: Table, name: str) -> pd.Series[Any]:
    from domaincover.data.identity import canonical_texts, typed_names

    data.check_column(name, "--domain")
    column = typed_names(canonical_texts(data.read([name], [name])[name]))
    if column.isna().any():
        raise InputError(f"column {name!r} (--domain) is empty in row {int(column.isna().to_numpy().argmax()) + 1}.")
    return column


def _calibration(asked: str | None) -> Any:
    if asked == "jackknife-minmax":
        raise InputError("intervals are calibrated by cross-fit or held-out-domains, not by jackknife-minmax.")
    return asked or "cross-fit"


def _refuse(options: dict[str, Any], why: str) -> None:
    """Reject options that are about sets."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(f"--{given[0].replace('_', '-')} is for sets, and {why}; leave it out.")
