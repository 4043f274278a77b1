"""The figures of a study: cross-plots of set size against min recall, and every figure as a file."""

import io
import re
from pathlib import Path
from typing import Literal, TypeVar, get_args

import altair as alt
import pandas as pd

from domaincover.errors import InputError
from domaincover.files import write_whole
from domaincover.report.comparison_charts import min_recall_boxes, share_bars
from domaincover.report.crosses import (
    CrossPlotTables,
    cross_plot_data,
    cross_plot_tables,
    note_on_random_sets,
)
from domaincover.report.drawing import Pen, chart_config, inline
from domaincover.report.frames import checked_domains, checked_results, experiments
from domaincover.report.style import INK, dataset_label, split_label, splits_in_order, unused_name

__all__ = ["cross_plot", "cross_plot_data", "cross_splits_plot", "figure_files", "save_chart"]

FigureFormat = Literal["png", "svg", "pdf"]
PNG_SCALE = 2
LONGEST_SLUG = 80

SomeChart = TypeVar("SomeChart", alt.LayerChart, alt.HConcatChart)


def cross_plot(
    results: pd.DataFrame,
    domains: pd.DataFrame,
    dataset: str,
    split: str = "unseen",
    target_recall: float | None = None,
    points: bool = True,
) -> alt.LayerChart:
    """Return the cross-plot of one split; without points it holds no single domains and no controls."""
    tables = cross_plot_tables(results, domains, dataset, target_recall)
    if split not in splits_of(tables):
        raise InputError(f"data set {dataset!r} has no split {split!r}, only {', '.join(splits_of(tables))}.")
    chart = _one_split(Pen(tables, interactive=points), split)
    chart = chart.properties(width=480, height=340, title=_title(tables, split_label(split)))
    return _with_look(chart)


def cross_splits_plot(
    results: pd.DataFrame, domains: pd.DataFrame, dataset: str, target_recall: float | None = None
) -> alt.HConcatChart:
    """Return the cross-plots of all splits side by side on the same axes, without single domains."""
    tables = cross_plot_tables(results, domains, dataset, target_recall)
    first, *others = reversed(splits_of(tables))
    panels = [_one_split(Pen(tables, interactive=False), first)]
    panels += [_one_split(Pen(tables, interactive=False, recall_title=None), split) for split in others]
    for panel, split in zip(panels, (first, *others), strict=True):
        name = alt.TitleParams(split_label(split).capitalize(), fontSize=12, fontWeight="normal", frame="group")
        panel.width, panel.height, panel.title = 280, 280, name
    return _with_look(alt.hconcat(*panels, title=_title(tables, "all splits"), spacing=24))


def splits_of(tables: CrossPlotTables) -> list[str]:
    """Return the splits that have crosses, unseen domains first."""
    return splits_in_order(tables.crosses["split"])


def save_chart(chart: alt.LayerChart | alt.HConcatChart, path: Path, fmt: FigureFormat) -> None:
    """Write the chart as a picture that appears whole or not at all."""
    if fmt not in get_args(FigureFormat):
        raise InputError(f"figure format must be one of {', '.join(get_args(FigureFormat))}, got {fmt!r}.")
    picture = io.StringIO() if fmt == "svg" else io.BytesIO()
    chart.save(picture, format=fmt, scale_factor=PNG_SCALE if fmt == "png" else 1)
    content = picture.getvalue()
    write_whole(Path(path), content.encode() if isinstance(content, str) else content)


def figure_files(results: pd.DataFrame, domains: pd.DataFrame, out_dir: Path, fmt: FigureFormat = "png") -> list[Path]:
    """Draw every figure of every data set and target; return the files.

    These are the cross-plots of unseen domains alone and of all splits side by side, the bars of the share of
    unseen domains at target, and the boxes of their min recalls.
    """
    table = checked_results(results)
    single = checked_domains(domains, table)
    one_target = table["target_recall"].nunique() == 1
    used: set[str] = set()
    paths = []
    for dataset, target in experiments(table):
        suffix = "" if one_target else f"-target-{target!r}"
        charts: dict[str, alt.LayerChart | alt.HConcatChart] = {
            "cross": cross_plot(table, single, dataset, "unseen", target, points=False),
            "cross-splits": cross_splits_plot(table, single, dataset, target),
            "share": share_bars(table, dataset, target),
            "min-recall": min_recall_boxes(table, single, dataset, target),
        }
        for kind, chart in charts.items():
            stem = unused_name(f"{kind}-{_slug(dataset)}{suffix}", used)
            paths.append(Path(out_dir) / f"{stem}.{fmt}")
            save_chart(chart, paths[-1], fmt)
    return paths


def _with_look(chart: SomeChart) -> SomeChart:
    styled: SomeChart = chart.configure(**chart_config(INK))
    return styled


def _one_split(pen: Pen, split: str) -> alt.LayerChart:
    crosses, points = (table[table["split"] == split] for table in (pen.tables.crosses, pen.tables.points))
    return pen.draw(inline(crosses), inline(points if pen.interactive else points[:0]))


def _title(tables: CrossPlotTables, domains: str) -> alt.TitleParams:
    text = f"{dataset_label(tables.dataset)}: {domains}"
    return alt.TitleParams(text, subtitle=note_on_random_sets(tables))


def _slug(name: str) -> str:
    """Return a name for files: lower-case ASCII letters, digits and hyphens.

    >>> _slug("Camelyon 17/<b>")
    'camelyon-17-b'
    """
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_SLUG] or "data-set"
