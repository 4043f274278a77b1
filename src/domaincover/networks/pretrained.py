"""Models of `transformers`: from a folder here or, only where that was permitted, from the Hugging Face hub.

Code that comes with a model is never run, and weights are read from safetensors only.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domaincover.errors import InputError

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

FILES_OF_A_MODEL = ["*.json", "*.safetensors", "*.txt", "*.model"]  # no pickles
NAMES_OF_CODE = {"auto_map", "custom_pipelines", "trust_remote_code"}
# Options that say which other files or packages to read, or with what code to compute.
NAMES_OF_OUTSIDE = {"quantization_config", "attn_implementation", "_attn_implementation", "use_pretrained_backbone"}


def transformers_for(extra: str) -> Any:
    """Return the transformers package, or say which extra brings it."""
    try:
        import transformers
    except ImportError as error:
        raise InputError(f"networks for this need transformers: pip install 'domaincover[{extra}]'.") from error
    return transformers


def model_folder(model: str | Path, *, download: bool = False) -> str:
    """Return the folder that a model is in; a name that is no folder is fetched from the hub if `download` permits."""
    name = os.fspath(model)
    if Path(name).is_dir():
        if not (Path(name) / "config.json").is_file():
            raise InputError(f"{name} has no config.json; give a folder that save_pretrained of transformers wrote.")
        return name
    if not download:
        raise InputError(
            f"{name!r} is not a folder here; pass download=True (--download) to fetch it from the Hugging Face hub."
        )
    from huggingface_hub import snapshot_download

    try:
        return snapshot_download(name, allow_patterns=FILES_OF_A_MODEL)
    except (OSError, ValueError) as error:
        raise InputError(f"{name!r} could not be fetched from the Hugging Face hub: {first_line(error)}") from error


def load_config(folder: str) -> PretrainedConfig:
    """Return the configuration in a model's folder."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} holds no model that transformers knows: {first_line(error)}") from error


def load_model(folder: str, **options: Any) -> PreTrainedModel:
    """Return the model in a folder with its weights, without a head, ready to predict."""
    from transformers import AutoModel

    load_config(folder)  # its faults first: they are the likely ones
    try:
        return AutoModel.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, **options
        )
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise InputError(f"the weights in {folder} could not be read: {first_line(error)}") from error


def config_as_data(config: PretrainedConfig) -> dict[str, Any]:
    """Return what rebuilds a model's architecture, as JSON can hold it; see `config_from_data`."""
    import json

    content: dict[str, Any] = json.loads(config.to_json_string(use_diff=True))
    left_out = NAMES_OF_CODE | NAMES_OF_OUTSIDE | {"transformers_version", "architectures"}
    return {name: value for name, value in content.items() if name not in left_out and not name.startswith("_")}


def config_from_data(content: Any) -> PretrainedConfig:
    """Return the configuration that data from a file describe: a kind that transformers has, and no code."""
    from transformers import AutoConfig

    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise InputError("a network's configuration must name its model_type.")
    forbidden = sorted(set(content) & (NAMES_OF_CODE | NAMES_OF_OUTSIDE)) or [n for n in content if n.startswith("_")]
    if forbidden:
        raise InputError(f"a network's configuration may not hold {forbidden[0]!r}, which could run other code.")
    options = {name: value for name, value in content.items() if name != "model_type"}
    try:
        return AutoConfig.for_model(content["model_type"], **options)
    except Exception as error:  # each kind of model checks its options in a way of its own
        raise InputError(
            f"a network's configuration is no {content['model_type']!r} that transformers knows: {first_line(error)}"
        ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
