"""What charts are made of, in Vega-Lite: their look, layers on named data, tooltips, and rows."""

from typing import Any, NamedTuple

import pandas as pd

INK = "#2b2f36"
PAGE_INK = "currentColor"  # of a page that may be dark
Spec = dict[str, Any]  # of Vega-Lite
Rows = list[dict[str, Any]]


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


def chart_config(ink: str, look: Look = SCREEN) -> Spec:
    """Return the look of every chart; ink colours text and lines: "currentColor" where a page may be dark."""
    text = {"labelColor": ink, "titleColor": ink}
    is_screen = look is SCREEN
    return {
        "background": "white" if ink == INK else "transparent",
        "view": {"stroke": None},
        "axis": text
        | {"gridColor": ink, "gridOpacity": 0.1, "domainColor": ink, "tickColor": ink, "titlePadding": look.padding}
        | {"labelFontSize": look.text, "titleFontSize": 12 if is_screen else look.text}
        | {"titleFontWeight": "normal", "tickCount": 6},
        "legend": text
        | {"labelFontSize": look.legend, "labelLimit": 0, "symbolSize": 0.6 * look.point, "symbolOpacity": 1}
        | {"rowPadding": 5, "columnPadding": 10, "offset": 18}
        | ({} if is_screen else {"rowPadding": 2, "columnPadding": 6, "offset": 6}),
        "title": {"color": ink, "subtitleColor": ink, "fontSize": look.title, "subtitleFontSize": look.note}
        | {"anchor": "start", "offset": look.padding + 2, "subtitlePadding": look.padding / 2 + 1},
        "style": {
            "target-line": {"color": ink, "strokeWidth": look.stroke / 2},
            "number": {"color": ink, "fontSize": look.text, "align": "left"},
        },
    }


def layer(data: str, mark: Spec, **encoding: Any) -> Spec:
    """Return marks on the data of this name."""
    return {"data": {"name": data}, "mark": mark, "encoding": encoding}


def tooltip(*lines: tuple[str, str, str | None]) -> list[Spec]:
    """Return a tooltip of fields with their titles and formats; without a format a field is text."""
    return [
        {"field": field, "title": title, "type": "nominal"}
        | ({"type": "quantitative", "format": form} if form is not None else {})
        for field, title, form in lines
    ]


def rows_for_json(table: pd.DataFrame) -> Rows:
    """Return the rows of a table, with None for what is missing."""
    rows: Any = table.astype(object).where(table.notna(), None).to_dict("records")
    return list(rows)
