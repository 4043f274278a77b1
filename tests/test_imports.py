import subprocess
import sys

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
studies = [["paper"], ["run"], ["results"], ["report"], ["figures"], ["data", "check"]]
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
    assert set(domaincover._HOMES) == set(domaincover.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'SetCovr'"):
        domaincover.SetCovr  # noqa: B018
