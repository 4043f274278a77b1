"""What a model makes of a table, part by part: sets, counts, and thresholds by domain; a file is a table of one part.

Where thresholds adapt, all rows of a domain set them, and its rows may lie in many parts:

1. `ScorePart` scores a part's rows, and writes the scores in the order of the part's domains.
2. `SetThresholds` reads the scores of some domains through memory maps, from all parts that have rows of them, in the
   order of parts and rows, and returns the thresholds and p-value of each domain: the same numbers as from one file.
3. `WriteSets` and `CountSets` compare each part's scores with the thresholds of its domains.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.cli.adaptation import AdaptedNames, inner_model
from domaincover.cli.inputs import ModelColumns, domain_names
from domaincover.cli.part_runs import PartRuns
from domaincover.cli.set_columns import Predicted, SetColumns
from domaincover.data import tables
from domaincover.data.dataset import code_names
from domaincover.data.identity import typed_names
from domaincover.data.part_tables import PartTable
from domaincover.data.table_errors import reading
from domaincover.data.table_writer import metadata_of, write_table
from domaincover.data.tables import Table
from domaincover.errors import InputError
from domaincover.evaluation import DomainReport, Tallies, tallied
from domaincover.files import write_whole
from domaincover.prediction_sets import Sets
from domaincover.predictors.adapted_domains import AdaptedDomains, Scored
from domaincover.predictors.label_scoring import last_step
from domaincover.predictors.names import label_codes
from domaincover.predictors.set_predictor import predict_set, unwrapped
from domaincover.saving.models import load_to_predict, model_checksum
from domaincover.saving.sealed import json_bytes

NUMBERS_AT_ONCE = 1 << 22  # scores from which thresholds are set at once, unless one domain has more
ORIGIN, SIZES = "domaincover.origin", "domaincover.sizes"
VERSION = version("domaincover")
GOES_ON = "; the same command goes on with the others"
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


# Scores and thresholds


class DomainsOfPart(NamedTuple):
    """The domains of a part as they are met, the number of rows of each, and a digest of the part."""

    names: NDArray[Any]
    n_rows: NDArray[np.int64]
    digest: str


class RowsOfDomains(NamedTuple):
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
        return DomainsOfPart(np.asarray(names, object), np.bincount(codes, minlength=len(names)), _digest_of_part(part))


@dataclass(frozen=True)
class SetThresholds:
    """Set the thresholds of consecutive domains by all of their rows."""

    model: SavedModel
    scratch: Path

    def __call__(self, domains: RowsOfDomains) -> AdaptedDomains:
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
) -> Iterator[RowsOfDomains]:
    """Yield consecutive domains whose scores are read at once."""
    places = defaultdict(list)
    for part, (own, one) in enumerate(zip(codes, of_part, strict=True)):
        rows = pd.DataFrame({"code": own, "start": np.cumsum(one.n_rows) - one.n_rows, "n_rows": one.n_rows})
        for number, some in rows.groupby(bucket[own]):
            places[number].append((part, some.to_numpy().T))
    numbers, starts = np.unique(bucket, return_index=True)
    for number, first, last in zip(numbers.tolist(), starts.tolist(), [*starts[1:].tolist(), len(bucket)], strict=True):
        yield RowsOfDomains(first, last, places[number])


def scored_blocks(model: Any, table: Table, copied: Sequence[str] = ()) -> Iterator[tuple[Scored, pd.DataFrame]]:
    """Score a table in blocks, and copy columns beside."""
    for X, kept in ModelColumns.of(model, table).blocks(table, tables.ROWS_AT_ONCE, copied):
        inner, transformed = unwrapped(model, X)
        yield inner.scored(transformed), kept


def joined(model: Any, rows: Sequence[Scored]) -> Scored:
    """Return the scores of several blocks, or of none, as those of one."""
    nothing = np.empty((0, len(model.classes_)))
    return Scored(*map(np.concatenate, zip(*(rows or [Scored(nothing, nothing)]), strict=True)))


class _Scores:
    """The scores of a part's rows and the thresholds of their domains, read through memory maps."""

    def __init__(self, scratch: Path, part: NumberedPart) -> None:
        self._codes, self._places = _mapped(scratch, part.number, "rows")
        self._scores = _mapped(scratch, part.number, "scores")
        self._thresholds = _mapped(scratch, part.number, "thresholds")
        self.n_rows = len(self._codes)

    def of_rows(self, rows: slice) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the scores of some rows, and the thresholds that they are compared with."""
        return self._scores[self._places[rows]], self._thresholds[self._codes[rows]]


# Sets and counts


@dataclass(frozen=True)
class WriteSets:
    """Write a part's sets; with `scratch`, by the thresholds of its domains, which are there.

    `out` is the folder of the parts that are written, or the only file.
    """

    model: SavedModel
    out: Path
    ids: tuple[str, ...]
    top: bool
    scores: bool
    domain: str | None = None
    scratch: Path | None = None
    table_digest: str = ""

    def __call__(self, part: NumberedPart) -> Counter[int]:
        """Return how many sets have each size; a part that an earlier call has finished is left as it is."""
        path = self.place_of(part)
        if not isinstance(part.table, PartTable):
            written = self.columns(self.ids, as_lists=path.name.lower().endswith((".parquet", ".pq")))
            write_table(path, self._blocks(part, written))
            return written.sizes
        origin = self._origin(part)
        about = metadata_of(path)
        if about.get(ORIGIN) == origin:
            return Counter({int(size): count for size, count in json.loads(about[SIZES]).items()})
        ids = [name for name in self.ids if name not in part.table.folder_values]  # which the folder's name gives
        written = self.columns(ids, as_lists=True)
        write_table(path, self._blocks(part, written), lambda: {ORIGIN: origin, SIZES: json.dumps(written.sizes)})
        return written.sizes

    def place_of(self, part: NumberedPart) -> Path:
        """Return where a part is written."""
        return self.out / part.table.name if isinstance(part.table, PartTable) else self.out

    def columns(self, ids: Sequence[str], *, as_lists: bool) -> SetColumns:
        """Return what arranges sets as columns."""
        return SetColumns(self.model.load().classes_, ids, top=self.top, scores=self.scores, as_lists=as_lists)

    def _origin(self, part: NumberedPart) -> str:
        """Return a digest of all that a part's sets depend on."""
        options = [self.domain, list(self.ids), self.top, self.scores]
        return digest_of(self.model.digest, _digest_of_part(part), options, self.table_digest)

    def _blocks(self, part: NumberedPart, written: SetColumns) -> Iterator[pd.DataFrame]:
        table = part.table
        if not table.has_rows:
            yield written.empty(table.no_copies(written.ids) if isinstance(table, PartTable) else None)
            return
        blocks = self._predicted(table, written.ids) if self.scratch is None else self._adapted(part, written.ids)
        for kept, predicted in blocks:
            yield written.block(kept, predicted)

    def _predicted(self, table: Table, ids: Sequence[str]) -> Iterator[tuple[pd.DataFrame, Predicted]]:
        model = self.model.load()
        for X, kept in ModelColumns.of(model, table).blocks(table, tables.ROWS_AT_ONCE, ids):
            inner, transformed = unwrapped(model, X)
            top = inner.predict(transformed) if self.top else None
            scores = inner.label_scores(transformed) if self.scores else None
            yield kept, Predicted(inner.predict_set(transformed), top, scores)

    def _adapted(self, part: NumberedPart, ids: Sequence[str]) -> Iterator[tuple[pd.DataFrame, Predicted]]:
        rows, start, classes = _Scores(Path(str(self.scratch)), part), 0, self.model.load().classes_
        for _, kept in part.table.blocks_with_copies(tables.ROWS_AT_ONCE, [str(self.domain)], ids):
            scores, thresholds = rows.of_rows(slice(start, start + len(kept)))
            if len(scores) != len(kept):
                raise InputError(CHANGED)
            yield kept, Predicted(scores >= thresholds, classes[scores.argmax(axis=1)], scores)
            start += len(kept)


class CountsOfPart(NamedTuple):
    """The domains of a part, and the counts of its sets for each kind of thresholds."""

    names: NDArray[Any]
    by_kind: tuple[Tallies, ...]


@dataclass(frozen=True)
class CountSets:
    """Count a part's sets by domain and label: of adapted and fixed thresholds with `scratch`, or of the only ones."""

    model: SavedModel
    label: str
    domain: str
    scratch: Path | None = None

    def __call__(self, part: NumberedPart) -> CountsOfPart:
        """Return the counts."""
        model = self.model.load()
        columns, inner = ModelColumns.of(model, part.table), last_step(model)
        given = columns.read_labels(part.table, self.label, self.domain, model.classes_.tolist())
        domains, names = pd.factorize(given.domains)
        labels = label_codes(given.labels, inner.classes_) if len(domains) else domains
        n_kinds = 1 if self.scratch is None else 2
        totals = tuple(Tallies.zeros(len(names), len(inner.classes_)) for _ in range(n_kinds))
        sets, start = self._sets(part, columns), 0
        for by_kind in sets:
            rows = slice(start, start + len(by_kind[0]))
            if len(labels[rows]) != len(by_kind[0]):
                raise InputError(CHANGED)
            for total, some in zip(totals, by_kind, strict=True):
                total.add(tallied(some, labels[rows], domains[rows], len(names)), np.arange(len(names)))
            start = rows.stop
        return CountsOfPart(np.asarray(names, dtype=object), totals)

    def _sets(self, part: NumberedPart, columns: ModelColumns) -> Iterator[tuple[Sets, ...]]:
        model = self.model.load()
        if self.scratch is None:
            for X, _ in columns.blocks(part.table, tables.ROWS_AT_ONCE, ids=()):
                yield (predict_set(model, X),)
            return
        rows, fixed = _Scores(self.scratch, part), last_step(model).thresholds_
        for start in range(0, rows.n_rows, tables.ROWS_AT_ONCE):
            scores, thresholds = rows.of_rows(slice(start, start + tables.ROWS_AT_ONCE))
            yield scores >= thresholds, scores >= fixed


def reports_of(
    runs: PartRuns, step: CountSets, parts: Sequence[NumberedPart], min_cell_size: int | None
) -> list[DomainReport]:
    """Return the reports on a table, one for each kind of thresholds, from the counts of its parts."""
    found = {part.number: counts for part, counts in runs.each("Counts of parts", step, parts)}
    of_part, inner = [found[part.number] for part in parts], last_step(step.model.load())
    codes, names = pd.factorize(np.concatenate([counts.names for counts in of_part]))
    own_codes = np.split(codes, np.cumsum([len(counts.names) for counts in of_part])[:-1])
    coded = code_names(typed_names(pd.Series(names, dtype=str)).tolist(), "domains", len(names))
    reports = []
    for kind in range(len(of_part[0].by_kind)):
        total = Tallies.zeros(len(names), len(inner.classes_))
        for counts, own in zip(of_part, own_codes, strict=True):
            total.add(counts.by_kind[kind], coded.codes[own])
        reports.append(inner.report_on_tallies(total, coded.names, min_cell_size=min_cell_size))
    return reports


def digest_of(*content: Any) -> str:
    """Return a digest of plain data, another one in another version of domaincover."""
    return hashlib.sha256(json_bytes([VERSION, *content])).hexdigest()


def _digest_of_part(part: NumberedPart) -> str:
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
