"""Serialize estimators as a flat list of parts, each after the parts it refers to.

A domaincover estimator is stored as JSON (parameters and fitted attributes) with network weights as safetensors; a
pipeline as its steps; any other scikit-learn estimator as a skops file. No name in a file is ever imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from domaincover.calibration.adaptation import FamiliarityTable
from domaincover.errors import InputError
from domaincover.networks.dense_layers import DenseLayers, checked_layers, layer_widths
from domaincover.predictors.promised_predictor import PromisedPredictor
from domaincover.predictors.table_predictors import NetworkPredictor
from domaincover.saving.values import Json, from_json, raise_unsupported, to_json

if TYPE_CHECKING:
    from domaincover.estimators.network import MakeNetwork
    from domaincover.estimators.source_network import Backbone


class Home(NamedTuple):
    """The module of an estimator, and what predicts for it without scikit-learn: its module and class."""

    module: str
    predictor: tuple[str, str] | None = None


# The estimators that a folder may name. Modules are imported only for those that a folder holds, since some take long
# and others need torch.
TABLES, CALIBRATED = "domaincover.predictors.table_predictors", "domaincover.predictors.calibrated_predictors"
NETWORKS, SETS = "domaincover.estimators.network_classifiers", "domaincover.estimators.calibrated_classifiers"
TREES, NUMBERS = (TABLES, "TreesPredictor"), (TABLES, "NumbersPredictor")
OF_TREES = {  # whose trees are saved, and predict, as a `Forest`
    "DecisionTreeClassifier": Home("sklearn.tree", TREES),
    "ExtraTreesClassifier": Home("sklearn.ensemble", TREES),
    "GradientBoostingClassifier": Home("sklearn.ensemble", TREES),
    "HistGradientBoostingClassifier": Home("sklearn.ensemble", TREES),
    "HistGradientBoostingRegressor": Home("sklearn.ensemble", NUMBERS),
    "LGBMClassifier": Home("lightgbm", TREES),
    "RandomForestClassifier": Home("sklearn.ensemble", TREES),
    "RandomForestRegressor": Home("sklearn.ensemble", NUMBERS),
    "XGBClassifier": Home("xgboost", TREES),
}
ESTIMATORS = {
    **OF_TREES,
    "Backbone": Home("domaincover.estimators.source_network"),
    "ConformalSetClassifier": Home(SETS, (CALIBRATED, "ConformalPredictor")),
    "DomainGeneralizationClassifier": Home(NETWORKS, (TABLES, "SingleLabelPredictor")),
    "ERMClassifier": Home(NETWORKS, (TABLES, "SingleLabelPredictor")),
    "MeanClassifier": Home("domaincover.estimators.mean", (CALIBRATED, "MeanPredictor")),
    "Pipeline": Home("sklearn.pipeline", (TABLES, "PipelinePredictor")),
    "PromisedIntervalRegressor": Home(
        "domaincover.estimators.intervals", ("domaincover.predictors.interval_predictor", "IntervalPredictor")
    ),
    "PromisedSetClassifier": Home(SETS, ("domaincover.predictors.promised_predictor", "PromisedPredictor")),
    "SetCoverClassifier": Home(NETWORKS, (TABLES, "SetCoverPredictor")),
    "SourceEncoder": Home("domaincover.estimators.source_network"),
    "TableEncoder": Home("domaincover.data.encoding", ("domaincover.data.table_encoding", "TableEncoding")),
}
# Dataclasses that an estimator may hold, saved by their fields.
SETTINGS = {
    "Forest": "domaincover.predictors.forest",
    "ImageNetwork": "domaincover.estimators.image_and_text_networks",
    "ImageReader": "domaincover.data.readers",
    "TextNetwork": "domaincover.estimators.image_and_text_networks",
    "TextReader": "domaincover.data.readers",
}
SKOPS = "skops"
ARRAYS = "arrays.safetensors"  # of all parts
IN_FILES = ("network_", "record_")
SAVED_AS = "_saved_as"  # of a predictor: the estimator that its folder names
# Machine-specific settings: joblib would unpickle a pipeline's memory folder, and a file must not choose where to
# write caches or checkpoints.
LEFT_OUT = {"memory", "run", "cache", "workers", "download", "n_jobs"}
OUTPUT_FORMAT = "_sklearn_output_config"  # set by set_output
TAKING_ANY = ("lightgbm", "xgboost")  # packages whose classifiers take parameters of any name
# Of their parameters, texts that are a choice, not a place; others are left out.
CHOICES = {
    *("boosting_type", "booster", "grow_policy", "importance_type"),
    *("multi_strategy", "objective", "sampling_method", "tree_method"),
}


class Content(NamedTuple):
    """An estimator as a part: the name of its kind, its parameters, and what it has learned."""

    kind: str
    params: dict[str, Any]
    learned: dict[str, Any]


class PartsWriter:
    """Collect parts, arrays and files; an object referenced twice is stored once."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self.parts: list[Json] = []
        self._files: dict[str, bytes] = {}
        self._arrays: dict[str, NDArray[Any]] = {}
        self._trusted = tuple(trusted)
        self._numbers: dict[int, int] = {}

    @property
    def files(self) -> dict[str, bytes]:
        """The files to write, by name."""
        return self._files | ({ARRAYS: safetensors.numpy.save(self._arrays)} if self._arrays else {})

    def add(self, model: Any) -> int:
        """Add an estimator with everything it contains and return its part number; a search as the best it found."""
        model = getattr(model, "best_estimator_", model)
        if id(model) not in self._numbers:
            content = _content_of(model)
            part = {"kind": SKOPS} if content is None else self._part(content)  # first, since it may add parts itself
            number = self._numbers[id(model)] = len(self.parts)
            self.parts.append(part)
            if content is None:
                from domaincover.saving.sklearn_parts import to_skops  # skops takes as long to import as torch

                self._files[f"part-{number}.skops"] = to_skops(model, self._trusted)
            elif (state := _state_of(model)) is not None:
                self._files[f"part-{number}.safetensors"] = _bytes_of(state)
        return self._numbers[id(model)]

    def _part(self, content: Content) -> Json:
        values = {"params": content.params, "learned": content.learned}
        written = {
            place: {name: self._value(content.kind, name, value) for name, value in found.items()}
            for place, found in values.items()
        }
        return {"kind": content.kind, **written}

    def _value(self, kind: str, name: str, value: Any) -> Json:
        if name == "random_state" and hasattr(value, "get_state"):
            return None  # the generator's state is not needed after fitting
        if name == "network" and callable(value):
            return _name_of(value)
        try:
            return to_json(value, self._other)
        except InputError as error:
            raise InputError(f"{name} of {kind} cannot be saved: {error}") from error

    def _other(self, value: Any) -> Json:
        if isinstance(value, np.ndarray):
            name = f"{len(self._arrays)}"
            self._arrays[name] = np.ascontiguousarray(value)
            return {"stored": name}
        if type(value) is DenseLayers:
            return {"layers": {name: self._other(array) for name, array in value.tensors.items()}}
        if _is_estimator(value):
            return {"part": self.add(value)}
        if SETTINGS.get(type(value).__name__) == type(value).__module__:
            return {"settings": [type(value).__name__, self._fields(value)]}
        return raise_unsupported(value)

    def _fields(self, value: Any) -> Json:
        given = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in LEFT_OUT}
        plain = {name: str(part) if isinstance(part, Path) else part for name, part in given.items()}
        return {
            name: _name_of(part) if name in ("module", "backbone") and part is not None else to_json(part, self._other)
            for name, part in plain.items()
        }


class PartsReader:
    """Rebuild estimators from parts, in order; with `to_predict`, predictors where all parts have one."""

    def __init__(
        self,
        files: Mapping[str, bytes],
        network: MakeNetwork | None = None,
        trusted: Iterable[str] = (),
        to_predict: bool = False,
    ) -> None:
        self._files = files
        self._arrays: dict[str, NDArray[Any]] = {}
        self._network = network
        self._trusted = tuple(trusted)
        self._made: list[Any] = []
        self._to_predict = to_predict
        self.used_network = False

    def read(self, parts: list[Json]) -> Any:
        """Return the estimator of the last part."""
        if self._to_predict:
            self._to_predict = parts[-1]["kind"] != "Pipeline" and all(_has_predictor(part, parts) for part in parts)
        self._arrays = safetensors.numpy.load(self._files[ARRAYS]) if ARRAYS in self._files else {}
        for number, part in enumerate(parts):
            self._made.append(self._skops(number) if part["kind"] == SKOPS else self._own(number, part))
        return self._made[-1]

    def _skops(self, number: int) -> Any:
        from domaincover.saving.sklearn_parts import from_skops

        name = f"part-{number}.skops"
        return from_skops(self._files[name], self._trusted, name)

    def _own(self, number: int, part: Json) -> Any:
        home = ESTIMATORS.get(part["kind"])
        if home is None:
            raise InputError(f"unknown estimator type {part['kind']!r}.")
        model = self._unfitted(part, home)
        kind = type(model)
        for name, value in part["learned"].items():
            # hasattr: a name from a file must not shadow a method or property
            if not _is_learned(name) or hasattr(kind, name):
                raise InputError(f"{kind.__name__} has no fitted attribute {name!r}.")
            setattr(model, name, self._value(value))
        if hasattr(model, "thresholds_") and np.shape(model.thresholds_) != np.shape(model.classes_):
            raise InputError(f"{part['kind']} has not one threshold for each label.")
        if part["kind"] == "Backbone":
            return self._backbone(number, model)
        if isinstance(model, PromisedPredictor):
            _check_adaptation(model)
        if isinstance(model, NetworkPredictor) and part["learned"]:
            self._add_weights(model, f"part-{number}.safetensors")
        n_labels = len(getattr(model, "classes_", [0]))  # a regressor's trees have one output
        if part["kind"] in OF_TREES and part["learned"] and n_labels != model.forest_.n_labels:
            raise InputError(f"{part['kind']} has another number of labels than its trees.")
        return model

    def _unfitted(self, part: Json, home: Home) -> Any:
        """Return a part's estimator with its parameters, or what predicts for it."""
        name, params = part["kind"], {name: self._value(value) for name, value in part["params"].items()}
        package = home.module.partition(".")[0]
        if home.predictor is not None and (self._to_predict or find_spec(package) is None):
            return _predictor(name, *home.predictor, params)
        model = _estimator(name, home.module, params)
        if name in OF_TREES and part["learned"]:
            from domaincover.estimators.fitted_trees import TreesClassifier, TreesRegressor

            return TreesClassifier(model) if home.predictor == TREES else TreesRegressor(model)
        return model

    def _value(self, content: Json) -> Any:
        return from_json(
            content,
            {
                "part": self._part,
                "function": self._function,
                "settings": self._settings,
                "stored": lambda name: self._arrays[name].copy(),  # aligned, and to be written to
                "layers": lambda arrays: {name: self._value(array) for name, array in arrays.items()},
            },
        )

    def _settings(self, content: Json) -> Any:
        name, given = content
        kind: Any = getattr(import_module(SETTINGS[name]), name) if name in SETTINGS else None
        if kind is None or not {field.name for field in fields(kind)} - LEFT_OUT >= set(given):
            raise InputError(f"unknown type or fields: {name!r} with {', '.join(map(str, given))}.")
        return kind(**{key: self._value(value) for key, value in given.items()})

    def _backbone(self, number: int, model: Backbone) -> Backbone:
        import safetensors.torch

        from domaincover.estimators.source_network import Backbone

        name = f"part-{number}.safetensors"
        tensors, config = safetensors.torch.load(self._files[name]), json.loads(model.config_)
        function = self._function(config["function"]) if "function" in config else None
        return Backbone.from_state(model.kind, config, tensors, cast(Any, function))

    def _part(self, number: Json) -> Any:
        if type(number) is not int or not 0 <= number < len(self._made):
            raise InputError(f"part {number!r} is used before it is defined.")
        return self._made[number]

    def _function(self, name: Json) -> MakeNetwork:
        if self._network is None:
            given = name if str(name).isidentifier() else "…"
            raise InputError(
                f"the network was made by the function {str(name)!r}, which is not in the folder; pass it: "
                f"load(folder, network={given})."
            )
        self.used_network = True
        return self._network

    def _add_weights(self, model: Any, name: str) -> None:
        if isinstance(model.network, str):
            widths = layer_widths(model.network, model.hidden, model.encoder_.n_features_out, len(model.classes_))
            model.layers_ = checked_layers(model.layers_, widths, ARRAYS)
            return
        from safetensors.torch import load as load_tensors

        tensors = load_tensors(self._files[name])
        model.network_ = model._inputs.rebuilt(model.encoder_, len(model.classes_), tensors, name)


def _estimator(name: str, module: str, params: Mapping[str, Any]) -> Any:
    kind: Any = getattr(import_module(module), name)
    known = set(params) if module in TAKING_ANY else set(kind._get_param_names())
    unknown = [given for given in params if given not in known - LEFT_OUT or not _is_kept(module, given, params)]
    if unknown:
        raise InputError(f"{name} has no parameter {unknown[0]!r}.")
    return kind(**params)


def _predictor(name: str, module: str, kind: str, params: Mapping[str, Any]) -> Any:
    """Return what predicts for an estimator, with its parameters as attributes."""
    model = getattr(import_module(module), kind)()
    for given, value in params.items():
        if _is_learned(given) or given.startswith("_") or hasattr(model, given):
            raise InputError(f"{name} has no parameter {given!r}.")
        setattr(model, given, value)
    setattr(model, SAVED_AS, name)
    return model


def _check_adaptation(model: PromisedPredictor) -> None:
    """Reject adaptive thresholds and corrections, of a corrupt file for instance, whose arrays do not fit each other.

    Compiled code would index them.
    """
    n_labels, n_groups = len(model.classes_), len(model.own_criterion.group_targets)
    fits = []
    if model.can_adapt:
        of_labels = [each["thresholds"] for each in getattr(model, "few_labels_", {}).values()]
        for found in (model.adaptation_, model.later_adaptation_, *of_labels):
            n_entries = len(found["n_rows"])
            of_groups = dict.fromkeys(("level", "centre", "highest", "offset"), (n_entries, n_groups))
            fits.append(_shapes(found) == {"n_rows": (n_entries,), "slope": (n_entries,), **of_groups})
            fits.append(n_entries > 0 and found["n_rows"][0] == 0)
        table = _shapes(model.familiarity_)
        fits.append(set(table) == set(FamiliarityTable._fields))
        fits.append(table["summaries"][::2] == (*table["n_rows"], n_groups + n_labels))
    if hasattr(model, "feature_scale_"):
        n_features = len(model.feature_scale_["mean"])
        fits.append(_shapes(model.feature_scale_) == {"mean": (n_features,), "unit": (n_features,)})
        if hasattr(model, "correction_"):
            expected = {"weights": (n_features, n_labels), "bias": (n_labels,)}
            fits.append(_shapes(model.correction_) == expected)
    if not all(fits):
        raise InputError("the arrays of its adaptive thresholds do not fit each other.")


def _shapes(arrays: Any) -> dict[str, tuple[int, ...]]:
    return {name: np.shape(value) for name, value in arrays.items()}


def _has_predictor(part: Json, parts: list[Json]) -> bool:
    """Tell whether a part predicts without scikit-learn and torch."""
    home = ESTIMATORS.get(part["kind"])
    if part["kind"] == "Pipeline":  # of a table's encoding and trees
        kinds = [parts[step["part"]]["kind"] for _, step in (pair["tuple"] for pair in part["params"]["steps"])]
        return len(kinds) == 2 and kinds[0] == "TableEncoder" and kinds[1] in OF_TREES
    return home is not None and home.predictor is not None and isinstance(part["params"].get("network", ""), str)


def _content_of(model: Any) -> Content | None:
    """Return what is saved of an estimator; None if only skops can write it."""
    name, has = type(model).__name__, vars(model)
    learned = {key: value for key, value in has.items() if _is_learned(key) and key not in IN_FILES}
    if SAVED_AS in has:
        params = {key: value for key, value in sorted(has.items()) if not (_is_learned(key) or key == SAVED_AS)}
        return Content(has[SAVED_AS], params, learned)
    home = ESTIMATORS.get(name)
    if name in ("TreesClassifier", "TreesRegressor"):
        own = _content_of(model.estimator)
        return own and own._replace(learned=learned)
    module = type(model).__module__
    if home is None or not (module == home.module or module.startswith(f"{home.module}.")):
        return None
    params = {key: value for key, value in sorted(model.get_params(deep=False).items()) if key not in LEFT_OUT}
    if name in OF_TREES:
        from domaincover.estimators.fitted_trees import learned_trees

        params = {key: value for key, value in params.items() if _is_kept(home.module, key, params)}
        return Content(name, params, learned_trees(model))
    return Content(name, params, learned)


def _is_kept(module: str, name: str, params: Mapping[str, Any]) -> bool:
    """Tell whether a parameter is saved: of LightGBM and XGBoost no texts that may be names of files, nor objects."""
    value = params[name]
    if module not in TAKING_ANY:
        return True
    return name in CHOICES if isinstance(value, str) else value is None or isinstance(value, int | float | np.number)


def _is_estimator(value: Any) -> bool:
    loaded = sys.modules.get("sklearn.base")  # without it, nothing is an estimator of scikit-learn's
    is_predictor = SAVED_AS in getattr(value, "__dict__", {})
    return is_predictor or (loaded is not None and isinstance(value, loaded.BaseEstimator))


def _state_of(model: Any) -> Mapping[str, Any] | None:
    """Return the tensors of a network that only torch can run; None if there are none."""
    if "network_" in vars(model) and "layers_" not in vars(model):
        return cast("Mapping[str, Any]", model._inputs.tensors(model.network_))
    return model.module.state()[1] if type(model).__name__ == "Backbone" else None


def _is_learned(name: str) -> bool:
    return (name.endswith("_") and not name.startswith("_")) or name == OUTPUT_FORMAT


def _name_of(function: Any) -> Json:
    return {"function": getattr(function, "__name__", type(function).__name__)}


def _bytes_of(state: Mapping[str, Any]) -> bytes:
    """Return a state dict as safetensors bytes; tensors are copied because tied weights share memory."""
    import safetensors.torch
    from torch import Tensor

    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise InputError(f"the network's {name!r} is a {type(value).__name__}; only tensors can be saved.")
    return safetensors.torch.save({name: value.detach().cpu().contiguous().clone() for name, value in state.items()})
