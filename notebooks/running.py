"""Notebooks run in a kernel of this very Python, and are written so that only what changed differs."""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

FOLDER = Path(__file__).parent
SECONDS = 7200  # until a kernel that does not start is given up; a cell takes as long as it does
TRANSPORT = "ipc" if os.name == "posix" else "tcp"  # files in the folder, rather than ports of the machine
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


class ThisPython(AsyncKernelManager):
    """Starts the interpreter that runs this, whatever kernels are installed."""

    @property
    def kernel_spec(self) -> KernelSpec:
        """How the kernel is started."""
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name=KERNEL["display_name"], language=KERNEL["language"])


def read(path: Path) -> NotebookNode:
    """Read a notebook."""
    return nbformat.read(path, as_version=4)


def run(notebook: NotebookNode) -> NotebookNode:
    """Run all cells of a notebook in a new kernel and an empty folder; the first that fails raises."""
    with TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=None,
            startup_timeout=SECONDS,
            kernel_manager_class=ThisPython,
            resources={"metadata": {"path": folder}},
            record_timing=False,
            config=Config({"ThisPython": {"connection_file": f"{folder}/kernel.json", "transport": TRANSPORT}}),
        )
        own = {"IPYTHONDIR": folder, "OMP_NUM_THREADS": "1"}
        return client.execute(env={**os.environ, **own})


def write(notebook: NotebookNode, path: Path) -> None:
    """Write a notebook without what differs from one run to the next, and with names of cells by their place."""
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for place, cell in enumerate(notebook.cells, start=1):
        cell.id, cell.metadata = f"cell-{place:02}", {}
        for output in cell.get("outputs", ()):
            output.pop("transient", None)
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def faults_of(notebook: NotebookNode) -> list[Any]:
    """Return what went wrong or was written to standard error, which a reader should not see."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
