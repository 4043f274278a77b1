"""Collect run directories into two tidy tables: one row per domain, and one row per result over seeds.

Reports are validated before tables are made of them, since a run directory may come from anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from domaincover.data.dataset import Split
from domaincover.errors import InputError
from domaincover.evaluation import Summary
from domaincover.paper.authors_code import silent_choices
from domaincover.paper.published import note_on
from domaincover.paper.run_directory import check_study, read_json

GROUP = ["dataset", "method", "target_recall", "split"]
AVERAGED = ["min_recall_q25", "min_recall_q75", "set_size_q25", "set_size_q75"]
AVERAGED += ["min_recall_p10", "min_recall_worst", "share_by_noise", "set_size_by_lot"]
RESULT_COLUMNS = [
    *(*GROUP, "n_seeds", "n_domains"),
    *("min_recall", "min_recall_std", "min_recall_ci", "set_size", "set_size_std", "set_size_ci"),
    *("share_at_target", "share_at_target_std", "share_at_target_ci", "train_seconds"),
    *(*AVERAGED, "n_labels", "note"),
]
CONFIDENCE = 0.95  # of the intervals of means over seeds
SUMMARY = tuple(field.name for field in fields(Summary))
LARGEST = 1e15  # of any count or measurement; excludes infinity
OF_DOMAIN = ("n", "min_recall", "set_size", "empty_rate", "single_rate")


class StudyTables(NamedTuple):
    """`results` over seeds, `domains` one by one, and the settings of the runs."""

    results: pd.DataFrame
    domains: pd.DataFrame
    settings: dict[str, str]


def collect(out: str | Path) -> StudyTables:
    """Read every finished run of a study."""
    reports = list(read_reports(Path(out)))
    if not reports:
        raise InputError(f"{out} has no finished run yet; run the study again to finish it.")
    return StudyTables(_results(reports), _domains(reports), _settings(reports))


def _rows(reports: Iterable[dict[str, Any]]) -> Iterable[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Yield the key of a result, the result, and its run's report."""
    for report in reports:
        named = {key: report["config"][key] for key in ("dataset", "method", "target_recall")}
        for split, result in report["splits"].items():
            yield named | {"split": split, "seed": report["config"]["seed"]}, result, report


def _results(reports: list[dict[str, Any]]) -> pd.DataFrame:
    by_seed = pd.DataFrame(
        named
        | result["summary"]
        | {"note": note_on(report["config"]), "train_seconds": report["seconds"]["train"]}
        | {"ddof": silent_choices(bool(report["config"].get("as_authors"))).deviation_ddof}
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
    return table.reset_index()[RESULT_COLUMNS]


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


def read_reports(
    out: Path, wanted: Callable[[dict[str, Any]], bool] | None = None, methods: Sequence[str] = ("*",)
) -> Iterator[dict[str, Any]]:
    """Yield the report of every finished run of these methods whose settings are wanted, in a fixed order."""
    check_study(out)
    for done in sorted(done for method in methods for done in out.glob(f"*/{method}/target-*/seed-*/DONE")):
        if wanted is not None and not wanted(read_json(done.parent / "config.json")):
            continue
        report = read_json(done.parent / "report.json")
        if not is_report(report):
            raise InputError(f"{done.parent / 'report.json'} is not a run's report; delete that folder and run again.")
        yield report


def is_report(report: Mapping[str, Any]) -> bool:
    """Return whether a report has all values that tables and figures need, of the right types."""
    try:
        config, labels, results = report["config"], report["labels"], report["splits"].values()
        kinds = [(config["dataset"], str), (config["method"], str), (config["seed"], int)]
        kinds += [(labels, list), *((label, str) for label in labels), (report["versions"], dict)]
        return (
            all(type(value) is kind for value, kind in kinds)
            and _are_numbers(config, ("target_recall",))
            and _are_numbers(report["seconds"], ("train",))
            and 0 < len(report["splits"]) == len(set(report["splits"]) & set(Split._fields))
            and all(_is_result(result, labels) for result in results)
        )
    except (KeyError, TypeError, AttributeError):
        return False


def _is_result(result: Any, labels: list[str]) -> bool:
    domains = result["domains"]
    if type(domains) is not list or not domains or not _are_numbers(result["summary"], SUMMARY):
        return False
    for domain in domains:
        recall = domain["recall"]
        known = [label for label in labels if recall[label] is not None]
        is_domain = type(domain["domain"]) is str and set(recall) == set(labels)
        if not (is_domain and _are_numbers(domain, OF_DOMAIN) and _are_numbers(recall, known)):
            return False
    return True


def _are_numbers(values: Any, names: Any) -> bool:
    for name in names:  # a loop, since a generator takes twice as long, for each of 100,000 domains
        value = values[name]
        if type(value) not in (int, float) or not -LARGEST <= value <= LARGEST:
            return False
    return True
