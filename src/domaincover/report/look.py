"""The look of every chart: sizes of text and marks on a screen and in a paper's column, lines and ink."""

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt

from domaincover.report.style import INK, RANDOM_COLOR

PAGE_INK = "currentColor"  # of a page that may be dark
COLUMN = 234  # points: 3.25 inches, one column of most papers
TWO_COLUMNS = 486  # points: 6.75 inches
CHARACTER = 0.52  # mean width of a letter in font sizes, rounded up
CAPITAL, WIDE, NARROW = 0.74, 0.58, 0.34  # of a capital letter, of most others, and of letters such as i
BESIDE_AXIS = 190  # points of a column that are left beside an axis
BESIDE_SYMBOL = 18  # pixels of a legend's symbol and the gaps around an entry


class Look(NamedTuple):
    """Font sizes, mark sizes and room, in pixels; in a paper a pixel is a point."""

    text: float
    legend: float
    title: float
    note: float
    point: float
    small_point: float
    stroke: float
    row: int
    room_for_numbers: int
    padding: int


SCREEN = Look(11, 12, 14, 11, 150, 40, 2.5, 30, 74, 10)
PAPER = Look(8, 8, 9, 7.5, 60, 16, 1.5, 20, 50, 4)


def chart_config(ink: str, look: Look = SCREEN) -> dict[str, Any]:
    """Return the look of every chart; ink colours text and lines: "currentColor" where a page may be dark."""
    text = {"labelColor": ink, "titleColor": ink}
    titles = look.text if look is PAPER else 12
    return {
        "background": "white" if ink == INK else "transparent",
        "view": {"stroke": None},
        "axis": text
        | {"gridColor": ink, "gridOpacity": 0.1, "domainColor": ink, "tickColor": ink, "titlePadding": look.padding}
        | {"labelFontSize": look.text, "titleFontSize": titles, "titleFontWeight": "normal", "tickCount": 6},
        "legend": text
        | {"labelFontSize": look.legend, "labelLimit": 0, "symbolSize": 0.6 * look.point, "symbolOpacity": 1}
        | {
            "rowPadding": 5 if look is SCREEN else 2,
            "columnPadding": 10 if look is SCREEN else 6,
            "offset": 18 if look is SCREEN else 6,
        },
        "title": {"color": ink, "subtitleColor": ink, "fontSize": look.title, "subtitleFontSize": look.note}
        | {"anchor": "start", "offset": look.padding + 2, "subtitlePadding": look.padding / 2 + 1},
        "style": {
            "target-line": {"color": ink, "strokeWidth": look.stroke / 2},
            "target-text": {"color": ink, "fontSize": look.text, "baseline": "top", "dy": 4},
            "number": {"color": ink, "fontSize": look.text, "align": "left"},
            "spread": {"color": ink, "strokeWidth": 0.6 * look.stroke},
            "median": {"color": ink, "thickness": look.stroke, "opacity": 1},
            # not "opacity", for which a picture is composed once for every line
            "cell-line": {"color": ink, "strokeWidth": 0.3 * look.stroke, "strokeOpacity": 0.3},
            "summary-line": {"color": ink, "strokeWidth": 0.8 * look.stroke},
            "random-line": {"color": RANDOM_COLOR, "strokeWidth": 0.8 * look.stroke, "strokeDash": [6, 4]},
            "random-text": {"color": RANDOM_COLOR, "fontSize": look.text}
            | {"align": "right", "baseline": "bottom", "dx": -6},
        },
    }


def title_of(text: str, notes: Sequence[str], look: Look, width: float) -> alt.TitleParams:
    """Return a title with notes below it; in a paper, lines are broken to the width."""
    notes = [note for note in notes if note]
    if look is PAPER:
        lines = broken(text, width, 1.05 * look.title)
        notes = [line for note in notes for line in broken(note, width, look.note)]
        return alt.TitleParams(lines, subtitle=notes, frame="bounds", limit=width)
    return alt.TitleParams(text, subtitle=notes)


def legend_columns(labels: Sequence[str], look: Look, width: float) -> int:
    """Return the number of legend columns that fit, at most the number of entries."""
    widths = [label_width(label, look) + BESIDE_SYMBOL for label in labels]
    for n_columns in range(len(labels), 1, -1):
        if sum(max(widths[column::n_columns]) for column in range(n_columns)) <= width:
            return n_columns
    return 1


def label_width(label: str, look: Look) -> float:
    """Return about how wide a legend's label is, rounded up."""
    widths = (CAPITAL if char.isupper() else NARROW if char in "fijlrt(),. " else WIDE for char in label)
    return sum(widths) * look.legend


def fitted(chart: alt.LayerChart, width: int, height: int) -> alt.LayerChart:
    """Return the chart with all its text within the width; the height is that of the plot."""
    padding = {"left": 1, "right": 4, "top": 2, "bottom": 2}
    autosize = alt.AutoSizeParams(type="fit-x", contains="padding")
    sized: alt.LayerChart = chart.properties(width=width, height=height, autosize=autosize, padding=padding)
    return sized


def broken(text: str, width: float, font_size: float) -> list[str]:
    """Return a text in lines of about a width."""
    return textwrap.wrap(text, max(int(width / (CHARACTER * font_size)), 8)) or [text]
