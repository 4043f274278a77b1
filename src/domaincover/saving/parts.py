"""Serialize estimators as a flat list of parts, each after the parts it refers to.

A domaincover estimator is stored as JSON (parameters and fitted attributes) with network weights as safetensors; a
pipeline as its steps; any other scikit-learn estimator as a skops file. No name in a file is ever imported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, cast

import safetensors.numpy
import safetensors.torch
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from torch import Tensor, nn

from domaincover.data.encoding import TableEncoder
from domaincover.data.images import ImageReader
from domaincover.data.texts import TextReader
from domaincover.errors import InputError
from domaincover.estimators.backbones import Backbone
from domaincover.estimators.coded_labels import CodedLabels
from domaincover.estimators.conformal import ConformalSetClassifier
from domaincover.estimators.domain_generalization import DomainGeneralizationClassifier
from domaincover.estimators.erm import ERMClassifier
from domaincover.estimators.image_network import ImageNetwork
from domaincover.estimators.mean import MeanClassifier
from domaincover.estimators.network import NetworkClassifier
from domaincover.estimators.promised import PromisedSetClassifier
from domaincover.estimators.set_cover import SetCoverClassifier
from domaincover.estimators.source_encoder import SourceEncoder
from domaincover.estimators.table_network import MakeNetwork, check_fit
from domaincover.estimators.text_network import TextNetwork
from domaincover.saving.adaptation_check import check_adaptation
from domaincover.saving.boosters import FORMATS, booster_part, booster_suffix, is_booster, read_booster
from domaincover.saving.values import Json, from_json, raise_unsupported, to_json

OWN: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Backbone,
        CodedLabels,
        ConformalSetClassifier,
        DomainGeneralizationClassifier,
        ERMClassifier,
        MeanClassifier,
        Pipeline,
        PromisedSetClassifier,
        SetCoverClassifier,
        SourceEncoder,
        TableEncoder,
    )
}
SOURCE_NETWORKS: dict[str, Any] = {kind.__name__: kind for kind in (ImageNetwork, TextNetwork)}
READERS: dict[str, Any] = {kind.__name__: kind for kind in (ImageReader, TextReader)}
SKOPS = "skops"
RESIDUALS = "residuals_"  # of PromisedSetClassifier: too many numbers for JSON
IN_FILES = ("network_", RESIDUALS)
# Machine-specific settings: joblib would unpickle a pipeline's memory folder, and a file must not choose where to
# write caches or checkpoints.
LEFT_OUT = {"memory", "run", "cache", "workers", "download", "n_jobs"}
RENAMED = {"fit": "resize"}  # fields of ImageNetwork and ImageReader in models saved by earlier versions
OUTPUT_FORMAT = "_sklearn_output_config"  # set by set_output


class PartsWriter:
    """Collect parts and files; an object referenced twice is stored once."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self.parts: list[Json] = []
        self.files: dict[str, bytes] = {}
        self._trusted = tuple(trusted)
        self._numbers: dict[int, int] = {}

    def add(self, model: BaseEstimator) -> int:
        """Add an estimator with everything it contains and return its part number."""
        if is_booster(model) and id(model) not in self._numbers:
            part, suffix, content = booster_part(model)
            number = self._numbers[id(model)] = len(self.parts)
            self.parts.append(part)
            self.files |= {} if content is None else {f"part-{number}.{suffix}": content}
        if id(model) not in self._numbers:
            is_own = type(model) in OWN.values()
            part = self._own(model) if is_own else {"kind": SKOPS}  # first, since it may add parts itself
            number = self._numbers[id(model)] = len(self.parts)
            self.parts.append(part)
            if not is_own:
                from domaincover.saving.sklearn_parts import to_skops  # skops takes as long to import as torch

                self.files[f"part-{number}.skops"] = to_skops(model, self._trusted)
            elif hasattr(model, "network_"):
                self.files[f"part-{number}.safetensors"] = _bytes_of(model._inputs.tensors(model.network_))
            elif isinstance(model, Backbone):
                self.files[f"part-{number}.safetensors"] = _bytes_of(model.state()[1])
            elif hasattr(model, RESIDUALS):
                self.files[f"part-{number}.safetensors"] = safetensors.numpy.save({RESIDUALS: model.residuals_})
        return self._numbers[id(model)]

    def _own(self, model: BaseEstimator) -> Json:
        params = {name: value for name, value in model.get_params(deep=False).items() if name not in LEFT_OUT}
        learned = {name: value for name, value in vars(model).items() if _is_learned(name) and name not in IN_FILES}
        return {
            "kind": type(model).__name__,
            "params": {name: self._value(model, name, value) for name, value in params.items()},
            "learned": {name: self._value(model, name, value) for name, value in learned.items()},
        }

    def _value(self, model: BaseEstimator, name: str, value: Any) -> Json:
        if name == "random_state" and hasattr(value, "get_state"):
            return None  # the generator's state is not needed after fitting
        if name == "network" and callable(value):
            return _name_of(value)
        try:
            return to_json(value, self._other)
        except InputError as error:
            raise InputError(f"{name} of {type(model).__name__} cannot be saved: {error}") from error

    def _other(self, value: Any) -> Json:
        if isinstance(value, BaseEstimator) or is_booster(value):
            return {"part": self.add(value)}
        if type(value) in SOURCE_NETWORKS.values():
            return {"source_network": [type(value).__name__, self._fields(value)]}
        if type(value) in READERS.values():
            return {"reader": [type(value).__name__, self._fields(value)]}
        return raise_unsupported(value)

    def _fields(self, value: Any) -> Json:
        given = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in LEFT_OUT}
        plain = {name: str(part) if isinstance(part, Path) else part for name, part in given.items()}
        return {
            name: _name_of(part) if name in ("module", "backbone") and part is not None else to_json(part)
            for name, part in plain.items()
        }


class PartsReader:
    """Rebuild estimators from parts, in order."""

    def __init__(self, files: Mapping[str, bytes], network: MakeNetwork | None, trusted: Iterable[str]) -> None:
        self._files = files
        self._network = network
        self._trusted = tuple(trusted)
        self._made: list[Any] = []
        self.used_network = False

    def read(self, parts: list[Json]) -> Any:
        """Return the estimator of the last part."""
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
        if part["kind"] not in OWN:
            raise InputError(f"unknown estimator type {part['kind']!r}.")
        kind = OWN[part["kind"]]
        known = set(kind._get_param_names()) - LEFT_OUT
        for name in part["params"]:
            if name not in known:
                raise InputError(f"{kind.__name__} has no parameter {name!r}.")
        model = kind(**{name: self._value(value) for name, value in part["params"].items()})
        for name, value in part["learned"].items():
            # hasattr: a name from a file must not shadow a method or property
            if not _is_learned(name) or hasattr(kind, name):
                raise InputError(f"{kind.__name__} has no fitted attribute {name!r}.")
            setattr(model, name, self._value(value))
        if isinstance(model, Backbone):
            return self._backbone(number, model)
        if isinstance(model, PromisedSetClassifier) and model.can_adapt:
            model.residuals_ = safetensors.numpy.load(self._files[f"part-{number}.safetensors"])[RESIDUALS]
            check_adaptation(model)
        if isinstance(model, NetworkClassifier) and part["learned"]:
            model.network_ = self._with_weights(model, f"part-{number}.safetensors")
        return model

    def _value(self, content: Json) -> Any:
        readers: dict[str, Any] = {
            "part": self._part,
            "function": self._function,
            "source_network": partial(self._dataclass, SOURCE_NETWORKS),
            "reader": partial(self._dataclass, READERS),
        }
        return from_json(content, readers)

    def _dataclass(self, kinds: Mapping[str, Any], content: Json) -> Any:
        name, given = content
        given = {RENAMED.get(key, key): value for key, value in given.items()}
        if name not in kinds or not {field.name for field in fields(kinds[name])} - LEFT_OUT >= set(given):
            raise InputError(f"unknown type or fields: {name!r} with {', '.join(map(str, given))}.")
        return kinds[name](**{key: self._value(value) for key, value in given.items()})

    def _backbone(self, number: int, model: Backbone) -> Backbone:
        name = f"part-{number}.safetensors"
        tensors, config = safetensors.torch.load(self._files[name]), json.loads(model.config_)
        if "function" not in config:
            return Backbone.from_state(model.kind, config, tensors)
        height, width = config["image_size"]
        own = Backbone.of_function(cast(Any, self._function(config["function"])), (int(height), int(width)))
        check_fit(own.module, tensors, name, assign=False)
        return own

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

    def _with_weights(self, model: NetworkClassifier, name: str) -> nn.Module:
        weights = safetensors.torch.load(self._files[name])
        return model._inputs.rebuilt(model.encoder_, len(model.classes_), weights, name)


def _is_learned(name: str) -> bool:
    return (name.endswith("_") and not name.startswith("_")) or name == OUTPUT_FORMAT


def _name_of(function: Any) -> Json:
    return {"function": getattr(function, "__name__", type(function).__name__)}


def _bytes_of(state: Mapping[str, Any]) -> bytes:
    """Return a state dict as safetensors bytes; tensors are copied because tied weights share memory."""
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise InputError(f"the network's {name!r} is a {type(value).__name__}; only tensors can be saved.")
    return safetensors.torch.save({name: value.detach().cpu().contiguous().clone() for name, value in state.items()})
