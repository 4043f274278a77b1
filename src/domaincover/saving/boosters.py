"""Boosted trees of LightGBM and XGBoost in their own formats, text and JSON.

Their readers are compiled and trust what they read: a forged child, column or number of classes would be followed out
of bounds. So a file is parsed here first, every index is checked, and the compiled reader gets what was checked,
written anew. Nothing in these formats can name a function or a file.

Every tree is a table of nodes: children follow their parent and lie within the tree, and columns within the table, so
that a walk from the root ends at a leaf. Parts that are not checked (categories as sets, linear leaves, trees with
weights) are rejected: encode categories with `TableEncoder`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError
from domaincover.saving.values import Json, from_json, to_json

MOST_FEATURES = 10_000_000  # bounds the memory of the one row that is predicted as a check
LIGHTGBM_OBJECTIVES = re.compile(r"(binary|multiclass|multiclassova)( [a-z_]+:[0-9.e+\-]+)*")
# Of a LightGBM tree, by type: as many numbers as it has leaves, or splits.
OF_LEAVES = {"leaf_value": float, "leaf_weight": float, "leaf_count": int}
OF_SPLITS = {
    "split_feature": int,
    "threshold": float,
    "decision_type": int,
    "left_child": int,
    "right_child": int,
    "split_gain": float,
    "internal_value": float,
    "internal_weight": float,
    "internal_count": int,
}
# Of an XGBoost tree: as many numbers as it has nodes.
OF_NODES = {
    **dict.fromkeys(("left_children", "right_children", "split_indices", "parents", "default_left"), np.int64),
    "split_type": np.int64,
    **dict.fromkeys(("split_conditions", "base_weights", "sum_hessian", "loss_changes"), np.float64),
}
OF_CATEGORIES = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
NO_PARENT = 2**31 - 1
XGBOOST_OBJECTIVES = ("binary:logistic", "multi:softprob", "multi:softmax")
XGBOOST_TYPES = ("float", "int", "i", "q")
# Parameters with text that is a choice, not a place; other texts are not needed to predict, and are left out.
CHOICES = {
    *("boosting_type", "booster", "grow_policy", "importance_type"),
    *("multi_strategy", "objective", "sampling_method", "tree_method"),
}


class Format(NamedTuple):
    """How a package's classifier is written as data, and made from it again."""

    package: str
    suffix: str
    is_fitted: Callable[[Any], bool]
    written: Callable[[Any], bytes]
    restored: Callable[[Any, bytes, NDArray[Any]], Any]


def is_booster(model: object) -> bool:
    """Tell whether a classifier is one of LightGBM or XGBoost."""
    kind = type(model)
    return kind.__name__ in FORMATS and kind.__module__.split(".")[0] == FORMATS[kind.__name__].package


def booster_part(model: Any) -> tuple[Json, str, bytes | None]:
    """Return a booster as a part, and the suffix and content of its file; None if it is not fitted."""
    name = type(model).__name__
    form = FORMATS[name]
    params = {key: value for key, value in model.get_params(deep=False).items() if _is_kept(key, value)}
    is_fitted = form.is_fitted(model)
    classes = to_json(np.asarray(model.classes_)) if is_fitted else None
    part = {"kind": name, "params": {key: to_json(value) for key, value in params.items()}, "classes": classes}
    if not is_fitted:
        return part, form.suffix, None
    content = form.written(model)
    read_booster(part, content)  # what could not be loaded is not saved
    return part, form.suffix, content


def booster_suffix(part: Json) -> str:
    """Return the suffix of a booster's file."""
    return FORMATS[part["kind"]].suffix


def read_booster(part: Json, content: bytes | None) -> Any:
    """Return the classifier of a part and its file."""
    name = part["kind"]
    form = FORMATS[name]
    params = {key: from_json(value) for key, value in part["params"].items()}
    for key, value in params.items():
        if not _is_kept(key, value):
            raise InputError(f"{name} has a parameter {key!r} that is neither a number nor a choice.")
    if find_spec(form.package) is None:
        raise InputError(f"the model holds a {name}, but {form.package} is not installed: pip install {form.package}.")
    model = getattr(import_module(form.package), name)(**params)
    if part["classes"] is None or content is None:
        return model
    return form.restored(model, content, from_json(part["classes"]))


def _is_kept(name: str, value: Any) -> bool:
    """Tell whether a parameter is saved: numbers and choices, but no texts that may be names of files."""
    if isinstance(value, str):
        return name in CHOICES
    return value is None or isinstance(value, bool | int | float | np.number)


def _lightgbm_bytes(model: Any) -> bytes:
    text: str = model.booster_.model_to_string()
    return text.split("\nend of trees", maxsplit=1)[0].encode() + b"\nend of trees\n"


def _restored_lightgbm(model: Any, content: bytes, classes: NDArray[Any]) -> Any:
    from lightgbm import Booster
    from sklearn.preprocessing import LabelEncoder

    forest = checked_lightgbm(content, len(classes))
    encoder = LabelEncoder()
    encoder.classes_ = classes
    booster = Booster(model_str=forest.text)
    # What its own fit sets, since the package restores a booster but no classifier.
    vars(model).update(
        _Booster=booster,
        _best_iteration=0,
        _objective=forest.objective,
        _n_features=forest.n_features,
        _n_features_in=forest.n_features,
        _fitted_with_feature_names=forest.has_names,
        _classes=classes,
        _n_classes=len(classes),
        _class_map=dict(zip(classes.tolist(), range(len(classes)), strict=True)),
        _le=encoder,
        fitted_=True,
    )
    return model


def _xgboost_bytes(model: Any) -> bytes:
    return bytes(model.get_booster().save_raw("json"))


def _restored_xgboost(model: Any, content: bytes, classes: NDArray[Any]) -> Any:
    if not np.array_equal(classes, np.arange(len(classes))):
        raise InputError("the classes of an XGBClassifier are numbers from 0.")
    model.load_model(bytearray(checked_xgboost(content, len(classes))))
    return model


class LightGBMForest(NamedTuple):
    """A checked model of LightGBM as text, and what its classifier has to know."""

    text: str
    objective: str
    n_features: int
    has_names: bool


def need(fact: bool | np.bool_, what: str) -> None:
    """Reject what no fitted model is like."""
    if not fact:
        raise InputError(f"{what}; no fitted model is like that.")


def _need(fact: bool | np.bool_, what: str) -> None:
    need(fact, f"boosted trees: {what}")


def check_children(left: NDArray[Any], right: NDArray[Any], split: NDArray[Any], n_nodes: int) -> None:
    """Require both children of every split to follow it, so that every walk ends, and to lie within the tree."""
    inside = (left > split) & (right > split) & (left < n_nodes) & (right < n_nodes)
    need(inside.all(), "a tree node refers to a child out of bounds")


def checked_lightgbm(content: bytes, n_classes: int) -> LightGBMForest:
    """Return the text of a LightGBM model with nothing but what was checked."""
    head, *trees = content.decode("ascii", "strict").split("\nend of trees")[0].split("\nTree=")
    given = _fields(head)
    n_outputs = 1 if n_classes == 2 else n_classes
    n_features = int(given["max_feature_idx"]) + 1
    _need(0 < n_features <= MOST_FEATURES, "the number of columns is wrong")
    objective = given["objective"]
    _need(LIGHTGBM_OBJECTIVES.fullmatch(objective) is not None, f"the objective {objective[:40]!r} is unknown")
    per_round = [int(given[name]) for name in ("num_class", "num_tree_per_iteration")]
    stated = re.search(r"num_class:(\d+)", objective)
    _need(per_round == [n_outputs] * 2, "the number of classes is wrong")
    _need(stated is None or int(stated[1]) == n_outputs, "the number of classes is wrong")
    _need((n_outputs == 1) == objective.startswith("binary"), "the number of classes does not fit the objective")
    _need(bool(trees) and len(trees) % n_outputs == 0, "the number of trees is wrong")
    names = given["feature_names"].split(" ")
    _need(len(names) == n_features, "the number of columns is wrong")
    average = ["average_output"] if "average_output" in head.split("\n") else []
    lines = [
        *("tree", "version=v4", f"num_class={n_outputs}", f"num_tree_per_iteration={n_outputs}", "label_index=0"),
        *(f"max_feature_idx={n_features - 1}", f"objective={objective}", *average, f"feature_names={' '.join(names)}"),
        f"feature_infos={' '.join(['none'] * n_features)}\n",
    ]
    texts = [_lightgbm_tree(tree, number, n_features) for number, tree in enumerate(trees)]
    has_names = names != [f"Column_{k}" for k in range(n_features)]
    text = "\n".join([*lines, *texts, "end of trees\n"])
    return LightGBMForest(text, objective.split(" ")[0], n_features, has_names)


def _fields(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)


def _lightgbm_tree(text: str, number: int, n_features: int) -> str:
    given = _fields(text)
    n_leaves, n_splits = int(given["num_leaves"]), int(given["num_leaves"]) - 1
    _need(given["num_cat"] == "0" and given.get("is_linear", "0") == "0", "a tree has categories or linear leaves")
    _need(1 <= n_leaves <= len(text), "a tree has a wrong number of leaves")
    kept: dict[str, NDArray[Any]] = {}
    for kinds, n in ((OF_SPLITS, n_splits), (OF_LEAVES, n_leaves)):
        for name in kinds.keys() & given.keys():
            kept[name] = np.array(given[name].split(), dtype=kinds[name])
            _need(len(kept[name]) == n or (name != "leaf_value" and n_leaves == 1), f"{name} has a wrong length")
            _need(not name.endswith("_count") or (np.abs(kept[name]) < 2**31).all(), f"{name} is out of bounds")
    _need("leaf_value" in kept, "a tree has no leaves")
    if n_splits:
        needed = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
        _need(all(name in kept for name in needed), "a tree lacks its splits")
        split, left, right = np.arange(n_splits), kept["left_child"], kept["right_child"]
        for child in (left, right):  # leaves are numbered -1, -2, …
            _need((child >= -n_leaves).all(), "a node refers to a leaf out of bounds")
        left, right = (np.where(child < 0, n_splits, child) for child in (left, right))
        check_children(left, right, split, n_splits + 1)
        _need(((kept["split_feature"] >= 0) & (kept["split_feature"] < n_features)).all(), "a column is out of bounds")
        _need(((kept["decision_type"] & 1) == 0).all(), "a tree has categories")
        _need(np.isin(kept["decision_type"], range(0, 12, 2)).all(), "a missing value has no side")
    numbers = [f"{name}={' '.join(map(repr, values.tolist()))}" for name, values in kept.items() if len(values)]
    shrinkage = float(given.get("shrinkage", 1))
    return "\n".join(
        [f"Tree={number}", f"num_leaves={n_leaves}", "num_cat=0", *numbers, f"shrinkage={shrinkage!r}\n\n"]
    )


def checked_xgboost(content: bytes, n_classes: int) -> bytes:
    """Return the JSON of an XGBoost model with nothing but what was checked."""
    model = json.loads(content)
    learner = model["learner"]
    booster, shape, objective = (
        learner["gradient_booster"],
        learner["learner_model_param"],
        learner["objective"]["name"],
    )
    _need(booster["name"] == "gbtree", "XGBoost has another booster than gbtree")
    _need(objective in XGBOOST_OBJECTIVES, "unknown objective")
    n_features, n_groups = int(shape["num_feature"]), max(1, int(shape["num_class"]))
    _need(0 < n_features <= MOST_FEATURES, "the number of columns is wrong")
    _need(n_groups == (1 if n_classes == 2 else n_classes), "the number of classes is wrong")
    _need(int(shape.get("num_target", "1")) == 1, "there are several targets")
    _need((objective == "binary:logistic") == (n_groups == 1), "the number of classes does not fit the objective")
    names, types = (learner.get(name, []) for name in ("feature_names", "feature_types"))
    _need(all(len(given) in (0, n_features) for given in (names, types)), "the number of columns is wrong")
    _need(all(type(name) is str for name in names), "a name of a column is no text")
    _need(all(kind in XGBOOST_TYPES for kind in types), "a column is not of numbers")
    has_brackets = shape["base_score"].startswith("[")  # since version 3
    base_score = [float(score) for score in shape["base_score"].strip("[]").split(",")]
    _need(len(base_score) in (1, n_groups) and np.isfinite(base_score).all(), "the base score is wrong")
    base_text = ",".join(map(repr, base_score))
    _need(len(model["version"]) == 3 and all(type(n) is int and n >= 0 for n in model["version"]), "no known version")
    number = str(n_groups if n_groups > 1 else 0)
    forest = _checked_forest(booster["model"], n_features, n_groups)
    of_objective = {"softmax_multiclass_param": {"num_class": number}, "reg_loss_param": {"scale_pos_weight": "1"}}
    kept = {
        "attributes": _best_round(learner.get("attributes", {}), len(forest["trees"])),
        "feature_names": names,
        "feature_types": types,
        "gradient_booster": {"model": forest, "name": "gbtree"},
        "learner_model_param": {
            "base_score": f"[{base_text}]" if has_brackets else base_text,
            "boost_from_average": "1",
            "num_class": number,
            "num_feature": str(n_features),
            "num_target": "1",
        },
        "objective": {"name": objective, **of_objective},
    }
    return json.dumps({"learner": kept, "version": model["version"]}).encode()


def _best_round(attributes: Json, n_trees: int) -> dict[str, str]:
    """Return the round after which more were no better, which predictions end with."""
    if "best_iteration" not in attributes:
        return {}
    best = int(attributes["best_iteration"])
    _need(0 <= best < n_trees, "the best round is out of bounds")
    return {"best_iteration": str(best), "best_score": repr(float(attributes.get("best_score", 0)))}


def _checked_forest(forest: Json, n_features: int, n_groups: int) -> dict[str, Json]:
    trees, info, starts = forest["trees"], forest["tree_info"], forest.get("iteration_indptr", [])
    sizes = {name: int(forest["gbtree_model_param"][name]) for name in ("num_trees", "num_parallel_tree")}
    n_trees = sizes["num_trees"]
    _need(n_trees == len(trees) == len(info) > 0, "the number of trees is wrong")
    _need(0 < sizes["num_parallel_tree"] <= n_trees, "the number of trees is wrong")
    _need(all(type(group) is int and 0 <= group < n_groups for group in info), "a tree has no class")
    if starts:
        _need(all(type(start) is int for start in starts), "the rounds are wrong")
        _need(starts[0] == 0 and starts[-1] == n_trees and (np.diff(starts) > 0).all(), "the rounds are wrong")
    _need(not any((forest.get("cats") or {}).values()), "a column holds categories")
    return {
        "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
        "gbtree_model_param": {name: str(size) for name, size in sizes.items()},
        **({"iteration_indptr": starts} if starts else {}),
        "tree_info": info,
        "trees": [_xgboost_tree(tree, number, n_features) for number, tree in enumerate(trees)],
    }


def _xgboost_tree(tree: Json, number: int, n_features: int) -> dict[str, Json]:
    shape = {name: int(tree["tree_param"][name]) for name in ("num_nodes", "size_leaf_vector", "num_feature")}
    n_nodes, n_deleted = shape["num_nodes"], int(tree["tree_param"].get("num_deleted", "0"))
    _need(shape["num_feature"] == n_features and shape["size_leaf_vector"] in (0, 1), "a tree is of another table")
    _need(n_nodes > 0 and 0 <= n_deleted < n_nodes, "a tree has a wrong number of nodes")
    kept = {name: np.asarray(tree[name], dtype=kind) for name, kind in OF_NODES.items()}
    _need(all(part.shape == (n_nodes,) for part in kept.values()), "a tree has a wrong number of nodes")
    no_categories: dict[str, Json] = {name: [] for name in OF_CATEGORIES}
    _need(not any(tree.get(name) for name in no_categories) and not kept["split_type"].any(), "a tree has categories")
    names = ("left_children", "right_children", "split_indices", "parents")
    left, right, column, parents = (kept[name] for name in names)
    split = np.flatnonzero(left != -1)
    _need(np.array_equal(split, np.flatnonzero(right != -1)), "a node has one child")
    check_children(left[split], right[split], split, n_nodes)
    _need((parents[left[split]] == split).all() and (parents[right[split]] == split).all(), "a parent is wrong")
    _need((((parents >= 0) & (parents < n_nodes)) | (parents == NO_PARENT)).all(), "a parent is out of bounds")
    _need(((column >= 0) & (column < n_features)).all(), "a column is out of bounds")
    _need(np.isin(kept["default_left"], (0, 1)).all(), "a missing value has no side")
    written = {name: part.tolist() for name, part in kept.items()}
    sizes = {name: str(size) for name, size in {**shape, "num_deleted": n_deleted}.items()}
    return {"id": number, **written, **no_categories, "tree_param": sizes}


FORMATS = {
    "LGBMClassifier": Format(
        "lightgbm", "txt", lambda model: bool(getattr(model, "fitted_", False)), _lightgbm_bytes, _restored_lightgbm
    ),
    "XGBClassifier": Format(
        "xgboost", "json", lambda model: getattr(model, "_Booster", None) is not None, _xgboost_bytes, _restored_xgboost
    ),
}
