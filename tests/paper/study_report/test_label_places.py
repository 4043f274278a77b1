import numpy as np
import pandas as pd
import pytest

from domaincover.paper.study_report.crosses import Limits
from domaincover.paper.study_report.label_places import (
    AROUND,
    Box,
    Canvas,
    beside,
    crosses_as_boxes,
    freest,
    place_of_random_sets,
    place_of_target,
    places_beside_points,
)

CANVAS = Canvas(200, 150, 8, Limits((1.0, 2.0), (0.5, 1.0)))


def crosses(*rows):
    table = pd.DataFrame(rows, columns=["set_size", "min_recall"], dtype=float)
    for name in table.columns[:]:
        table[f"{name}_q25"], table[f"{name}_q75"] = table[name] - 0.05, table[name] + 0.05
    return table


def test_the_overlap_of_boxes_is_the_area_in_common():
    assert Box(0, 0, 2, 2).overlap(Box(1, 1, 5, 5)) == 1
    assert Box(0, 0, 1, 1).overlap(Box(2, 0, 3, 1)) == 0


def test_of_places_that_are_free_the_first_is_taken():
    boxes = [Box(0, 0, 10, 10), Box(20, 0, 30, 10), Box(40, 0, 50, 10)]
    assert freest(boxes, [], CANVAS) == 0
    assert freest(boxes, [Box(5, 5, 6, 6)], CANVAS) == 1
    assert freest([Box(-5, 0, 5, 10), *boxes[1:]], [], CANVAS) == 1, "a part would be outside the plot"


def test_the_targets_name_is_below_the_right_end_where_that_is_free():
    place = place_of_target(0.9, crosses((1.1, 0.7)), n_labels=9, canvas=CANVAS)
    assert (place.set_size, place.above) == (2.0, False)


@pytest.mark.parametrize("taken", [(1.95, 0.87), (1.9, 0.9), (1.8, 0.85)])
def test_the_targets_name_moves_from_a_cross(taken):
    place = place_of_target(0.9, crosses(taken), n_labels=9, canvas=CANVAS)
    x, y = CANVAS.x(place.set_size), CANVAS.y(0.9)
    box = Box(x - 50, y - 13, x, y - 4) if place.above else Box(x - 50, y + 4, x, y + 13)
    assert sum(map(box.overlap, crosses_as_boxes(crosses(taken), CANVAS))) == 0


def test_the_name_of_random_sets_is_on_their_line_and_free_of_crosses():
    taken = crosses((1.5, 0.77), (1.4, 0.72), (1.3, 0.68))
    place = place_of_random_sets(taken, n_labels=2, canvas=CANVAS)
    assert place.min_recall == pytest.approx(place.set_size / 2, abs=1e-4)
    x, y = CANVAS.x(place.set_size) - 6, CANVAS.y(place.min_recall)
    assert sum(map(Box(x - 45, y - 9, x, y).overlap, crosses_as_boxes(taken, CANVAS))) == 0


def test_random_sets_out_of_sight_have_no_name():
    assert place_of_random_sets(crosses((1.5, 0.77)), n_labels=9, canvas=CANVAS) is None


def test_names_beside_points_cover_neither_points_nor_one_another():
    rng = np.random.default_rng(0)
    points = pd.DataFrame({"set_size": rng.uniform(1.1, 1.9, 12), "min_recall": rng.uniform(0.55, 0.95, 12)})
    points["name"] = "0.9"
    places = places_beside_points(points, CANVAS)
    where = [(CANVAS.x(x), CANVAS.y(y)) for x, y in zip(points["set_size"], points["min_recall"], strict=True)]
    names = [beside(x, y, "0.9", place, CANVAS.text) for (x, y), place in zip(where, places, strict=True)]
    marks = [CANVAS.around(x, y) for x, y in where]
    assert sum(name.overlap(mark) for name in names for mark in marks) == 0
    assert sum(names[i].overlap(names[j]) for i in range(12) for j in range(i)) == 0
    assert set(places) <= set(AROUND)


def test_a_point_without_a_name_or_a_number_takes_no_room():
    points = pd.DataFrame({"set_size": [1.5, np.nan], "min_recall": [0.7, 0.7], "name": ["", "0.9"]})
    assert places_beside_points(points, CANVAS) == ["above", "above"]
