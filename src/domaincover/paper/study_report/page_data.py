"""Data for the page's script: the rows of every chart, and every single domain, by data set."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from domaincover.paper.study_report.comparison_charts import captions, two_lines
from domaincover.paper.study_report.comparisons import ComparedMethods, compared_methods, recall_boxes
from domaincover.paper.study_report.cross_plot_layers import SCREEN_SIZE, target_row
from domaincover.paper.study_report.crosses import cross_limits, cross_plot_data, note_on_random_sets
from domaincover.paper.study_report.exhibits import Section, rows_of
from domaincover.paper.study_report.label_places import Canvas, place_of_random_sets
from domaincover.paper.study_report.packing import least_at_target, packed_domains
from domaincover.paper.study_report.results_table import (
    CheckedDomains,
    CheckedResults,
    main_target,
    notes_of,
    of_dataset,
    of_experiment,
    targets_of,
)
from domaincover.paper.study_report.tradeoff_charts import spread_note
from domaincover.paper.study_report.tradeoffs import coverage_table, curves_of, has_curves
from domaincover.paper.study_report.training_curves import TrainingCurves
from domaincover.report.look import SCREEN
from domaincover.report.readable import sentence, with_spread
from domaincover.report.style import (
    COMPARISON_LABELS,
    comparisons_of,
    dataset_label,
    method_styles,
    split_label,
    splits_in_order,
)

DECIMALS = 4
CROSS_COLUMNS = (
    *("method", "split", "ours", "n_domains", "n_seeds"),
    *("set_size", "set_size_q25", "set_size_q75", "set_size_quartiles"),
    *("min_recall", "min_recall_q25", "min_recall_q75", "min_recall_quartiles", "share"),
)


def page_data(
    results: CheckedResults, domains: CheckedDomains, training: Mapping[str, TrainingCurves] | None = None
) -> dict[str, Any]:
    """Return the script's data from checked results and domains; single domains have codes into its lists."""
    styles = method_styles(results["method"])
    methods = {
        method: {
            "label": style.label,
            "color": style.color,
            "shape": style.shape,
            "ours": style.ours,
            "lines": two_lines(style.label),
        }
        for method, style in styles.items()
    }
    splits = splits_in_order(results["split"])
    names = dict.fromkeys(results["dataset"])
    return {
        "methods": list(methods),
        "styles": list(methods.values()),
        "splits": [split_label(split) for split in splits],
        "split_names": splits,
        "datasets": [
            dataset_data(results, domains, name, list(styles), splits) | _training((training or {}).get(name))
            for name in names
        ],
    }


def dataset_data(
    results: CheckedResults, domains: CheckedDomains, dataset: str, methods: list[str], splits: list[str]
) -> dict[str, Any]:
    """Return the rows of one data set's charts by target, and its single domains packed."""
    rows, single = of_dataset(results, dataset), of_dataset(domains, dataset)
    targets = targets_of(rows, dataset)
    comparisons = comparisons_of(rows["method"])
    crosses = cross_plot_data(rows)
    return {
        "label": dataset_label(dataset),
        "mark": " ".join(map(sentence, notes_of(rows))),
        "n_labels": int(single["n_labels"].max()),
        "targets": targets,
        "least": [least_at_target(target) for target in targets],
        "main": targets.index(main_target(rows, dataset)),
        "splits": [splits.index(split) for split in splits_in_order(rows["split"])],
        "groups": [{"label": COMPARISON_LABELS[name], "methods": group} for name, group in comparisons.items()],
        "by_target": [
            _of_target(crosses, rows, single, dataset, target, list(comparisons.values())) for target in targets
        ],
        "curves": _curves(rows, dataset) if has_curves(rows, dataset) else None,
        **packed_domains(single, methods, targets, splits),
    }


def _of_target(
    crosses: pd.DataFrame,
    results: CheckedResults,
    domains: CheckedDomains,
    dataset: str,
    target: float,
    groups: list[list[str]],
) -> dict[str, Any]:
    """Return crosses of every split, axis limits of each comparison, and bars and boxes of unseen domains."""
    own = of_experiment(crosses, dataset, target)
    n_labels = int(domains["n_labels"].max())
    content: dict[str, Any] = {
        "crosses": _columns(own, CROSS_COLUMNS),
        "frames": [_frame(own[own["method"].isin(group)], n_labels, target) for group in groups],
        "shares": {},
        "boxes": {},
        "outliers": {},
        "captions": {},
    }
    if "unseen" in set(own["split"]):
        compared = compared_methods(results, dataset, target)
        content["captions"] = captions_of(compared)
        methods = dict(zip(compared.rows["label"], compared.rows["method"], strict=True))
        boxes = recall_boxes(compared, domains)
        for name, table in (
            ("shares", coverage_table(compared)),
            ("boxes", boxes.boxes.assign(said=boxes.boxes["median"].map(with_spread))),
            ("outliers", boxes.outliers),
        ):
            content[name] = _columns(table.assign(method=table["label"].map(methods)).drop(columns="label"))
    return content


def exhibit_data(section: Section, results: CheckedResults, domains: CheckedDomains) -> dict[str, Any]:
    """Return the methods and target of one of the paper's figures, and the axis limits of its plots by data set."""
    exhibit = section.exhibit
    target = exhibit.target_recalls[-1]
    crosses = cross_plot_data(rows_of(exhibit, results))
    names = list(dict.fromkeys(results["dataset"]))
    numbers = dict.fromkeys(panel.number for panel in (*section.panels, *section.others))
    frames = {}
    if exhibit.kind.startswith("cross"):
        splits = ["unseen"] if exhibit.kind == "cross" else splits_in_order(crosses["split"])
        crosses = crosses[crosses["split"].isin(splits)]
        frames = {
            number: _frame(
                of_experiment(crosses, names[number], target),
                int(of_dataset(domains, names[number])["n_labels"].max()),
                target,
            )
            for number in numbers
        }
    return {"methods": [*exhibit.methods, *exhibit.ours], "target": target, "frames": frames}


def captions_of(compared: ComparedMethods) -> dict[str, str]:
    """Return the captions of bars, boxes and shares against sizes."""
    coverage = f"Share of unseen domains at target against set size. {spread_note(compared)}"
    return {**captions(compared), "coverage": coverage}


def _frame(crosses: pd.DataFrame, n_labels: int, target: float) -> dict[str, Any]:
    """Return the axis limits of these crosses, the visible line of random sets, and a note on it."""
    near = cross_limits(crosses, target)
    canvas = Canvas(*SCREEN_SIZE, SCREEN.text, near)
    target_of_line, above = target_row(target, crosses, n_labels, canvas)
    name = place_of_random_sets(crosses, n_labels, canvas)
    return {
        "size": near.size,
        "recall": near.recall,
        "random_name": [] if name is None else [name._asdict()],
        "target": target_of_line,
        "above": above,
        "note": note_on_random_sets(n_labels, near),
    }


def _curves(results: CheckedResults, dataset: str) -> dict[str, Any]:
    curves = curves_of(results, dataset)
    methods = {style.label: method for method, style in method_styles(results["method"]).items()}
    points = curves.points.assign(method=curves.points["label"].map(methods)).drop(columns="label")
    return {
        "rows": _columns(points),
        "targets": curves.targets,
        "size": curves.limits.size,
        "recall": curves.limits.recall,
    }


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


def _columns(table: pd.DataFrame, columns: Sequence[str] | None = None) -> dict[str, list[Any]]:
    """Return rounded columns for JSON, without NaN; a page of many rows names each column once."""
    shown = table if columns is None else table[list(columns)]
    shown = shown.round(DECIMALS).astype(object).where(shown.notna(), None)
    return {str(name): shown[name].tolist() for name in shown}
