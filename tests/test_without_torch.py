"""Saved models of tables in an environment without torch: the same scores, sets, tables and folders as with it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from torch import nn

from domaincover import (
    ConformalSetClassifier,
    ERMClassifier,
    InputError,
    MeanClassifier,
    PromisedSetClassifier,
    SetCoverClassifier,
    TableEncoder,
    load,
    save,
)
from domaincover.saving.models import load_to_predict
from domaincover.saving.parts import PartsReader
from tests.documents import ROOT

LIGHT = ("SET-COVER", "linear", "promised", "mean")  # neither torch nor scikit-learn predicts
SETTINGS = {"settings": {"label": "outcome", "domain": "ward", "target_recall": 0.9}}


def visits(n_domains, seed):
    """Return a table of wards with two numbers, one of them sometimes missing, and a category."""
    rng = np.random.default_rng(seed)
    ward = np.repeat(np.arange(n_domains), 50)
    ill = rng.random(len(ward)) < 0.5
    age = 50 + 10 * ill + rng.normal(0, 8, len(ward)) + rng.normal(0, 2, n_domains)[ward]
    table = pd.DataFrame(
        {"age": np.where(rng.random(len(ward)) < 0.1, np.nan, age), "heart": rng.normal(70, 9, len(ward))}
    )
    table["smoker"] = rng.choice(["yes", "no", "unknown"], len(ward))
    return table.assign(ward=[f"ward {seed}-{k}" for k in ward], outcome=np.where(ill, "ill", "well"))


TRAINING, NEW = visits(14, 0), visits(12, 1)
FEATURES = ["age", "heart", "smoker"]


def identity(n_features, n_labels):
    return nn.Linear(n_features, n_labels)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of fitted models by name."""
    quick = {"epochs": 2, "random_state": 0}
    trees = make_pipeline(TableEncoder(scale=False), HistGradientBoostingClassifier(max_iter=5, random_state=0))
    made = {
        "SET-COVER": SetCoverClassifier(**quick),
        "linear": ConformalSetClassifier(ERMClassifier(network="linear", **quick), random_state=0),
        "promised": PromisedSetClassifier(SetCoverClassifier(**quick), random_state=0),
        "mean": PromisedSetClassifier(
            MeanClassifier([("net", ERMClassifier(**quick)), ("trees", trees)]), random_state=0
        ),
        "function": ERMClassifier(network=identity, **quick),
    }
    folder = tmp_path_factory.mktemp("models")
    for name, model in made.items():
        save(model.fit(TRAINING[FEATURES], TRAINING["outcome"], domains=TRAINING["ward"]), folder / name, SETTINGS)
    NEW.to_csv(folder / "new.csv", index=False)
    NEW.iloc[:50].to_csv(folder / "ward.csv", index=False)
    return folder


TORCH = ("torch", "nvidia", "triton")
TREES = ("scikit_learn", "sklearn", "skops", "lightgbm", "xgboost", "onnx")


def environment_without(packages, folder):
    """Return what runs Python in an environment that has every package of this one but some."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for path in Path(pytest.__file__).parents[1].iterdir():
        if not path.name.lower().startswith(packages) and not path.name.endswith(".pth"):
            (site / path.name).symlink_to(path)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}

    def run(*arguments, cwd):
        command = [folder / "bin/python", *map(str, arguments)]
        env = {**clean, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100"}
        return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory):
    """Run Python in an environment that has every package of this one but torch."""
    return environment_without(TORCH, tmp_path_factory.mktemp("environment"))


def commands(models):
    """Return the commands that use a saved model, each of which writes or prints."""
    return [
        *(["predict", models / name, models / "new.csv", "--out", f"{name}.csv", "--scores"] for name in LIGHT),
        ["predict", models / "promised", models / "new.csv", "--out", "adapted.csv", "--domain", "ward"],
        ["evaluate", models / "promised", models / "new.csv"],
        ["certify", models / "promised", models / "new.csv", "--min-cell-size", "10"],
        ["adapt", models / "promised", models / "ward.csv", "--out", "ward"],
    ]


def files_in(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_model_predicts_the_same_bits_where_there_is_no_torch(models, without_torch, tmp_path):
    program = f"""
import importlib.util, numpy as np, pandas as pd, domaincover
assert importlib.util.find_spec("torch") is None
X = pd.read_csv({str(models / "new.csv")!r})[{FEATURES!r}]
for name in {LIGHT!r}:
    model = domaincover.load({str(models)!r} + "/" + name)
    np.savez(name, scores=model.label_scores(X), sets=model.predict_set(X), labels=model.predict(X) == "ill")
"""
    done = without_torch("-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    X = pd.read_csv(models / "new.csv")[FEATURES]
    for name in LIGHT:
        model, found = load(models / name), np.load(tmp_path / f"{name}.npz")
        np.testing.assert_array_equal(found["scores"], model.label_scores(X), strict=True)
        np.testing.assert_array_equal(found["sets"], model.predict_set(X), strict=True)
        np.testing.assert_array_equal(found["labels"], model.predict(X) == "ill", strict=True)


def test_commands_write_and_print_the_same_where_there_is_no_torch(models, without_torch, tmp_path):
    program = "import json, sys, domaincover.cli as c\n" + (
        "for command in json.loads(sys.argv[1]):\n"
        "    sys.argv[1:] = command\n"
        "    try:\n        c.main()\n"
        "    except SystemExit as end:\n        assert end.code == 0, command\n"
    )
    given = json.dumps([[str(part) for part in command] for command in commands(models)])
    with_torch = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100"}
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    expected = subprocess.run(
        [sys.executable, "-c", program, given], cwd=here, env=with_torch, capture_output=True, text=True, check=True
    )
    done = without_torch("-c", program, given, cwd=there)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected.stdout
    written, wanted = files_in(there), files_in(here)
    assert written.keys() == wanted.keys()
    # A manifest names the versions of libraries, torch among them.
    assert sorted(name for name in wanted if written[name] != wanted[name]) == ["ward/model.json"]
    assert_same_models(load(here / "ward"), load(there / "ward"))


def assert_same_models(one, other):
    np.testing.assert_array_equal(one.thresholds_, other.thresholds_)
    np.testing.assert_array_equal(one.label_scores(NEW[FEATURES]), other.label_scores(NEW[FEATURES]))


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["fit", "new.csv", "--label", "outcome", "--domain", "ward", "--out", "out"], "training needs torch"),
        (
            ["fit", "new.csv", "--label", "outcome", "--domain", "ward", "--base", "linear", "--out", "out"],
            "training needs torch",
        ),
        (["paper", "synthetic", "--out", "out"], "studies need torch, which is not installed"),
    ],
)
def test_what_needs_torch_says_so_in_one_line(arguments, what, models, without_torch):
    done = without_torch("-m", "domaincover", *arguments, cwd=models)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        f"domaincover: {what}: pip install 'domaincover[train]'.",
    )
    assert "Traceback" not in done.stderr
    assert not (models / "out").exists()


def test_python_code_that_needs_torch_says_so_in_one_line(models, without_torch, tmp_path):
    program = f"""
import numpy as np, domaincover
def told(act):
    try:
        act()
    except domaincover.InputError as error:
        print(error)
X, y = np.random.default_rng(0).normal(size=(40, 2)), [0, 1] * 20
told(lambda: domaincover.ERMClassifier().fit(X, y))
told(lambda: domaincover.ImageNetwork)
told(lambda: domaincover.load({str(models / "SET-COVER")!r}).network_)
told(lambda: domaincover.load({str(models / "function")!r}, network=lambda a, b: None))
"""
    done = without_torch("-c", program, cwd=tmp_path)
    install = "needs torch: pip install 'domaincover[train]'."
    assert done.stdout.splitlines() == [
        f"training {install}",
        f"ImageNetwork {install}",
        f"network_ {install}",
        f"cannot load {models / 'function'}: its network {install}",
    ], done.stderr


def test_trees_are_fitted_from_python_where_there_is_no_torch(without_torch, tmp_path):
    program = """
import numpy as np, domaincover
from sklearn.ensemble import HistGradientBoostingClassifier
rng = np.random.default_rng(0)
X, y, domains = rng.normal(size=(400, 2)), np.arange(400) % 2, np.arange(400) // 40
model = domaincover.ConformalSetClassifier(HistGradientBoostingClassifier(max_iter=5), random_state=0)
print(model.fit(X, y, domains=domains).predict_set(X).shape)
"""
    done = without_torch("-c", program, cwd=tmp_path)
    assert done.stdout == "(400, 2)\n", done.stderr


def modules_after(given, cwd):
    """Return the slow libraries that each of some commands has loaded when it ends, each in a fork of its own."""
    slow = {"torch", "sklearn", "lightgbm", "scipy.stats", "scipy.optimize", "altair", "skops"}
    program = (
        "import json, os, sys, domaincover.cli as c\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    if child := os.fork():\n"
        "        assert os.waitpid(child, 0)[1] == 0, command\n        continue\n"
        "    sys.argv[1:] = command\n"
        "    try:\n        c.main()\n"
        "    except SystemExit as end:\n        assert not end.code\n"
        f"    print('loaded', *sorted(set(sys.modules) & {slow!r}), file=sys.stderr)\n"
        "    sys.exit()\n"
    )
    texts = json.dumps([[str(part) for part in command] for command in given])
    done = subprocess.run([sys.executable, "-c", program, texts], cwd=cwd, capture_output=True, text=True, check=True)
    return [line.split()[1:] for line in done.stderr.splitlines() if line.split()[:1] == ["loaded"]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_commands_load_neither_torch_nor_scikit_learn(models, tmp_path):
    check = ["check", models / "new.csv", "--label", "outcome", "--domain", "ward"]
    light = [["--help"], ["plan"], check, *commands(models)]
    assert modules_after(light, tmp_path) == [[]] * len(light)


def test_models_with_trees_predict_where_no_package_of_trees_is_installed(models, tmp_path):
    run = environment_without((*TORCH, *TREES), tmp_path / "environment")
    arguments = [models / "mean", models / "new.csv", "--out"]
    for name, with_trees in {"without.csv": run, "with.csv": None}.items():
        command = ["-m", "domaincover", "predict", *arguments, tmp_path / name, "--scores", "--domain", "ward"]
        if with_trees is None:
            subprocess.run([sys.executable, *map(str, command)], check=True, capture_output=True, cwd=tmp_path)
        else:
            done = with_trees(*command, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
    assert (tmp_path / "without.csv").read_bytes() == (tmp_path / "with.csv").read_bytes()


def test_the_default_model_is_a_folder_of_three_files_and_none_of_them_is_skops(models):
    assert {path.name for path in (models / "mean").iterdir()} == {"arrays.safetensors", "extra.json", "model.json"}


@pytest.mark.parametrize("name", LIGHT)
def test_what_the_command_line_loads_gives_the_bits_of_the_estimator(name, models):
    light, whole = load_to_predict(models / name), load(models / name)
    assert not hasattr(light, "fit")
    assert isinstance(whole, type(light))
    X = NEW[FEATURES]
    np.testing.assert_array_equal(light.label_scores(X), whole.label_scores(X), strict=True)
    np.testing.assert_array_equal(light.predict_set(X), whole.predict_set(X), strict=True)
    np.testing.assert_array_equal(light.predict(X), whole.predict(X), strict=True)


@pytest.mark.parametrize("name", LIGHT)
def test_what_the_command_line_loads_is_saved_as_the_estimator(name, models, tmp_path):
    save(load_to_predict(models / name), tmp_path / "light", SETTINGS)
    save(load(models / name), tmp_path / "whole", SETTINGS)
    assert files_in(tmp_path / "light") == files_in(tmp_path / "whole")
    assert files_in(tmp_path / "light").keys() == files_in(models / name).keys()


def test_a_score_at_its_threshold_is_in_the_set_with_and_without_torch(models, without_torch, tmp_path):
    """Thresholds are scores of rows, as after calibration, and the rows are scored again in another order."""
    X, expected = NEW[FEATURES], {}
    for name in LIGHT:
        model = load(models / name)
        scores = model.label_scores(X)
        at = np.argsort(scores, axis=0)[len(X) // 3]  # a row for every label
        model.thresholds_ = scores[at, np.arange(scores.shape[1])].astype(float)
        save(model, tmp_path / name)
        expected[name] = scores >= model.thresholds_
        assert expected[name][at, np.arange(scores.shape[1])].all()
    order = np.random.default_rng(0).permutation(len(X))
    X.iloc[order].to_csv(tmp_path / "rows.csv", index=False)
    program = f"""
import numpy as np, pandas as pd, domaincover
X = pd.read_csv("rows.csv")
for name in {LIGHT!r}:
    model = domaincover.load(name)
    one_by_one = [model.predict_set(X[k : k + 1]) for k in range(len(X))]
    np.savez(name, whole=model.predict_set(X), one_by_one=np.concatenate(one_by_one))
"""
    done = without_torch("-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in LIGHT:
        sets = np.load(tmp_path / f"{name}.npz")
        for found in (sets["whole"], sets["one_by_one"], load_to_predict(tmp_path / name).predict_set(X.iloc[order])):
            np.testing.assert_array_equal(found, expected[name][order])


def test_the_threshold_of_set_cover_is_a_score_that_its_sets_hold():
    """Held-out rows set the thresholds in training; the same rows have the same scores afterwards."""
    model = SetCoverClassifier(0.98, epochs=1, validation_domains=0.5, min_cell_size=1, random_state=0)
    model.fit(TRAINING[FEATURES], TRAINING["outcome"], domains=TRAINING["ward"])
    rows = TRAINING[TRAINING["ward"].isin(model.held_out_domains_)]
    scores, thresholds = model.label_scores(rows[FEATURES]), model.thresholds_.astype(np.float32)
    recall = model.domain_report(rows[FEATURES], rows["outcome"], rows["ward"], min_cell_size=1).recall
    assert (thresholds < 0).any()
    assert (scores == thresholds).any(), "some row's score is the threshold, to the last bit"
    assert recall.min() >= 0.98


def test_a_forged_parameter_cannot_replace_a_method():
    for name in ("predict_set", "_score", "layers_"):
        part = {"kind": "ERMClassifier", "params": {"network": "mlp", name: 1}, "learned": {}}
        with pytest.raises(InputError, match=f"no parameter '{name}'"):
            PartsReader({}, to_predict=True).read([part])
