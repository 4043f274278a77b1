"""Weights of torchvision's ResNet-18 for the same network in transformers.

He et al. (2016) describe one network; the two packages name its parts differently. With k the stage (1 to 4), b the
block (0 or 1) and j the layer in it (1 or 2):

    torchvision               transformers
    conv1, bn1                embedder.embedder.{convolution, normalization}
    layer{k}.{b}.conv{j}      encoder.stages.{k-1}.layers.{b}.layer.{j-1}.convolution
    layer{k}.{b}.bn{j}        encoder.stages.{k-1}.layers.{b}.layer.{j-1}.normalization
    layer{k}.{b}.downsample.0 encoder.stages.{k-1}.layers.{b}.shortcut.convolution
    layer{k}.{b}.downsample.1 encoder.stages.{k-1}.layers.{b}.shortcut.normalization
    fc                        none: the head is another
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from domaincover.errors import InputError

# Before it, `weights_only` did not keep a forged file from running code (CVE-2025-32434, CVE-2026-24747).
SAFE_LOADER = (2, 10)
OPTIONAL = "num_batches_tracked"  # older files lack it; nothing is computed from it


def torchvision_names(names: Iterable[str]) -> dict[str, str]:
    """Return torchvision's name for each of transformers' names of a ResNet-18's tensors."""
    return {name: _torchvision_name(name) for name in names}


def load_torchvision_weights(network: torch.nn.Module, path: str | Path) -> None:
    """Fill transformers' ResNet-18 with the weights in a torchvision state dict, .pth or .safetensors."""
    theirs, own = _tensors_in(Path(path)), network.state_dict()
    names = torchvision_names(own)
    lacking = [name for name in names.values() if name not in theirs and not name.endswith(OPTIONAL)]
    known = set(names.values())
    extra = [name for name in theirs if name not in known and not name.startswith("fc.")]
    misfits = [names[name] for name, tensor in own.items() if theirs.get(names[name], tensor).shape != tensor.shape]
    for names_at_fault, fault in ((lacking, "lacks"), (extra, "also has"), (misfits, "has another shape of")):
        if names_at_fault:
            raise InputError(f"{path} is no state dict of torchvision's ResNet-18: it {fault} {names_at_fault[0]}.")
    network.load_state_dict({name: theirs.get(names[name], tensor) for name, tensor in own.items()})


def _torchvision_name(name: str) -> str:
    name = re.sub(r"^embedder\.embedder\.convolution", "conv1", name)
    name = re.sub(r"^embedder\.embedder\.normalization", "bn1", name)
    name = re.sub(r"^encoder\.stages\.(\d+)\.layers\.", lambda found: f"layer{int(found[1]) + 1}.", name)
    name = name.replace("shortcut.convolution", "downsample.0").replace("shortcut.normalization", "downsample.1")
    name = re.sub(r"layer\.(\d+)\.convolution", lambda found: f"conv{int(found[1]) + 1}", name)
    return re.sub(r"layer\.(\d+)\.normalization", lambda found: f"bn{int(found[1]) + 1}", name)


def _tensors_in(path: Path) -> dict[str, Tensor]:
    """Return the tensors in a file, read as data: no code in it is run."""
    from safetensors.torch import load_file

    if not path.is_file():
        raise InputError(f"{path} is no file; give the weights of torchvision's ResNet-18 (.pth or .safetensors).")
    is_safe = path.suffix == ".safetensors"
    if not is_safe and tuple(map(int, torch.__version__.split(".")[:2])) < SAFE_LOADER:
        raise InputError(f"{path} is read with torch 2.10 or later; before, it could run code. Or give .safetensors.")
    try:
        content = load_file(path) if is_safe else torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch names a dozen kinds, and advises to run the code in the file
        raise InputError(f"{path} is damaged or holds more than tensors, and nothing else is read.") from error
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise InputError(f"{path} is no state dict of torchvision's ResNet-18: it holds more than named tensors.")
    return content
