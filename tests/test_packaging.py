"""The package as others receive it: metadata, workflow, lower bounds, and a wheel without the source tree."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from tests.documents import ROOT, blocks

pytestmark = pytest.mark.no_cover  # nothing here runs the package in this process

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SUPPORTED = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if "Python :: 3." in name]
# Tools that check the source only are not installed by `make test-lowest`, and torch is the version of constraints.txt.
NOT_LOWEST = {"torch", "mypy", "pandas-stubs", "ruff", "scipy-stubs"}


def pins(name):
    """Return the version of each package that a constraints file pins."""
    lines = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {package.lower().replace("_", "-"): Version(version) for package, version in (x.split("==") for x in lines)}


def direct_dependencies():
    """Return the requirements of pyproject.toml, with those of all extras."""
    named = [*PROJECT["dependencies"], *(text for extra in PROJECT["optional-dependencies"].values() for text in extra)]
    return [each for each in map(Requirement, named) if each.name != "domaincover"]


def test_the_citation_names_this_version_and_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    paper = citation["preferred-citation"]
    assert paper["title"] == "Set Valued Predictions For Robust Domain Generalization"
    assert [author["family-names"] for author in paper["authors"]] == ["Tsibulsky", "Nevo", "Shalit"]


def test_the_citation_has_the_fields_that_its_format_and_archives_ask_for():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors", "abstract", "keywords", "type", "version"} <= set(citation)
    assert all(set(author) <= {"name", "given-names", "family-names", "orcid"} for author in citation["authors"])
    assert set(citation["preferred-citation"]) >= {"type", "title", "authors", "year", "conference"}


def test_the_conda_recipe_asks_for_what_the_package_does():
    recipe = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"] == {"name": PROJECT["name"], "version": PROJECT["version"], "python_min": SUPPORTED[0]}
    python, *needed = recipe["requirements"]["run"]
    assert python == "python >=${{ python_min }}"
    assert set(map(Requirement, needed)) == set(map(Requirement, PROJECT["dependencies"]))
    of_build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert set(map(Requirement, recipe["requirements"]["host"][2:])) == set(map(Requirement, of_build))
    scripts = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert recipe["about"]["license"] == PROJECT["license"]
    assert (ROOT / recipe["about"]["license_file"]).exists()


def test_the_changelog_begins_with_this_version():
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert versions[0] == PROJECT["version"]
    assert versions == sorted(versions, key=Version, reverse=True)


def test_the_sections_of_the_changelog_are_the_usual_ones():
    sections = set(re.findall(r"^### (.+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert sections <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_workflow_runs_the_tests_with_the_oldest_and_the_newest_supported_python_and_counts_lines_once():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    assert job["runs-on"].startswith("ubuntu")
    assert job["strategy"]["matrix"] == {"python-version": [SUPPORTED[0], SUPPORTED[-1]]}
    (setup,) = (step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/setup-python@"))
    assert setup["python-version"] == "${{ matrix.python-version }}"
    (command,) = (step["run"] for step in job["steps"] if "run" in step)
    assert command == f"make ${{{{ matrix.python-version == '{SUPPORTED[0]}' && 'coverage' || 'test' }}}}"


def test_the_oldest_supported_python_is_the_one_that_is_required():
    assert PROJECT["requires-python"] == f">={SUPPORTED[0]}"
    assert sorted(SUPPORTED, key=Version) == SUPPORTED


@pytest.mark.parametrize("requirement", direct_dependencies(), ids=str)
def test_the_tests_run_with_versions_that_are_admitted_the_lowest_too(requirement):
    assert pins("constraints.txt")[requirement.name.lower()] in requirement.specifier
    if requirement.name not in NOT_LOWEST:
        (bound,) = requirement.specifier
        assert bound.operator == ">="
        assert pins("constraints-lowest.txt")[requirement.name.lower()] == Version(bound.version)


@pytest.fixture(scope="session")
def wheel(once_for_all_workers):
    """A wheel built without network from a copy of what the build reads, so that the source tree stays as it is."""

    def build(folder):
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, folder)
        left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / "src", folder / "src", ignore=left_out)
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
        done = subprocess.run([*pip, "--wheel-dir", folder, folder], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [path.name for path in folder.glob("*.whl")]

    (name,), folder = once_for_all_workers("wheel", build)
    return folder / name


def test_the_wheel_holds_every_module_and_all_package_data(wheel):
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("domaincover/")}
    source = ROOT / "src/domaincover"
    kept = [path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert packed == {f"domaincover/{path.relative_to(source).as_posix()}" for path in kept}
    assert {Path(name).suffix for name in packed} >= {".py", ".typed", ".toml", ".csv", ".html", ".css", ".js"}


@pytest.fixture(scope="session")
def installed(wheel, once_for_all_workers):
    """The folder of programs of an environment that holds the wheel, and sees the dependencies of this one."""

    def install(folder):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        python = folder / "bin/python"
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps"]
        subprocess.run([*pip, wheel], check=True)
        (site,) = folder.glob("lib/python*/site-packages")
        # A path is added as it is: the .pth files there, which would bring the source tree back, are not read.
        (site / "dependencies.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")

    return once_for_all_workers("installed", install)[1] / "bin"


@pytest.fixture
def run_outside(installed, tmp_path):
    """Run a program of the environment outside the source tree; returns what it printed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}

    def run(program, *arguments):
        command = [installed / program, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_first_example_of_the_readme_runs_from_the_installed_wheel(run_outside, installed):
    example = next(block.code for block in blocks(ROOT / "README.md") if block.language == "python")
    printed = run_outside("python", "-c", f"{example}\nimport domaincover\nprint(domaincover.__file__)")
    assert "SET-COVER" in printed
    assert Path(printed.splitlines()[-1]).is_relative_to(installed.parent)


def test_the_installed_command_finds_the_experiments_of_the_paper(run_outside):
    assert "theory" in run_outside("domaincover", "paper", "list")
