"""Networks from files: models of `transformers` in a folder or, only if permitted, on the hub; saved tensors.

Code that comes with a model is never executed, and weights are read from safetensors only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domaincover.errors import InputError
from domaincover.networks.dense_layers import check_tensors

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PretrainedConfig, PreTrainedModel

FILES_OF_A_MODEL = ["*.json", "*.safetensors", "*.txt", "*.model"]  # no pickles
# Options by which a configuration could execute code or load other models, files or packages.
NAMES_OF_CODE = {"auto_map", "custom_pipelines", "trust_remote_code", "quantization_config", "use_pretrained_backbone"}
NOT_ARCHITECTURE = {"transformers_version", "architectures", "dtype", "torch_dtype"}


def model_folder(model: str | Path, *, download: bool = False) -> str:
    """Return a model's folder; a name that is not a folder is downloaded from the hub if `download` permits it."""
    name = os.fspath(model)
    if Path(name).is_dir():
        if not (Path(name) / "config.json").is_file():
            raise InputError(f"{name} has no config.json; pass a folder written by save_pretrained of transformers.")
        return name
    if not download:
        raise InputError(
            f"{name!r} is not a folder; pass download=True (--download) to download it from the Hugging Face hub."
        )
    from huggingface_hub import snapshot_download

    try:
        return snapshot_download(name, allow_patterns=FILES_OF_A_MODEL)
    except (OSError, ValueError) as error:
        raise InputError(f"{name!r} could not be downloaded from the Hugging Face hub: {first_line(error)}") from error


def load_config(folder: str, kinds: Container[str], what: str) -> PretrainedConfig:
    """Return the configuration in a model's folder; reject a model of another kind than images or texts ask for."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} does not contain a known transformers model: {first_line(error)}") from error
    if config.model_type not in kinds:
        raise InputError(f"{folder} contains a {config.model_type!r}, which is not {what} model.")
    return config


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the progress bars of transformers and its reports of unused heads."""
    from transformers.utils import logging

    level, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()


def config_as_data(config: PretrainedConfig) -> dict[str, Any]:
    """Return a model's architecture as JSON-serializable data; see `config_from_data`."""
    content: dict[str, Any] = _without_code(json.loads(config.to_json_string(use_diff=True)))
    return content


def config_from_data(content: Any, kinds: Container[str]) -> PretrainedConfig:
    """Rebuild a configuration from data, restricted to the given model types and without code."""
    from transformers import AutoConfig

    if not isinstance(content, dict) or content.get("model_type") not in kinds:
        named = content.get("model_type") if isinstance(content, dict) else content
        raise InputError(f"a network's configuration has an unsupported model type: {named!r}.")
    if _without_code(content) != content:
        raise InputError("a network's configuration contains options that could execute code.")
    options = {name: value for name, value in content.items() if name != "model_type"}
    try:
        return AutoConfig.for_model(content["model_type"], **options)
    except Exception as error:  # model types validate their options in different ways
        raise InputError(
            f"a network's configuration is not a valid {content['model_type']!r}: {first_line(error)}"
        ) from error


def empty_model(content: Any, kinds: Container[str], n_tensors: int) -> PreTrainedModel:
    """Return a saved architecture on the meta device, whose tensors have shapes but no memory."""
    from torch import device
    from transformers import AutoModel

    config = config_from_data(content, kinds)
    _check_depth(content, n_tensors)
    try:
        with device("meta"):
            return AutoModel.from_config(config, trust_remote_code=False)
    except Exception as error:  # model types validate their options in different ways
        raise InputError(f"a {config.model_type!r} cannot be built: {first_line(error)}") from error


def _check_depth(content: Mapping[str, Any], n_tensors: int) -> None:
    """Reject more layers than there are tensors, since building them takes time and memory."""
    for name, value in content.items():
        if any(word in name for word in ("depth", "layers", "stages", "blocks")):
            numbers = value if isinstance(value, list) else [value]
            if any(isinstance(number, int | float) and number > n_tensors for number in numbers):
                raise InputError(f"weights do not fit the network: {name} is {value!r} for {n_tensors} tensors.")


def complete_model(folder: str) -> tuple[PreTrainedModel, bool]:
    """Return the model in a folder in single precision, and whether it has a pooler.

    Other missing weights are rejected, which transformers would initialise at random. `load_config` has more specific
    error messages, and comes before.
    """
    import torch
    from transformers import AutoModel

    try:
        with quietly(), torch.random.fork_rng(devices=[]):
            model, report = AutoModel.from_pretrained(
                folder,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=torch.float32,
                output_loading_info=True,
            )
    except Exception as error:  # corruption raises OSError, RuntimeError, SafetensorError, KeyError …
        raise InputError(f"the weights in {folder} could not be read: {first_line(error)}") from error
    missing = report["missing_keys"]
    lacking = sorted(name for name in missing if not name.startswith("pooler."))
    if lacking:
        raise InputError(f"{folder} lacks the weights {lacking[0]!r}; pass a folder with the complete network.")
    return model, not missing


def _without_code(content: Any) -> Any:
    """Remove, at every depth, all options that are not part of an architecture."""
    if isinstance(content, list):
        return [_without_code(value) for value in content]
    if not isinstance(content, dict):
        return content
    return {name: _without_code(value) for name, value in content.items() if _is_architecture(name)}


def _is_architecture(name: str) -> bool:
    return name not in NAMES_OF_CODE | NOT_ARCHITECTURE and not name.startswith("_") and "implementation" not in name


def first_line(error: BaseException) -> str:
    """Return the first line of an error message."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


def copy_tensors(network: nn.Module, tensors: Mapping[str, Tensor], name: str) -> None:
    """Copy saved tensors into the network's own, some of which may be tied."""
    check_tensors(network.state_dict(), tensors, name)
    network.load_state_dict(dict(tensors))


def assign_tensors(network: nn.Module, tensors: Mapping[str, Tensor], name: str) -> None:
    """Replace all tensors on the meta device by saved ones, without copying."""
    from torch import nn

    check_tensors({key: tensor for key, tensor in all_tensors(network).items() if tensor.is_meta}, tensors, name)
    for key, tensor in tensors.items():
        owner, _, leaf = key.rpartition(".")
        part = network.get_submodule(owner)
        setattr(part, leaf, nn.Parameter(tensor) if leaf in part._parameters else tensor)


def all_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers, including non-persistent ones such as positions."""
    tensors: dict[str, Tensor] = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    return {key: tensor.detach() for key, tensor in tensors.items()}
