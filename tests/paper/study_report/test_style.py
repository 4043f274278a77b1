import itertools

import numpy as np
import pytest

from domaincover.paper.study_report.style import (
    COMPARISONS,
    FURTHER_LOOKS,
    GLYPHS,
    KNOWN_METHODS,
    comparisons_of,
    dataset_label,
    method_styles,
    splits_in_order,
)

WHITE, DARK_PAPER = "#ffffff", "#16181d"
# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
EYES = {
    "normal": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
RGB_TO_CONES = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
CONES_TO_OKLAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


def linear_rgb(color: str) -> np.ndarray:
    channels = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((linear_rgb(color) @ [0.2126, 0.7152, 0.0722] for color in (one, other)), reverse=True)
    return float((lighter + 0.05) / (darker + 0.05))


def seen_as(color: str, eyes: str) -> np.ndarray:
    seen = np.clip(np.array(EYES[eyes]) @ linear_rgb(color), 0, 1)
    return np.array(CONES_TO_OKLAB) @ np.cbrt(np.array(RGB_TO_CONES) @ seen)


@pytest.mark.parametrize("paper", [WHITE, DARK_PAPER])
def test_every_method_colour_has_a_contrast_of_three_on_light_and_dark_paper(paper):
    colors = [style.color for style in KNOWN_METHODS.values()] + [color for color, _ in FURTHER_LOOKS]
    assert {color: contrast(color, paper) for color in colors if contrast(color, paper) < 3} == {}


def closest(colors, eyes):
    pairs = itertools.combinations(colors, 2)
    return min(np.linalg.norm(seen_as(a, eyes) - seen_as(b, eyes)) for a, b in pairs)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("compared", COMPARISONS.values(), ids=COMPARISONS)
def test_methods_of_one_comparison_differ_in_colour_to_all_eyes(compared, eyes):
    # 0.02 in Oklab is about a just noticeable difference; small points need several of them.
    assert closest([KNOWN_METHODS[method].color for method in compared], eyes) > 0.09


@pytest.mark.parametrize("eyes", EYES)
def test_any_two_known_methods_differ_noticeably_in_colour(eyes):
    assert closest([style.color for style in KNOWN_METHODS.values()], eyes) > 0.03


def test_every_known_method_is_in_a_comparison():
    assert {method for compared in COMPARISONS.values() for method in compared} == set(KNOWN_METHODS)


def test_known_methods_differ_in_shape_and_glyph():
    assert len({style.shape for style in KNOWN_METHODS.values()}) == len(KNOWN_METHODS)
    assert len({style.glyph for style in KNOWN_METHODS.values()}) == len(KNOWN_METHODS)


def test_every_shape_has_a_glyph():
    assert {shape for _, shape in FURTHER_LOOKS} <= set(GLYPHS)


def test_known_methods_come_in_their_fixed_order_and_others_after_them():
    assert list(method_styles(["mine", "set-cover", "yours", "erm"])) == ["erm", "set-cover", "mine", "yours"]


def test_an_unknown_method_keeps_its_name():
    assert method_styles(["mine"])["mine"].label == "mine"


def test_two_methods_never_share_a_name():
    styles = method_styles(["set-cover", "SET-COVER"])
    assert [style.label for style in styles.values()] == ["SET-COVER", "SET-COVER-2"]


def test_more_unknown_methods_than_colours_still_get_a_style():
    assert len(method_styles(f"method {i}" for i in range(20))) == 20


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("synthetic-10", "Synthetic 10-d, shared covariance"),
        ("synthetic-50-random", "Synthetic 50-d, random covariance"),
        ("camelyon17", "Camelyon17, by patient"),
        ("mine", "mine"),
        ("synthetic-ten", "synthetic-ten"),
    ],
)
def test_data_sets_are_named_by_rule(name, label):
    assert dataset_label(name) == label


def test_splits_come_unseen_first():
    assert splits_in_order(["train", "unseen", "train"]) == ["unseen", "train"]


def test_methods_that_are_compared_in_the_paper_are_offered_together_and_unknown_ones_everywhere():
    offered = comparisons_of([*KNOWN_METHODS, "mine"])
    assert list(offered) == [*COMPARISONS, "all"]
    assert all(group[-1] == "mine" for group in offered.values())
    assert len(offered["all"]) == len(KNOWN_METHODS) + 1


def test_where_one_comparison_shows_everything_there_is_no_other():
    assert list(comparisons_of(["erm", "robust", "set-cover"])) == ["sets"]
    assert comparisons_of(["a", "b"]) == {"all": ["a", "b"]}
