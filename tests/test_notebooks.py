"""Every notebook runs in a kernel of its own, and what is committed is what it is said to be."""

import json
import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="pip install 'domaincover[dev]'")
running = pytest.importorskip("notebooks.running", reason="pip install 'domaincover[dev]'")

FOLDER, faults_of, read, run, write = running.FOLDER, running.faults_of, running.read, running.run, running.write
pytestmark = pytest.mark.no_cover  # the kernel is another process
NAMES = ["hospitals", "reviewers", "rotated-images"]


def code_of(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_to_its_end_without_a_word_on_standard_error(name):
    assert faults_of(run(read(FOLDER / f"{name}.ipynb"))) == []


def test_these_are_all_notebooks():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_what_is_committed_was_run_from_top_to_bottom_without_fault(name):
    notebook = read(FOLDER / f"{name}.ipynb")
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert faults_of(notebook) == []


@pytest.mark.parametrize("name", NAMES)
def test_charts_are_committed_as_pictures(name):
    outputs = [output for cell in read(FOLDER / f"{name}.ipynb").cells for output in cell.get("outputs", ())]
    kinds = [set(output.get("data", ())) for output in outputs]
    assert sum("image/png" in kind for kind in kinds) >= 3
    assert not any("vega" in one for kind in kinds for one in kind)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_a_promise_a_certificate_and_limits(name):
    notebook = read(FOLDER / f"{name}.ipynb")
    assert 15 <= len(notebook.cells) <= 30
    assert "domain_confidence=" in "\n".join(code_of(notebook))
    assert "certify(" in "\n".join(code_of(notebook))
    assert "## Limits\n" in notebook.cells[-1].source


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_names_nothing_of_the_machine_it_was_run_on(name):
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|tmp|work|Users)/", text)
    assert str(Path.home()) not in text


def test_what_differs_from_run_to_run_is_not_written(tmp_path):
    cell = nbformat.v4.new_code_cell("1 + 1", metadata={"execution": {"iopub.execute_input": "2025-01-01"}})
    cell.outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "2"}, execution_count=1)]
    write(
        nbformat.v4.new_notebook(cells=[cell], metadata={"language_info": {"name": "python", "version": "3.99"}}),
        tmp_path / "a.ipynb",
    )
    written = (tmp_path / "a.ipynb").read_text()
    assert "2025" not in written
    assert "3.99" not in written
    assert json.loads(written)["cells"][0]["id"] == "cell-01"


@pytest.mark.parametrize("name", NAMES)
def test_to_write_what_was_read_changes_nothing(name, tmp_path):
    write(read(FOLDER / f"{name}.ipynb"), tmp_path / "again.ipynb")
    assert (tmp_path / "again.ipynb").read_bytes() == (FOLDER / f"{name}.ipynb").read_bytes()


@pytest.mark.slow
def test_a_kernel_is_this_python_and_a_fault_is_told():
    import sys

    from nbclient.exceptions import CellExecutionError

    cells = [nbformat.v4.new_code_cell(source) for source in ("import sys; print(sys.executable)", "1 / 0")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        run(notebook)
    assert notebook.cells[0].outputs[0].text == f"{sys.executable}\n"
    assert len(faults_of(notebook)) == 1
