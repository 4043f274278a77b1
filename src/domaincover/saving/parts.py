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
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import safetensors.numpy

from domaincover.calibration.familiarity import FamiliarityTable
from domaincover.errors import InputError
from domaincover.networks.dense_layers import DenseLayers, checked_layers, layer_widths
from domaincover.predictors.network_predictors import NetworkPredictor
from domaincover.predictors.promised_predictor import PromisedPredictor
from domaincover.saving.boosters import FORMATS, booster_part, booster_suffix, is_booster, read_booster
from domaincover.saving.values import Json, from_json, raise_unsupported, to_json

if TYPE_CHECKING:
    from domaincover.estimators.backbones import Backbone
    from domaincover.estimators.table_network import MakeNetwork


class Home(NamedTuple):
    """The module of an estimator, and what predicts for it without scikit-learn: its module and class."""

    module: str
    predictor: tuple[str, str] | None = None


# The estimators that a folder may name. Modules are imported only for those that a folder holds, since some take long
# and others need torch.
NETWORKS, CALIBRATED = "domaincover.predictors.network_predictors", "domaincover.predictors.calibrated_predictors"
ESTIMATORS = {
    "Backbone": Home("domaincover.estimators.backbones"),
    "CodedLabels": Home("domaincover.estimators.scorer_fits"),
    "ConformalSetClassifier": Home("domaincover.estimators.conformal", (CALIBRATED, "ConformalPredictor")),
    "DomainGeneralizationClassifier": Home(
        "domaincover.estimators.domain_generalization", (NETWORKS, "SingleLabelPredictor")
    ),
    "ERMClassifier": Home("domaincover.estimators.erm", (NETWORKS, "SingleLabelPredictor")),
    "MeanClassifier": Home("domaincover.estimators.mean", ("domaincover.predictors.label_scores", "MeanPredictor")),
    "Pipeline": Home("sklearn.pipeline"),
    "PromisedSetClassifier": Home(
        "domaincover.estimators.promised", ("domaincover.predictors.promised_predictor", "PromisedPredictor")
    ),
    "SetCoverClassifier": Home("domaincover.estimators.set_cover", (NETWORKS, "SetCoverPredictor")),
    "SourceEncoder": Home("domaincover.estimators.source_network"),
    "TableEncoder": Home("domaincover.data.encoding", ("domaincover.data.table_encoding", "TableEncoding")),
}
# Settings that an estimator may hold, saved by their fields.
SETTINGS = {
    "ImageNetwork": "domaincover.estimators.image_network",
    "ImageReader": "domaincover.data.images",
    "TextNetwork": "domaincover.estimators.text_network",
    "TextReader": "domaincover.data.texts",
}
SKOPS = "skops"
IN_FILES = ("network_", "layers_", "record_")
SAVED_AS = "_saved_as"  # of a predictor: the estimator that its folder names
# Machine-specific settings: joblib would unpickle a pipeline's memory folder, and a file must not choose where to
# write caches or checkpoints.
LEFT_OUT = {"memory", "run", "cache", "workers", "download", "n_jobs"}
OUTPUT_FORMAT = "_sklearn_output_config"  # set by set_output


class PartsWriter:
    """Collect parts and files; an object referenced twice is stored once."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self.parts: list[Json] = []
        self.files: dict[str, bytes] = {}
        self._trusted = tuple(trusted)
        self._numbers: dict[int, int] = {}

    def add(self, model: Any) -> int:
        """Add an estimator with everything it contains and return its part number."""
        if is_booster(model) and id(model) not in self._numbers:
            part, suffix, content = booster_part(model)
            number = self._numbers[id(model)] = len(self.parts)
            self.parts.append(part)
            self.files |= {} if content is None else {f"part-{number}.{suffix}": content}
        if id(model) not in self._numbers:
            is_own = _is_own(model)
            part = self._own(model) if is_own else {"kind": SKOPS}  # first, since it may add parts itself
            number = self._numbers[id(model)] = len(self.parts)
            self.parts.append(part)
            if not is_own:
                from domaincover.saving.sklearn_parts import to_skops  # skops takes as long to import as torch

                self.files[f"part-{number}.skops"] = to_skops(model, self._trusted)
            elif (content := _arrays_of(model)) is not None:
                self.files[f"part-{number}.safetensors"] = content
        return self._numbers[id(model)]

    def _own(self, model: Any) -> Json:
        params = {name: value for name, value in _params_of(model).items() if name not in LEFT_OUT}
        learned = {name: value for name, value in vars(model).items() if _is_learned(name) and name not in IN_FILES}
        return {
            "kind": _kind_of(model),
            "params": {name: self._value(model, name, value) for name, value in params.items()},
            "learned": {name: self._value(model, name, value) for name, value in learned.items()},
        }

    def _value(self, model: Any, name: str, value: Any) -> Json:
        if name == "random_state" and hasattr(value, "get_state"):
            return None  # the generator's state is not needed after fitting
        if name == "network" and callable(value):
            return _name_of(value)
        try:
            return to_json(value, self._other)
        except InputError as error:
            raise InputError(f"{name} of {type(model).__name__} cannot be saved: {error}") from error

    def _other(self, value: Any) -> Json:
        if _is_estimator(value) or is_booster(value):
            return {"part": self.add(value)}
        if SETTINGS.get(type(value).__name__) == type(value).__module__:
            return {"settings": [type(value).__name__, self._fields(value)]}
        return raise_unsupported(value)

    def _fields(self, value: Any) -> Json:
        given = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in LEFT_OUT}
        plain = {name: str(part) if isinstance(part, Path) else part for name, part in given.items()}
        return {
            name: _name_of(part) if name in ("module", "backbone") and part is not None else to_json(part)
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
        self._network = network
        self._trusted = tuple(trusted)
        self._made: list[Any] = []
        self._to_predict = to_predict
        self.used_network = False

    def read(self, parts: list[Json]) -> Any:
        """Return the estimator of the last part."""
        self._to_predict = self._to_predict and all(_has_predictor(part) for part in parts)
        for number, part in enumerate(parts):
            if part["kind"] in FORMATS:
                self._made.append(read_booster(part, self._files.get(f"part-{number}.{booster_suffix(part)}")))
            else:
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
        given = {name: self._value(value) for name, value in part["params"].items()}
        if self._to_predict and home.predictor is not None:
            model = _predictor(part["kind"], *home.predictor, given)
        else:
            model = _estimator(part["kind"], home.module, given)
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
        return model

    def _value(self, content: Json) -> Any:
        return from_json(content, {"part": self._part, "function": self._function, "settings": self._settings})

    def _settings(self, content: Json) -> Any:
        name, given = content
        kind: Any = getattr(import_module(SETTINGS[name]), name) if name in SETTINGS else None
        if kind is None or not {field.name for field in fields(kind)} - LEFT_OUT >= set(given):
            raise InputError(f"unknown type or fields: {name!r} with {', '.join(map(str, given))}.")
        return kind(**{key: self._value(value) for key, value in given.items()})

    def _backbone(self, number: int, model: Backbone) -> Backbone:
        import safetensors.torch

        from domaincover.estimators.backbones import Backbone

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
            arrays = {key: np.array(array) for key, array in safetensors.numpy.load(self._files[name]).items()}
            model.layers_ = checked_layers(arrays, _widths(model), name)
            return
        from safetensors.torch import load as load_tensors

        tensors = load_tensors(self._files[name])
        model.network_ = model._inputs.rebuilt(model.encoder_, len(model.classes_), tensors, name)


def _estimator(name: str, module: str, params: Mapping[str, Any]) -> Any:
    kind: Any = getattr(import_module(module), name)
    unknown = [given for given in params if given not in set(kind._get_param_names()) - LEFT_OUT]
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


def _has_predictor(part: Json) -> bool:
    """Tell whether a part predicts without scikit-learn and torch."""
    home = ESTIMATORS.get(part["kind"])
    return home is not None and home.predictor is not None and isinstance(part["params"].get("network", ""), str)


def _kind_of(model: Any) -> str:
    return vars(model).get(SAVED_AS, type(model).__name__)


def _params_of(model: Any) -> dict[str, Any]:
    if SAVED_AS not in vars(model):
        return model.get_params(deep=False)
    return {name: value for name, value in sorted(vars(model).items()) if not (_is_learned(name) or name == SAVED_AS)}


def _is_estimator(value: Any) -> bool:
    loaded = sys.modules.get("sklearn.base")  # without it, nothing is an estimator of scikit-learn's
    is_predictor = SAVED_AS in getattr(value, "__dict__", {})
    return is_predictor or (loaded is not None and isinstance(value, loaded.BaseEstimator))


def _is_own(model: Any) -> bool:
    home = ESTIMATORS.get(type(model).__name__)
    return SAVED_AS in vars(model) or (home is not None and home.module == type(model).__module__)


def _arrays_of(model: Any) -> bytes | None:
    """Return the weights of a network as safetensors; None where there are none."""
    if "layers_" in vars(model):
        layers: DenseLayers = model.layers_
        return safetensors.numpy.save({name: np.ascontiguousarray(part) for name, part in layers.tensors.items()})
    if "network_" in vars(model):
        return _bytes_of(model._inputs.tensors(model.network_))
    if _kind_of(model) == "Backbone":
        return _bytes_of(model.module.state()[1])
    return None


def _widths(model: Any) -> list[int]:
    return layer_widths(model.network, model.hidden, model.encoder_.n_features_out, len(model.classes_))


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
