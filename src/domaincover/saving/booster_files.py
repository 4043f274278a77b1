"""Check the files of boosted trees, and write them anew from what was checked.

Every tree is a table of nodes: children follow their parent and lie within the tree, and columns within the table, so
that a walk from the root ends at a leaf. Parts that domaincover does not check (categories as sets, linear leaves,
trees with weights) are rejected: encode categories with `TableEncoder`.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError

Json = Any
MOST_FEATURES = 10_000_000
DEEPEST = 16  # levels of CatBoost's trees, which has the same limit
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


class LightGBMForest(NamedTuple):
    """A checked model of LightGBM as text, and what its classifier has to know."""

    text: str
    objective: str
    n_features: int
    has_names: bool


def _need(fact: bool | np.bool_, what: str) -> None:
    if not fact:
        raise InputError(f"boosted trees: {what}; no model that can be saved is like that.")


def _check_children(left: NDArray[Any], right: NDArray[Any], split: NDArray[Any], n_nodes: int) -> None:
    """Require both children of every split to follow it, within the tree."""
    inside = (left > split) & (right > split) & (left < n_nodes) & (right < n_nodes)
    _need(inside.all(), "a node refers to a child out of bounds")


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
    _need("leaf_value" in kept, "a tree has no leaves")
    if n_splits:
        needed = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
        _need(all(name in kept for name in needed), "a tree lacks its splits")
        split, left, right = np.arange(n_splits), kept["left_child"], kept["right_child"]
        for child in (left, right):  # leaves are numbered -1, -2, …
            _need((child >= -n_leaves).all(), "a node refers to a leaf out of bounds")
        left, right = (np.where(child < 0, n_splits, child) for child in (left, right))
        _check_children(left, right, split, n_splits + 1)
        _need(((kept["split_feature"] >= 0) & (kept["split_feature"] < n_features)).all(), "a column is out of bounds")
        _need(((kept["decision_type"] & 1) == 0).all(), "a tree has categories")
    numbers = [f"{name}={' '.join(map(repr, values.tolist()))}" for name, values in kept.items() if len(values)]
    shrinkage = float(given.get("shrinkage", 1))
    return "\n".join(
        [f"Tree={number}", f"num_leaves={n_leaves}", "num_cat=0", *numbers, f"shrinkage={shrinkage!r}\n\n"]
    )


def checked_xgboost(content: bytes, n_classes: int) -> bytes:
    """Return the JSON of an XGBoost model after checking its trees."""
    model = json.loads(content)
    learner = model["learner"]
    booster, shape = learner["gradient_booster"], learner["learner_model_param"]
    _need(booster["name"] == "gbtree", "XGBoost has another booster than gbtree")
    _need(learner["objective"]["name"] in ("binary:logistic", "multi:softprob", "multi:softmax"), "unknown objective")
    n_features, n_groups = int(shape["num_feature"]), max(1, int(shape["num_class"]))
    _need(0 < n_features <= MOST_FEATURES, "the number of columns is wrong")
    _need(n_groups == (1 if n_classes == 2 else n_classes), "the number of classes is wrong")
    _need(int(shape.get("num_target", "1")) == 1, "there are several targets")
    is_binary = learner["objective"]["name"].startswith("binary")
    _need(is_binary == (n_groups == 1), "the number of classes does not fit the objective")
    for name in ("feature_names", "feature_types"):
        _need(len(learner.get(name, [])) in (0, n_features), "the number of columns is wrong")
    forest = booster["model"]
    trees, info, starts = forest["trees"], forest["tree_info"], forest.get("iteration_indptr", [])
    n_trees = int(forest["gbtree_model_param"]["num_trees"])
    _need(n_trees == len(trees) == len(info) > 0, "the number of trees is wrong")
    _need(all(isinstance(group, int) and 0 <= group < n_groups for group in info), "a tree has no class")
    if starts:
        steps = np.asarray(starts)
        _need(steps.dtype.kind == "i" and steps[0] == 0 and steps[-1] == n_trees, "the rounds are wrong")
        _need((np.diff(steps) > 0).all(), "the rounds are wrong")
    _need(not any((forest.get("cats") or {}).values()), "a column holds categories")
    for tree in trees:
        _check_xgboost_tree(tree, n_features)
    return json.dumps(model).encode()


def _check_xgboost_tree(tree: Json, n_features: int) -> None:
    n_nodes, width = int(tree["tree_param"]["num_nodes"]), int(tree["tree_param"]["size_leaf_vector"])
    _need(int(tree["tree_param"]["num_feature"]) == n_features and width <= 1, "a tree is of another table")
    names = ("left_children", "right_children", "split_indices", "parents", "default_left", "split_type")
    left, right, column, parents, *flags = (np.asarray(tree[name], dtype=np.int64) for name in names)
    numbers = [np.asarray(tree[name], dtype=float) for name in ("split_conditions", "base_weights", "sum_hessian")]
    lengths = {len(part) for part in (left, right, column, parents, *flags, *numbers, tree["loss_changes"])}
    _need(lengths == {n_nodes} and n_nodes > 0, "a tree has a wrong number of nodes")
    _need(not (tree["categories"] or tree["categories_nodes"] or flags[1].any()), "a tree has categories")
    split = np.flatnonzero(left != -1)
    _need(np.array_equal(split, np.flatnonzero(right != -1)), "a node has one child")
    _check_children(left[split], right[split], split, n_nodes)
    _need((parents[left[split]] == split).all() and (parents[right[split]] == split).all(), "a parent is wrong")
    _need(((column >= 0) & (column < n_features)).all(), "a column is out of bounds")


def checked_catboost(content: bytes, n_classes: int) -> bytes:
    """Return the JSON of a CatBoost model with nothing but what was checked."""
    model = json.loads(content)
    info, trees = model["features_info"], model.get("oblivious_trees", [])
    _need(set(info) == {"float_features"}, "CatBoost has other columns than numbers")
    _need(len(trees) > 0, "CatBoost has no symmetric trees")
    columns = info["float_features"]
    places = [(one["feature_index"], one["flat_feature_index"]) for one in columns]
    _need(places == [(k, k) for k in range(len(columns))], "columns are not numbered from 0")
    n_outputs = 1 if n_classes == 2 else n_classes
    borders = [(k, border) for k, one in enumerate(columns) for border in one["borders"] or []]
    for tree in trees:
        splits, leaves = tree["splits"] or [], tree["leaf_values"]
        _need(len(splits) <= DEEPEST and len(leaves) == n_outputs * 2 ** len(splits), "a tree has a wrong size")
        for split in splits:
            place = split["split_index"]
            _need(split["split_type"] == "FloatFeature" and type(place) is int, "a split is not of a number")
            found = 0 <= place < len(borders) and borders[place] == (split["float_feature_index"], split["border"])
            _need(found, "a split is out of bounds")
    scale, bias = model["scale_and_bias"]
    _need(len(bias) == n_outputs, "the number of classes is wrong")
    classes, loss = model["model_info"]["class_params"], model["model_info"]["params"]["loss_function"]["type"]
    _need(loss == ("Logloss" if n_outputs == 1 else "MultiClass"), f"the loss {str(loss)[:40]!r} is unknown")
    _need(len(classes["class_names"]) == n_classes, "the number of classes is wrong")
    kept = {"class_params": classes, "params": {"loss_function": {"type": loss, "params": {}}}}
    trees = [{"splits": tree["splits"], "leaf_values": tree["leaf_values"]} for tree in trees]
    return json.dumps(
        {"features_info": info, "model_info": kept, "oblivious_trees": trees, "scale_and_bias": [scale, bias]}
    ).encode()
