"""Preprocessing settings of image networks: mean, standard deviation and size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from domaincover.errors import InputError
from domaincover.files import plain_json
from domaincover.networks.pretrained import first_line

# ImageNet's, per channel, for images from 0 to 1
IMAGENET: dict[str, Any] = {
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
    "image_size": [224, 224],
    "pooling": "pooler",
}
SETTINGS = {"network", *IMAGENET}
TOO_LARGE = 1e6  # also rejects infinity


def preprocessing(folder: str, size_of_network: Any) -> dict[str, Any]:
    """Return mean, standard deviation and size from a model's folder, or else ImageNet's."""
    path = Path(folder) / "preprocessor_config.json"
    try:
        given = plain_json(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return _settings(given, size_of_network)
    except (ValueError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise InputError(f"{path} is not a valid image preprocessor configuration: {first_line(error)}") from error


def _settings(given: Any, size_of_network: Any) -> dict[str, Any]:
    """Convert the settings to those for images from 0 to 1."""
    normalises, rescales = given.get("do_normalize", True), given.get("do_rescale", True)
    mean = given.get("image_mean", IMAGENET["mean"]) if normalises else [0, 0, 0]
    std = given.get("image_std", IMAGENET["std"]) if normalises else [1, 1, 1]
    largest = 255 * given.get("rescale_factor", 1 / 255) if rescales else 255  # what 255 is scaled to; here to 1
    offset = 1 if rescales and given.get("rescale_offset", False) else 0
    sizes = (given.get("crop_size"), given.get("size"), size_of_network)
    return {
        "mean": [(value + offset) / largest for value in mean],
        "std": [value / largest for value in std],
        "image_size": next((size for size in map(as_size, sizes) if size), IMAGENET["image_size"]),
    }


def as_size(given: Any) -> list[int] | None:
    """Return a size in any of the common forms as [height, width]."""
    if isinstance(given, dict):
        edge = given.get("shortest_edge")
        given = [given.get("height", edge), given.get("width", edge)]
    elif isinstance(given, int):
        given = [given, given]
    return list(given) if isinstance(given, list | tuple) and len(given) == 2 and None not in given else None


def check_settings(config: Any) -> None:
    """Raise if a configuration, possibly from a file, is invalid."""
    if not isinstance(config, dict) or set(config) != SETTINGS:
        raise InputError(f"an image network's configuration must have the keys {', '.join(sorted(SETTINGS))}.")
    for name, least, length in (("mean", None, 3), ("std", 0, 3), ("image_size", 0, 2)):
        values, kinds = config[name], int if name == "image_size" else int | float
        is_right = isinstance(values, list) and len(values) == length and all(type(v) is not bool for v in values)
        is_right = is_right and all(isinstance(v, kinds) and abs(v) < TOO_LARGE for v in values)
        if not is_right or (least is not None and min(values) <= least):
            raise InputError(f"invalid {name} of an image network: {values!r}.")
    if config["pooling"] not in ("pooler", "mean"):
        raise InputError(f"pooling of an image network must be 'pooler' or 'mean', not {config['pooling']!r}.")
