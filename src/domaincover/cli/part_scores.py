"""Scores of a table's parts, and the thresholds that all rows of a domain set, which may lie in many parts.

1. `ScorePart` scores a part's rows, and writes the scores in the order of the part's domains.
2. `SetThresholds` reads the scores of some domains through memory maps, from all parts that have rows of them, in the
   order of parts and rows, and returns the thresholds and p-value of each domain: the same numbers as from one file.
"""

from __future__ import annotations

import hashlib
import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.cli.adaptable import AdaptedNames, inner_model
from domaincover.cli.inputs import ModelColumns, domain_names
from domaincover.cli.part_runs import PartRuns
from domaincover.data import tables
from domaincover.data.identity import typed_names
from domaincover.data.tables import Table
from domaincover.data.tables.arrow_tables import PartTable
from domaincover.data.tables.faults import reading
from domaincover.errors import InputError
from domaincover.files import write_whole
from domaincover.predictors.calibrated_predictors import Scored
from domaincover.predictors.label_scores import last_step
from domaincover.predictors.promised_predictor import AdaptedDomains
from domaincover.predictors.set_predictor import unwrapped
from domaincover.saving.models import load_to_predict, model_checksum
from domaincover.saving.sealed import json_bytes

NUMBERS_AT_ONCE = 1 << 22  # scores from which thresholds are set at once, unless one domain has more
VERSION = version("domaincover")


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


@lru_cache(maxsize=1)
def _loaded(model: SavedModel) -> Any:
    if SavedModel.at(Path(model.folder)) != model:
        raise InputError(f"the model in {model.folder} was replaced meanwhile; run the command again.")
    return load_to_predict(model.folder)


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


class ConsecutiveDomains(NamedTuple):
    """Consecutive domains, and where their scores are: by part the domains, and the first and number of their rows."""

    first: int
    last: int
    places: list[tuple[int, NDArray[np.int64]]]

    def __str__(self) -> str:
        return f"domains {self.first:,} to {self.last:,}"


@dataclass(frozen=True)
class ScorePart:
    """Write the scores of a part's rows in the order of their domains."""

    model: SavedModel
    domain: str
    scratch: Path

    def __call__(self, part: NumberedPart) -> DomainsOfPart:
        """Return the domains of the part."""
        rows, table, domains = [], part.table, []
        for scored, kept in scored_blocks(self.model.load(), table, [self.domain]):
            rows.append(scored)
            domains.append(table.text_of(kept[self.domain]))
        column = pd.concat(domains) if domains else pd.Series([], name=self.domain, dtype=object)
        codes, names = pd.factorize(domain_names(column, range(1, len(column) + 1)))
        order = np.argsort(codes, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        own = self.scratch / str(part.number)
        _save(own / "rows.npy", np.stack([codes, place]))
        for name, values in joined(self.model.load(), rows)._asdict().items():
            _save(own / f"{name}.npy", values[order])
        return DomainsOfPart(np.asarray(names, object), np.bincount(codes, minlength=len(names)), digest_of_part(part))


@dataclass(frozen=True)
class SetThresholds:
    """Set the thresholds of consecutive domains by all of their rows."""

    model: SavedModel
    scratch: Path

    def __call__(self, domains: ConsecutiveDomains) -> AdaptedDomains:
        """Return thresholds and p-values, in the order of domains."""
        inner, codes, rows = last_step(self.model.load()), [], []
        for number, (own, starts, n_rows) in domains.places:
            places = np.repeat(starts - np.cumsum(n_rows) + n_rows, n_rows) + np.arange(n_rows.sum())
            codes.append(np.repeat(own, n_rows))
            rows.append(Scored(*(_mapped(self.scratch, number, name)[places] for name in Scored._fields)))
        all_codes = np.concatenate(codes) - domains.first
        adapted: AdaptedDomains = inner.adapted_domains(joined(inner, rows), all_codes, domains.last - domains.first)
        return adapted


class AdaptedTable(NamedTuple):
    """The domains of a table and their thresholds, and a digest of all parts, which set them."""

    domains: AdaptedNames
    digest: str


def adapted_table(
    runs: PartRuns, model: SavedModel, domain: str, parts: Sequence[NumberedPart], scratch: Path
) -> AdaptedTable:
    """Score all parts, let each domain's rows set its thresholds, and write those where the next steps read them."""
    found = {part.number: one for part, one in runs.each("Scores of parts", ScorePart(model, domain, scratch), parts)}
    of_part = [found[part.number] for part in parts]
    codes, names = pd.factorize(np.concatenate([one.names for one in of_part]))
    n_rows = np.zeros(len(names), dtype=np.int64)
    np.add.at(n_rows, codes, np.concatenate([one.n_rows for one in of_part]))
    inner = inner_model(model.load())
    thresholds, p_values = np.empty((len(names), len(inner.classes_))), np.empty(len(names))
    bucket = (np.cumsum(n_rows) - n_rows) * len(inner.classes_) // NUMBERS_AT_ONCE
    own_codes = np.split(codes, np.cumsum([len(one.names) for one in of_part])[:-1])
    buckets = list(_buckets(bucket, own_codes, of_part))
    for domains, adapted in runs.each("Thresholds of domains", SetThresholds(model, scratch), buckets):
        thresholds[domains.first : domains.last] = adapted.thresholds
        p_values[domains.first : domains.last] = adapted.p_values
    for part, own in zip(parts, own_codes, strict=True):
        _save(scratch / str(part.number) / "thresholds.npy", thresholds[own])
    typed = typed_names(pd.Series(names, dtype=str)).tolist()
    return AdaptedTable(AdaptedNames(inner, typed, thresholds, p_values), digest_of([one.digest for one in of_part]))


def _buckets(
    bucket: NDArray[np.int64], codes: Sequence[NDArray[np.int64]], of_part: Sequence[DomainsOfPart]
) -> Iterator[ConsecutiveDomains]:
    """Yield consecutive domains whose scores are read at once."""
    places = defaultdict(list)
    for part, (own, one) in enumerate(zip(codes, of_part, strict=True)):
        rows = pd.DataFrame({"code": own, "start": np.cumsum(one.n_rows) - one.n_rows, "n_rows": one.n_rows})
        for number, some in rows.groupby(bucket[own]):
            places[number].append((part, some.to_numpy().T))
    numbers, starts = np.unique(bucket, return_index=True)
    for number, first, last in zip(numbers.tolist(), starts.tolist(), [*starts[1:].tolist(), len(bucket)], strict=True):
        yield ConsecutiveDomains(first, last, places[number])


def scored_blocks(model: Any, table: Table, copied: Sequence[str] = ()) -> Iterator[tuple[Scored, pd.DataFrame]]:
    """Score a table in blocks, and copy columns beside."""
    for X, kept in ModelColumns.of(model, table).blocks(table, tables.ROWS_AT_ONCE, copied):
        inner, transformed = unwrapped(model, X)
        yield inner.scored(transformed), kept


def joined(model: Any, rows: Sequence[Scored]) -> Scored:
    """Return the scores of several blocks, or of none, as those of one."""
    nothing = np.empty((0, len(model.classes_)))
    return Scored(*map(np.concatenate, zip(*(rows or [Scored(nothing, nothing)]), strict=True)))


class ScoresOfPart:
    """The scores of a part's rows and the thresholds of their domains, read through memory maps."""

    def __init__(self, scratch: Path, part: NumberedPart) -> None:
        self._codes, self._places = _mapped(scratch, part.number, "rows")
        self._scores = _mapped(scratch, part.number, "scores")
        self._thresholds = _mapped(scratch, part.number, "thresholds")
        self.n_rows = len(self._codes)

    def of_rows(self, rows: slice) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the scores of some rows, and the thresholds that they are compared with."""
        return self._scores[self._places[rows]], self._thresholds[self._codes[rows]]


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
