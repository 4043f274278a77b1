import numpy as np
import pytest

from domaincover.paper.study_report.figures import picture
from domaincover.paper.theory import (
    LINES,
    learnability_data,
    learnability_table,
    no_failure_bound,
    theory_figure,
    uniform_bound,
)


@pytest.fixture
def content():
    shares = {(2, "trained"): [0.5, 0.7, 0.6], (2, "at-target"): [0.3, 0.1, 0.2]}
    shares |= {(10, "trained"): [0.0, 0.0, 0.1], (10, "at-target"): [0.01, 0.02, 0.03]}
    rows = [
        {"n_domains": m, "seed": seed, "predictor": name, "share_missing_new": share}
        | {"share_missing_training": float(name == "trained" and share > 0)}
        for (m, name), values in shares.items()
        for seed, share in enumerate(values)
    ]
    return {"settings": {"n_features": 10, "n_seeds": 3, "target_recall": 0.9}, "rows": rows}


def test_a_quick_run_says_so_in_table_and_figure(content):
    assert "Quick run" not in learnability_table(content)
    quick = content | {"settings": content["settings"] | {"quick": True}}
    assert learnability_table(quick).startswith("Quick run: not the paper's setting.\n")
    assert "Quick run: not the paper's setting." in theory_figure(quick)["title"]["subtitle"]


def test_the_line_is_the_median_over_seeds(content):
    medians = learnability_data(content).medians.set_index(["line", "n_domains"])["share_missing_new"]
    assert medians.to_dict() == {
        ("trained", 2): 0.6, ("at-target", 2): 0.2, ("trained", 10): 0.0, ("at-target", 10): 0.02,
    }  # fmt: skip


def test_the_bounds_are_those_of_two_labels_with_one_dimension_more_than_features(content):
    bounds = learnability_data(content).bounds
    assert bounds["n_domains"].max() == 100_000
    for name, bound in (("uniform", uniform_bound), ("consistent", no_failure_bound)):
        own = bounds[bounds["line"] == name]
        expected = [bound(m, dimension=11, n_labels=2, delta=0.05) for m in own["n_domains"]]
        np.testing.assert_array_equal(own["share_missing_new"], expected)


def test_the_table_has_medians_bound_and_how_many_seeds_the_theorem_covers(content):
    *_, two, ten = learnability_table(content).splitlines()
    assert two.split() == ["2", "60.0%", "20.0%", "100%", "0", "of", "3"]
    assert ten.split() == ["10", "0.0%", "2.0%", "100%", "2", "of", "3"]


def test_the_figure_has_a_named_line_per_predictor_and_bound_and_hollow_points_for_seeds_not_covered(content):
    svg = picture(theory_figure(content), "svg").decode()
    assert "New domains below the target recall of 0.9" in svg
    assert all(f">{name}<" in svg for name, *_ in LINES.values())
    points = svg.partition("layer_1_marks")[2].partition("</g>")[0]
    assert points.count("<path") == len(content["rows"])
    n_hollow = sum(row["share_missing_training"] > 0 for row in content["rows"])
    assert points.count('fill-opacity="0"') == n_hollow == 4
