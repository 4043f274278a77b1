"""A WILDS dataset in a study: its folder, its network, and how much of it is used."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import DomainDataset
from domaincover.data.images import Resize, check_files_can_be_read
from domaincover.data.splits import drop_small_cells
from domaincover.errors import InputError
from domaincover.options import Learn, LearnedPart, TextFeatures
from domaincover.paper.authors_code import SilentChoices, silent_choices
from domaincover.paper.wilds.hyperparameters import EPOCHS, HIDDEN_UNITS, IMAGENET_SIZE, PAPER
from domaincover.paper.wilds.reader import RELEASES, WildsData, read_wilds

if TYPE_CHECKING:
    from domaincover.estimators.source_network import SourceNetwork

NUMBERS_IN_A_STACK = 150_000_000  # 600 MB
MOST_FEATURES = 768  # of common networks; the exact number is known only after loading


@dataclass(frozen=True)
class Execution:
    """Execution settings of a study, which change results only by rounding."""

    device: str = "auto"
    workers: int | None = None
    cache: str | None = "auto"
    download: bool = False
    max_unreadable: float = 0.01
    threads: int | None = None  # of the process that trains an entire network; None is torch's default


@dataclass(frozen=True)
class WildsSource:
    """The settings that results depend on, as plain data; `wilds_source` fills in the paper's."""

    name: str
    data: str
    model: str
    weights: str | None
    model_digest: str | None  # of the model's or weights' files; None if they are not on the disk
    learn: LearnedPart
    image_size: int | None
    features: TextFeatures | None
    max_tokens: int | None
    n_train_domains: int
    n_unseen_domains: int
    max_train_rows: int
    max_test_rows: int
    as_authors: bool = False  # which a run records
    execution: Execution = field(default_factory=Execution, compare=False)

    def __post_init__(self) -> None:
        for option in ("n_train_domains", "n_unseen_domains", "max_train_rows", "max_test_rows"):
            if getattr(self, option) < 1:
                raise InputError(f"{option} must be at least 1, got {getattr(self, option)}.")
        for option in ("image_size", "max_tokens"):
            if (value := getattr(self, option)) is not None and value < 1:
                raise InputError(f"{option} must be at least 1, got {value}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings except the dataset's name, the execution settings, and whether they are the authors'."""
        own = {key: value for key, value in asdict(self).items() if key not in ("name", "execution", "as_authors")}
        return own | ({"hidden": self.hidden, "resize": self.resize} if self.as_authors else {})

    @property
    def epochs(self) -> int:
        """The paper's number of epochs."""
        return EPOCHS

    @property
    def batch_size(self) -> int:
        """The paper's batch size."""
        return PAPER[self.name].batch_size

    @property
    def recall_from(self) -> str:
        """How recall is estimated for the multipliers: as in the paper, by full passes."""
        return "full-pass"

    @property
    def min_cell_size(self) -> int:
        """Cells with fewer examples do not count; the paper requires more than 100."""
        return 101

    @property
    def trains_whole_networks(self) -> bool:
        """Whether entire networks are trained, one at a time, on examples read on demand."""
        return self.learn == "all"

    @property
    def trains_large_networks(self) -> bool:
        """Whether these take all cores, and too long for a promise."""
        return self.trains_whole_networks

    @property
    def is_standardized(self) -> bool:
        """Whether networks standardise their inputs, as heads do with features."""
        return not self.trains_whole_networks

    @property
    def estimator_settings(self) -> dict[str, Any]:
        """Settings of a network classifier that depend on the dataset."""
        from domaincover.estimators.image_network import ImageNetwork

        if self.trains_whole_networks:
            network = self.source_network
            if isinstance(network, ImageNetwork):  # a study checks its images before the first fit
                network = replace(network, max_unreadable=None)
            return {"network": network, "device": self.execution.device}
        return {"network": "mlp" if self.hidden else "linear", "hidden": max(self.hidden, 1)}

    @property
    def choices(self) -> SilentChoices:
        """What the paper's text leaves open."""
        return silent_choices(self.as_authors)

    @property
    def hidden(self) -> int:
        """Hidden units of the head; 0 is a linear one."""
        if RELEASES[self.name].kind == "image":
            return 0
        return HIDDEN_UNITS if self.choices.amazon_hidden == "10" else self._n_text_features // 2

    @property
    def _n_text_features(self) -> int:
        from domaincover.estimators.backbones import text_backbone_of

        backbone = text_backbone_of(self.model, self.features, self.execution.download)
        return int(backbone.module.n_features)

    @property
    def resize(self) -> Resize | None:
        """How images are resized; None for texts."""
        if RELEASES[self.name].kind == "text":
            return None
        return "imagenet" if self.choices.image_transform == "imagenet" else "stretch"

    @property
    def seeds_per_stack(self) -> int:
        """Number of seeds trained together: as many as fit into memory, or one if entire networks are trained."""
        if self.trains_whole_networks:
            return 1
        n_rows = self.n_train_domains * (self.max_train_rows + self.max_test_rows)
        n_rows += self.n_unseen_domains * self.max_test_rows
        return max(1, min(20, NUMBERS_IN_A_STACK // (n_rows * MOST_FEATURES)))

    @property
    def source_network(self) -> SourceNetwork:
        """The network and its preprocessing."""
        from domaincover.estimators.image_network import ImageNetwork
        from domaincover.estimators.text_network import TextNetwork

        execution, hidden = self.execution, (self.hidden,) if self.hidden else ()
        shared: dict[str, Any] = {"model": self.model, "learn": self.learn, "hidden": hidden}
        shared |= {"download": execution.download, "cache": execution.cache, "workers": execution.workers}
        if RELEASES[self.name].kind == "text":
            return TextNetwork(**shared, features=self.features or "word-embeddings", max_tokens=self.max_tokens)
        return ImageNetwork(
            **shared,
            weights=self.weights,
            image_size=self.image_size,
            crop=RELEASES[self.name].crop,
            resize=self.resize or "stretch",
            max_unreadable=execution.max_unreadable,
        )

    @property
    def device(self) -> str:
        """The device of the network."""
        return self.source_network.device(self.execution.device)

    def load(self, rng: np.random.Generator) -> DomainDataset:  # noqa: ARG002 - synthetic data are drawn
        """Return all examples, as paths or texts."""
        return read_once(self.name, self.data).dataset()

    def sources(self, examples: NDArray[Any]) -> NDArray[Any]:
        """Return images or texts, which the examples are."""
        return examples

    def inputs(self, examples: NDArray[Any]) -> NDArray[Any]:
        """Return the sources to train entire networks, or the frozen network's features to train heads."""
        return examples if self.trains_whole_networks else self.source_network.frozen_features(examples, self.device)

    def check(self, min_cell_size: int) -> None:
        """Raise if the network or folder cannot be used, before anything is written."""
        from domaincover.estimators.backbones import image_backbone_of, text_backbone_of

        if self.source_network.kind == "image":
            check_files_can_be_read()
        self.source_network.check()
        self._check_device()
        data = read_once(self.name, self.data)
        n_domains = len(np.unique(data.domains[drop_small_cells(data.dataset(), np.arange(len(data)), min_cell_size)]))
        if n_domains < self.n_train_domains + self.n_unseen_domains:
            raise InputError(
                f"{self.name} in {data.folder} has {n_domains} domains with {min_cell_size} or more examples of a "
                f"label, but {self.n_train_domains} training and {self.n_unseen_domains} unseen domains are requested; "
                "lower n_train_domains, n_unseen_domains or min_cell_size."
            )
        if data.kind == "text":
            text_backbone_of(self.model, self.features, self.execution.download)
        else:
            image_backbone_of(self.model, self.weights, self.execution.download)

    def _check_device(self) -> None:
        import torch

        try:
            torch.zeros(1, device=self.device)
        except (AssertionError, RuntimeError) as fault:
            raise InputError(f"device {self.device!r} is not available: {str(fault).splitlines()[0]}") from None


def wilds_source(
    name: str,
    data: str | Path,
    *,
    model: str | Path | None = None,
    weights: str | Path | None = None,
    learn: Learn = "auto",
    image_size: int | None = None,
    features: TextFeatures = "word-embeddings",
    max_tokens: int | None = None,
    n_train_domains: int | None = None,
    n_unseen_domains: int | None = None,
    max_train_rows: int | None = None,
    max_test_rows: int | None = None,
    as_authors: bool = False,
    execution: Execution | None = None,
) -> WildsSource:
    """Return a WILDS dataset, by default with the paper's sizes.

    `learn="auto"` trains a head on the features of a pretrained image network if no GPU is found, else the entire
    network; on texts, the perceptron on mean word embeddings, as in the paper. With `as_authors`, images and the
    perceptron's width are those of the authors' released code.
    """
    from domaincover.estimators.image_network import ImageNetwork

    if name not in PAPER:
        raise InputError(f"unknown WILDS dataset {name!r}: choose one of {', '.join(PAPER)}.")
    paper, is_text, execution = PAPER[name], RELEASES[name].kind == "text", execution or Execution()
    own_size = IMAGENET_SIZE if silent_choices(as_authors).image_transform == "imagenet" else paper.image_size
    if is_text and model is None:
        raise InputError(
            f"{name} needs text_network: the folder of a BERT-like model with its tokenizer or, with download = true, "
            "a name on the Hugging Face hub; the paper's is bert-base-uncased."
        )
    model, weights = _place(model or "resnet-18"), None if weights is None else _place(weights)
    if learn not in get_args(Learn):
        raise InputError(f"learn must be auto, head or all, got {learn!r}.")
    if learn == "auto":
        learn = "head" if is_text else ImageNetwork(model=model, weights=weights).learns(execution.device)
    return WildsSource(
        name=name,
        data=_release_in(data, RELEASES[name].folder),
        model=model,
        weights=weights,
        model_digest=digest_of(Path(weights or model)),
        learn=learn,
        image_size=None if is_text else _given(image_size, own_size),
        features=features if is_text else None,
        max_tokens=max_tokens if is_text else None,
        n_train_domains=_given(n_train_domains, paper.n_train_domains),
        n_unseen_domains=_given(n_unseen_domains, paper.n_unseen_domains),
        max_train_rows=_given(max_train_rows, paper.max_train_rows),
        max_test_rows=_given(max_test_rows, paper.max_test_rows),
        as_authors=as_authors,
        execution=execution,
    )


def read_once(name: str, folder: str) -> WildsData:
    """Read a released folder once per process, unless its tables change."""
    release = RELEASES[name]
    places = [Path(folder) / file for file in release.files] + [
        Path(folder) / release.folder / file for file in release.files
    ]
    stamps = tuple((path.stat().st_mtime_ns, path.stat().st_size) for path in places if path.is_file())
    return _read(name, folder, stamps)


@lru_cache(maxsize=1)
def _read(name: str, folder: str, _stamps: Any) -> WildsData:
    return read_wilds(name, folder)


def _release_in(folder: str | Path, name: str) -> str:
    """Return the released folder, given it or its parent."""
    place = os.path.abspath(folder)
    inner = os.path.join(place, name)
    return inner if os.path.isdir(inner) else place


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


def _given(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def _place(path: str | Path) -> str:
    """Return an existing path as an absolute one; anything else is a name."""
    return os.path.abspath(path) if os.path.exists(path) else str(path)
