"""Options about networks on images and texts, and about how they are trained."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from domaincover.cli import completion
from domaincover.errors import InputError

if TYPE_CHECKING:
    from filelock import BaseFileLock

    from domaincover.data.tables import Table
    from domaincover.estimators.source_network import SourceNetwork

SOURCES, TRAINING = "Images and texts", "Training of networks"

Learn = Literal["auto", "head", "all"]
TextFeatures = Literal["word-embeddings", "encoder"]
Precision = Literal["full", "bf16", "fp16"]
ImageColumn = Annotated[
    str | None,
    typer.Option(
        help="Column with the paths of images, from the table's folder.",
        autocompletion=completion.columns,
        rich_help_panel=SOURCES,
    ),
]
TextColumn = Annotated[
    str | None, typer.Option(help="Column with texts.", autocompletion=completion.columns, rich_help_panel=SOURCES)
]
Model = Annotated[
    str | None,
    typer.Option(
        help="resnet-18 (for images), or the folder of a transformers model.",
        autocompletion=completion.one_of(completion.image_networks),
        rich_help_panel=SOURCES,
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        help="torchvision's weights for resnet-18: .safetensors, or .pth with torch 2.10 or later.",
        rich_help_panel=SOURCES,
    ),
]
LearnOption = Annotated[
    Learn,
    typer.Option(
        help="Train the whole network, or a head on its features; auto: the head of a pretrained one without a GPU.",
        rich_help_panel=SOURCES,
    ),
]
ImageSize = Annotated[
    int | None, typer.Option(min=1, help="Images are resized to this height and width.", rich_help_panel=SOURCES)
]
Crop = Annotated[
    float, typer.Option(help="Share cut off each side of an image first.", rich_help_panel=SOURCES, show_default=False)
]
MaxUnreadable = Annotated[
    float, typer.Option(help="Share of images that may be unreadable; they are left out.", rich_help_panel=SOURCES)
]
Features = Annotated[
    TextFeatures, typer.Option(help="The mean word embedding of a text, or a full encoder.", rich_help_panel=SOURCES)
]
MaxTokens = Annotated[int | None, typer.Option(min=3, help="Where texts are cut.", rich_help_panel=SOURCES)]
Download = Annotated[
    bool,
    typer.Option("--download", help="Permit to fetch --network from the Hugging Face hub.", rich_help_panel=SOURCES),
]
Cache = Annotated[
    Path | None,
    typer.Option(help="Folder that keeps features; else the user's cache.", rich_help_panel=SOURCES),
]
Workers = Annotated[int | None, typer.Option(min=0, help="Processes that read images ahead.", rich_help_panel=SOURCES)]
Epochs = Annotated[int | None, typer.Option(min=1, help="Epochs of training.", rich_help_panel=TRAINING)]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Examples in a batch.", rich_help_panel=TRAINING)]
LearningRate = Annotated[float | None, typer.Option(help="Adam's learning rate.", rich_help_panel=TRAINING)]
Device = Annotated[
    str,
    typer.Option(
        help="Where to train: auto, cpu, cuda, …",
        autocompletion=completion.one_of(completion.devices),
        rich_help_panel=TRAINING,
    ),
]
CheckpointFolder = Annotated[
    Path | None,
    typer.Option(help="Folder for checkpoints of every epoch; gone when the model is there.", rich_help_panel=TRAINING),
]
CheckpointMinutes = Annotated[
    float, typer.Option(help="Minutes between checkpoints within an epoch.", rich_help_panel=TRAINING)
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on from the checkpoints of an interrupted fit.", rich_help_panel=TRAINING)
]
PrecisionOption = Annotated[
    Precision, typer.Option("--precision", help="Mixed precision, with accelerate.", rich_help_panel=TRAINING)
]
Accumulate = Annotated[
    int, typer.Option(min=1, help="Pieces in which a batch goes through the network.", rich_help_panel=TRAINING)
]
Trackers = Annotated[
    list[str] | None,
    typer.Option(
        "--tracker",
        help="csv, tensorboard, mlflow or wandb; may be repeated.",
        autocompletion=completion.one_of(completion.trackers),
        rich_help_panel=TRAINING,
    ),
]
Tracking = Annotated[Path, typer.Option(help="Folder for what trackers write.", rich_help_panel=TRAINING)]


WITHOUT_INFLUENCE = ("workers", "cache", "download", "max_unreadable")  # on what is learned, of a network's settings
COLUMNS = {"images": "--image-column", "texts": "--text-column"}
# Fields of SourceOptions by what they change something for.
EFFECTS = {
    "images and texts": {
        "model": "--network",
        "learn": "--learn",
        "download": "--download",
        "cache": "--cache",
    },
    "images": {
        "weights": "--weights",
        "image_size": "--image-size",
        "crop": "--crop",
        "max_unreadable": "--max-unreadable",
        "workers": "--workers",
    },
    "texts": {"features": "--text-features", "max_tokens": "--max-tokens"},
}


class SourceOptions(NamedTuple):
    """What was said about images and texts; the defaults are those of `fit`."""

    image_column: str | None = None
    text_column: str | None = None
    model: str | None = None
    weights: Path | None = None
    learn: Learn = "auto"
    image_size: int | None = None
    crop: float = 0.0
    max_unreadable: float = 0.01
    features: TextFeatures = "word-embeddings"
    max_tokens: int | None = None
    download: bool = False
    cache: Path | None = None
    workers: int | None = None

    @property
    def column(self) -> str | None:
        """The column with images or texts."""
        return self.text_column if self.image_column is None else self.image_column

    def for_table(self, data: Table) -> SourceOptions:
        """Check the columns; a folder of images has its own."""
        options = self
        if data.path.is_dir():
            if self.text_column is not None:
                raise InputError(f"{data.path} is a folder of images; --text-column needs a table.")
            options = self._replace(image_column="path")
        if options.image_column is not None and options.text_column is not None:
            raise InputError("--image-column and --text-column are two kinds of network; give one of them.")
        if options.column is not None:
            data.check_column(options.column, "--text-column" if options.image_column is None else "--image-column")
        options._check_effects()
        return options

    def _check_effects(self) -> None:
        """Refuse an option that would change nothing, since another thing was meant."""
        mine = "images" if self.image_column else "texts" if self.text_column else ""
        for kinds, options in EFFECTS.items():
            given = [option for name, option in options.items() if getattr(self, name) != self._field_defaults[name]]
            if given and mine not in kinds.split(" and "):
                columns = " or ".join(COLUMNS[kind] for kind in kinds.split(" and "))
                do = f"it does nothing for {mine}, leave it out" if mine else f"give {columns} as well"
                raise InputError(f"{given[0]} is for {kinds}; {do}.")

    def learned_columns(self, tabular: list[str], label: str, domain: str) -> list[str]:
        """Return the columns to learn from: the one with images or texts, or those of a table."""
        if self.column is None:
            return tabular
        option = "--image-column" if self.image_column else "--text-column"
        for other, name in (("--label", label), ("--domain", domain)):
            if name == self.column:
                raise InputError(f"{option} and {other} are both {name!r}; they must be two columns.")
        return [self.column]

    def network(self) -> SourceNetwork | None:
        """Return the network that was asked for; None for tables of numbers and categories."""
        if self.column is None:
            return None
        from domaincover.estimators.image_network import ImageNetwork
        from domaincover.estimators.text_network import TextNetwork

        shared: dict[str, Any] = {"learn": self.learn, "download": self.download, "workers": self.workers}
        shared["cache"] = "auto" if self.cache is None else str(self.cache)
        network: SourceNetwork
        if self.image_column is not None:
            network = ImageNetwork(
                model=self.model or "resnet-18",
                weights=None if self.weights is None else str(self.weights),
                image_size=self.image_size,
                crop=self.crop,
                max_unreadable=self.max_unreadable,
                **shared,
            )
        else:
            if self.model is None:
                raise InputError(
                    "--text-column needs --network: the folder of a transformers model such as bert-base-uncased, or "
                    "its name on the Hugging Face hub with --download."
                )
            network = TextNetwork(
                model=self.model, features=self.features, max_tokens=self.max_tokens, hidden=(64,), **shared
            )
        network.check()
        return network


def what_is_learned(network: SourceNetwork) -> dict[str, Any]:
    """Return the settings of a network that its training depends on, by which checkpoints are told apart."""
    return {name: value for name, value in asdict(network).items() if name not in WITHOUT_INFLUENCE}


class RunOptions(NamedTuple):
    """What was said about training."""

    epochs: int | None
    batch_size: int | None
    learning_rate: float | None
    device: str
    checkpoints: Path | None
    checkpoint_minutes: float
    resume: bool
    precision: Precision
    accumulate: int
    trackers: tuple[str, ...]
    tracking: Path

    def training(self) -> dict[str, Any]:
        """Return parameters of a network classifier, only those that were given."""
        import torch

        from domaincover.training.engine import check_precision
        from domaincover.training.run import TrainingRun
        from domaincover.training.trackers import check_tracker

        for tracker in self.trackers:
            check_tracker(tracker)
        on_cpu = self.device == "cpu" or (self.device == "auto" and not torch.cuda.is_available())
        check_precision("cpu" if on_cpu else "cuda", self.precision)
        if self.resume and self.checkpoints is None:
            raise InputError("--resume goes on from checkpoints; name their folder with --checkpoints.")
        given: dict[str, Any] = {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
        }
        given |= {"device": None if self.device == "auto" else self.device}
        run = TrainingRun(
            self.checkpoints,
            self.checkpoint_minutes,
            self.resume,
            self.precision,
            self.accumulate,
            self.trackers,
            self.tracking,
        )
        given |= {"run": None if run == TrainingRun(tracking=self.tracking) else run}
        return {name: value for name, value in given.items() if value is not None}

    def open_checkpoints(self, table: Path, images: Iterable[str], options: dict[str, Any]) -> BaseFileLock | None:
        """Take the folder for checkpoints, where there is to be one, or refuse another fit's; keep what is returned."""
        if self.checkpoints is None or not is_main_process():
            return None
        from domaincover.training.run import open_command

        told = {key: value for key, value in self._asdict().items() if key in ("epochs", "batch_size", "learning_rate")}
        return open_command(self.checkpoints, {**options, **told, "table": _digest(table, images)}, self.resume)


def _digest(table: Path, images: Iterable[str]) -> str:
    """Return a digest of a table's bytes, and of where its images are and how large."""
    digest = hashlib.blake2b()
    if table.is_file():
        with table.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    above = table if table.is_dir() else table.parent
    for path in sorted(set(images)):
        n_bytes = os.path.getsize(path) if os.path.isfile(path) else None
        digest.update(f"{os.path.relpath(path, above)}\0{n_bytes}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def is_main_process() -> bool:
    """Tell whether this process writes and talks: of those that torchrun starts, the first."""
    return os.environ.get("RANK", "0") == "0"
