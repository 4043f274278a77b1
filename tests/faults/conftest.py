"""What the tests of faults share: a small table, model and study, and a disk with hardly any room."""

import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from domaincover import ERMClassifier
from domaincover.paper.catalogue import study_dataset
from domaincover.paper.runner import plan_studies, run_study
from domaincover.paper.study import Study
from domaincover.paper.study_datasets import Sizes

ROLES = ["--label", "outcome", "--domain", "ward"]
FIT = [*ROLES, "--method", "erm", "--base", "linear", "--epochs", "1"]
TINY = Sizes(6, 4, 60, 60)


def patients(n_rows=160):
    rng = np.random.default_rng(0)
    ward, ill = np.arange(n_rows) % 8, rng.integers(2, size=n_rows)
    columns = {f"x{k}": rng.normal(size=n_rows) + ill for k in range(2)}
    return pd.DataFrame(columns | {"outcome": np.where(ill, "ill", "well"), "ward": ward})


def tiny_study(n_seeds=1):
    return Study(
        study_dataset("synthetic-10").with_sizes(TINY), ("erm",), seeds=tuple(range(n_seeds)), epochs=1, min_cell_size=5
    )


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "train.csv"
    patients().to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    folder, rows = tmp_path_factory.mktemp("models") / "model", patients()
    network = ERMClassifier(hidden=2, epochs=1, random_state=0)
    network.fit(rows[["x0", "x1"]], rows["outcome"], domains=rows["ward"]).save(folder)
    return folder


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    out = tmp_path_factory.mktemp("studies") / "runs"
    run_study(plan_studies([tiny_study()], out), out)
    return out


@pytest.fixture
def small_disk(tmp_path):
    """A disk of two megabytes, and a way to leave only so many bytes of it free."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no mount")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a disk cannot be mounted: {mounted.stderr.decode().strip()}")

    def leave(n_bytes):
        (disk / "filling").unlink(missing_ok=True)
        with (disk / "filling").open("wb") as file:
            file.write(bytes(max(0, shutil.disk_usage(disk).free - n_bytes)))
        return disk

    try:
        yield leave
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
