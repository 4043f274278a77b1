"""The decision chart of docs/choosing.md: `python docs/tools/decision_chart.py` draws it anew."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

CHART = Path(__file__).parents[1] / "images" / "choosing.svg"
# Question, what to take where the answer is yes, and how that is written.
STEPS = (
    (
        "Do all rows come from one place,",
        "or does only the average count?",
        "An ordinary classifier",
        "ERMClassifier()",
    ),
    ("Have you fewer than 9 domains?", "", "Sets without a promise; collect domains", "SetCoverClassifier()"),
    ("Is it enough to aim at the target", "in every domain?", "SET-COVER, the default", "SetCoverClassifier()"),
    (
        "Is a promise enough that is expected",
        "to be kept, but not proved?",
        "Cross-fitted promise",
        "PromisedSetClassifier(model)",
    ),
    ("Can you keep 9 or more domains", "out of training?", "Proved, one network", 'calibration="held-out-domains"'),
)
OTHERWISE = ("Proved, no domain lost; many networks", 'calibration="jackknife-minmax"')
WIDTH, ROW, LEFT, RIGHT, BOX = 760, 92, 20, 430, 62
INK, LINE, CARD, ACCENT, ANSWER = "#2b2f36", "#9aa1ad", "#f6f7f9", "#b8107a", "#e7f0ec"


def chart() -> str:
    """Return the chart: questions on the left, what to take on the right."""
    height = ROW * (len(STEPS) + 1)
    parts = [_question(row, *step) for row, step in enumerate(STEPS)]
    last = ROW * len(STEPS) + 10
    parts.append(_box(LEFT, last, 340, ANSWER) + _lines(LEFT, last, *OTHERWISE))
    font = 'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" font-size="14"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {font} fill="{INK}">\n'
        f"<title>Which method to take</title>\n"
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">'
        f'<path d="M0,0 L6,3 L0,6 Z" fill="{LINE}"/></marker></defs>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _question(row: int, first: str, second: str, answer: str, code: str) -> str:
    top = ROW * row + 10
    middle, below = top + BOX / 2, top + BOX
    asked = [line for line in (first, second) if line]
    start = middle + 5 - 9 * (len(asked) - 1)
    texts = "".join(f'<text x="{LEFT + 16}" y="{start + 19 * i}">{escape(line)}</text>' for i, line in enumerate(asked))
    return (
        _box(LEFT, top, 300, CARD)
        + texts
        + _arrow(LEFT + 300, middle, RIGHT - 4, middle)
        + f'<text x="{(LEFT + 300 + RIGHT) / 2 - 12}" y="{middle - 7}" fill="{ACCENT}">yes</text>'
        + _box(RIGHT, top, 310, ANSWER)
        + _lines(RIGHT, top, answer, code)
        + _arrow(LEFT + 40, below, LEFT + 40, top + ROW - 4)
        + f'<text x="{LEFT + 50}" y="{below + 20}" fill="{ACCENT}">no</text>'
    )


def _lines(x: float, top: float, text: str, code: str) -> str:
    mono = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13"'
    return (
        f'<text x="{x + 16}" y="{top + 26}">{escape(text)}</text>'
        f'<text x="{x + 16}" y="{top + 47}" {mono}>{escape(code)}</text>'
    )


def _box(x: float, y: float, width: float, fill: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{BOX}" rx="8" fill="{fill}" stroke="{LINE}"/>'


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1},{y1} L{x2},{y2}" stroke="{LINE}" stroke-width="1.5" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    CHART.write_text(chart(), encoding="utf-8")
