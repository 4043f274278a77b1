"""The record of a saved model in a file of its own, so that the model and its checksum stay as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from domaincover.errors import InputError
from domaincover.files import write_whole
from domaincover.predictors.domain_record import Record
from domaincover.predictors.label_scores import last_step
from domaincover.saving.sealed import RECORD, SavedFolder, digest, json_bytes, read_folder
from domaincover.saving.values import from_json, to_json

STACK = "by domain"


def write_record(folder: str | Path, model: Any) -> None:
    """Write the record of a model beside it, whole or not at all; it names the model by its checksum."""
    record = getattr(last_step(model), "record_", None)
    if record is None:
        return
    content = {
        "model": read_folder(folder).checksum,
        "record": {name: to_json(value, _by_domain) for name, value in record._asdict().items()},
    }
    write_whole(Path(folder) / RECORD, json_bytes({**content, "checksum": digest(json_bytes(content))}))


def add_record(model: Any, saved: SavedFolder) -> Any:
    """Return a model that was read, with its record if there is one."""
    path = saved.path / RECORD
    if not path.exists():
        return model
    try:
        content = json.loads(path.read_bytes())
        checksum = content.pop("checksum")
        found = {name: from_json(value, {STACK: _stacked}) for name, value in content["record"].items()}
        if checksum != digest(json_bytes(content)) or set(found) != set(Record._fields):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InputError) as error:
        raise InputError(f"{path} is corrupt; copy it again, or remove it to begin a new record.") from error
    if content["model"] != saved.checksum:
        raise InputError(f"{path} is the record of another model; remove it to begin a new one.")
    last_step(model).record_ = Record(**found)
    return model


def _by_domain(array: Any) -> Any:
    """Write a large array domain by domain."""
    return {STACK: [to_json(part, _by_domain) for part in array]}


def _stacked(parts: Any) -> Any:
    return np.stack([from_json(part, {STACK: _stacked}) for part in parts])
