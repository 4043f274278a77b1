"""What README, docs, examples and notebooks import is public: in `__all__` of domaincover or a submodule for users."""

import ast
import json

import pytest

from tests.documents import DOCS, PUBLIC, ROOT, blocks

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("examples/*.md"))]
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))


def python_of(path):
    """Return the pieces of Python that a page, a script or a notebook holds."""
    if path.suffix == ".py":
        return [path.read_text(encoding="utf-8")]
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return [block.code for block in blocks(path) if block.language == "python"]


def internal_imports(code):
    """Return what a piece of code imports of the library that is not public."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("domaincover.")]
        elif isinstance(node, ast.ImportFrom) and node.module in PUBLIC:
            found += [f"{node.module}.{a.name}" for a in node.names if a.name not in PUBLIC[node.module]]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("domaincover."):
            found.append(node.module)
    return found


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES, *NOTEBOOKS], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_only_public_names_are_imported(path):
    assert [name for code in python_of(path) for name in internal_imports(code)] == []


def test_what_is_internal_is_found():
    code = "import domaincover.files\nfrom domaincover import evaluation\nfrom domaincover.report.charts import INK\n"
    assert internal_imports(code) == [
        "domaincover.files",
        "domaincover.evaluation",
        "domaincover.report.charts",
    ]
    assert internal_imports("from domaincover import assess, summary_table\nimport numpy\nimport domaincover\n") == []
    assert internal_imports("from domaincover.datasets import load_storms, DatasetTable") == [
        "domaincover.datasets.DatasetTable"
    ]


def test_there_is_code_to_look_at():
    assert sum(len(python_of(path)) for path in PAGES) > 20
    assert len(EXAMPLES) > 5
    assert len(NOTEBOOKS) == 3
