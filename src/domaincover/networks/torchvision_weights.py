"""Load torchvision's ResNet-18 weights into the same network of transformers.

The two packages name the parts of the network (He et al. 2016) differently. With stage k (1 to 4), block b (0 or 1)
and layer j in it (1 or 2):

    torchvision               transformers
    conv1, bn1                embedder.embedder.{convolution, normalization}
    layer{k}.{b}.conv{j}      encoder.stages.{k-1}.layers.{b}.layer.{j-1}.convolution
    layer{k}.{b}.bn{j}        encoder.stages.{k-1}.layers.{b}.layer.{j-1}.normalization
    layer{k}.{b}.downsample.0 encoder.stages.{k-1}.layers.{b}.shortcut.convolution
    layer{k}.{b}.downsample.1 encoder.stages.{k-1}.layers.{b}.shortcut.normalization
    fc                        none: the head is replaced
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from domaincover.errors import InputError

# In earlier versions, `weights_only` did not prevent code execution (CVE-2025-32434, CVE-2026-24747).
SAFE_LOADER = (2, 10)
OPTIONAL = "num_batches_tracked"  # missing in older files, and unused


def torchvision_names(names: Iterable[str]) -> dict[str, str]:
    """Return torchvision's name for each transformers name of a ResNet-18 tensor."""
    return {name: _torchvision_name(name) for name in names}


def load_torchvision_weights(network: torch.nn.Module, path: str | Path) -> None:
    """Load a torchvision state dict, .pth or .safetensors, into transformers' ResNet-18."""
    theirs, own = _tensors_in(Path(path)), network.state_dict()
    names = torchvision_names(own)
    lacking = [name for name in names.values() if name not in theirs and not name.endswith(OPTIONAL)]
    known = set(names.values())
    extra = [name for name in theirs if name not in known and not name.startswith("fc.")]
    misfits = [names[name] for name, tensor in own.items() if theirs.get(names[name], tensor).shape != tensor.shape]
    for names_at_fault, fault in ((lacking, "lacks"), (extra, "also has"), (misfits, "has a different shape of")):
        if names_at_fault:
            raise InputError(f"{path} is not a state dict of torchvision's ResNet-18: it {fault} {names_at_fault[0]}.")
    network.load_state_dict({name: theirs.get(names[name], tensor) for name, tensor in own.items()})


def _torchvision_name(name: str) -> str:
    name = re.sub(r"^embedder\.embedder\.convolution", "conv1", name)
    name = re.sub(r"^embedder\.embedder\.normalization", "bn1", name)
    name = re.sub(r"^encoder\.stages\.(\d+)\.layers\.", lambda found: f"layer{int(found[1]) + 1}.", name)
    name = name.replace("shortcut.convolution", "downsample.0").replace("shortcut.normalization", "downsample.1")
    name = re.sub(r"layer\.(\d+)\.convolution", lambda found: f"conv{int(found[1]) + 1}", name)
    return re.sub(r"layer\.(\d+)\.normalization", lambda found: f"bn{int(found[1]) + 1}", name)


def _tensors_in(path: Path) -> dict[str, Tensor]:
    """Read the tensors in a file without executing code."""
    from safetensors.torch import load_file

    if not path.is_file():
        raise InputError(f"{path} is not a file; pass the weights of torchvision's ResNet-18 (.pth or .safetensors).")
    is_safe = path.suffix == ".safetensors"
    if not is_safe and tuple(map(int, torch.__version__.split(".")[:2])) < SAFE_LOADER:
        raise InputError(f"reading {path} safely needs torch 2.10 or later; upgrade torch, or pass .safetensors.")
    try:
        content = load_file(path) if is_safe else torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises a dozen types, with advice to execute the code in the file
        raise InputError(f"{path} is corrupt or contains more than tensors.") from error
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise InputError(f"{path} is not a state dict of torchvision's ResNet-18: it contains more than named tensors.")
    return content
