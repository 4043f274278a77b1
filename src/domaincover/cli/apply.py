"""What a model makes of a table, part by part: sets that are written, or counted by domain and label."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from domaincover.cli.inputs import ModelColumns
from domaincover.cli.part_runs import PartRuns
from domaincover.cli.part_scores import (
    CHANGED,
    NumberedPart,
    SavedModel,
    ScoresOfPart,
    digest_of,
    digest_of_part,
    joined_names,
)
from domaincover.criteria import Sets
from domaincover.data import tables
from domaincover.data.dataset import code_names, texts
from domaincover.data.identity import canonical_texts
from domaincover.data.tables import metadata_of, write_table
from domaincover.data.tables.arrow_tables import PartTable
from domaincover.errors import InputError
from domaincover.evaluation import DomainReport, Tallies, tallied
from domaincover.predictors.calibrated_predictors import last_step
from domaincover.predictors.set_predictor import label_codes, predict_set, unwrapped

Predicted = tuple[pd.DataFrame, Sets, Any, Any]  # copies, sets, top labels, scores
ORIGIN, SIZES = "domaincover.origin", "domaincover.sizes"
NO_GROUP = ""  # rows without a value in the column of groups
PLAIN = (str, bool, int, float)


def listed_sets(sets: Sets, classes: NDArray[Any], *, as_json: bool) -> Any:
    """Return each set as a list of labels, or as JSON such as ["mild", "severe"], made once for equal sets.

    Labels with commas and spaces stay apart.
    """
    labels = classes.tolist()
    labels = labels if all(type(label) in PLAIN for label in labels) else texts(labels)
    if not as_json:
        members = pa.array(labels).take(pa.array(np.nonzero(sets)[1]))
        lists = pa.ListArray.from_arrays(pa.array(np.append(0, sets.sum(axis=1).cumsum()), pa.int32()), members)
        return pd.array(lists, dtype=pd.ArrowDtype(lists.type))
    distinct, which = np.unique(sets, axis=0, return_inverse=True)
    held = ([label for label, is_in in zip(labels, row, strict=True) if is_in] for row in distinct)
    return np.array([json.dumps(labels, ensure_ascii=False) for labels in held], dtype=object)[which]


@dataclass(frozen=True)
class WriteSets:
    """Write a part's sets beside copied columns; with `scratch`, by the thresholds of its domains, which are there.

    `out` is the folder of the parts that are written, or the only file.
    """

    model: SavedModel
    out: Path
    ids: tuple[str, ...]
    top: bool
    scores: bool
    domain: str | None = None
    scratch: Path | None = None
    rows_digest: str = ""

    def __call__(self, part: NumberedPart) -> NDArray[Any]:
        """Return how many sets have 0, 1, … labels; a part that an earlier call has finished is left as it is."""
        path, of_folder, about = self.place_of(part), getattr(part.table, "folder_values", {}), None
        ids = [name for name in self.ids if name not in of_folder]  # the others are given by the folder's name
        n_by_size = np.zeros(len(self.model.load().classes_) + 1, dtype=np.int64)
        if isinstance(part.table, PartTable):
            origin, before = self._origin(part), metadata_of(path)
            if before.get(ORIGIN) == origin:
                return np.array(json.loads(before[SIZES]))
            about = lambda: {ORIGIN: origin, SIZES: json.dumps(n_by_size.tolist())}  # noqa: E731
        as_json = not path.name.lower().endswith((".parquet", ".pq"))
        write_table(path, self._blocks(part, ids, n_by_size, as_json=as_json), about)
        return n_by_size

    def place_of(self, part: NumberedPart) -> Path:
        """Return where a part is written."""
        return self.out / part.table.name if isinstance(part.table, PartTable) else self.out

    @property
    def column_names(self) -> list[str]:
        """The names of the columns beside those that are copied."""
        names = texts(self.model.load().classes_.tolist())
        scores = [f"score[{name}]" for name in names] if self.scores else []
        return [*(f"in_set[{name}]" for name in names), "set", "set_size", *(["top"] if self.top else []), *scores]

    def _origin(self, part: NumberedPart) -> str:
        """Return a digest of all that a part's sets depend on."""
        options = [self.domain, list(self.ids), self.top, self.scores]
        return digest_of(self.model.digest, digest_of_part(part), options, self.rows_digest)

    def _blocks(
        self, part: NumberedPart, ids: Sequence[str], n_by_size: NDArray[np.int64], *, as_json: bool
    ) -> Iterator[pd.DataFrame]:
        """Yield the rows that are written, and count their sets by size."""
        classes, names = self.model.load().classes_, self.column_names
        for kept, sets, top, scores in self._predicted(part, ids):
            sizes = sets.sum(axis=1)
            n_by_size += np.bincount(sizes, minlength=len(n_by_size))
            written: list[Any] = [*sets.T, listed_sets(sets, classes, as_json=as_json), sizes]
            written += [top] if self.top else []
            written += [*scores.T] if self.scores else []
            yield kept[list(ids)].assign(**dict(zip(names, written, strict=True)))

    def _predicted(self, part: NumberedPart, ids: Sequence[str]) -> Iterator[Predicted]:
        model, table = self.model.load(), part.table
        if not table.has_rows:
            kept = table.no_copies(ids) if isinstance(table, PartTable) else pd.DataFrame(columns=list(ids), dtype=str)
            none = np.empty((0, len(model.classes_)))
            yield kept, none.astype(bool), model.classes_[:0], none
        elif self.scratch is not None:
            yield from self._adapted(part, self.scratch, ids)
        else:
            for X, kept in ModelColumns.of(model, table).blocks(table, ids):
                inner, transformed = unwrapped(model, X)
                top = inner.predict(transformed) if self.top else None
                scores = inner.label_scores(transformed) if self.scores else None
                yield kept, inner.predict_set(transformed), top, scores

    def _adapted(self, part: NumberedPart, scratch: Path, ids: Sequence[str]) -> Iterator[Predicted]:
        rows, start, classes = ScoresOfPart.of(scratch, part), 0, self.model.load().classes_
        for _, kept in part.table.blocks(tables.ROWS_AT_ONCE, [str(self.domain)], copied=ids):
            own = slice(start, start + len(kept))
            scores, start = rows.scores[own], own.stop
            if len(scores) != len(kept):
                raise InputError(CHANGED)
            yield kept, rows.sets(own), classes[scores.argmax(axis=1)], scores


class CountsOfPart(NamedTuple):
    """The counts of a part's sets for each kind of thresholds, by domain and group of rows."""

    names: pd.DataFrame
    by_kind: list[Tallies]


@dataclass(frozen=True)
class CountSets:
    """Count a part's sets by domain and label: of adapted and fixed thresholds with `scratch`, or of the only ones.

    With a column `by`, the sets of each of its groups are counted by themselves.
    """

    model: SavedModel
    label: str
    domain: str
    scratch: Path | None = None
    by: str | None = None

    def __call__(self, part: NumberedPart) -> CountsOfPart:
        """Return the counts."""
        model = self.model.load()
        columns, inner = ModelColumns.of(model, part.table), last_step(model)
        given = columns.read_labels(part.table, self.label, self.domain, model.classes_.tolist())
        keys = pd.DataFrame({"domain": given.domains.to_numpy(), "group": NO_GROUP})
        if self.by is not None:
            keys["group"] = canonical_texts(part.table.read([self.by], [self.by])[self.by]).fillna(NO_GROUP).to_numpy()
        codes: NDArray[np.int64] = np.asarray(keys.groupby(list(keys), sort=False).ngroup(), dtype=np.int64)
        names, labels = keys.drop_duplicates(), label_codes(given.labels, inner.classes_) if len(codes) else codes
        totals = [Tallies.zeros(len(names), len(inner.classes_)) for _ in range(1 if self.scratch is None else 2)]
        start = 0
        for by_kind in self._sets(part, columns):
            rows = slice(start, start + len(by_kind[0]))
            if len(labels[rows]) != len(by_kind[0]):
                raise InputError(CHANGED)
            for total, sets in zip(totals, by_kind, strict=True):
                total.add(tallied(sets, labels[rows], codes[rows], len(names)), np.arange(len(names)))
            start = rows.stop
        return CountsOfPart(names, totals)

    def _sets(self, part: NumberedPart, columns: ModelColumns) -> Iterator[tuple[Sets, ...]]:
        model = self.model.load()
        if self.scratch is None:
            for X, _ in columns.blocks(part.table):
                yield (predict_set(model, X),)
            return
        rows, fixed = ScoresOfPart.of(self.scratch, part), last_step(model).thresholds_
        for start in range(0, len(rows.scores), tables.ROWS_AT_ONCE):
            own = slice(start, start + tables.ROWS_AT_ONCE)
            yield rows.sets(own), rows.scores[own] >= fixed


def reports_of(
    runs: PartRuns, step: CountSets, parts: Sequence[NumberedPart], min_cell_size: int | None
) -> list[tuple[DomainReport, dict[str, DomainReport]]]:
    """Return a report for each kind of thresholds, from the counts of all parts, and beside it those of each group.

    Groups that have rows enough of no label in any domain are left out.
    """
    of_part, inner = runs.all("Counts of parts", step, parts), last_step(step.model.load())
    own_codes, names = joined_names([counts.names["domain"].to_numpy() for counts in of_part])
    coded = code_names(names, "domains", len(names))
    domains, groups = coded.codes[own_codes], np.concatenate([counts.names["group"] for counts in of_part])

    def report(counts: Tallies, rows: NDArray[np.bool_], size: int | None) -> DomainReport:
        total = Tallies.zeros(len(names), len(inner.classes_))
        total.add(counts.of(rows), domains[rows])
        found: DomainReport = inner.report_on_tallies(total, coded.names, min_cell_size=size)
        return found

    found = []
    for kind in zip(*(counts.by_kind for counts in of_part), strict=True):
        counts = Tallies(*map(np.concatenate, zip(*kind, strict=True)))
        whole, by_group = report(counts, np.full(len(groups), True), min_cell_size), {}
        for group in sorted({*groups} - {NO_GROUP}):
            with suppress(InputError):
                by_group[group] = report(counts, groups == group, whole.min_cell_size)
        found.append((whole, by_group))
    return found
