"""Data sets by name: where each is, how it is read, how to get it, and how much of it a study uses."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypedDict

from domaincover import datasets
from domaincover.data.examples import default_cache_folder
from domaincover.data.synthetic import GaussianDomains
from domaincover.datasets import DatasetTable
from domaincover.errors import InputError, suggestion
from domaincover.options import Learn, TextFeatures
from domaincover.paper.authors_code import silent_choices
from domaincover.paper.real.contents import Contents, folders_in
from domaincover.paper.source_datasets import (
    HIDDEN_UNITS,
    DataKind,
    absolute_or_name,
    make_dataset,
    mini_lm_folder,
)
from domaincover.paper.study_datasets import (
    SYNTHETIC_NAME,
    Sizes,
    StudyDataset,
    SyntheticDataset,
    TableDataset,
    check_plain,
)

READERS = "domaincover.paper.real"  # modules with `locate_NAME`, `load_NAME` and `packaged_NAME`, as far as they apply
MOST_FEATURES = 2000  # of synthetic data
EPOCHS = 5  # on WILDS
IMAGENET_SIZE = 224  # of images in the transforms of the pretrained network
UNREACHABLE = (
    "the public download host of WILDS has been unreachable for months, so use a copy from elsewhere, such as your "
    "institution"
)
Group = Literal["installable", "wilds", "real"]


@dataclass(frozen=True, kw_only=True)
class NaturalData:
    """A data set with natural domains.

    `files` are those by which a release is recognised, and `released_as` the folder of a release that has one name;
    `package` carries the data, or a smaller copy of them. `reader` is a module of `READERS`; a table of
    `domaincover.datasets` has none.
    """

    name: str
    group: Group  # the name of all data sets that are got in the same way
    kind: DataKind  # what is read as X: bytes (n, height, width) or paths, a DataFrame, or an array of texts
    domain_is: str  # such as "speaker"
    sizes: Sizes  # the paper's for WILDS; a domain with fewer rows than both maxima is divided in their proportion
    min_cell_size: int = 20  # labels with fewer examples in a domain do not count there
    how_to_get: str = UNREACHABLE
    reader: str = ""
    files: tuple[str, ...] = ()
    released_as: str = ""
    package: str = ""
    examples_are: str = ""  # what they are in words, where `kind` does not say it: recordings are read as images
    batch_size: int | None = None  # of the paper's networks
    image_size: int | None = None
    crop: float = 0.0  # the share of width and height to cut from each side

    def find(self, folder: Path | None) -> Path | None:
        """Return the release in a folder or one level below; None if there is none."""
        if folder is None or not self.files:
            return None
        folder = Path(os.path.abspath(folder))
        if self.released_as:
            return next(filter(self._has_tables, (folder, folder / self.released_as)), None)
        places = map(self._of_reader("locate"), (folder, *folders_in(folder)))
        return next((place for place in places if place is not None), None)

    def _has_tables(self, place: Path) -> bool:
        first, *others = (file for file in self.files if file.endswith(".csv"))
        if not (place / first).is_file():
            return False
        if absent := [file for file in others if not (place / file).is_file()]:
            raise InputError(f"{place} has {first} but not {absent[0]}; copy the rest of {self.released_as}.")
        return True

    @property
    def is_installed(self) -> bool:
        """Whether the data are in this package, or in another one that is installed."""
        return find_spec(self.package) is not None if self.package else not self.reader

    @property
    def content(self) -> str | None:
        """What names the data of a package of tables: its version; other data are named by their digest."""
        if self.reader or not self.package:
            return None
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError:
            return self.package

    def read(self, place: Path | None, cache: Path | None = None) -> DatasetTable:
        """Return the examples of a place that `find` returned; None is the package."""
        return self.examine(place, cache).table

    def examine(self, place: Path | None, cache: Path | None = None) -> Contents:
        """Return the examples of a place, and what it lacks; raise if any file is faulty or none is usable.

        Decoded images and sounds are kept in the folder `cache`, if given, until their files change.
        """
        if place is None:
            if not self.is_installed:
                raise InputError(f"{self.name}: {self.missing()}")
            found = Contents(self.packaged_reader())
        else:
            found = self._of_reader("load")(place, cache)
        if len(found.table.X) == 0:
            left_out = ", ".join(f"{count:,} {reason}" for reason, count in found.left_out.items())
            where, reason = place or f"the package {self.package}", left_out or "none is in it, or none that counts"
            raise InputError(f"{where} has no usable example of {self.name}: {reason}; copy it again.")
        return found

    def missing(self, folder: Path | None = None) -> str:
        """Say why the data are absent, and how to get them."""
        below = folder and (folder / self.released_as if self.released_as else "a folder in it")
        looked = "" if folder is None else f"not found in {folder} or {below}: "
        expected = f"expected {', '.join(self.files)}; " if self.files else ""
        return f"{looked}{expected}{self.how_to_get}."

    @property
    def packaged_reader(self) -> Callable[[], DatasetTable]:
        """The function that takes the data from a package."""
        return self._of_reader("packaged") if self.reader else getattr(datasets, f"load_{self.name}")

    def _of_reader(self, function: str) -> Callable[..., Any]:
        module = import_module(f"{READERS}.{self.reader}")  # it may need pandas
        found: Callable[..., Any] = getattr(module, f"{function}_{self.name.replace('-', '_')}")
        return found


def _read_catalogue() -> dict[str, NaturalData]:
    text = (files("domaincover.paper") / "catalogue.toml").read_text(encoding="utf-8")
    return {
        name: NaturalData(name=name, **{**row, "sizes": Sizes(*row["sizes"]), "files": tuple(row.get("files", ()))})
        for name, row in tomllib.loads(text).items()
    }


CATALOGUE = _read_catalogue()


def names_of(group: Group) -> tuple[str, ...]:
    """Return the names of the data sets of a group."""
    return tuple(name for name, data in CATALOGUE.items() if data.group == group)


def read_real(name: str, folder: str | Path | None = None, *, cache: str | Path | None = None) -> DatasetTable:
    """Return examples, labels and domains of a real data set that a folder holds, or an installed package.

    Parameters
    ----------
    name : str
        "audiomnist", "malaria", "wisdm", "rotated-digits", "reviews" or "wages".
    folder : path or None
        The folder of the release, or one that holds it; None takes the data from the package that carries them.
    cache : path or None
        A folder for decoded images and sounds, which makes the next call fast.
    """
    return _read(name, "real", folder, cache)


def read_wilds(name: str, folder: str | Path) -> DatasetTable:
    """Return examples, labels and domains of a WILDS data set (Koh et al., 2021), read from its released folder.

    Examples are absolute paths of images, which are not opened, or texts. Labels are categories in the order of the
    release, whose official splits are pooled.

    Parameters
    ----------
    name : str
        "camelyon17", "fmow", "iwildcam" or "amazon".
    folder : path
        The released folder, or its parent.
    """
    return _read(name, "wilds", folder)


def _read(name: str, group: Group, folder: str | Path | None, cache: str | Path | None = None) -> DatasetTable:
    known = names_of(group)
    if name not in known:
        meant = suggestion(name, known, f"there are {', '.join(known)}.")
        raise InputError(f"no data set of {group!r} is called {name!r}; {meant}")
    data, looked = CATALOGUE[name], None if folder is None else Path(os.path.abspath(folder))
    place = data.find(looked)
    if place is None and not data.is_installed:
        raise InputError(f"{name}: {data.missing(looked)}")
    return data.read(place, None if cache is None else Path(cache))


@dataclass(frozen=True)
class NaturalFiles:
    """Reads a data set of the catalogue where it was found; None is its package."""

    name: str
    place: str | None

    def __call__(self) -> DatasetTable:
        """Return images, rows or texts, labels and domains."""
        place = None if self.place is None else Path(self.place)
        return CATALOGUE[self.name].read(place, default_cache_folder() / "real")


def natural_dataset(name: str, place: Path | None, **settings: Any) -> TableDataset:
    """Return a data set of the catalogue for studies, read from a place that was found; None is its package."""
    data = CATALOGUE[name]
    own = {**data.sizes._asdict(), "min_cell_size": data.min_cell_size, **settings}
    read = NaturalFiles(name, None if place is None else str(place)) if data.reader else data.packaged_reader
    return make_dataset(name, read, kind=data.kind, **{"content": data.content, **own})


class WildsKeys(TypedDict, total=False):
    """Keys of an experiment on WILDS: the networks, and how they read examples."""

    learn: Learn
    image_network: str
    image_size: int
    max_unreadable: float
    text_network: str
    text_features: TextFeatures
    max_tokens: int
    device: str
    workers: int
    cache: str
    download: bool


def wilds_dataset(
    name: str, place: Path | None, values: Mapping[str, Any] | None = None, *, as_authors: bool = False, **settings: Any
) -> TableDataset:
    """Return a WILDS data set for studies with the paper's settings, read from a place that was found.

    `values` are keys of an experiment about networks. With `as_authors`, images and the width of the perceptron on
    texts are those of the authors' released code.
    """
    values = {} if values is None else values
    for option in ("image_size", "max_tokens"):
        if values.get(option, 1) < 1:
            raise InputError(f"{option} must be at least 1, got {values[option]}.")
    data = CATALOGUE[name]
    network = (_text_network if data.kind == "text" else _image_network)(data, values, as_authors)
    own = {"epochs": EPOCHS, "batch_size": data.batch_size, "device": values.get("device", "auto")}
    own |= {"content": str(place), "network": network, "hidden": network.hidden[0] if network.hidden else 0}
    return natural_dataset(name, place, **own, **settings)


def _image_network(data: NaturalData, values: Mapping[str, Any], as_authors: bool) -> Any:
    from domaincover.estimators.image_and_text_networks import ImageNetwork

    is_imagenet = silent_choices(as_authors).image_transform == "imagenet"
    given = {key: values[key] for key in ("max_unreadable",) if key in values}
    return ImageNetwork(
        model=absolute_or_name(values.get("image_network", "resnet-18")),
        learn=values.get("learn", "auto"),
        image_size=values.get("image_size", IMAGENET_SIZE if is_imagenet else data.image_size),
        resize="imagenet" if is_imagenet else "stretch",
        crop=data.crop,
        **given,
        **_reading(values),
    )


def _text_network(data: NaturalData, values: Mapping[str, Any], as_authors: bool) -> Any:
    from domaincover.estimators.image_and_text_networks import TextNetwork
    from domaincover.estimators.source_network import backbone_of

    if (reason := lacking_network(data, values)) is not None:
        raise InputError(f"{data.name}: {reason}")
    model = absolute_or_name(values["text_network"])
    features, download = values.get("text_features", "word-embeddings"), values.get("download", False)
    hidden = HIDDEN_UNITS
    if silent_choices(as_authors).amazon_hidden != "10":
        n_features: Any = backbone_of("text", model, features=features, download=download).module.n_features
        hidden = int(n_features) // 2
    learn = values.get("learn", "auto")
    return TextNetwork(
        model=model,
        learn="head" if learn == "auto" else learn,
        hidden=(hidden,),
        features=features,
        max_tokens=values.get("max_tokens"),
        **_reading(values),
    )


def _reading(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return how networks are got and examples read, which changes results only by rounding."""
    given = {key: values[key] for key in ("download", "workers") if key in values}
    return given | ({"cache": os.path.abspath(values["cache"])} if "cache" in values else {})


def lacking_network(data: NaturalData, values: Mapping[str, Any]) -> str | None:
    """Return which network on texts is lacking and how to get it; None if there is one, or none is needed."""
    if data.kind == "text" and data.group == "wilds" and "text_network" not in values:
        return (
            "it needs text_network: the folder of a BERT-like model with its tokenizer, as --set text_network=FOLDER, "
            "or, with download = true, a name on the Hugging Face hub; the paper's is bert-base-uncased."
        )
    if data.kind == "text" and data.group == "real":
        try:
            mini_lm_folder()
        except InputError as error:
            return str(error)
    return None


REGISTERED: dict[str, StudyDataset] = {name: natural_dataset(name, None) for name in names_of("installable")}


# Names of groups of datasets.
DATASET_GROUPS = {
    "synthetic": ("synthetic-10", "synthetic-10-random", "synthetic-50", "synthetic-50-random"),
    "installable": names_of("installable"),
    "wilds": names_of("wilds"),
    "real": names_of("real"),
}


def study_dataset(name: str) -> StudyDataset:
    """Return a dataset by name."""
    if name in REGISTERED:
        if name in CATALOGUE and not CATALOGUE[name].is_installed:
            raise InputError(f"{name} needs the package {CATALOGUE[name].package}: {CATALOGUE[name].how_to_get}.")
        return REGISTERED[name]
    found = SYNTHETIC_NAME.fullmatch(name)
    if not found:
        known = [*DATASET_GROUPS["synthetic"], *REGISTERED]
        meant = f" ({near})" if (near := suggestion(name, known)) else ""
        raise InputError(
            f"unknown dataset {name!r}{meant}: choose one of {', '.join(known)}; WILDS needs --wilds, and "
            f"{', '.join(DATASET_GROUPS['real'])} need --data."
        )
    n_features = int(found[1])
    if n_features > MOST_FEATURES:
        raise InputError(f"synthetic data have at most {MOST_FEATURES} features, got {n_features}.")
    source = GaussianDomains.of_paper(n_features, "random" if found[2] else "shared")
    return SyntheticDataset(name=name, source=source, hidden=n_features // 2)


def is_named(dataset: StudyDataset) -> bool:
    """Return whether `study_dataset` finds a data set, but for its sizes."""
    return isinstance(dataset, SyntheticDataset) or dataset.name in REGISTERED


def study_datasets(names: Iterable[str]) -> tuple[str, ...]:
    """Expand the names of groups and return each dataset once."""
    return tuple(dict.fromkeys(dataset for name in names for dataset in DATASET_GROUPS.get(name, (name,))))


def add_dataset(dataset: StudyDataset) -> None:
    """Register a dataset."""
    check_free(dataset.name)
    REGISTERED[dataset.name] = dataset


def check_free(name: str) -> None:
    """Raise if a dataset of this name already exists, or if the name cannot be used."""
    known = {*REGISTERED, *DATASET_GROUPS, *(member for group in DATASET_GROUPS.values() for member in group)}
    if name in known or SYNTHETIC_NAME.fullmatch(name):
        raise InputError(f"a dataset {name!r} already exists; choose another name.")
    check_plain(name, "dataset")
