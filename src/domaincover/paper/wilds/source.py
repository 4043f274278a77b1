"""A data set of WILDS as a study meets it: its folder, the network on it, and how much of it is used."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import DomainDataset
from domaincover.data.splits import drop_small_cells
from domaincover.errors import InputError
from domaincover.options import Learn, LearnedPart, TextFeatures
from domaincover.paper.wilds.hyperparameters import EPOCHS, HIDDEN_UNITS, PAPER
from domaincover.paper.wilds.reader import RELEASES, WildsData, read_wilds

if TYPE_CHECKING:
    from torch import nn

    from domaincover.estimators.source_network import SourceNetwork

NUMBERS_IN_A_STACK = 150_000_000  # 600 MB
MOST_FEATURES = 768  # of the usual networks; how many there are is known only once one is loaded


@dataclass(frozen=True)
class Means:
    """By what means a study is done; its results are the same, up to rounding, and do not say so."""

    device: str = "auto"
    workers: int | None = None
    cache: str | None = "auto"
    download: bool = False
    max_unreadable: float = 0.01
    threads: int | None = None  # of the process that trains a whole network; None is torch's own number


@dataclass(frozen=True)
class WildsSource:
    """What a result depends on: plain data. `wilds_source` fills in what the paper says."""

    name: str
    data: str
    model: str
    weights: str | None
    model_digest: str | None  # of the files of model or weights; None where they are not on the disk
    learn: LearnedPart
    image_size: int | None
    features: TextFeatures | None
    max_tokens: int | None
    n_train_domains: int
    n_unseen_domains: int
    max_train_rows: int
    max_test_rows: int
    means: Means = field(default_factory=Means, compare=False)

    def __post_init__(self) -> None:
        for option in ("n_train_domains", "n_unseen_domains", "max_train_rows", "max_test_rows"):
            if getattr(self, option) < 1:
                raise InputError(f"{option} must be at least 1, got {getattr(self, option)}.")
        for option in ("image_size", "max_tokens"):
            if (value := getattr(self, option)) is not None and value < 1:
                raise InputError(f"{option} must be at least 1, got {value}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings by name, but for the name itself and the means."""
        return {key: value for key, value in asdict(self).items() if key not in ("name", "means")}

    @property
    def epochs(self) -> int:
        """How long the paper trains."""
        return EPOCHS

    @property
    def batch_size(self) -> int:
        """The paper's."""
        return PAPER[self.name].batch_size

    @property
    def recall_from(self) -> str:
        """Whence multipliers know recall: a full pass over images would cost too much."""
        return "batches"

    @property
    def min_cell_size(self) -> int:
        """A label with fewer examples in a domain does not count there; the paper asks for more than 100."""
        return 101

    @property
    def trains_whole_networks(self) -> bool:
        """Whether networks learn as a whole, one at a time, on examples that are read as they are needed."""
        return self.learn == "all"

    @property
    def hidden(self) -> int:
        """Hidden units of the head; 0 is a linear one."""
        return HIDDEN_UNITS if RELEASES[self.name].kind == "text" else 0

    @property
    def seeds_per_stack(self) -> int:
        """How many seeds train together: as many as memory has room for, or one whole network after the other."""
        if self.trains_whole_networks:
            return 1
        n_rows = self.n_train_domains * (self.max_train_rows + self.max_test_rows)
        n_rows += self.n_unseen_domains * self.max_test_rows
        return max(1, min(20, NUMBERS_IN_A_STACK // (n_rows * MOST_FEATURES)))

    @property
    def network(self) -> SourceNetwork:
        """The network and how it reads examples."""
        from domaincover.estimators.image_network import ImageNetwork
        from domaincover.estimators.text_network import TextNetwork

        means, hidden = self.means, (self.hidden,) if self.hidden else ()
        shared: dict[str, Any] = {"model": self.model, "learn": self.learn, "hidden": hidden}
        shared |= {"download": means.download, "cache": means.cache, "workers": means.workers}
        if RELEASES[self.name].kind == "text":
            return TextNetwork(**shared, features=self.features or "word-embeddings", max_tokens=self.max_tokens)
        return ImageNetwork(
            **shared,
            weights=self.weights,
            image_size=self.image_size,
            crop=RELEASES[self.name].crop,
            max_unreadable=means.max_unreadable,
        )

    @property
    def device(self) -> str:
        """Where the network computes."""
        return self.network.device(self.means.device)

    def load(self, rng: np.random.Generator) -> DomainDataset:  # noqa: ARG002 - synthetic data are drawn
        """Return all examples, as paths or texts."""
        return read_once(self.name, self.data).dataset()

    def encode(
        self, sources: NDArray[Any], train_rows: NDArray[np.int64], n_labels: int
    ) -> tuple[Any, Callable[[np.random.Generator], nn.Module]]:
        """Return features, on the scale of the training rows, or lazy examples; and what makes a network on them."""
        network = self.network
        encoder = network.fitted_encoder(sources[train_rows], self.device)
        return encoder.encode(sources), lambda rng: network.make(encoder, n_labels, rng)

    def check(self, min_cell_size: int) -> None:
        """Refuse a network or a folder that cannot be used, before anything is written."""
        from domaincover.estimators.backbones import image_backbone_of, text_backbone_of

        self.network.check()
        self._check_device()
        data = read_once(self.name, self.data)
        n_domains = len(np.unique(data.domains[drop_small_cells(data.dataset(), np.arange(len(data)), min_cell_size)]))
        if n_domains < self.n_train_domains + self.n_unseen_domains:
            raise InputError(
                f"{self.name} in {data.folder} has {n_domains} domains with {min_cell_size} or more examples of a "
                f"label, and {self.n_train_domains} to train on and {self.n_unseen_domains} unseen are asked for; "
                "lower n_train_domains, n_unseen_domains or min_cell_size."
            )
        if data.kind == "text":
            text_backbone_of(self.model, self.features, self.means.download)
        else:
            image_backbone_of(self.model, self.weights, self.means.download)

    def _check_device(self) -> None:
        import torch

        try:
            torch.zeros(1, device=self.device)
        except (AssertionError, RuntimeError) as fault:
            raise InputError(f"device {self.device!r} cannot be used here: {str(fault).splitlines()[0]}") from None


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
    means: Means | None = None,
) -> WildsSource:
    """Return a data set of WILDS with the paper's sizes, where no others are given.

    `learn="auto"` trains a head on the features of a pretrained image network where no GPU is found, else the whole
    network; on texts, the perceptron on mean word embeddings, as in the paper.
    """
    from domaincover.estimators.image_network import ImageNetwork

    if name not in PAPER:
        raise InputError(f"no WILDS data set {name!r}; there are {', '.join(PAPER)}.")
    paper, is_text, means = PAPER[name], RELEASES[name].kind == "text", means or Means()
    if is_text and model is None:
        raise InputError(
            f"{name} needs text_network: the folder of a BERT-like model with its tokenizer or, with download = true, "
            "a name on the Hugging Face hub; the paper's is bert-base-uncased."
        )
    model, weights = _place(model or "resnet-18"), None if weights is None else _place(weights)
    if learn not in get_args(Learn):
        raise InputError(f"learn must be auto, head or all, got {learn!r}.")
    if learn == "auto":
        learn = "head" if is_text else ImageNetwork(model=model, weights=weights).learns(means.device)
    return WildsSource(
        name=name,
        data=_release_in(data, RELEASES[name].folder),
        model=model,
        weights=weights,
        model_digest=_digest_of(Path(weights or model)),
        learn=learn,
        image_size=None if is_text else _given(image_size, paper.image_size),
        features=features if is_text else None,
        max_tokens=max_tokens if is_text else None,
        n_train_domains=_given(n_train_domains, paper.n_train_domains),
        n_unseen_domains=_given(n_unseen_domains, paper.n_unseen_domains),
        max_train_rows=_given(max_train_rows, paper.max_train_rows),
        max_test_rows=_given(max_test_rows, paper.max_test_rows),
        means=means,
    )


def read_once(name: str, folder: str) -> WildsData:
    """Read a released folder once in a process, while its tables stay as they are."""
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
    """Return the released folder, given itself or the one that holds it."""
    place = os.path.abspath(folder)
    inner = os.path.join(place, name)
    return inner if os.path.isdir(inner) else place


def _digest_of(path: Path) -> str | None:
    """Return a digest of a file, or of the files in a folder and their names."""
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
    """Return the absolute path of what is on the disk; anything else is a name."""
    return os.path.abspath(path) if os.path.exists(path) else str(path)
