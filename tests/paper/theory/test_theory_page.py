import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "theory.md"
TEXT = PAGE.read_text()


def test_the_code_of_the_page_prints_what_it_says():
    printed = []
    made = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), made)  # noqa: S102
    assert printed == re.findall(r"^(?:print\(.*\)  )?# (.*)$", "".join(blocks), re.MULTILINE)


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#:]+)\)", TEXT))
def test_what_the_page_links_to_exists(path):
    assert (PAGE.parent / path).exists()
