"""A folder made by a stranger, with every checksum right, runs no code, ends no process and does not hang."""

import hashlib
import io
import json
import zipfile

import numpy as np
import pytest
import skops.io
from scipy.sparse import csr_matrix
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from domaincover import ERMClassifier, GaussianDomains, InputError, load, save
from domaincover.saving.models import FORMAT_VERSION, load_extra

DATA = GaussianDomains.of_paper(n_features=4).sample(n_domains=4, n_per_domain=20, rng=np.random.default_rng(0))
X, y = DATA.examples, DATA.labels


@pytest.fixture(scope="module")
def network():
    return ERMClassifier(hidden=4, epochs=1, random_state=0).fit(X, y)


@pytest.fixture
def folder(network, tmp_path):
    save(network, tmp_path / "model", {"rows": 80})
    return tmp_path / "model"


@pytest.fixture
def sklearn_folder(tmp_path):
    save(StandardScaler().fit(X), tmp_path / "model")
    return tmp_path / "model"


def compact(content):
    return json.dumps(content, separators=(",", ":")).encode()


def forge(folder, change=lambda _: None, **files):
    """Change the manifest and files, with every checksum as it should be."""
    content = json.loads((folder / "model.json").read_bytes())
    del content["checksum"]
    for stem, written in files.items():
        (path,) = folder.glob(stem.replace("_", "-") + ".*")
        path.write_bytes(written)
        content["files"][path.name] = hashlib.sha256(written).hexdigest()
    change(content)
    seal = hashlib.sha256(compact(content)).hexdigest()
    (folder / "model.json").write_bytes(compact({**content, "checksum": seal}))


def refusal(folder, **options):
    with pytest.raises(InputError) as refused:
        load(folder, **options)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def skops_file(node):
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("schema.json", json.dumps({**node, "protocol": 2, "_skops_version": "0.16"}))
    return written.getvalue()


def text(value):
    return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(value)}


def many(*nodes, kind="tuple", **ids):
    names = {"__class__": kind, "__module__": "builtins", "__loader__": f"{kind.title()}Node"}
    return {**names, "content": list(nodes), **ids}


def call(module, function, *arguments):
    names = {"__class__": function, "__module__": module, "__loader__": "ConstructorFromReduceNode"}
    return {**names, "content": many(*arguments)}


def test_what_is_forged_without_a_change_is_still_read(folder):
    forge(folder)
    assert isinstance(load(folder), ERMClassifier)


# Code


def test_a_skops_file_that_would_call_the_shell_is_refused_and_does_nothing(sklearn_folder, tmp_path):
    written = skops_file(call("posix", "system", text(f"touch '{tmp_path}/ran'")))
    forge(sklearn_folder, part_0=written)
    assert "contains a 'posix.system', which is not a trusted type" in refusal(sklearn_folder)
    assert not (tmp_path / "ran").exists()
    skops.io.loads(written, trusted=["posix.system"])  # the forgery is a real one
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("loader", ["ObjectNode", "FunctionNode", "TypeNode", "ListNode", "MethodNode", "LossNode"])
def test_no_kind_of_skops_node_reaches_a_function_that_is_not_trusted(loader, sklearn_folder, tmp_path):
    node = {**call("posix", "mkdir", text(f"{tmp_path}/ran")), "__loader__": loader}
    forge(sklearn_folder, part_0=skops_file(node))
    refusal(sklearn_folder)
    assert not (tmp_path / "ran").exists()


def test_a_function_hidden_in_a_transformer_is_refused_by_name(tmp_path):
    save(FunctionTransformer(np.log1p).fit(X), tmp_path / "model")
    forge(tmp_path / "model", part_0=skops.io.dumps(FunctionTransformer(skops.io.load).fit(X)))
    assert "'skops.io._persist.load'" in refusal(tmp_path / "model")


@pytest.mark.parametrize("part", ["arrays", "extra"])
def test_a_pickle_in_place_of_a_file_is_refused_and_does_nothing(part, folder, tmp_path):
    pickled = f"cposix\nsystem\n(S'touch {tmp_path}/ran'\ntR.".encode()
    forge(folder, **{part: pickled})
    with pytest.raises(InputError, match=r"cannot load|not a JSON object"):
        load_extra(folder) if part == "extra" else load(folder)
    assert not (tmp_path / "ran").exists()


def test_a_skops_file_of_something_else_than_an_estimator_is_refused(sklearn_folder):
    forge(sklearn_folder, part_0=skops.io.dumps({"a": 1}))
    assert "a dict is not an estimator" in refusal(sklearn_folder)


# The manifest


def part(folder_content):
    return folder_content["parts"][-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: part(c).update(kind="os.system"), "unknown estimator type 'os.system'"),
        (lambda c: part(c)["params"].update(speed=1), "ERMClassifier has no parameter 'speed'"),
        (lambda c: part(c)["learned"].update(label_scores=1), "ERMClassifier has no fitted attribute 'label_scores'"),
        (lambda c: part(c)["learned"].update(__class__=1), "ERMClassifier has no fitted attribute '__class__'"),
        (lambda c: part(c)["learned"].update(classes_={"import": "os"}), "unknown tag 'import'"),
        (lambda c: part(c)["learned"].update(classes_={"a": 1, "b": 2}), r"found the keys \['a', 'b'\]"),
        (lambda c: part(c)["learned"].update(encoder_={"part": 1}), "part 1 is used before it is defined"),
        (lambda c: part(c)["learned"].update(encoder_={"part": -1}), "part -1 is used before it is defined"),
        (lambda c: part(c)["learned"].pop("classes_"), "AttributeError.*versions match"),
        (lambda c: part(c)["params"].update(hidden=10**15), "does not fit the network.*1000000000000000"),
        (lambda c: part(c)["params"].update(hidden="wide"), "cannot load"),
        (lambda c: part(c)["params"].update(network={"function": "a b"}), r"network=…\)"),
        (lambda c: part(c).pop("params"), "KeyError"),
        (lambda c: c.update(parts=[]), "IndexError"),
        (lambda c: c.update(parts=3), "TypeError"),
        (lambda c: c.update(versions={"torch": "0.1"}, parts=3), "saved with numpy None.*torch 0.1, here"),
        (lambda c: c.update(versions=7, parts=3), "saved with numpy None"),
    ],
)
def test_a_manifest_that_says_what_no_model_says_is_refused(change, message, folder):
    forge(folder, change)
    with pytest.raises(InputError, match=message):
        load(folder)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "part-0.pkl", "model.json", "part-0.skops/x"])
def test_a_manifest_cannot_point_out_of_its_folder(name, folder):
    forge(folder, lambda content: content["files"].update({name: "0" * 64}))
    assert "lists files that a model cannot contain" in refusal(folder)


def test_files_that_are_no_list_of_files_are_refused(folder):
    forge(folder, lambda content: content.update(files=["part-0.skops"]))
    assert "lists files that a model cannot contain" in refusal(folder)


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 10**9, "1", None])
def test_a_newer_format_is_refused_with_advice(version, folder):
    forge(folder, lambda content: content.update(format_version=version))
    assert "upgrade domaincover" in refusal(folder)


def test_a_model_of_an_earlier_format_is_refused_with_advice(folder):
    forge(folder, lambda content: content.update(format_version=FORMAT_VERSION - 1))
    assert "saved by an earlier domaincover, whose models it cannot read; fit the model anew" in refusal(folder)


def test_extra_that_is_no_object_is_refused(folder):
    forge(folder, extra=b"[1]")
    with pytest.raises(InputError, match=r"extra\.json is not a JSON object"):
        load_extra(folder)


def test_nesting_without_end_is_refused(folder):
    head = b'{"format":"domaincover-model","format_version":3,"parts":' + b"[" * 100_000 + b"]" * 100_000
    seal = hashlib.sha256(head + b"}").hexdigest().encode()
    (folder / "model.json").write_bytes(head + b',"checksum":"' + seal + b'"}')
    assert "model.json is corrupt" in refusal(folder)


@pytest.mark.parametrize(
    "value",
    [
        {"array": {"dtype": "<f8", "shape": [10**12], "items": []}},
        {"array": {"dtype": "<U999999", "shape": [1000], "items": ["a"] * 1000}},
        {"array": {"dtype": "<f8,(9999999,)f8", "shape": [1], "items": [1]}},
        {"array": {"dtype": "|V1000", "shape": [1], "items": [1]}},
        {"timestamp": [1, "fortnight"]},
        {"date": "yesterday"},
        {"dict": [[[1], 2]]},
        {"table": [[[0], None, False], [["a", "b"], None, True], [[1]]]},
    ],
    ids=str,
)
def test_values_that_nobody_wrote_are_refused(value, folder):
    forge(folder, lambda content: part(content)["learned"].update(classes_=value))
    assert "cannot load" in refusal(folder)


# Files that unfold without end


def test_a_skops_file_whose_objects_double_at_every_step_is_refused_at_once(sklearn_folder):
    node = many(text("ha"), kind="list", __id__=1)
    for number in range(2, 80):
        node = many(node, {"__id__": number - 1, "__loader__": "ListNode"}, kind="list", __id__=number)
    forge(sklearn_folder, part_0=skops_file(node))
    assert "two different objects with one id" in refusal(sklearn_folder)


def test_a_compressed_skops_file_is_refused(sklearn_folder):
    written = skops.io.dumps(StandardScaler().fit(X), compression=zipfile.ZIP_DEFLATED)
    forge(sklearn_folder, part_0=written)
    assert "the skops file is compressed" in refusal(sklearn_folder)


def test_a_skops_file_nested_without_end_is_refused(sklearn_folder):
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("schema.json", "[" * 100_000)
    forge(sklearn_folder, part_0=written.getvalue())
    assert "RecursionError" in refusal(sklearn_folder)


# Numbers that compiled code would follow out of its arrays


def refused_with(forged, tmp_path):
    """Return the line on which an estimator is refused when it comes in a forged folder."""
    save(StandardScaler().fit(X), tmp_path / "model")
    forge(tmp_path / "model", part_0=skops.io.dumps(forged))
    return refusal(tmp_path / "model")


@pytest.mark.parametrize(
    "holder", [lambda tree: make_pipeline(tree), lambda tree: CalibratedClassifierCV(tree, cv=2), FrozenEstimator]
)
def test_a_decision_tree_that_compiled_code_would_follow_is_refused(holder, tmp_path):
    model = holder(DecisionTreeClassifier(max_depth=2).fit(X, y)).fit(X, y)
    assert "contains a 'sklearn.tree._tree.Tree', which is not a trusted type" in refused_with(model, tmp_path)


def test_histogram_boosting_that_compiled_code_would_follow_is_refused(tmp_path):
    model = HistGradientBoostingClassifier(max_iter=2).fit(X, y)
    assert "which is not a trusted type" in refused_with(model, tmp_path)


def test_a_tree_with_a_forged_node_is_not_saved(tmp_path):
    model = RandomForestClassifier(2, random_state=0).fit(X, y)
    state = model.estimators_[1].tree_.__getstate__()
    state["nodes"]["left_child"][0] = 0
    model.estimators_[1].tree_.__setstate__(state)
    with pytest.raises(InputError, match="a split does not come before its children"):
        save(model, tmp_path / "model")


def test_a_forged_tree_of_neighbours_is_built_again_from_its_data(tmp_path):
    model = KNeighborsClassifier(algorithm="kd_tree", leaf_size=5).fit(X, y)
    before = model.predict_proba(X)
    state = list(model._tree.__getstate__())
    state[1] = np.full(len(X), 10**12)  # where the rows are
    model._tree.__setstate__(tuple(state))
    save(StandardScaler().fit(X), tmp_path / "model")
    forge(tmp_path / "model", part_0=skops.io.dumps(model))
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), before)


def test_a_sparse_matrix_with_forged_columns_is_refused(tmp_path):
    model = KNeighborsClassifier().fit(csr_matrix(X), y)
    model._fit_X.indices[0] = 10**6
    assert "cannot load" in refused_with(make_pipeline(model), tmp_path)
