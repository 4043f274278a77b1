import re
from fractions import Fraction
from pathlib import Path

import pytest

from tests.paper.theory.gaussian_shattering import (
    GaussianCells,
    could_be_reached,
    impossible_assignment,
    scorer_reaching,
)
from tests.paper.theory.shattering import check_shattering
from tests.paper.theory.sliding_windows import sliding_windows

PAGE = Path(__file__).parents[3] / "docs" / "theory.md"
TEXT = PAGE.read_text()


def test_the_code_of_the_page_prints_what_it_says():
    printed = []
    made = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), made)  # noqa: S102
    assert printed == re.findall(r"^(?:print\(.*\)  )?# (.*)$", "".join(blocks), re.MULTILINE)


def test_ten_domains_are_shattered_by_half_planes_with_the_recalls_that_the_page_names():
    made = sliding_windows(10, target_recall=Fraction(9, 10), shape="circle")
    assert check_shattering(made.performs_well).n_reached == 1024
    assert {abs(recall - made.target_recall) for recall in made.recall.flat} == {Fraction(1, 10_250)}
    assert "1,024 subsets" in TEXT
    assert "±1/10,250" in TEXT


def test_of_the_four_discs_the_three_outer_ones_cannot_be_cut_off_alone_and_any_subset_of_three_can():
    four = GaussianCells.of(means=[[1, 1], [5, 1], [3, 5], [3, 2]], deviations=[0.5, 0.7, 0.6, 0.4])
    assignment = impossible_assignment(four, target_recall=0.9)
    assert assignment.tolist() == [True, True, True, False]
    assert not could_be_reached(four, 0.9, assignment)
    three = GaussianCells.of(four.means[:3], four.deviations[:3])
    for wanted in ([True, False, True], [False, False, True], [True, True, True], [False, False, False]):
        assert ((three.recall(*scorer_reaching(three, 0.9, wanted)) >= 0.9) == wanted).all()


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#:]+)\)", TEXT))
def test_what_the_page_links_to_exists(path):
    assert (PAGE.parent / path).exists()
