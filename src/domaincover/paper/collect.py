"""Collect run directories into two tidy tables: one row per domain, and one row per result over seeds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from domaincover.errors import InputError
from domaincover.paper.authors_code import silent_choices
from domaincover.paper.published import note_on
from domaincover.paper.run_directory import read_reports
from domaincover.paper.run_report import OF_DOMAIN
from domaincover.prediction_sets import size_by_lot

GROUP = ["dataset", "method", "target_recall", "split"]
AVERAGED = [
    "min_recall_q25",
    "min_recall_q75",
    "set_size_q25",
    "set_size_q75",
    "min_recall_p10",
    "min_recall_worst",
    "share_by_noise",
    "set_size_by_lot",
]


CONFIDENCE = 0.95  # of the intervals of means over seeds


class StudyTables(NamedTuple):
    """`results` over seeds, `domains` one by one, and the settings of the runs."""

    results: pd.DataFrame
    domains: pd.DataFrame
    settings: dict[str, str]


def collect(out: Path) -> StudyTables:
    """Read every finished run of a study."""
    reports = list(read_reports(out))
    if not reports:
        raise InputError(f"{out} has no finished run yet; run the study again to finish it.")
    return StudyTables(_results(reports), _domains(reports), _settings(reports))


def _rows(reports: Iterable[dict[str, Any]]) -> Iterable[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Yield the key of a result, the result, and its run's report."""
    for report in reports:
        config = report["config"]
        for split, result in report["splits"].items():
            named = {key: config[key] for key in ("dataset", "method", "target_recall")}
            yield named | {"split": split, "seed": config["seed"]}, result, report


def _results(reports: list[dict[str, Any]]) -> pd.DataFrame:
    by_seed = pd.DataFrame(
        named
        | {"set_size_by_lot": _least_by_lot(result, report)}
        | result["summary"]
        | {"train_seconds": report["seconds"]["train"], "n_labels": len(report["labels"])}
        | {"note": note_on(report["config"]), "ddof": _ddof(report["config"])}
        for named, result, report in _rows(reports)
    )
    groups = by_seed.groupby(GROUP, sort=True)
    mean, deviation = groups.mean(numeric_only=True), groups.std(numeric_only=True)
    n_seeds, ddof = groups.size(), groups["ddof"].max()
    table = pd.DataFrame({"n_seeds": n_seeds, "n_domains": mean["n_domains"].round().astype(int)})
    table["n_labels"], table["note"] = groups["n_labels"].max(), groups["note"].max()
    for name in ("min_recall", "set_size", "share_at_target"):
        table[name], table[f"{name}_std"] = mean[name], deviation[name] * np.sqrt((n_seeds - 1) / (n_seeds - ddof))
        table[f"{name}_ci"] = interval_half_width(deviation[name], n_seeds)
    for name in ("train_seconds", *AVERAGED):
        table[name] = mean[name]
    return table.reset_index()


def _least_by_lot(result: dict[str, Any], report: dict[str, Any]) -> float:
    """Return the size of sets drawn by lot as far as a run of an earlier version tells: every label at min recall."""
    return float(size_by_lot(len(report["labels"]), result["summary"]["min_recall"]))


def _ddof(config: dict[str, Any]) -> int:
    return silent_choices(bool(config.get("as_authors"))).deviation_ddof


def interval_half_width(deviation: pd.Series, n_seeds: pd.Series) -> pd.Series:
    """Return half the width of Student's t interval of a mean over seeds, at a confidence of 0.95; NaN for one seed."""
    from scipy.special import stdtrit  # the quantile of scipy.stats.t, which takes a second to load

    degrees = (n_seeds - 1).where(n_seeds > 1).astype(float)
    return stdtrit(degrees, 0.5 + CONFIDENCE / 2) * deviation / np.sqrt(n_seeds)


def _domains(reports: list[dict[str, Any]]) -> pd.DataFrame:
    found = [
        (named | {"n_labels": len(report["labels"])}, result["domains"]) for named, result, report in _rows(reports)
    ]
    counts = [len(domains) for _, domains in found]
    columns: dict[str, Any] = {
        name: np.repeat(np.array([named[name] for named, _ in found]), counts) for name in found[0][0]
    }
    for name in ("domain", *OF_DOMAIN, "recall"):
        columns[name] = [domain[name] for _, domains in found for domain in domains]
    return pd.DataFrame(columns)


def _settings(reports: list[dict[str, Any]]) -> dict[str, str]:
    """Return settings and versions, with all values if runs differ."""
    pairs = [report["config"] | report["versions"] for report in reports]
    names = dict.fromkeys(name for pair in pairs for name in pair)
    own = [name for name in names if name not in ("dataset", "method", "target_recall", "seed")]
    return {name: ", ".join(sorted({str(pair[name]) for pair in pairs if name in pair})) for name in own}
