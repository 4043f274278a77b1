"""Names and numbers as readers see them, the same in every table, chart and page, and the templates of pages."""

import functools
import itertools
import math
import re
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from domaincover.data.dataset import texts
from domaincover.promises.certificate_text import WORTH_SAYING, interval_text, probability
from domaincover.promises.certificate_text import percent as confidence

if TYPE_CHECKING:
    import jinja2

ABSENT = "–"
MOST_DECIMALS = 9
# Shapes of marks as characters.
GLYPHS = {
    "circle": "●",
    "square": "■",
    "diamond": "◆",
    "triangle-up": "▲",
    "triangle-down": "▼",
    "triangle-right": "▶",
    "triangle-left": "◀",
    "cross": "✚",
}
FOLDERS = ("report", "paper/study_report")


def printable(name: str) -> str:
    r"""Return a name without line breaks and terminal control codes.

    >>> printable("a\nb\x1b[31m")
    'a b [31m'
    """
    return "".join(char if char.isprintable() else " " for char in name)


def shown_names(names: Sequence[Hashable]) -> list[str]:
    r"""Return names without line breaks and control codes, each different from the others.

    >>> shown_names(["a", "a\n", "a ", ""])
    ['a', 'a-2', 'a-3', '(blank)']
    """
    used: set[str] = set()
    return [unused_name(printable(name).strip() or "(blank)", used) for name in texts(names)]


def unused_name(name: str, used: set[str]) -> str:
    """Return the name, with a number if it was used before, and remember it as used."""
    chosen, count = name, 1
    while chosen in used:
        count += 1
        chosen = f"{name}-{count}"
    used.add(chosen)
    return chosen


def shortened(names: Sequence[str], longest: int) -> list[str]:
    """Return names shortened with "…", still distinct: first, leading words common to all long names are cut.

    >>> shortened(["North clinic, ward 7", "North clinic, ward 12 for children", "South"], 12)
    ['…7', '…12 for chi…', 'South']
    """
    n_shared = _n_shared([name for name in names if len(name) > longest], longest)
    used: set[str] = set()
    return [unused_name(_cut(name, n_shared, longest) if len(name) > longest else name, used) for name in names]


def recall_text(recall: float, targets: Sequence[float], decimals: int = 3) -> str:
    """Return a recall with more digits where rounding would take it to the other side of a target.

    >>> recall_text(0.89961, [0.9]), recall_text(0.8981, [0.9]), recall_text(0.79961, [0.8, 0.95])
    ('0.8996', '0.898', '0.7996')
    """
    if math.isnan(recall):
        return ABSENT
    text = f"{recall:.{decimals}f}"
    if decimals < MOST_DECIMALS and any((recall < target) != (float(text) < target) for target in targets):
        return recall_text(recall, targets, decimals + 1)
    return text


def bound_text(lowest: float, targets: Sequence[float]) -> str:
    """Return a short lower bound of the lowest recall: a target, or two digits rounded down.

    >>> bound_text(0.9384, [0.9]), bound_text(0.9049, [0.903])
    ('0.93', '0.903')
    """
    down = math.floor(100 * lowest) / 100
    reached = max((target for target in targets if target <= lowest), default=down)
    return f"{reached:g}" if down < reached else f"{down:.2f}"


def with_spread(value: float, spread: float = math.nan, decimals: int = 3, unit: str = "") -> str:
    """Return a number with what stands after ±, if that is known, and its unit.

    >>> with_spread(0.9431, 0.0123), with_spread(1.25)
    ('0.943 ± 0.012', '1.250')
    """
    if math.isnan(value):
        return ABSENT
    plus_minus = "" if math.isnan(spread) else f" ± {spread:.{decimals}f}"
    return f"{value:.{decimals}f}{plus_minus}{unit}"


def percent(share: float, spread: float = math.nan) -> str:
    """Return a share in percent with what stands after ±, if that is known.

    >>> percent(0.896, 0.1), percent(0.5)
    ('90 ± 10 %', '50 %')
    """
    return with_spread(100 * share, 100 * spread, decimals=0, unit=" %")


def sentence(text: str) -> str:
    """Return a note as a sentence.

    >>> sentence("one seed")
    'One seed.'
    """
    return f"{text[:1].upper()}{text[1:]}."


def _n_shared(names: list[str], longest: int) -> int:
    """Return how many characters of the common leading words to cut, at most all of them."""
    if len(names) < 2:
        return 0
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(min(names), max(names), strict=False))
    ends = [match.end() for match in re.finditer(r"[\W_]+", "".join(char for char, _ in pairs))]
    n_most = max(map(len, names))
    return next((end for end in ends if n_most - end < longest), max(ends, default=0))


def _cut(name: str, n_shared: int, longest: int) -> str:
    rest = f"…{name[n_shared:]}" if n_shared else name
    return rest if len(rest) <= longest else f"{rest[: longest - 1]}…"


def rendered(name: str, **content: Any) -> bytes:
    """Return a page; text is escaped."""
    return templates().get_template(name).render(**content).encode(errors="replace")


@functools.cache
def templates() -> "jinja2.Environment":
    """Return the templates of all pages, with filters for names and numbers."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader("domaincover", folder) for folder in FOLDERS]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "sentence": sentence,
        "thousands": "{:,}".format,
        "percent": percent,
        "percentage": lambda share: "<1" if 0 < share < 0.005 else f"{100 * share:.0f}",  # 0 only for nothing
        "place": lambda share: f"{100 * share:.2f}%",  # of a mark on a bar
        "confidence": confidence,
        "probability": probability,
        "interval": interval_text,
    }
    environment.globals |= {"ABSENT": ABSENT, "WORTH_SAYING": WORTH_SAYING}
    return environment
