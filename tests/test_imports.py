import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import domaincover

HEAVY = {"torch", "altair", "pandas", "pyarrow", "scipy", "vl_convert"}


@pytest.mark.parametrize(
    "code", ["import domaincover", "import sys; sys.argv[1:] = ['--help']; import domaincover.cli"]
)
def test_importing_and_help_load_nothing_heavy(code):
    program = f"{code}\nimport sys; print(*sorted(set(sys.modules) & {HEAVY!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_help_of_every_command_loads_nothing_heavy():
    program = f"""
import contextlib, io, sys
from domaincover.cli import main
studies = [["paper"], ["run"], ["results"], ["report"], ["data", "check"]]
for command in ([], *studies, ["fit"], ["predict"], ["evaluate"], ["certify"], ["plan"], ["doctor"]):
    sys.argv = ["domaincover", *command, "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
        main()
    assert "Usage" in text.getvalue(), command
print(*sorted(set(sys.modules) & {HEAVY!r}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_every_public_name_can_be_imported_and_is_listed():
    assert all(getattr(domaincover, name) is not None for name in domaincover.__all__)
    assert set(domaincover.__all__) <= set(dir(domaincover))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'SetCovr'"):
        domaincover.SetCovr  # noqa: B018


SOURCES = sorted(Path(domaincover.__file__).parent.rglob("*.py"))


def test_no_name_of_a_module_or_package_stands_twice_in_the_tree():
    listing = Path(domaincover.__file__).parent / "study.py"  # for users; paper/study.py is what it is about
    names = Counter(
        path.parent.name if path.name == "__init__.py" else path.stem for path in SOURCES if path != listing
    )
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


def test_no_two_classes_have_one_name():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES]
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []
