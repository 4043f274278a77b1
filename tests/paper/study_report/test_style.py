import pytest

from domaincover.paper.study_report.style import (
    FURTHER_LOOKS,
    GLYPHS,
    KNOWN_METHODS,
    dataset_label,
    method_styles,
    splits_in_order,
)


def test_known_methods_differ_in_shape_and_glyph():
    assert len({style.shape for style in KNOWN_METHODS.values()}) == len(KNOWN_METHODS)
    assert len({style.glyph for style in KNOWN_METHODS.values()}) == len(KNOWN_METHODS)


def test_every_shape_has_a_glyph():
    assert {shape for _, shape in FURTHER_LOOKS} <= set(GLYPHS)


def test_known_methods_come_in_their_fixed_order_and_others_after_them():
    assert list(method_styles(["mine", "set-cover", "yours", "erm"])) == ["erm", "set-cover", "mine", "yours"]


def test_two_methods_never_share_a_name():
    styles = method_styles(["set-cover", "SET-COVER"])
    assert [style.label for style in styles.values()] == ["SET-COVER", "SET-COVER-2"]


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
