"""Scores of a table's parts, and the thresholds that all rows of a domain set, which may lie in many parts.

1. `ScorePart` writes the scores of a part's rows, and the domain of each.
2. `SetThresholds` reads the scores of some domains through memory maps, from all parts, in the order of parts and rows,
   and returns the thresholds and p-value of each domain: the same numbers as from one file.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.cli.inputs import ModelColumns, domain_names
from domaincover.cli.part_runs import PartRuns
from domaincover.criteria import Sets
from domaincover.data.identity import canonical, look_alike_line, typed_names
from domaincover.data.tables import Table
from domaincover.data.tables.arrow_tables import PartTable
from domaincover.data.tables.table import reading
from domaincover.errors import InputError
from domaincover.files import write_whole
from domaincover.predictors.calibrated_predictors import Scored, last_step
from domaincover.predictors.domain_record import AdaptedDomains, unusual_domains
from domaincover.predictors.promised_predictor import PromisedPredictor
from domaincover.predictors.set_predictor import unwrapped
from domaincover.saving.models import json_bytes, load_extra, load_to_predict, model_checksum
from domaincover.terminal.text import listed

NUMBERS_AT_ONCE = 1 << 22  # scores from which thresholds are set at once, unless one domain has more
VERSION = version("domaincover")
CHANGED = "the table has changed while it was read; run the command again."


@dataclass(frozen=True)
class SavedModel:
    """A model's folder, and a digest by which workers know that they read the same model."""

    folder: str
    digest: str

    @classmethod
    def at(cls, folder: Path) -> SavedModel:
        """Return the model in a folder."""
        return cls(str(folder.absolute()), model_checksum(folder))

    def load(self) -> Any:
        """Return the model, which each process reads once."""
        return _loaded(self)

    def extra(self) -> dict[str, Any]:
        """Return what was saved with the model."""
        return load_extra(self.folder) or {}


@lru_cache(maxsize=1)
def _loaded(model: SavedModel) -> Any:
    if SavedModel.at(Path(model.folder)) != model:
        raise InputError(f"the model in {model.folder} was replaced meanwhile; run the command again.")
    return load_to_predict(model.folder)


class AdaptedNames(NamedTuple):
    """Domains by name, with what their rows gave a model, and a digest of all these rows, if they lie in parts."""

    names: list[Hashable]
    moves: AdaptedDomains
    rows_digest: str

    def moves_of(self, domain_names: Sequence[Hashable]) -> AdaptedDomains:
        """Return the thresholds and p-values of some of these domains."""
        place = {name: row for row, name in enumerate(self.names)}
        return self.moves.subset([place[name] for name in domain_names])

    def warning(self) -> str | None:
        """Return a line about unusual domains and those whose names look alike, if there are any."""
        unusual = unusual_domains(self.names, self.moves.p_values, self.moves.level)
        doubt = look_alike_line(self.names, "domains")
        return "\n".join(filter(None, [unusual, doubt and f"Note: {doubt}"])) or None


class NumberedPart(NamedTuple):
    """A part and its place in the table."""

    number: int
    table: Table

    def __str__(self) -> str:
        return str(self.table.path)


def parts_of(data: Table) -> list[NumberedPart]:
    """Return the parts of a table in their order; a file is one."""
    return [NumberedPart(number, part) for number, part in enumerate(getattr(data, "parts", [data]))]


class DomainsOfPart(NamedTuple):
    """The domains of a part as they are met, the number of rows of each, and a digest of the part."""

    names: NDArray[Any]
    n_rows: NDArray[np.int64]
    digest: str


@dataclass(frozen=True)
class ScorePart:
    """Write the scores of a part's rows, and the domain of each."""

    model: SavedModel
    domain: str
    scratch: Path

    def __call__(self, part: NumberedPart) -> DomainsOfPart:
        """Return the domains of the part."""
        rows = scored_rows(self.model.load(), part.table)
        column = part.table.read([self.domain], [self.domain])[self.domain]
        if len(column) != len(rows.scores):
            raise InputError(CHANGED)
        codes, names = pd.factorize(domain_names(column, range(1, len(column) + 1)))
        found = {"domains": codes, "scores": rows.scores, "probabilities": rows.probabilities}
        for name, values in found.items():
            _save(self.scratch / str(part.number) / f"{name}.npy", values)
        return DomainsOfPart(np.asarray(names, object), np.bincount(codes, minlength=len(names)), digest_of_part(part))


@dataclass(frozen=True)
class SetThresholds:
    """Set the thresholds of a range of domains by all of their rows."""

    model: SavedModel
    scratch: Path
    n_parts: int

    def __call__(self, domains: range) -> AdaptedDomains:
        """Return thresholds and p-values, in the order of domains."""
        inner, codes, rows = last_step(self.model.load()), [], []
        for number in range(self.n_parts):
            own = _mapped(self.scratch, number, "codes") - domains.start
            if not ((own >= 0) & (own < len(domains))).any():
                continue
            of_rows = own[_mapped(self.scratch, number, "domains")]
            chosen = np.flatnonzero((of_rows >= 0) & (of_rows < len(domains)))
            codes.append(of_rows[chosen])
            rows.append(Scored(*(_mapped(self.scratch, number, name)[chosen] for name in ("scores", "probabilities"))))
        scored = Scored.joined(rows, len(inner.classes_))
        adapted: AdaptedDomains = inner.adapted_domains(scored, np.concatenate(codes), len(domains))
        return adapted


def adapted_table(
    runs: PartRuns, model: SavedModel, domain: str, parts: Sequence[NumberedPart], scratch: Path
) -> AdaptedNames:
    """Score all parts, let each domain's rows set its thresholds, and write those where the next steps read them."""
    of_part = runs.all("Scores of parts", ScorePart(model, domain, scratch), parts)
    codes, names = joined_names([one.names for one in of_part])
    own_codes = np.split(codes, np.cumsum([len(one.names) for one in of_part])[:-1])
    n_rows = np.bincount(codes, np.concatenate([one.n_rows for one in of_part]), len(names)).astype(np.int64)
    for part, own in zip(parts, own_codes, strict=True):
        _save(scratch / str(part.number) / "codes.npy", own)
    inner = inner_model(model.load())
    thresholds, p_values = np.empty((len(names), len(inner.classes_))), np.empty(len(names))
    _, starts = np.unique((np.cumsum(n_rows) - n_rows) * len(inner.classes_) // NUMBERS_AT_ONCE, return_index=True)
    at_once = list(starmap(range, pairwise([*starts.tolist(), len(names)])))
    for domains, adapted in runs.each("Thresholds of domains", SetThresholds(model, scratch, len(parts)), at_once):
        thresholds[domains], p_values[domains] = adapted[:2]
    for part, own in zip(parts, own_codes, strict=True):
        _save(scratch / str(part.number) / "thresholds.npy", thresholds[own])
    moves = AdaptedDomains(thresholds, p_values, inner.thresholds_, inner.unfamiliar_level)
    return AdaptedNames(names, moves, digest_of([one.digest for one in of_part]))


def joined_names(of_part: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], list[Any]]:
    """Return the code of each part's domains among those of all parts, one part after the other, and their names."""
    codes, names = pd.factorize(np.concatenate(of_part))
    return codes, typed_names(pd.Series(names, dtype=str)).tolist()


def scored_rows(model: Any, table: Table, *, with_features: bool = False) -> Scored:
    """Score a table in blocks, and return with the scores the features that labels are learned by, if wanted."""
    own = (unwrapped(model, block) for block, _ in ModelColumns.of(model, table).blocks(table))
    found = [inner.scored_with_features(X) if with_features else inner.scored(X) for inner, X in own]
    return Scored.joined(found, len(model.classes_))


class ScoresOfPart(NamedTuple):
    """The domain codes and scores of a part's rows, and the thresholds of these domains, read through memory maps."""

    domains: NDArray[np.int64]
    scores: NDArray[Any]
    thresholds: NDArray[np.float64]

    @classmethod
    def of(cls, scratch: Path, part: NumberedPart) -> ScoresOfPart:
        """Return what `adapted_table` wrote."""
        return cls(*(_mapped(scratch, part.number, name) for name in cls._fields))

    def sets(self, rows: slice) -> Sets:
        """Return the sets of some rows."""
        return np.asarray(self.scores[rows] >= self.thresholds[self.domains[rows]])


def digest_of(*content: Any) -> str:
    """Return a digest of plain data, another one in another version of domaincover."""
    return hashlib.sha256(json_bytes([VERSION, *content])).hexdigest()


def digest_of_part(part: NumberedPart) -> str:
    """Return a digest of a part's bytes and of the columns that its folder's name gives; nothing for a file."""
    if not isinstance(part.table, PartTable):
        return ""
    with reading(part.table.path), open(part.table.path, "rb") as file:
        return digest_of(hashlib.file_digest(file, hashlib.blake2b).hexdigest(), part.table.folder_values)


def _save(path: Path, values: NDArray[Any]) -> None:
    buffer = io.BytesIO()
    np.save(buffer, values)
    write_whole(path, buffer.getbuffer())


def _mapped(scratch: Path, part: int, name: str) -> Any:
    with reading(path := scratch / str(part) / f"{name}.npy"):
        return np.load(path, mmap_mode="r", allow_pickle=False)


def inner_model(model: Any) -> PromisedPredictor:
    """Return the classifier of a model whose thresholds can adapt; reject another one."""
    inner = last_step(model)
    if not isinstance(inner, PromisedPredictor) or not inner.can_adapt:
        raise InputError(_why_not(inner))
    return inner


def can_adapt(model: Any) -> bool:
    """Tell whether the thresholds of a fitted model can adapt to a domain."""
    return bool(getattr(last_step(model), "can_adapt", False))


def meant_for_another_domain(model: Any, adapted_to: str | None, names: Sequence[Hashable]) -> str | None:
    """Return a line if a model is adapted to one domain and the rows are of others, as far as that is known."""
    if not hasattr(last_step(model), "adapted_"):
        return None
    others = [str(name) for name in names if adapted_to is not None and canonical(name) != canonical(adapted_to)]
    if not others and len(names) < 2:
        return None
    own = "one domain" if adapted_to is None else f"domain {adapted_to}"
    rows = f"rows of other domains: {listed(others)}" if others else f"rows of {len(names):,} domains"
    return (
        f"The model is adapted to {own}, and the table has {rows}. For others its promise does not hold: use the model "
        "that it came from."
    )


def _why_not(inner: Any) -> str:
    """Say why the thresholds of a model cannot adapt."""
    if hasattr(inner, "adapted_"):
        return "the model is adapted to one domain already; use the model that it came from."
    if isinstance(inner, PromisedPredictor):
        return "the model's thresholds are fixed (jackknife-minmax); fit with --calibration cross-fit to adapt them."
    return (
        "the model has no promise, and so its thresholds cannot adapt to domains; predict without --domain. A promise "
        "takes nine domains or more by default (domaincover plan)."
    )


def gain_in_words(model: Any, domain: str | None) -> str | None:
    """Return a line on what labels of a new domain gain; None of a model that learns next to nothing from them."""
    inner = last_step(model)
    if not getattr(inner, "few_labels_", None):
        return None
    sizes = {n: f"{size:.2f}" for n, size in inner.label_gain["set_size"].items()}
    if min(sizes.values()) == sizes[0]:
        return None
    with_labels = listed([f"{size} with {n} labels of a new {domain or 'domain'}" for n, size in sizes.items() if n])
    return f"Labels per set, in domains treated as new: {sizes[0]} without labels, {with_labels}."
