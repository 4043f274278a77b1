"""A WILDS data set of a study: its release, and the network on it with the paper's settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from domaincover.errors import InputError
from domaincover.options import Learn, TextFeatures
from domaincover.paper.authors_code import silent_choices
from domaincover.paper.catalogue import CATALOGUE, NaturalData, natural_dataset
from domaincover.paper.source_datasets import HIDDEN_UNITS, absolute_or_name, mini_lm_folder

if TYPE_CHECKING:
    from domaincover.paper.study_datasets import TableDataset

EPOCHS = 5
IMAGENET_SIZE = 224  # of images in the transforms of the pretrained network


class WildsKeys(TypedDict, total=False):
    """Keys of an experiment on WILDS: the networks, and how they read examples."""

    learn: Learn
    image_network: str
    weights: str
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
    name: str, place: Path, values: Mapping[str, Any] | None = None, *, as_authors: bool = False, **settings: Any
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
    from domaincover.estimators.image_network import ImageNetwork

    is_imagenet = silent_choices(as_authors).image_transform == "imagenet"
    given = {key: values[key] for key in ("weights", "max_unreadable") if key in values}
    if "weights" in given:
        given["weights"] = absolute_or_name(given["weights"])
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
    from domaincover.estimators.backbones import backbone_of
    from domaincover.estimators.text_network import TextNetwork

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
