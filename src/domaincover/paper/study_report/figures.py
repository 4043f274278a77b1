"""The figures of a study: cross-plots of set size against min recall, and every figure as a file."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

import altair as alt
import pandas as pd
from altair.utils.schemapi import debug_mode

from domaincover.errors import InputError
from domaincover.options import FigureFormat
from domaincover.paper.histories import TrainingHistory
from domaincover.paper.published import Exhibit
from domaincover.paper.study_report.comparison_charts import min_recall_boxes, share_bars
from domaincover.paper.study_report.cross_plot_layers import (
    RECALL_LINES,
    RECALL_TITLE,
    interactive_cross_plot,
    static_cross_plot,
    with_hollow_symbols,
)
from domaincover.paper.study_report.crosses import (
    CrossPlotTables,
    cross_plot_data,
    cross_plot_tables,
    note_on_random_sets,
    single_domains,
)
from domaincover.paper.study_report.figure_plan import PlannedFigure, planned_figures
from domaincover.paper.study_report.panels import pages_of, panel_figure
from domaincover.paper.study_report.results_table import (
    CheckedDomains,
    CheckedResults,
    checked_domains,
    checked_results,
    main_target,
    notes_of,
    of_dataset,
    sentences_of_notes,
)
from domaincover.paper.study_report.tradeoff_charts import recall_against_size, share_against_size
from domaincover.paper.study_report.training_curves import training_curves, training_figure
from domaincover.report.look import (
    BESIDE_AXIS,
    COLUMN,
    PAPER,
    SCREEN,
    TWO_COLUMNS,
    Look,
    chart_config,
    fitted,
    title_of,
)
from domaincover.report.pictures import AnyChart, Spec, save_chart
from domaincover.report.style import INK, dataset_label, method_styles, split_label, splits_in_order

__all__ = ["cross_plot", "cross_plot_data", "cross_splits_plot", "figure_files", "save_chart"]

PLOT_HEIGHT = 165  # points of a plot in a column
LEFT_OF_PLOTS = 52  # points of the recall axis with its title
PANEL_GAP = 12
MOST_ROWS = 4  # data sets of a figure of training

SomeChart = TypeVar("SomeChart", alt.LayerChart, alt.HConcatChart)


def cross_plot(
    results: CheckedResults,
    domains: CheckedDomains,
    dataset: str,
    split: str = "unseen",
    target_recall: float | None = None,
    points: bool = True,
    paper: bool = False,
) -> alt.LayerChart:
    """Return the cross-plot of one split; without points it holds no single domains and no controls.

    For a paper it is one column wide, with text of 8 points, and holds no points.
    """
    tables = cross_plot_tables(results, dataset, target_recall)
    if split not in splits_of(tables):
        raise InputError(f"data set {dataset!r} has no split {split!r}, only {', '.join(splits_of(tables))}.")
    crosses = tables.crosses[tables.crosses["split"] == split]
    notes = sentences_of_notes(of_dataset(results, dataset))
    if paper:
        chart = fitted(static_cross_plot(tables, crosses, PAPER, BESIDE_AXIS, RECALL_LINES), COLUMN, PLOT_HEIGHT)
        return _with_look(chart.properties(title=_title(tables, split_label(split), notes, PAPER, COLUMN)), PAPER)
    if points:
        chart = interactive_cross_plot(tables, single_domains(tables, domains), split)
    else:
        chart = static_cross_plot(tables, crosses, SCREEN, 480, RECALL_TITLE)
    chart = chart.properties(width=480, height=340, title=_title(tables, split_label(split), notes, SCREEN, 480))
    return _with_look(chart, SCREEN)


def cross_splits_plot(
    results: CheckedResults,
    dataset: str,
    target_recall: float | None = None,
    paper: bool = False,
) -> alt.HConcatChart:
    """Return the cross-plots of all splits side by side on the same axes; for a paper, two columns wide."""
    tables = cross_plot_tables(results, dataset, target_recall)
    splits, notes = list(reversed(splits_of(tables))), sentences_of_notes(of_dataset(results, dataset))
    look, gap = (PAPER, PANEL_GAP) if paper else (SCREEN, 24)
    width = int((TWO_COLUMNS - LEFT_OF_PLOTS - gap * (len(splits) - 1)) / len(splits)) if paper else 280
    whole = TWO_COLUMNS if paper else 3 * width
    panels = []
    for place, split in enumerate(splits):
        crosses = tables.crosses[tables.crosses["split"] == split]
        recall_title = None if place else RECALL_LINES if paper else RECALL_TITLE
        panel = static_cross_plot(tables, crosses, look, whole - LEFT_OF_PLOTS, recall_title)
        name = alt.TitleParams(
            split_label(split).capitalize(), fontSize=8 if paper else 12, fontWeight="normal", frame="group", offset=6
        )
        panels.append(panel.properties(width=width, height=130 if paper else 280, title=name))
    chart = alt.hconcat(*panels, title=_title(tables, "all splits", notes, look, whole), spacing=gap)
    styled = _with_look(chart, look)
    if paper:
        styled.padding = {"left": 1, "right": 2, "top": 2, "bottom": 2}
    return styled


def splits_of(tables: CrossPlotTables) -> list[str]:
    """Return the splits that have crosses, unseen domains first."""
    return splits_in_order(tables.crosses["split"])


def figure_files(
    results: pd.DataFrame,
    domains: pd.DataFrame,
    out_dir: Path,
    fmt: FigureFormat = "png",
    kinds: Collection[str] | None = None,
    exhibits: Sequence[Exhibit] = (),
    histories: Sequence[TrainingHistory] = (),
) -> list[Path]:
    """Draw the figures of a study, one file for all its data sets; return the files.

    A figure of several plots is two columns of a paper wide, a plot alone one column. Figures that are exhibits of a
    paper come first, with their numbers as names.

    Kinds are "cross" (cross-plots of unseen domains), "cross-splits" (of all splits side by side, two columns wide),
    "share" (bars of the share of unseen domains at target), "min-recall" (boxes of their min recalls), "curves"
    (min recall against set size by target, one per data set that has several), and "coverage" (share at target
    against set size). "training" (recall by cell, set size and multipliers of SET-COVER at each dual step) needs
    histories. None draws all that apply.
    """
    table = checked_results(results)
    single = checked_domains(domains, table)
    paths = []
    for planned in planned_figures(table, kinds, exhibits):
        for page in pages_of(planned):
            paths.append(Path(out_dir) / f"{page.name}.{fmt}")
            with debug_mode(False):
                chart = drawn_figure(page, single)
            save_chart(_with_hollow_legend(chart, page), paths[-1], fmt, True)
    trained = _at_main_targets(histories, table) if kinds is None or "training" in kinds else []
    for first in range(0, len(trained), MOST_ROWS):
        number = "" if first == 0 else f"-{first // MOST_ROWS + 1}"
        paths.append(Path(out_dir) / f"training{number}.{fmt}")
        curves = [training_curves(history) for history in trained[first : first + MOST_ROWS]]
        with debug_mode(False):
            spec = training_figure(curves, notes_of(table))
        save_chart(spec, paths[-1], fmt, True)
    return paths


def _at_main_targets(histories: Sequence[TrainingHistory], table: CheckedResults) -> list[TrainingHistory]:
    """Return the histories of every data set at its main target, in the order of the data sets."""
    order = list(dict.fromkeys(table["dataset"]))
    own = [one for one in histories if one.target_recall == main_target(table, one.dataset)]
    return sorted(own, key=lambda one: order.index(one.dataset))


def drawn_figure(planned: PlannedFigure, single: CheckedDomains) -> AnyChart:
    """Return a figure: several plots with one legend, or a plot alone."""
    if len(planned.datasets) > 1:
        return panel_figure(planned, single)
    table, target, dataset = planned.results, planned.target_recall, planned.datasets[0]
    draw: dict[str, Callable[[], AnyChart]] = {
        "cross": lambda: cross_plot(table, single, dataset, "unseen", target, paper=True),
        "cross-splits": lambda: cross_splits_plot(table, dataset, target, paper=True),
        "share": lambda: share_bars(table, dataset, target, paper=True),
        "min-recall": lambda: min_recall_boxes(table, single, dataset, target, paper=True),
        "coverage": lambda: share_against_size(table, dataset, target, paper=True),
        "curves": lambda: recall_against_size(table, dataset, paper=True),
    }
    return draw[planned.kind]()


def _with_hollow_legend(chart: AnyChart, planned: PlannedFigure) -> Spec:
    """Return a figure whose legend shows methods as its plots do; a figure of several plots draws its own."""
    if isinstance(chart, dict):
        return chart
    methods = method_styles(planned.results["method"]).values()
    return with_hollow_symbols(chart.to_dict(validate=False), methods)


def _with_look(chart: SomeChart, look: Look) -> SomeChart:
    styled: SomeChart = chart.configure(**chart_config(INK, look))
    return styled


def _title(tables: CrossPlotTables, domains: str, notes: list[str], look: Look, width: float) -> alt.TitleParams:
    said = [*notes, note_on_random_sets(tables.n_labels, tables.near)]
    return title_of(f"{dataset_label(tables.dataset)}: {domains}", said, look, width)
