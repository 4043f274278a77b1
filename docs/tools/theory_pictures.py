"""The pictures of docs/theory.md that need no training: `python -m docs.tools.theory_pictures` draws them anew."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from domaincover.paper.study_report.figures import save_chart
from domaincover.report.charts import INK, chart_config
from tests.paper.theory.gaussian_shattering import GaussianCells, impossible_assignment, scorer_reaching
from tests.paper.theory.shattering import members
from tests.paper.theory.sliding_windows import sliding_windows

COLORS = ("#4f87db", "#d97a24", "#157630", "#7c5cd6")
GREY = "#b9bcc2"
NAMES = "ABCD"


class WindowPicture(NamedTuple):
    """Points with their mass by domain, the windows, and which domains each is at target in."""

    points: pd.DataFrame
    windows: pd.DataFrame
    reached: pd.DataFrame


def window_picture_data(n_domains: int = 3, target_recall: float = 0.9) -> WindowPicture:
    """Return the sliding windows on the line as tables."""
    made = sliding_windows(n_domains, Fraction(str(target_recall)))
    at = made.places * float(made.unit)
    points = pd.DataFrame(
        [
            {"row": f"domain {NAMES[i]}", "domain": NAMES[i], "at": at[k], "mass": float(mass)}
            for i, masses in enumerate(made.masses)
            for k, mass in enumerate(masses)
            if mass
        ]
    )
    subsets = members(np.arange(2**n_domains), n_domains)
    names = [", ".join(NAMES[i] for i in np.flatnonzero(row)) or "none" for row in subsets]
    names = [f"window for {name}" for name in names]
    starts = made.windows * float(made.unit)
    windows = pd.DataFrame({"row": names, "start": starts, "end": starts + 2})
    at_target = made.performs_well
    reached = pd.DataFrame(
        [
            {"row": name, "domain": NAMES[i], "at": 3.35 + 0.17 * i, "at_target": bool(at_target[k, i])}
            for k, name in enumerate(names)
            for i in range(n_domains)
        ]
    )
    return WindowPicture(points, windows, reached)


def window_chart(data: WindowPicture) -> alt.LayerChart:
    """Return the picture: domains above, windows below, each with the domains that it is at target in."""
    rows = [*dict.fromkeys(data.points["row"]), *data.windows["row"]]
    y = alt.Y("row:N", sort=rows, title=None, axis=alt.Axis(domain=False, ticks=False, labelPadding=8))
    domain = [*dict.fromkeys(data.points["domain"])]
    color = alt.Color("domain:N", scale=alt.Scale(domain=domain, range=COLORS[: len(domain)]), legend=None)
    axis = alt.Axis(values=[0, 1, 2, 3], grid=False)

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title=None, scale=alt.Scale(domain=[-1.7, 3.8], nice=False), axis=axis)

    size = alt.Size("mass:Q", scale=alt.Scale(type="linear", domain=[0, 1], range=[25, 650]), legend=None)
    bars = alt.Chart(data.windows).mark_bar(color=GREY, height=10, cornerRadius=3)
    full, hollow = (alt.Chart(data.reached[data.reached["at_target"] == kind]) for kind in (True, False))
    layers = [
        bars.encode(x("start"), y, x2="end:Q"),
        alt.Chart(data.points).mark_circle(opacity=0.8).encode(x("at"), y, size=size, color=color),
        full.mark_circle(size=110, opacity=1).encode(x("at"), y, color=color),
        hollow.mark_point(size=60, filled=False, opacity=0.5).encode(x("at"), y, color=color),
    ]
    title = alt.TitleParams(
        "Eight windows of one length reach every subset of three domains",
        subtitle=[
            "Above: where each domain has its mass. Below: a window for each subset. Right: in which domains it is",
            "at target (full). A step on drops the left point of one subset and gains the right point of the next.",
        ],
    )
    chart = alt.LayerChart(layer=layers, width=620, height=alt.Step(26), title=title)
    styled: alt.LayerChart = chart.configure(**chart_config(INK))
    return styled


class DiscPicture(NamedTuple):
    """Discs (centre, radius, whether it must be at target) and lines of half-planes."""

    discs: pd.DataFrame
    lines: pd.DataFrame


THREE = GaussianCells.of([[1.2, 1.2], [5.0, 1.4], [3.0, 4.8]], [0.5, 0.7, 0.6])
FOUR = GaussianCells.of([[1.2, 1.2], [5.0, 1.4], [3.0, 4.8], [3.1, 2.5]], [0.5, 0.7, 0.6, 0.4])
FRAME = (0.0, 6.2)


def disc_picture_data(cells: GaussianCells, target_recall: float = 0.9) -> DiscPicture:
    """Return the discs that a half-plane must contain to be at target, and lines that separate each one, if any."""
    radius = float(ndtri(target_recall)) * cells.deviations
    n_domains = len(cells.means)
    impossible = n_domains > cells.means.shape[1] + 1
    asked = impossible_assignment(cells, target_recall) if impossible else np.ones(n_domains, dtype=bool)
    discs = pd.DataFrame({"x": cells.means[:, 0], "y": cells.means[:, 1], "radius": radius, "asked": asked})
    discs["name"] = list(NAMES[:n_domains])
    lines = (
        []
        if impossible
        else [
            {"line": NAMES[i], "x": x, "y": y}
            for i in range(n_domains)
            if (scorer := scorer_reaching(cells, target_recall, np.arange(n_domains) != i)) is not None
            for x, y in _within_frame(*scorer)
        ]
    )
    return DiscPicture(discs, pd.DataFrame(lines, columns=["line", "x", "y"]))


def disc_chart() -> alt.HConcatChart:
    """Return the picture: three domains of two features can be shattered, four cannot."""
    three = _disc_panel(
        disc_picture_data(THREE), ["Three domains: each can be cut off alone,", "and so can every pair"]
    )
    four = _disc_panel(
        disc_picture_data(FOUR), ["Four domains: no half-plane holds the full discs", "and not the hollow one"]
    )
    title = alt.TitleParams(
        "With Gaussian domains, d + 1 can be shattered and d + 2 never",
        subtitle="A half-plane is at target (0.9) in a domain where it holds its whole disc, of 1.28 deviations.",
    )
    chart = alt.hconcat(three, four, title=title, spacing=36)
    styled: alt.HConcatChart = chart.configure(**chart_config(INK))
    return styled


def write_theory_pictures(out: Path) -> list[Path]:
    """Draw the pictures of docs/theory.md that need no training; return the files."""
    windows, discs = out / "theory-windows.png", out / "theory-gaussian.png"
    save_chart(window_chart(window_picture_data()).to_dict(), windows, "png")
    save_chart(disc_chart().to_dict(), discs, "png")
    return [windows, discs]


def _disc_panel(data: DiscPicture, title: list[str]) -> alt.LayerChart:
    side = 290
    pixels = side / (FRAME[1] - FRAME[0])
    discs = data.discs.assign(area=np.pi * (data.discs["radius"] * pixels) ** 2)
    scale = alt.Scale(domain=list(FRAME), nice=False, zero=False)
    x, y = alt.X("x:Q", scale=scale, axis=None), alt.Y("y:Q", scale=scale, axis=None)
    size = alt.Size("area:Q", scale=None, legend=None)
    color = alt.Color("name:N", scale=alt.Scale(domain=list(NAMES), range=list(COLORS)), legend=None)
    full, hollow = (alt.Chart(discs[discs["asked"] == kind]) for kind in (True, False))
    layers = [
        alt.Chart(data.lines).mark_line(color=GREY, strokeWidth=1.5).encode(x, y, detail="line:N"),
        full.mark_circle(opacity=0.75).encode(x, y, size=size, color=color),
        hollow.mark_point(filled=False, strokeWidth=2.5, opacity=1).encode(x, y, size=size, color=color),
        alt.Chart(discs).mark_text(fontSize=13, color=INK).encode(x, y, text="name:N"),
    ]
    name = alt.TitleParams(title, fontSize=12, fontWeight="normal", frame="group")
    return alt.LayerChart(layer=layers, width=side, height=side, title=name)


def _within_frame(weights: NDArray[np.float64], intercept: float) -> list[tuple[float, float]]:
    """Return the two points where the boundary of a half-plane meets the picture's frame."""
    low, high = FRAME
    corners = np.array([[low, low], [high, low], [high, high], [low, high], [low, low]])
    scores = corners @ weights + intercept
    ends = []
    for (p, q), (a, b) in zip(pairwise(corners), pairwise(scores), strict=True):
        if (a < 0) != (b < 0):
            x, y = p + (q - p) * a / (a - b)
            ends.append((float(x), float(y)))
    return ends


if __name__ == "__main__":
    write_theory_pictures(Path(__file__).parents[1] / "images")
