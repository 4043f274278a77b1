"""Charts with their data inside, written as PNG, SVG or PDF."""

import re
from pathlib import Path
from typing import Any, get_args

import altair as alt
import pandas as pd
import vl_convert
from altair.utils.schemapi import debug_mode
from altair.vegalite import SCHEMA_VERSION

from domaincover.errors import check_choice
from domaincover.files import write_whole
from domaincover.options import FigureFormat

PNG_SCALE = 2
PAPER_PNG_SCALE = 4  # 288 dots per inch
VEGA_LITE = "_".join(SCHEMA_VERSION.split(".")[:2])  # as vl-convert names versions
Spec = dict[str, Any]  # of Vega-Lite
Rows = list[dict[str, Any]]
AnyChart = alt.LayerChart | alt.HConcatChart | Spec


def inline(table: pd.DataFrame) -> alt.InlineData:
    """Return the rows of a table as inline data."""
    return inline_rows(rows_for_json(table))


def inline_rows(rows: Rows) -> alt.InlineData:
    """Return rows as inline data of any size."""
    kept: Any = tuple(rows)  # since altair deep-copies lists for every layer
    with debug_mode(False):  # schema validation of every row takes half the time of a figure
        return alt.InlineData(values=kept)


def rows_for_json(table: pd.DataFrame) -> Rows:
    """Return the rows of a table, with None for what is missing."""
    columns = [
        [None if missing else value for value, missing in zip(table[name].tolist(), table[name].isna(), strict=True)]
        for name in table
    ]
    names = list(map(str, table))
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def save_chart(chart: AnyChart, path: Path, fmt: FigureFormat, paper: bool = False) -> None:
    """Write the chart atomically as a picture; for a paper, its pixels are points."""
    check_choice("figure format", fmt, get_args(FigureFormat))
    # Tests validate every kind; it takes as long as drawing.
    spec = chart if isinstance(chart, dict) else chart.to_dict(validate=False)
    if fmt == "svg":
        text = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
        content = (_in_points(text) if paper else text).encode()
    elif fmt == "pdf":
        content = vl_convert.vegalite_to_pdf(_to_look_at(spec), vl_version=VEGA_LITE)
    else:
        scale = PAPER_PNG_SCALE if paper else PNG_SCALE
        content = vl_convert.vegalite_to_png(_to_look_at(spec), vl_version=VEGA_LITE, scale=scale, ppi=72)
    write_whole(Path(path), content)


def _to_look_at(spec: Spec) -> Spec:
    """Return the chart without what only an SVG file keeps, and takes time: tooltips and texts of screen readers."""
    config = spec.get("config", {}) | {"aria": False}
    return {key: part if key == "datasets" else _without_tooltips(part) for key, part in spec.items()} | {
        "config": config
    }


def _without_tooltips(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_tooltips(part) for key, part in node.items() if key != "tooltip"}
    return [_without_tooltips(part) for part in node] if isinstance(node, list) else node


def _in_points(svg: str) -> str:
    """Return the picture with its width and height in points."""
    return re.sub(r'(width|height)="([\d.]+)"', r'\1="\2pt"', svg[: svg.index(">")]) + svg[svg.index(">") :]
