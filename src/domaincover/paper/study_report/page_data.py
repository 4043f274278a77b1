"""Data for the page's script: the rows of every chart, and every single domain, by data set."""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.paper.study_report.chart_data import (
    TrainingCurves,
    caption,
    cross_table,
    curve_table,
    plane_limits,
    recall_boxes,
    share_table,
)
from domaincover.paper.study_report.chart_templates import ITERATES, chart_templates, study_config
from domaincover.paper.study_report.exhibits import Section
from domaincover.paper.study_report.figures import TITLES, point_sizes, two_lines
from domaincover.paper.study_report.results_table import (
    main_target,
    of_dataset,
    of_experiment,
    sentences_of_notes,
    targets_of,
    unseen_rows,
)
from domaincover.paper.study_report.style import (
    COMPARISON_LABELS,
    SPLIT_LABELS,
    MethodStyle,
    comparisons_of,
    dataset_label,
    method_styles,
    splits_in_order,
)
from domaincover.report.charts import PAGE_INK, SCREEN
from domaincover.report.readable import with_spread

DECIMALS = 4
PER_TARGET = ("share", "min-recall", "coverage")  # charts whose captions depend on the seeds of a target


def page_data(
    results: pd.DataFrame,
    domains: pd.DataFrame,
    training: Mapping[str, TrainingCurves],
    exhibits: list[Section],
) -> dict[str, Any]:
    """Return the script's data from checked results and domains."""
    styles = method_styles(results["method"])
    splits = splits_in_order(results["split"])
    return {
        "templates": chart_templates(SCREEN),
        "config": study_config(PAGE_INK),
        "titles": TITLES,
        "end": {"expr": f"width - {SCREEN.room_for_numbers}"},
        "styles": [{"method": method, **_look(style)} for method, style in styles.items()],
        "iterates": [_look(style) for style in ITERATES.values()],
        "splits": [SPLIT_LABELS[split] for split in splits],
        "split_names": splits,
        "datasets": [
            dataset_data(results, domains, name, splits) | _training(training.get(name))
            for name in dict.fromkeys(results["dataset"])
        ],
        "exhibits": {
            one.number: {
                "methods": [*one.exhibit.methods, *one.exhibit.ours],
                "target": one.exhibit.target_recalls[-1],
            }
            for one in exhibits
            if one.is_figure
        },
    }


def dataset_data(results: pd.DataFrame, domains: pd.DataFrame, dataset: str, splits: list[str]) -> dict[str, Any]:
    """Return the rows of one data set's charts by target, and its single domains."""
    rows, single = of_dataset(results, dataset), of_dataset(domains, dataset)
    targets = targets_of(rows, dataset)
    curves = curve_table(rows, dataset)
    known = single["method"].isin(rows["method"]) & single["target_recall"].isin(targets) & single["split"].isin(splits)
    return {
        "label": dataset_label(dataset),
        "mark": " ".join(sentences_of_notes(rows)),
        "n_labels": int(single["n_labels"].max()),
        "targets": targets,
        "main": targets.index(main_target(rows, dataset)),
        "splits": [splits.index(split) for split in splits_in_order(rows["split"])],
        "groups": [
            {"label": COMPARISON_LABELS[name], "methods": group}
            for name, group in comparisons_of(rows["method"]).items()
        ],
        "by_target": [_of_target(rows, single, dataset, target) for target in targets],
        "curves": None if curves.empty else _curves(curves),
        "domains": packed(domain_columns(single[known])),
    }


def domain_columns(domains: pd.DataFrame) -> dict[str, Any]:
    """Return single domains as columns: their names and labels once, and each label's recall."""
    codes, names = pd.factorize(domains["domain"])
    recalls = pd.DataFrame(domains["recall"].tolist(), index=domains.index).astype(float)
    target = domains["target_recall"].to_numpy(dtype=float)
    rows = domains[["method", "target_recall", "split", "seed", "n", "set_size"]].assign(domain=codes)
    return {
        "names": [str(name) for name in names],
        "labels": [str(label) for label in recalls],
        "rows": _columns(rows),
        "recalls": [_without_nan(rounded_recalls(recalls[label].to_numpy(), target)) for label in recalls],
    }


def rounded_recalls(recalls: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return recalls rounded down, though not below the target where they are at target."""
    down = np.floor(recalls * 10**DECIMALS + 1e-6) / 10**DECIMALS
    return np.where(recalls >= target, np.maximum(down, target), np.minimum(down, recalls))


def packed(content: Any) -> str:
    """Return content as compressed JSON, for the page's script."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _look(style: MethodStyle) -> dict[str, Any]:
    names = ("label", "color", "fill", "shape")
    return {"lines": two_lines(style.label)} | {name: getattr(style, name) for name in names}


def _of_target(results: pd.DataFrame, domains: pd.DataFrame, dataset: str, target: float) -> dict[str, Any]:
    """Return crosses of every split, and bars and boxes of unseen domains."""
    content = {"crosses": _columns(cross_table(of_experiment(results, dataset, target)))}
    rows = unseen_rows(of_experiment(results, dataset, target))
    if rows.empty:
        return content | {"shares": {}, "boxes": {}, "outliers": {}, "captions": {}}
    found = recall_boxes(rows, domains)
    return content | {
        "shares": _columns(share_table(rows)),
        "boxes": _columns(found.boxes.assign(said=found.boxes["median"].map(with_spread))),
        "outliers": _columns(found.outliers),
        "captions": {kind: caption(kind, int(rows["n_seeds"].max())) for kind in PER_TARGET},
    }


def _curves(curves: pd.DataFrame) -> dict[str, Any]:
    targets = sorted(set(curves["target"]))
    sizes = point_sizes(len(targets), SCREEN)
    return {"rows": _columns(curves), "targets": targets, "sizes": sizes, **plane_limits("curves", curves)}


def _training(curves: TrainingCurves | None) -> dict[str, Any]:
    """Return the data of the plots of training, by the names of the template's data."""
    if curves is None:
        return {}
    return {
        "training": {
            "cells": curves.steps["cell"].iloc[0],  # the same at every step
            "steps": _columns(curves.steps.drop(columns="cell")),
            "iterates": curves.iterates.to_dict("records"),
            "target": [{"target": curves.target_recall}],
        }
    }


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Return rounded columns for JSON, without NaN; a page of many rows names each column once."""
    rounded = table.round(dict.fromkeys(set(table) - {"target", "target_recall"}, DECIMALS))
    return {str(name): _without_nan(rounded[name]) for name in rounded}


def _without_nan(values: Any) -> list[Any]:
    column = pd.Series(values)
    found: list[Any] = column.astype(object).where(column.notna(), None).tolist()
    return found
