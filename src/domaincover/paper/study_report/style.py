"""Names and colours of methods, data sets and splits, the same in every table, figure and page."""

from collections.abc import Iterable
from typing import NamedTuple

from domaincover.paper.study_datasets import SYNTHETIC_NAME
from domaincover.report.readable import GLYPHS as SHAPE_GLYPHS
from domaincover.report.readable import unused_name


class MethodStyle(NamedTuple):
    """Name, colour and point shape of one method."""

    label: str
    color: str
    shape: str
    ours: bool = False  # not a method of the paper: drawn hollow

    @property
    def fill(self) -> str:
        """The fill of its points in a chart."""
        return "transparent" if self.ours else self.color

    @property
    def glyph(self) -> str:
        """The point shape as a character, for text."""
        return GLYPHS[self.shape]


STAR = "M0,-1.3L.36,-.5L1.24,-.4L.59,.19L.76,1.05L0,.62L-.76,1.05L-.59,.19L-1.24,-.4L-.36,-.5Z"
SPARK = "M0,-1.35L.32,-.32L1.35,0L.32,.32L0,1.35L-.32,.32L-1.35,0L-.32,-.32Z"
SALTIRE = "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z"
HALF_DISC = "M-.5,-1.1A1.1,1.1,0,0,1,-.5,1.1Z"
CORNER = "M-1,-1.1L1.2,1.1L-1,1.1Z"
RING = "M1.15,0A1.15,1.15,0,1,1,-1.15,0A1.15,1.15,0,1,1,1.15,0ZM.5,0A.5,.5,0,1,0,-.5,0A.5,.5,0,1,0,.5,0Z"
LOWER_HALF_DISC = "M-1.1,-.5A1.1,1.1,0,0,0,1.1,-.5Z"
HEXAGON = "M-.6,-1.04L.6,-1.04L1.2,0L.6,1.04L-.6,1.04L-1.2,0Z"

# The paper's hues, in shades that a search chose: at least 3:1 against white and against the page's dark
# background, and as far apart as that allows for normal, protan, deutan and tritan eyes, among the methods that the
# paper compares; others differ less in colour, but in shape.
KNOWN_METHODS = {
    "erm": MethodStyle("ERM", "#3b95ff", "circle"),
    "irm": MethodStyle("IRM", "#a90aca", "cross"),
    "vrex": MethodStyle("VREx", "#c56b02", SALTIRE),
    "mmd": MethodStyle("MMD", "#6285a8", SPARK),
    "coral": MethodStyle("CORAL", "#be2a3f", HALF_DISC),
    "pooled-train": MethodStyle("Pooling CDFs (TrainC)", "#c18811", "square"),
    "pooled-held-out": MethodStyle("Pooling CDFs (CVC)", "#808e80", "triangle-up"),
    "robust": MethodStyle("Robust conformal", "#31705c", "diamond"),
    "set-cover": MethodStyle("SET-COVER", "#fe2cd2", STAR),
    "set-cover-best": MethodStyle("SET-COVER (best iterate)", "#9300f9", RING, ours=True),
    "erm-joint": MethodStyle("ERM, promised", "#ca150a", "triangle-right", ours=True),
    "erm-adapted": MethodStyle("ERM, promised, adapted", "#a5904c", "triangle-left", ours=True),
    "set-cover-joint": MethodStyle("SET-COVER, promised", "#b113b0", "triangle-down", ours=True),
    "set-cover-adapted": MethodStyle("SET-COVER, promised, adapted", "#627a74", HEXAGON, ours=True),
    "set-cover-full-set": MethodStyle("SET-COVER (full-set penalty)", "#8c8538", CORNER),
    "set-cover-full-set-best": MethodStyle(
        "SET-COVER (full-set penalty, best iterate)", "#c0228b", LOWER_HALF_DISC, ours=True
    ),
}
SINGLE_LABEL_METHODS = ("erm", "irm", "vrex", "mmd", "coral")
FURTHER_LOOKS = (
    ("#a0622d", "triangle-left"),
    ("#c8372d", "circle"),
    ("#7f8000", "square"),
    ("#9a4fae", "diamond"),
)
GLYPHS = SHAPE_GLYPHS | {
    STAR: "★",
    SALTIRE: "✕",
    SPARK: "✦",
    HALF_DISC: "◗",
    CORNER: "◣",
    HEXAGON: "⬢",
    RING: "◉",
    LOWER_HALF_DISC: "◒",
}
RANDOM_COLOR = "#a88400"

SPLIT_LABELS = {
    "unseen": "unseen domains",
    "seen": "seen domains, new examples",
    "train": "training examples",
}
DATASET_LABELS = {
    "votes": "Votes, by state",
    "flights": "Late flights, by day",
    "storms": "Storms, by season",
    "audiomnist": "Spoken digits, by speaker",
    "malaria": "Blood cells, by patient",
    "wisdm": "Activities, by person",
    "rotated-digits": "Rotated digits, by angle",
    "reviews": "Product reviews, by kind of product",
    "wages": "US wages, by state",
    "camelyon17": "Camelyon17, by patient",
    "fmow": "FMoW, by region and year",
    "iwildcam": "iWildCam, by camera",
    "amazon": "Amazon, by reviewer",
}
# The order of a study's data sets; others follow in order of appearance.
DATASET_ORDER = (
    *("synthetic-10", "synthetic-10-random", "synthetic-50", "synthetic-50-random"),
    *DATASET_LABELS,
)


def method_styles(methods: Iterable[str]) -> dict[str, MethodStyle]:
    """Return the style of each method: known ones in a fixed order, then others in order of appearance."""
    present = list(dict.fromkeys(methods))
    known = {method: style for method, style in KNOWN_METHODS.items() if method in present}
    labels = {style.label for style in KNOWN_METHODS.values()}
    others = (method for method in present if method not in KNOWN_METHODS)
    return known | {
        method: MethodStyle(unused_name(method, labels), *FURTHER_LOOKS[i % len(FURTHER_LOOKS)], ours=True)
        for i, method in enumerate(others)
    }


def dataset_label(dataset: str) -> str:
    """Return the name of a data set for readers, the name itself where no rule applies."""
    if found := SYNTHETIC_NAME.fullmatch(dataset):
        return f"Synthetic {found[1]}-d, {'random' if found[2] else 'shared'} covariance"
    return DATASET_LABELS.get(dataset, dataset)


def short_label(dataset: str) -> str:
    """Return the name of a data set without what its domains are."""
    return dataset_label(dataset).partition(", by ")[0]


def splits_in_order(present: Iterable[str]) -> list[str]:
    """Return the different splits, unseen domains first."""
    names = set(present)
    return [split for split in SPLIT_LABELS if split in names]
