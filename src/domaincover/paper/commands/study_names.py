"""Names that the commands on studies accept, for completion and error messages. Torch is never loaded."""

from __future__ import annotations

from importlib.resources import files

ALL, LIST, REAL = "all", "list", "real"


def experiments() -> list[str]:
    """Return the names of the paper's experiments, without reading their files."""
    folder = files("domaincover.paper") / "experiments"
    return sorted(path.name.removesuffix(".toml") for path in folder.iterdir() if path.name.endswith(".toml"))


def datasets() -> list[str]:
    """Return the data sets, and the names of groups of them."""
    from domaincover.paper.catalogue import DATASET_GROUPS, REGISTERED

    members = (name for group in DATASET_GROUPS.values() for name in group)
    return list(dict.fromkeys([*DATASET_GROUPS, *members, *REGISTERED]))


def studies() -> list[str]:
    """Return what `paper` accepts: experiments, data sets, and two words."""
    return [*experiments(), *datasets(), ALL, LIST]


def settings() -> list[str]:
    """Return the keys that `--set` accepts, each with its equals sign."""
    from domaincover.paper.experiment_keys import SETTABLE

    return [f"{key}=" for key in SETTABLE]


def on_disk() -> list[str]:
    """Return the data sets that `data check` knows."""
    from domaincover.paper.catalogue import CATALOGUE

    return list(CATALOGUE)
