"""Where names in a plot are free of its marks: of lines, points, and one another."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from domaincover.paper.study_report.crosses import Limits, random_line

LETTER = 0.55  # mean width of a letter in font sizes
POINT = 4.0  # about half the size of a method's point, in points
# Where a name can stand beside its point, the nearest to reading first: parts of its width and of its line to move by.
AROUND = {
    "above": (0.0, -1.0),
    "below": (0.0, 1.0),
    "right": (1.0, 0.0),
    "left": (-1.0, 0.0),
    "above-right": (0.8, -0.8),
    "above-left": (-0.8, -0.8),
    "below-right": (0.8, 0.8),
    "below-left": (-0.8, 0.8),
}
STEPS = 12  # places that are tried along a line


class Box(NamedTuple):
    """A rectangle in points, from the top left corner of a plot."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: "Box") -> float:
        """Return the area in common."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(wide, 0.0) * max(high, 0.0)


class Canvas(NamedTuple):
    """The size of a plot and of its text, and the part of the plane that it shows."""

    width: float
    height: float
    text: float
    limits: Limits

    def x(self, size: float) -> float:
        """Return where a set size is."""
        low, high = self.limits.size
        return self.width * (size - low) / (high - low)

    def y(self, recall: float) -> float:
        """Return where a recall is."""
        low, high = self.limits.recall
        return self.height * (high - recall) / (high - low)

    def around(self, x: float, y: float, half: float = POINT) -> Box:
        """Return the box of a point."""
        return Box(x - half, y - half, x + half, y + half)

    def outside(self, box: Box) -> float:
        """Return the area of a box that is not within the plot."""
        area = (box.right - box.left) * (box.bottom - box.top)
        return area - box.overlap(Box(0.0, 0.0, self.width, self.height))


class PlacedName(NamedTuple):
    """Where a name ends, in the units of the axes, and whether it is above its line."""

    set_size: float
    min_recall: float
    above: bool


def freest(boxes: Sequence[Box], taken: Iterable[Box], canvas: Canvas) -> int:
    """Return which box covers least of what is taken; the first of equals."""
    tried, marks = np.array(boxes)[:, None], np.array([*taken]).reshape(-1, 4)
    common = np.minimum(tried[..., 2:], marks[:, 2:]) - np.maximum(tried[..., :2], marks[:, :2])
    covered = common.clip(min=0).prod(axis=-1).sum(axis=1) + [canvas.outside(box) for box in boxes]
    return int(np.argmin(np.round(covered, 3)))


def crosses_as_boxes(crosses: pd.DataFrame, canvas: Canvas) -> list[Box]:
    """Return the bars and points of crosses."""
    boxes = []
    columns = [f"{name}{end}" for name in ("set_size", "min_recall") for end in ("", "_q25", "_q75")]
    for size, *sizes, recall, low, high in crosses[columns].to_numpy(dtype=float).tolist():
        if math.isnan(size) or math.isnan(recall):
            continue
        x, y = canvas.x(size), canvas.y(recall)
        wide, tall = sorted(map(canvas.x, sizes)), sorted(map(canvas.y, (low, high)))
        boxes += [canvas.around(x, y), Box(wide[0], y - 1, wide[1], y + 1), Box(x - 1, tall[0], x + 1, tall[1])]
    return boxes


def place_of_random_sets(crosses: pd.DataFrame, n_labels: int, canvas: Canvas) -> PlacedName | None:
    """Return where the name of random sets ends above their line; None if the line is out of sight."""
    line = random_line(n_labels, canvas.limits)
    if line.empty:
        return None
    wide = LETTER * canvas.text * len("random sets")
    sizes = np.linspace(line["set_size"].iloc[0], line["set_size"].iloc[-1], STEPS)
    ends = [(canvas.x(size) - 6, canvas.y(size / n_labels)) for size in sizes]
    boxes = [Box(x - wide, y - 1.2 * canvas.text, x, y) for x, y in ends]
    size = float(sizes[freest(boxes, crosses_as_boxes(crosses, canvas), canvas)])
    return PlacedName(round(size, 4), round(size / n_labels, 4), True)


def place_of_target(target: float, crosses: pd.DataFrame, n_labels: int, canvas: Canvas) -> PlacedName:
    """Return where the target's name is free of crosses and random sets: as far right as it can be, below or above."""
    wide, high = LETTER * canvas.text * len(f"target {target:g}") + 4, 1.2 * canvas.text
    low, last = canvas.limits.size
    sizes = np.linspace(last, low + (last - low) * wide / canvas.width, STEPS)
    y = canvas.y(target)
    tried = [(size, above) for size in sizes for above in (False, True)]
    boxes = [
        Box(canvas.x(size) - wide, y - high - 4 if above else y + 4, canvas.x(size), y - 4 if above else y + 4 + high)
        for size, above in tried
    ]
    by_lot = random_line(n_labels, canvas.limits)
    taken = crosses_as_boxes(crosses, canvas)
    if len(by_lot):
        dots = np.linspace(by_lot["set_size"].iloc[0], by_lot["set_size"].iloc[-1], 4 * STEPS)
        taken += [canvas.around(canvas.x(size), canvas.y(size / n_labels), 2.0) for size in dots]
    size, above = tried[freest(boxes, taken, canvas)]
    return PlacedName(round(float(size), 4), target, above)


def places_beside_points(points: pd.DataFrame, canvas: Canvas) -> list[str]:
    """Return for each named point on which side its name is free of points, of curves' ends, and of other names."""
    where = [(canvas.x(x), canvas.y(y)) for x, y in zip(points["set_size"], points["min_recall"], strict=True)]
    taken = [canvas.around(x, y) for x, y in where if not np.isnan([x, y]).any()]
    places = []
    for (x, y), name in zip(where, points["name"], strict=True):
        if not name or np.isnan([x, y]).any():
            places.append("above")
            continue
        boxes = [beside(x, y, name, place, canvas.text) for place in AROUND]
        best = freest(boxes, taken, canvas)
        taken.append(boxes[best])
        places.append(list(AROUND)[best])
    return places


def beside(x: float, y: float, name: str, place: str, text: float) -> Box:
    """Return the box of a name on one side of a point."""
    half = LETTER * text * len(name) / 2
    dx, dy = offsets(place, text)
    middle = x + dx + {"right": half, "left": -half}.get(side_of(place), 0.0)
    return Box(middle - half, y + dy - text / 2, middle + half, y + dy + text / 2)


def offsets(place: str, text: float) -> tuple[float, float]:
    """Return how far a name is moved from its point."""
    right, down = AROUND[place]
    return right * 0.7 * text, down * 1.1 * text


def side_of(place: str) -> str:
    """Return the side of a point that a name is on as a whole: left, right, or neither.

    >>> side_of("above-left"), side_of("below")
    ('left', 'centre')
    """
    side = place.rpartition("-")[2]
    return side if side in ("left", "right") else "centre"
