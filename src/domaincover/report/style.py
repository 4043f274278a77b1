"""How methods, data sets and splits are called and coloured, the same in every table, figure and page."""

import re
from collections.abc import Iterable
from typing import NamedTuple


class MethodStyle(NamedTuple):
    """Name, colour and point shape of one method."""

    label: str
    color: str
    shape: str

    @property
    def glyph(self) -> str:
        """The point shape as a character, for text."""
        return GLYPHS[self.shape]


STAR = "M0,-1.3L.36,-.5L1.24,-.4L.59,.19L.76,1.05L0,.62L-.76,1.05L-.59,.19L-1.24,-.4L-.36,-.5Z"

# The paper's hues, in shades that a search chose: at least 3:1 against white and against the page's dark
# background, and as far apart as that allows for normal, protan, deutan and tritan eyes; tests measure it.
KNOWN_METHODS = {
    "erm": MethodStyle("ERM", "#3b95ff", "circle"),
    "pooled-train": MethodStyle("Pooled CDFs (train)", "#c18811", "square"),
    "pooled-held-out": MethodStyle("Pooled CDFs (held-out domains)", "#808e80", "triangle-up"),
    "robust": MethodStyle("Robust conformal", "#31705c", "diamond"),
    "set-cover": MethodStyle("SET-COVER", "#ff29d4", STAR),
    "erm-joint": MethodStyle("ERM (joint)", "#ca150a", "triangle-right"),
    "set-cover-joint": MethodStyle("SET-COVER (joint)", "#b113b0", "triangle-down"),
}
FURTHER_LOOKS = (
    ("#a0622d", "triangle-left"),
    ("#c8372d", "circle"),
    ("#7f8000", "square"),
    ("#9a4fae", "diamond"),
)
GLYPHS = {
    "circle": "●",
    "square": "■",
    "triangle-up": "▲",
    "diamond": "◆",
    STAR: "★",
    "triangle-down": "▼",
    "triangle-right": "▶",
    "triangle-left": "◀",
}
RANDOM_COLOR = "#a88400"
INK = "#2b2f36"

SPLIT_LABELS = {
    "unseen": "unseen domains",
    "seen": "seen domains, new examples",
    "train": "training examples",
}
SYNTHETIC_NAME = re.compile(r"synthetic-(\d+)(-random)?")


def method_styles(methods: Iterable[str]) -> dict[str, MethodStyle]:
    """Return the style of each method: known ones in their fixed order, then the others as they come."""
    present = list(dict.fromkeys(methods))
    known = {method: style for method, style in KNOWN_METHODS.items() if method in present}
    labels = {style.label for style in KNOWN_METHODS.values()}
    others = (method for method in present if method not in KNOWN_METHODS)
    return known | {
        method: MethodStyle(unused_name(method, labels), *FURTHER_LOOKS[i % len(FURTHER_LOOKS)])
        for i, method in enumerate(others)
    }


def dataset_label(dataset: str) -> str:
    """Return the name of a data set for readers, the name itself where no rule applies."""
    match = SYNTHETIC_NAME.fullmatch(dataset)
    if match is None:
        return dataset
    n_dimensions, random = match.groups()
    return f"Synthetic {n_dimensions}-d, {'random' if random else 'shared'} covariance"


def split_label(split: str) -> str:
    """Return what the examples of a split are, in words."""
    return SPLIT_LABELS.get(split, split)


def unused_name(name: str, used: set[str]) -> str:
    """Return the name, with a number if it was used before, and remember it as used."""
    chosen, count = name, 1
    while chosen in used:
        count += 1
        chosen = f"{name}-{count}"
    used.add(chosen)
    return chosen
