"""What the README shows works, and it stays short; its commands are parsed by test_docs."""

import re

import pytest

from tests.documents import ROOT, blocks

pytestmark = pytest.mark.no_cover  # the tests of what the README uses count its lines

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
PYTHON = [block.code for block in blocks(README) if block.language == "python"]


@pytest.fixture(scope="module")
def made():
    """Everything that the README's Python makes, run in order, and what it prints."""
    names = {"printed": []}
    names["print"] = lambda value: names["printed"].append(value)
    for code in PYTHON:
        exec(compile(code, "README.md", "exec"), names)  # noqa: S102
    return names


def test_the_readme_has_at_most_150_lines():
    assert len(TEXT.splitlines()) <= 150


def test_the_first_example_has_five_lines():
    assert len([line for line in PYTHON[0].splitlines() if line]) <= 5


def test_in_the_example_sets_reach_the_target_in_more_unseen_seasons_than_single_labels(made):
    assessment, _ = made["printed"]
    sets, single = (assessment.unseen[name].summary(0.9) for name in ("model", "ERM"))
    assert sets.share_at_target > 0.5 > single.share_at_target  # what holds for every seed and processor
    shown = " ".join(TEXT.split())  # columns are as wide as their numbers
    for line in str(assessment).splitlines()[:2]:
        assert " ".join(line.split()) in shown


def test_adapted_sets_of_the_example_cover_and_are_no_larger_than_fixed_ones(made):
    model, fixed, adapted = made["model"], made["fixed"], made["adapted"]
    assert fixed.shape == adapted.shape == (len(made["new_X"]), len(model.classes_))
    labels = model.classes_.searchsorted(made["y"][made["seasons"] >= 2015])
    for sets in (fixed, adapted):
        assert sets[range(len(sets)), labels].mean() > 0.9
        assert sets.sum(axis=1).mean() < len(model.classes_)
    assert adapted.mean() <= 1.05 * fixed.mean()


def test_the_example_names_a_p_value_for_every_new_season(made):
    p_values = made["printed"][1]
    assert p_values.index.tolist() == sorted(set(made["new_seasons"]))
    assert made["one_season"].adapted_["rows"] == (made["new_seasons"] == 2020).sum()


def test_the_wheel_that_the_readme_installs_is_of_this_version():
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert set(re.findall(r"domaincover-(.+?)-py3-none-any.whl", TEXT)) == {version}


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#:]+)\)", TEXT))
def test_what_the_readme_links_to_exists(path):
    assert (ROOT / path).exists()
