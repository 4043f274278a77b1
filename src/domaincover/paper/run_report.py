"""Validate a run's report before making tables of it, since a run directory may come from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from domaincover.data.splits import Split
from domaincover.evaluation import Summary

NOT_NEEDED = ("set_size_by_lot", "n_labels")  # by tables; studies that were finished before they existed are kept
SUMMARY = tuple(field.name for field in fields(Summary) if field.name not in NOT_NEEDED)
LARGEST = 1e15  # of any count or measurement; excludes infinity
OF_DOMAIN = ("n", "min_recall", "set_size", "empty_rate", "single_rate")


def is_report(report: Mapping[str, Any]) -> bool:
    """Return whether a report has all values that tables and figures need, of the right types."""
    try:
        config, labels = report["config"], report["labels"]
        return (
            all(type(config[name]) is str for name in ("dataset", "method"))
            and _are_numbers(config, ("target_recall",))
            and type(config["seed"]) is int
            and _are_numbers(report["seconds"], ("train",))
            and type(labels) is list
            and all(type(label) is str for label in labels)
            and type(report["versions"]) is dict
            and 0 < len(report["splits"]) == len(set(report["splits"]) & set(Split._fields))
            and all(_is_result(result, labels) for result in report["splits"].values())
        )
    except (KeyError, TypeError, AttributeError):
        return False


def _is_result(result: Any, labels: list[str]) -> bool:
    return (
        _are_numbers(result["summary"], SUMMARY)
        and type(result["domains"]) is list
        and len(result["domains"]) > 0
        and all(_is_domain(domain, labels) for domain in result["domains"])
    )


def _is_domain(domain: Any, labels: list[str]) -> bool:
    recall = domain["recall"]
    known = [label for label in labels if recall[label] is not None]
    return (
        type(domain["domain"]) is str
        and _are_numbers(domain, OF_DOMAIN)
        and set(recall) == set(labels)
        and _are_numbers(recall, known)
    )


def _are_numbers(values: Any, names: Any) -> bool:
    for name in names:  # a loop, since a generator takes twice as long, for each of 100,000 domains
        value = values[name]
        if type(value) not in (int, float) or not -LARGEST <= value <= LARGEST:
            return False
    return True
