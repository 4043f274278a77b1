"""Charts with their data inside, written as PNG, SVG or PDF."""

import re
from pathlib import Path
from typing import Any, get_args

import altair as alt
import pandas as pd
import vl_convert
from altair.utils.schemapi import debug_mode
from altair.vegalite import SCHEMA_VERSION

from domaincover.errors import InputError
from domaincover.files import write_whole
from domaincover.options import FigureFormat

PNG_SCALE = 2
PAPER_PNG_SCALE = 4  # 288 dots per inch
VEGA_LITE = "_".join(SCHEMA_VERSION.split(".")[:2])  # as vl-convert names versions
Spec = dict[str, Any]  # of Vega-Lite
AnyChart = alt.LayerChart | alt.HConcatChart | Spec


def inline(table: pd.DataFrame) -> alt.InlineData:
    """Return the rows as inline data of any size."""
    # a tuple, since altair deep-copies lists for every layer
    rows: Any = tuple(table.astype(object).where(table.notna(), None).to_dict("records"))
    with debug_mode(False):  # schema validation of every row takes half the time of a figure
        return alt.InlineData(values=rows)


def save_chart(chart: AnyChart, path: Path, fmt: FigureFormat, paper: bool = False) -> None:
    """Write the chart atomically as a picture; for a paper, its pixels are points."""
    if fmt not in get_args(FigureFormat):
        raise InputError(f"figure format must be one of {', '.join(get_args(FigureFormat))}, got {fmt!r}.")
    # Tests validate every kind; it takes as long as drawing.
    spec = chart if isinstance(chart, dict) else chart.to_dict(validate=False)
    if fmt == "svg":
        text = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
        content = (_in_points(text) if paper else text).encode()
    elif fmt == "pdf":
        content = vl_convert.vegalite_to_pdf(spec, vl_version=VEGA_LITE)
    else:
        scale = PAPER_PNG_SCALE if paper else PNG_SCALE
        content = vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=scale, ppi=72)
    write_whole(Path(path), content)


def _in_points(svg: str) -> str:
    """Return the picture with its width and height in points."""
    return re.sub(r'(width|height)="([\d.]+)"', r'\1="\2pt"', svg[: svg.index(">")]) + svg[svg.index(">") :]
