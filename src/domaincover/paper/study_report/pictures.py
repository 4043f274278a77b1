"""Charts of a study: their look on a screen and in a paper's column, and their files."""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import vl_convert
from altair.vegalite import SCHEMA_VERSION

from domaincover.errors import check_choice
from domaincover.files import write_whole
from domaincover.options import FigureFormat
from domaincover.paper.study_report.style import RANDOM_COLOR
from domaincover.report.charts import SCREEN, Look, Spec, chart_config

COLUMN = 234  # points: 3.25 inches, one column of most papers
TWO_COLUMNS = 486  # points: 6.75 inches
CHARACTER = 0.52  # mean width of a letter in font sizes, rounded up
CAPITAL, WIDE, NARROW = 0.74, 0.58, 0.34  # of a capital letter, of most others, and of letters such as i
BESIDE_SYMBOL = 18  # pixels of a legend's symbol and the gaps around an entry
PNG_SCALE = 2
PAPER_PNG_SCALE = 4  # 288 dots per inch
VEGA_LITE = "_".join(SCHEMA_VERSION.split(".")[:2])  # as vl-convert names versions
PAPER = Look(8, 8, 9, 7.5, 60, 16, 1.5, 20, 50, 4)


def study_config(ink: str, look: Look = SCREEN) -> Spec:
    """Return the look of every chart of a study; ink is "currentColor" where a page may be dark."""
    config = chart_config(ink, look)
    config["style"] |= {
        "spread": {"color": ink, "strokeWidth": 0.6 * look.stroke},
        "median": {"color": ink, "thickness": look.stroke, "opacity": 1},
        # not "opacity", for which a picture is composed once for every line
        "cell-line": {"color": ink, "strokeWidth": 0.3 * look.stroke, "strokeOpacity": 0.3},
        "summary-line": {"color": ink, "strokeWidth": 0.8 * look.stroke},
        "random-line": {"color": RANDOM_COLOR, "strokeWidth": 0.8 * look.stroke, "strokeDash": [6, 4]},
    }
    return config


def title_of(text: str, notes: Sequence[str], width: float) -> Spec:
    """Return a figure's title with notes below it, in lines broken to the width."""
    lines = [line for note in notes if note for line in broken(note, width, PAPER.note)]
    title = broken(text, width, 1.05 * PAPER.title)
    return {"text": title, "subtitle": lines, "frame": "bounds", "limit": width}


def legend_columns(labels: Sequence[str], width: float) -> int:
    """Return the number of legend columns that fit in a paper, at most the number of entries."""
    widths = [_label_width(label) + BESIDE_SYMBOL for label in labels]
    for n_columns in range(len(labels), 1, -1):
        if sum(max(widths[column::n_columns]) for column in range(n_columns)) <= width:
            return n_columns
    return 1


def _label_width(label: str) -> float:
    """Return about how wide a legend's label is, rounded up."""
    widths = (CAPITAL if char.isupper() else NARROW if char in "fijlrt(),. " else WIDE for char in label)
    return sum(widths) * PAPER.legend


def broken(text: str, width: float, font_size: float) -> list[str]:
    """Return a text in lines of about a width."""
    return textwrap.wrap(text, max(int(width / (CHARACTER * font_size)), 8)) or [text]


def save_chart(spec: Spec, path: Path, fmt: FigureFormat, paper: bool = False) -> None:
    """Write the chart atomically as a picture; for a paper, its pixels are points."""
    check_choice("figure format", fmt, get_args(FigureFormat))
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
    parts = {key: part if key == "datasets" else _without_tooltips(part) for key, part in spec.items()}
    return parts | {"config": spec.get("config", {}) | {"aria": False}}


def _without_tooltips(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_tooltips(part) for key, part in node.items() if key != "tooltip"}
    return [_without_tooltips(part) for part in node] if isinstance(node, list) else node


def _in_points(svg: str) -> str:
    """Return the picture with its width and height in points."""
    return re.sub(r'(width|height)="([\d.]+)"', r'\1="\2pt"', svg[: svg.index(">")]) + svg[svg.index(">") :]
