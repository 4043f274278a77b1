"""Options of networks on images and texts, and of their training and its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from domaincover.cli.arguments import column
from domaincover.errors import InputError, check_installed
from domaincover.files import only_writer, remove_unfinished
from domaincover.options import DEVICES, Learn, TextFeatures
from domaincover.terminal.command_options import one_of, option
from domaincover.terminal.messages import if_stopped

if TYPE_CHECKING:
    from domaincover.data.tables import Table
    from domaincover.estimators.source_network import SourceNetwork

COLUMNS = {"images": "--image-column", "texts": "--text-column"}
# Options that have an effect on images, on texts, or on both.
EFFECTS = {
    "images and texts": ("network", "learn", "download", "cache"),
    "images": ("image_size", "crop", "max_unreadable", "workers"),
    "texts": ("text_features", "max_tokens"),
}


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of networks on images and texts."""

    panel: ClassVar = "Images and texts"

    image_column: str | None = column("Column with image paths, relative to the table's folder.")
    text_column: str | None = column("Column with texts.")
    network: str | None = option(
        "For images resnet-18, or small-conv, which trains in seconds; or the folder of a transformers model.",
        autocompletion=one_of(lambda: ["resnet-18", "small-conv"]),
    )
    learn: Learn = option(
        "Train the whole network or a head on its features; auto: the head of a pretrained one without a GPU.", "auto"
    )
    image_size: int | None = option("Resize images to this height and width.", min=1)
    crop: float = option("Share cut from each side of an image first.", 0.0, show_default=False)
    max_unreadable: float = option("Largest share of unreadable images; they are skipped.", 0.01)
    text_features: TextFeatures = option(
        "Features of a text: its mean word embedding, or an encoder.", "word-embeddings"
    )
    max_tokens: int | None = option("Truncate texts to so many tokens.", min=3)
    download: bool = option("Download --network from the Hugging Face hub.", False)
    cache: Path | None = option("Folder that caches features; default: the user's.")
    workers: int | None = option("Processes that load images.", min=0)

    @property
    def column(self) -> str | None:
        """The column with images or texts."""
        return self.text_column if self.image_column is None else self.image_column

    @property
    def kind(self) -> str:
        """What the column holds: images or texts, or nothing without one."""
        return "images" if self.image_column is not None else "" if self.text_column is None else "texts"

    def for_table(self, data: Table) -> SourceOptions:
        """Check the columns; a folder of images has its own."""
        options = self
        if data.is_images:
            if self.text_column is not None:
                raise InputError(f"{data.path} is a folder of images; --text-column needs a table.")
            options = replace(self, image_column="path")
        if options.image_column is not None and options.text_column is not None:
            raise InputError("--image-column and --text-column are two kinds of network; give one of them.")
        if options.column is not None:
            data.check_column(options.column, COLUMNS[options.kind])
        options._check_effects()
        return options

    def _check_effects(self) -> None:
        """Reject an option that would have no effect."""
        defaults = {field.name: field.default for field in fields(self)}
        for kinds, names in EFFECTS.items():
            given = [name for name in names if getattr(self, name) != defaults[name]]
            if given and self.kind not in kinds.split(" and "):
                columns = " or ".join(COLUMNS[kind] for kind in kinds.split(" and "))
                do = f"it has no effect on {self.kind}, leave it out" if self.kind else f"give {columns} as well"
                raise InputError(f"--{given[0].replace('_', '-')} is for {kinds}; {do}.")

    def learned_columns(self, tabular: list[str], label: str, domain: str) -> list[str]:
        """Return the columns to learn from: the one with images or texts, or those of a table."""
        if self.column is None:
            return tabular
        for other, name in (("--label", label), ("--domain", domain)):
            if name == self.column:
                raise InputError(f"{COLUMNS[self.kind]} and {other} are both {name!r}; they must be two columns.")
        return [self.column]

    def make_network(self) -> SourceNetwork | None:
        """Return the network for images or texts; None for tables of numbers and categories."""
        if self.column is None:
            return None
        from domaincover.estimators.image_and_text_networks import ImageNetwork, TextNetwork

        shared: dict[str, Any] = {"learn": self.learn, "download": self.download, "workers": self.workers}
        shared["cache"] = "auto" if self.cache is None else str(self.cache)
        network: SourceNetwork
        if self.image_column is not None:
            check_installed("PIL", "image files", "images")
            shared |= {name: getattr(self, name) for name in ("image_size", "crop", "max_unreadable")}
            network = ImageNetwork(model=self.network or "resnet-18", **shared)
        elif self.network is None:
            raise InputError(
                "--text-column needs --network: the folder of a transformers model such as bert-base-uncased, or its "
                "name on the Hugging Face hub with --download."
            )
        else:
            shared |= {"features": self.text_features, "max_tokens": self.max_tokens, "hidden": (64,)}
            network = TextNetwork(model=self.network, **shared)
        network.check()
        return network


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options of the training of networks."""

    panel: ClassVar = "Training of networks"

    epochs: int | None = option("Epochs of training.", min=1)
    batch_size: int | None = option("Examples in a batch.", min=1)
    learning_rate: float | None = option("Learning rate of Adam.")
    device: str = option("Device to train on: auto, cpu, cuda, …", "auto", autocompletion=one_of(lambda: DEVICES))
    checkpoints: Path | None = option("Folder for checkpoints; removed once the model is saved.")
    checkpoint_minutes: float = option("Minutes between checkpoints within an epoch.", 10.0)
    resume: bool = option("Continue from the checkpoints of an interrupted fit.", False)
    on_disk: bool = option(
        "Train networks without reading the features into memory, from Parquet or Arrow of any size.", False
    )

    def parameters(self) -> dict[str, Any]:
        """Return parameters of a network classifier, only those that were given."""
        from domaincover.training.settings import TrainingRun

        if self.resume and self.checkpoints is None:
            raise InputError("--resume continues from checkpoints; name their folder with --checkpoints.")
        names = ("checkpoints", "checkpoint_minutes", "resume")
        run = TrainingRun(**{name: getattr(self, name) for name in names})
        given: dict[str, Any] = {
            **{name: getattr(self, name) for name in ("epochs", "batch_size", "learning_rate")},
            "device": None if self.device == "auto" else self.device,
            "run": None if run == TrainingRun() else run,
        }
        return {name: value for name, value in given.items() if value is not None}

    def keeping_checkpoints(self) -> AbstractContextManager[None]:
        """Lock the folder of checkpoints until the model is saved, or reject another fit's."""
        if self.checkpoints is None:
            return nullcontext()
        if_stopped("its checkpoints are kept, and the same command with --resume continues from them")
        return checkpoints_in(self.checkpoints, resume=self.resume)


@contextmanager
def checkpoints_in(folder: Path, *, resume: bool) -> Iterator[None]:
    """Lock a folder for the checkpoints of a command, and delete them when it has succeeded.

    Without `resume` it may not hold any. What is resumed is a training of the same settings, data and networks.
    """
    with only_writer(folder):
        if not resume and _trainings(folder):
            raise InputError(
                f"{folder} contains checkpoints of an interrupted fit; add --resume to resume it, or choose another "
                "folder."
            )
        yield
        _delete_checkpoints(folder)


def _trainings(folder: Path) -> list[Path]:
    """Return the folders that trainings named by their identity."""
    return [path for path in folder.iterdir() if re.fullmatch("[0-9a-f]{16}", path.name)]


def _delete_checkpoints(folder: Path) -> None:
    """Delete what training wrote, and nothing else."""
    from domaincover.training.checkpoints import NAME

    for own in _trainings(folder):
        remove_unfinished(own)
        for state in [path for path in own.iterdir() if NAME.fullmatch(path.name)]:
            state.unlink()
        with suppress(OSError):  # it is not empty
            own.rmdir()
    remove_unfinished(folder)
