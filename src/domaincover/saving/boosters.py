"""Boosted trees of LightGBM and XGBoost in their own formats, text and JSON.

Their readers are compiled and trust what they read: a forged child, column or number of classes would be followed out
of bounds. So a file is parsed here first, every index is checked, and the compiled reader gets what was checked,
written anew. Nothing in these formats can name a function or a file.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError
from domaincover.saving.booster_files import checked_lightgbm, checked_xgboost
from domaincover.saving.values import Json, from_json, to_json

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


FORMATS = {
    "LGBMClassifier": Format(
        "lightgbm", "txt", lambda model: bool(getattr(model, "fitted_", False)), _lightgbm_bytes, _restored_lightgbm
    ),
    "XGBClassifier": Format(
        "xgboost", "json", lambda model: getattr(model, "_Booster", None) is not None, _xgboost_bytes, _restored_xgboost
    ),
}
