"""From the parts of a table to sets or reports: which steps run on which parts, and where they keep what they found."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.cli.domain_sets import AdaptedNames, inner_model
from domaincover.cli.part_runs import PartRuns, PartWorkers
from domaincover.cli.part_scores import scored_rows
from domaincover.cli.part_steps import (
    DOMAINS,
    THRESHOLDS,
    AdaptBucket,
    Bucket,
    NumberedPart,
    PartModel,
    ScorePart,
    SurveyPart,
    TallySets,
    digest_of,
)
from domaincover.data.dataset import code_names
from domaincover.data.identity import typed_names
from domaincover.data.part_tables import PartsTable
from domaincover.data.table_writer import write_table
from domaincover.errors import InputError
from domaincover.evaluation import DomainReport, Tallies
from domaincover.files import only_writer, write_whole
from domaincover.predictors.adapted_domains import Scored

NUMBERS_IN_BUCKET = 1 << 22  # scores that a worker holds at once to set thresholds, unless one domain has more
SCRATCH = "_scratch"  # readers of parts skip what starts with an underscore
GOES_ON = "; the same command goes on with the others"


@dataclass(frozen=True)
class SurveyedParts:
    """The parts of a table, its domains in the order in which they are met, and the buckets that they fall into."""

    parts: list[NumberedPart]
    names: tuple[Hashable, ...]
    buckets: list[Bucket]
    domains_digest: str

    @property
    def table_digest(self) -> str:
        """A digest of the bytes of all parts."""
        return digest_of([part.digest for part in self.parts])


@contextmanager
def scratch_folder(workers: PartWorkers, within: Path | None = None) -> Iterator[Path]:
    """Give a folder for scores and counts: the one asked for, one within the output, or a temporary one.

    Except a temporary one it stays after a failure, so that the same command goes on from there.
    """
    above = workers.scratch or within
    if above is None:
        if workers.scheduler is not None:
            raise InputError("--scheduler needs --scratch FOLDER, a folder that all workers can write to.")
        with tempfile.TemporaryDirectory(prefix="domaincover-") as folder:
            yield Path(folder)
        return
    scratch = above.absolute() / SCRATCH
    with only_writer(scratch):
        yield scratch
        shutil.rmtree(scratch, ignore_errors=True)


def numbered(data: PartsTable) -> list[NumberedPart]:
    """Return the parts in their order."""
    return [NumberedPart(number, part) for number, part in enumerate(data.parts)]


def surveyed(runs: PartRuns, model: PartModel, domain: str | None, data: PartsTable, scratch: Path) -> SurveyedParts:
    """Count the rows of every domain in every part, number the domains as they are met, and deal them into buckets."""
    parts = numbered(data)
    met: dict[str, int] = {}
    digests, of_part = [""] * len(parts), [np.empty(0, np.int64)] * len(parts)
    n_by_part = list(of_part)
    for part, survey in runs.each("Domains of parts", SurveyPart(model, domain), parts):
        codes = [met.setdefault(name, len(met)) for name in survey.names]
        of_part[part.number], n_by_part[part.number] = np.array(codes, dtype=np.int64), survey.n_rows
        digests[part.number] = survey.digest
    names = list(met)
    order, of_part = _in_order_of_parts(of_part, len(names))
    n_rows = np.zeros(len(names), dtype=np.int64)
    for part_codes, counts in zip(of_part, n_by_part, strict=True):
        n_rows[part_codes] += counts
    n_labels = len(model.load().classes_)
    buckets = (np.cumsum(n_rows) - n_rows) * n_labels // NUMBERS_IN_BUCKET
    in_order = tuple(names[code] for code in order)
    texts = pd.Series(in_order, dtype=str)
    write_table(scratch / DOMAINS, [pd.DataFrame({"domain": texts, "bucket": buckets})])
    return SurveyedParts(
        [part._replace(digest=digest) for part, digest in zip(parts, digests, strict=True)],
        tuple(typed_names(texts).tolist()),
        list(_buckets(buckets, n_rows, of_part)),
        digest_of([repr(name) for name in in_order], buckets.tolist()),
    )


def _in_order_of_parts(
    of_part: Sequence[NDArray[np.int64]], n_domains: int
) -> tuple[list[int], list[NDArray[np.int64]]]:
    """Number domains by where they are first met in the table, whichever part was surveyed first."""
    first = np.full(n_domains, -1, dtype=np.int64)
    n_met = 0
    for codes in of_part:
        new = codes[first[codes] < 0]
        first[new] = np.arange(n_met, n_met + len(new))
        n_met += len(new)
    return np.argsort(first).tolist(), [first[codes] for codes in of_part]


def _buckets(
    buckets: NDArray[np.int64], n_rows: NDArray[np.int64], of_part: Sequence[NDArray[np.int64]]
) -> Iterator[Bucket]:
    present = [set(np.unique(buckets[codes]).tolist()) for codes in of_part]
    found, starts = np.unique(buckets, return_index=True)
    ends = [*starts[1:].tolist(), len(buckets)]
    for bucket, first, last in zip(found.tolist(), starts.tolist(), ends, strict=True):
        parts = tuple(number for number, own in enumerate(present) if bucket in own)
        yield Bucket(bucket, first, last, int(n_rows[first:last].sum()), parts)


def adapted_names(
    runs: PartRuns, plan: SurveyedParts, model: PartModel, domain: str | None, scratch: Path
) -> AdaptedNames:
    """Score all parts, let each domain's rows set its thresholds, and write these where the next steps read them."""
    _score(runs, plan, model, domain, scratch)
    inner = inner_model(model.load())
    thresholds = np.empty((len(plan.names), len(inner.classes_)))
    p_values = np.empty(len(plan.names))
    for bucket, found in runs.each("Thresholds of domains", AdaptBucket(model, str(scratch)), plan.buckets):
        own = slice(bucket.first, bucket.last)
        thresholds[own], p_values[own] = found.thresholds, found.p_values
    buffer = io.BytesIO()
    np.save(buffer, thresholds)
    write_whole(scratch / THRESHOLDS, buffer.getvalue())
    return AdaptedNames(inner, list(plan.names), thresholds, p_values)


def scored_parts(runs: PartRuns, plan: SurveyedParts, model: PartModel, domain: str | None, scratch: Path) -> Scored:
    """Score all parts, and return the scores of all rows in their order."""
    _score(runs, plan, model, domain, scratch)
    found = [scored_rows(scratch, part.number) for part in plan.parts]
    return Scored(*(np.concatenate(values) for values in zip(*found, strict=True)))


def _score(runs: PartRuns, plan: SurveyedParts, model: PartModel, domain: str | None, scratch: Path) -> None:
    step = ScorePart(model, domain, str(scratch), plan.domains_digest)
    for _ in runs.each("Scores of parts", step, plan.parts, _hint(scratch)):
        pass


def _hint(scratch: Path) -> str:
    """Say after a failure that files are kept, unless they were in a temporary folder."""
    return GOES_ON if scratch.name == SCRATCH else ""


def tallies_of_parts(
    runs: PartRuns, plan: SurveyedParts, model: PartModel, label: str, domain: str, scratch: Path, *, adapts: bool
) -> list[Tallies]:
    """Return the counts over all parts, for each kind of thresholds, in the order of the plan's domains."""
    step = TallySets(model, label, domain, str(scratch), plan.domains_digest, adapts, plan.table_digest)
    n_labels = len(model.load().classes_)
    total = [Tallies.zeros(len(plan.names), n_labels) for _ in range(2 if adapts else 1)]
    for _, found in runs.each("Counts of parts", step, plan.parts, _hint(scratch)):
        for own, more in zip(total, found.by_kind, strict=True):
            own.add(more, found.domains)
    return total


def report_of_parts(
    inner: object, tallies: Tallies, names: Sequence[Hashable], min_cell_size: int | None
) -> DomainReport:
    """Report on counts, with domains in the order that a report of one table has."""
    coded = code_names(list(names), "domains", len(names))
    order = np.argsort(coded.codes)
    return inner.report_on_tallies(tallies.of(order), coded.names, min_cell_size=min_cell_size)  # type: ignore[attr-defined]
