"""The Python of the guides runs as it stands."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_cover  # the tests of what the guides use count its lines

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("name", ["images-and-texts.md"])
def test_the_python_of_a_guide_runs(name, tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    monkeypatch.chdir(tmp_path)
    made = {"print": lambda *_: None}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), re.DOTALL):
        exec(compile(block, name, "exec"), made)  # noqa: S102
    hit = made["sets"][range(len(made["sets"])), made["labels"][~made["seen"]]]
    assert hit.mean() > 0.85
    assert made["sets"].sum(axis=1).mean() < 5


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_what_a_guide_links_to_exists(path):
    for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / link).exists(), link
