"""What is done with one part of a table, wherever it runs: steps read files, and write files or return counts.

Where thresholds adapt, all rows of a domain set them, and its rows may lie in many parts:

1. `SurveyPart` counts each part's rows by domain. Domains are numbered, and consecutive ones make a bucket.
2. `ScorePart` scores a part's rows, and writes the scores in the order of domains.
3. `AdaptBucket` reads the scores of a bucket's domains from all parts that have rows of them, in the order of parts and
   rows, and returns the thresholds and p-value of each domain: the same numbers as from one table.
4. `WriteSets` and `TallySets` compare each part's scores with the thresholds of its domains.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.cli.evaluate import rejected_rows_as_input_error
from domaincover.cli.inputs import ModelColumns, domain_names
from domaincover.cli.part_scores import part_scores, place_of, scores_of_bucket, write_scores
from domaincover.cli.set_columns import SetColumns
from domaincover.data.part_tables import PartTable
from domaincover.data.table_errors import reading
from domaincover.data.table_writer import metadata_of, write_table
from domaincover.data.tables import ROWS_AT_ONCE
from domaincover.errors import InputError
from domaincover.evaluation import Tallies, tallied
from domaincover.files import write_whole
from domaincover.prediction_sets import Sets
from domaincover.predictors.adapted_domains import AdaptedDomains, Scored
from domaincover.predictors.names import ONLY_DOMAIN, label_codes
from domaincover.predictors.set_predictor import predict_set, unwrapped
from domaincover.saving.models import load_to_predict, model_checksum
from domaincover.saving.sealed import json_bytes

ORIGIN, SIZES = "domaincover.origin", "domaincover.sizes"
VERSION = version("domaincover")
DOMAINS, THRESHOLDS = "domains.parquet", "thresholds.npy"


def digest_of(*content: Any) -> str:
    """Return a digest of plain data, another one in another version of domaincover."""
    return hashlib.sha256(json_bytes([VERSION, *content])).hexdigest()


@dataclass(frozen=True)
class PartModel:
    """A model's folder, and a digest by which workers know that they read the same model."""

    folder: str
    digest: str

    @classmethod
    def at(cls, folder: Path) -> PartModel:
        """Return the model in a folder."""
        return cls(str(folder.absolute()), model_checksum(folder))

    def load(self) -> Any:
        """Return the model, which each process reads once."""
        return _loaded(self)


@lru_cache(maxsize=1)
def _loaded(model: PartModel) -> Any:
    if PartModel.at(Path(model.folder)) != model:
        raise InputError(f"the model in {model.folder} was replaced meanwhile; run the command again.")
    return load_to_predict(model.folder)


class NumberedPart(NamedTuple):
    """A part, its place in the table, and a digest of its bytes where one is known."""

    number: int
    table: PartTable
    digest: str = ""

    def __str__(self) -> str:
        return str(self.table.path)


class PartSurvey(NamedTuple):
    """The domains of a part in the order of its rows, the number of rows of each, and a digest of its bytes."""

    names: list[str]
    n_rows: NDArray[np.int64]
    digest: str


class Bucket(NamedTuple):
    """Consecutive domains, first to below last, the number of their rows, and the parts that have some of them."""

    number: int
    first: int
    last: int
    n_rows: int
    parts: tuple[int, ...]

    def __str__(self) -> str:
        return f"domains {self.first:,} to {self.last:,}"


@dataclass(frozen=True)
class SurveyPart:
    """Count the rows of each domain; without a domain column, all rows are one domain."""

    model: PartModel
    domain: str | None

    def __call__(self, part: NumberedPart) -> PartSurvey:
        """Return the domains of a part."""
        codes, names = _factorized(self.domain, part.table)
        return PartSurvey(names, np.bincount(codes, minlength=len(names)), file_digest(part.table))


@dataclass(frozen=True)
class ScorePart:
    """Write the scores of a part's rows in the order of their domains."""

    model: PartModel
    domain: str | None
    scratch: str
    domains_digest: str

    def __call__(self, part: NumberedPart) -> None:
        """Score a part, unless an earlier call did."""
        origin = digest_of(self.model.digest, part.digest, self.domain, self.domains_digest)
        codes, buckets = self.codes(part.table)
        write_scores(Path(self.scratch), part.number, origin, lambda: self._scored(part.table), codes, buckets)

    def codes(self, table: PartTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of a part's domains, row by row, and the bucket of every domain."""
        index, buckets = known_domains(self.scratch, self.domains_digest)
        codes, names = _factorized(self.domain, table)
        return index.get_indexer(pd.Index(names, tupleize_cols=False))[codes], buckets

    def _scored(self, table: PartTable) -> Scored:
        model = self.model.load()
        blocks = []
        for X, _ in ModelColumns.of(model, table).blocks(table, ROWS_AT_ONCE, ids=()):
            with rejected_rows_as_input_error(Path(self.model.folder)):
                inner, transformed = unwrapped(model, X)
                blocks.append(inner.scored(transformed))
        if not blocks:
            nothing = np.empty((0, len(model.classes_)))
            return Scored(nothing, nothing)
        return Scored(*(np.concatenate(values) for values in zip(*blocks, strict=True)))


@dataclass(frozen=True)
class AdaptBucket:
    """Set the thresholds of the domains in a bucket."""

    model: PartModel
    scratch: str

    def __call__(self, bucket: Bucket) -> AdaptedDomains:
        """Return thresholds and p-values, in the order of domains."""
        codes, scored = scores_of_bucket(Path(self.scratch), bucket.parts, bucket.number, bucket.n_rows)
        inner, _ = unwrapped(_without_steps(self.model.load()), None)
        with rejected_rows_as_input_error(Path(self.model.folder)):
            return inner.adapted_domains(scored, codes - bucket.first, bucket.last - bucket.first)


@dataclass(frozen=True)
class WriteSets:
    """Write a part's sets; with `scratch`, by the thresholds of its domains, which are there."""

    model: PartModel
    out: str
    ids: tuple[str, ...]
    top: bool
    scores: bool
    domain: str | None = None
    scratch: str | None = None
    table_digest: str = ""

    def __call__(self, part: NumberedPart) -> dict[int, int]:
        """Return how many sets have each size; a part that an earlier call has finished is left as it is."""
        path = Path(self.out) / part.table.name
        origin = self.origin(part)
        if (finished := finished_sizes(path, origin)) is not None:
            return finished
        ids = [name for name in self.ids if name not in part.table.folder_values]  # which the folder's name gives
        written = SetColumns(
            self.model.load(), Path(self.model.folder), ids, top=self.top, scores=self.scores, as_lists=True
        )
        blocks = self._blocks(part, written)
        write_table(path, blocks, lambda: {ORIGIN: origin, SIZES: json.dumps(written.sizes)})
        return written.sizes

    def origin(self, part: NumberedPart) -> str:
        """Return a digest of all that a part's sets depend on."""
        own = part.digest or file_digest(part.table)
        options = [self.domain, list(self.ids), self.top, self.scores]
        return digest_of(self.model.digest, own, options, self.table_digest)

    def _blocks(self, part: NumberedPart, written: SetColumns) -> Iterator[pd.DataFrame]:
        table, model = part.table, self.model.load()
        if not table.has_rows:
            yield written.empty(table.no_copies(written.ids))
            return
        columns = ModelColumns.of(model, table)
        if self.scratch is None:
            for X, kept in columns.blocks(table, ROWS_AT_ONCE, written.ids):
                with rejected_rows_as_input_error(written.folder):
                    sets = predict_set(model, X)
                yield written.block(written.beside(kept, X), sets)
            return
        codes, row_scores = part_scores(Path(self.scratch), part.number)
        sets, start = row_scores >= np.load(Path(self.scratch) / THRESHOLDS, allow_pickle=False)[codes], 0
        if self.top or self.scores:
            blocks = (written.beside(kept, X) for X, kept in columns.blocks(table, ROWS_AT_ONCE, written.ids))
        else:
            blocks = (kept for _, kept in table.blocks_with_copies(ROWS_AT_ONCE, [str(self.domain)], written.ids))
        for beside in blocks:
            yield written.block(beside, sets[start : start + len(beside)])
            start += len(beside)


class PartTallies(NamedTuple):
    """The numbers of a part's domains, and the counts of its sets for each kind of thresholds."""

    domains: NDArray[np.int64]
    by_kind: tuple[Tallies, ...]


@dataclass(frozen=True)
class TallySets:
    """Count a part's sets by domain and label: of adapted and fixed thresholds, or of the only ones."""

    model: PartModel
    label: str
    domain: str
    scratch: str
    domains_digest: str
    adapts: bool
    table_digest: str

    def __call__(self, part: NumberedPart) -> PartTallies:
        """Return the counts, those of an earlier call where it has finished the part."""
        file = place_of(Path(self.scratch), part.number) / f"tallies-{part.number}.npz"
        other_parts = self.table_digest if self.adapts else ""
        names = [self.label, self.domain, self.domains_digest, self.adapts]
        origin = digest_of(self.model.digest, part.digest, names, other_parts)
        kept = _kept_tallies(file, origin)
        if kept is None:
            kept = self._counted(part)
            buffer = io.BytesIO()
            counts = {f"{kind}-{name}": own for kind, t in enumerate(kept.by_kind) for name, own in t._asdict().items()}
            np.savez(buffer, origin=np.array(origin), domains=kept.domains, **counts)
            write_whole(file, buffer.getvalue())
        return kept

    def _counted(self, part: NumberedPart) -> PartTallies:
        model, table = self.model.load(), part.table
        columns, n_labels = ModelColumns.of(model, table), len(model.classes_)
        given = columns.read_labels(table, self.label, self.domain, model.classes_.tolist())
        index, _ = known_domains(self.scratch, self.domains_digest)
        of_rows, names = pd.factorize(given.domains)
        present = index.get_indexer(pd.Index(names, tupleize_cols=False))
        sets: tuple[Sets, ...]
        if self.adapts:
            sets = self._adapted_and_fixed_sets(part.number)
        else:
            sets = (_predicted_sets(model, Path(self.model.folder), columns, table),)
        if not len(given.labels):
            return PartTallies(present, tuple(Tallies.zeros(0, n_labels) for _ in sets))
        labels = label_codes(given.labels, unwrapped(_without_steps(model), None)[0].classes_)
        return PartTallies(present, tuple(tallied(each, labels, of_rows, len(present)) for each in sets))

    def _adapted_and_fixed_sets(self, number: int) -> tuple[Sets, Sets]:
        codes, scores = part_scores(Path(self.scratch), number)
        fixed = unwrapped(_without_steps(self.model.load()), None)[0].thresholds_
        return scores >= np.load(Path(self.scratch) / THRESHOLDS, allow_pickle=False)[codes], scores >= fixed


def finished_sizes(path: Path, origin: str) -> dict[int, int] | None:
    """Return how many sets of a finished part have each size; None if the part is missing or of another origin."""
    about = metadata_of(path)
    if about.get(ORIGIN) != origin:
        return None
    return {int(size): int(count) for size, count in json.loads(about[SIZES]).items()}


def file_digest(table: PartTable) -> str:
    """Return a digest of a part's bytes and of the columns that its folder's name gives."""
    with reading(table.path), open(table.path, "rb") as file:
        content = hashlib.file_digest(file, hashlib.blake2b).hexdigest()
    return digest_of(content, table.folder_values)


@lru_cache(maxsize=1)
def known_domains(scratch: str, digest: str) -> tuple[pd.Index, NDArray[np.int64]]:  # noqa: ARG001 (for the cache)
    """Return all domains in the order of their numbers, and the bucket of each."""
    with reading(path := Path(scratch) / DOMAINS):
        found = pd.read_parquet(path)
    return pd.Index(found["domain"], tupleize_cols=False), found["bucket"].to_numpy()


def _factorized(domain: str | None, table: PartTable) -> tuple[NDArray[np.int64], list[str]]:
    """Return the code of each row's domain within a part, and the domains' names."""
    if domain is None:
        return np.zeros(table.n_rows, dtype=np.int64), [ONLY_DOMAIN] if table.n_rows else []
    column = table.read([domain], [domain])[domain]
    codes, names = pd.factorize(domain_names(column, range(1, len(column) + 1)))
    return codes.astype(np.int64), names.tolist()


def _predicted_sets(model: Any, folder: Path, columns: ModelColumns, table: PartTable) -> Sets:
    sets = [np.empty((0, len(model.classes_)), dtype=bool)]
    for X, _ in columns.blocks(table, ROWS_AT_ONCE, ids=()):
        with rejected_rows_as_input_error(folder):
            sets.append(predict_set(model, X))
    return np.concatenate(sets)


def _kept_tallies(file: Path, origin: str) -> PartTallies | None:
    try:
        with np.load(file, allow_pickle=False) as kept:
            if str(kept["origin"]) != origin:
                return None
            kinds = range((len(kept.files) - 2) // len(Tallies._fields))
            by_kind = tuple(Tallies(*(kept[f"{kind}-{name}"] for name in Tallies._fields)) for kind in kinds)
            return PartTallies(kept["domains"], by_kind)
    except (OSError, ValueError, KeyError):
        return None


def _without_steps(model: Any) -> Any:
    return model[-1] if hasattr(model, "steps") else model
