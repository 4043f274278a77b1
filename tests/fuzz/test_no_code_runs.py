"""Hostile pickles, classes and templates in place of every file: none of them runs."""

import ast
import gzip
import io
import json
import os
import pickle  # noqa: TID251 - what is refused here
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import domaincover
from domaincover import SetCoverClassifier, load, save
from domaincover.data.tables import open_table
from domaincover.paper.collect import collect
from domaincover.paper.experiment import read_experiment
from domaincover.paper.run_directory import is_finished
from domaincover.saving.models import load_extra
from tests.fuzz.answers import answer, is_refused
from tests.fuzz.test_run_directories import RUN, study
from tests.saving.test_forgeries import forge


class Hostile:
    """An object that leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def mark(tmp_path):
    yield tmp_path / "it ran"
    assert not (tmp_path / "it ran").exists()


def bombs(mark):
    """Return what runs code where it is read by the wrong function."""
    arrays, archive, torch_file = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.save(arrays, np.array([Hostile(mark)], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(archive, "w") as entries:
        entries.writestr("schema.json", json.dumps(system_call(mark)))
    torch.save({"weight": Hostile(mark)}, torch_file)
    pickled = pickle.dumps(Hostile(mark))
    return [pickled, gzip.compress(pickled), arrays.getvalue(), archive.getvalue(), torch_file.getvalue()]


def system_call(mark):
    text = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(str(mark))}
    call = {"__class__": "mkdir", "__module__": "os", "__loader__": "FunctionNode", "content": text}
    return {**call, "protocol": 2, "_skops_version": "0.16"}


def test_the_bombs_would_go_off(tmp_path):
    pickle.loads(bombs(tmp_path / "ran")[0])  # noqa: S301
    assert (tmp_path / "ran").exists()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rng = np.random.default_rng(0)
    model = SetCoverClassifier(hidden=2, epochs=1, random_state=0).fit(rng.normal(size=(30, 2)), np.arange(30) % 3)
    save(model, tmp_path_factory.mktemp("saved") / "model", {"kept": 1})
    return next(tmp_path_factory.getbasetemp().glob("saved*/model"))


def test_no_file_of_a_model_runs_code(saved, tmp_path, mark, door):
    for name in [path.name for path in saved.iterdir()]:
        for bomb in bombs(mark):
            door("hostile files")
            folder = shutil.copytree(saved, tmp_path / "model")
            if name == "model.json":
                (folder / name).write_bytes(bomb)
            else:
                forge(folder, **{name.partition(".")[0].replace("-", "_"): bomb})
            read = load_extra if name == "extra.json" else load
            assert is_refused(answer(read, folder)), name
            shutil.rmtree(folder)


def test_no_file_of_a_run_runs_code(tmp_path, mark, door):
    out = study(tmp_path / "runs")
    for name in ("report.json", "config.json", "DONE", "../../../../study.json"):
        for bomb in bombs(mark):
            door("hostile files")
            path = (out / RUN.folder / name).resolve()
            kept = path.read_bytes()
            path.write_bytes(bomb)
            found = [answer(collect, out), answer(is_finished, out, RUN)]
            assert any(map(is_refused, found)), name
            path.write_bytes(kept)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.toml"])
def test_no_table_and_no_configuration_runs_code(tmp_path, mark, name, door):
    for bomb in bombs(mark):
        door("hostile files")
        path = tmp_path / name
        path.write_bytes(bomb)

        def work(path=path):
            return read_experiment(path) if path.suffix == ".toml" else open_table(path).read()

        assert is_refused(answer(work))


def test_metadata_of_parquet_constructs_nothing(tmp_path, mark, door):
    door("hostile files")
    pickled = pickle.dumps(Hostile(mark))
    field = pa.field("x", pa.int64(), metadata={b"ARROW:extension:name": b"arrow.py_extension_type"})
    field = field.with_metadata({**field.metadata, b"ARROW:extension:metadata": pickled})
    about = {"columns": [{"name": "x", "pandas_type": "object", "numpy_type": "os.system", "metadata": None}]}
    about |= {"index_columns": [{"kind": "range", "name": "__class__", "start": 0, "stop": 2, "step": 1}]}
    about |= {"column_indexes": [], "creator": {}, "pandas_version": "9"}
    schema = pa.schema([field], metadata={b"pandas": json.dumps(about).encode()})
    pq.write_table(pa.table({"x": [1, 2]}).cast(pa.schema([pa.field("x", pa.int64())])).cast(schema), tmp_path / "t.pq")
    read = answer(lambda: open_table(tmp_path / "t.pq").read())
    pd.testing.assert_frame_equal(read, pd.DataFrame({"x": [1, 2]}))


RUNS_CODE = {
    *("eval", "exec", "pickle.load", "pickle.loads", "np.load", "numpy.load", "joblib.load", "torch.load"),
    *("pd.read_pickle", "pd.eval", "os.system", "marshal.loads", "yaml.load"),
}


def calls_in(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {ast.unparse(node.func) for node in calls if "allow_pickle=False" not in ast.unparse(node)}


def test_nothing_that_could_run_code_from_a_file_is_called():
    calls = {path.name: calls_in(path) & RUNS_CODE for path in Path(domaincover.__file__).parent.rglob("*.py")}
    assert {name: found for name, found in calls.items() if found} == {}
