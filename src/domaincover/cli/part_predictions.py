"""Sets of a table in parts: one output part for each input part, and a summary when all are finished."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from domaincover.cli.part_plans import GOES_ON, adapted_names, numbered, scratch_folder, surveyed
from domaincover.cli.part_runs import PartRuns, PartWorkers
from domaincover.cli.part_steps import PartModel, WriteSets
from domaincover.data.part_tables import PartsTable
from domaincover.files import only_writer, remove_unfinished, write_whole

SUMMARY = "_sets.json"  # written last; readers of parts skip what starts with an underscore


@dataclass(frozen=True)
class PredictedParts:
    """How many sets have each size, and the domains that set thresholds, if any did."""

    sizes: Counter[int]
    n_domains: int = 0
    n_moved: int = 0
    warning: str | None = None


def predict_parts(
    data: PartsTable,
    model: Path,
    out: Path,
    domain: str | None,
    ids: Sequence[str],
    workers: PartWorkers,
    *,
    top: bool,
    scores: bool,
) -> PredictedParts:
    """Write the sets of every part; parts that an earlier call has finished are left as they are."""
    saved = PartModel.at(model)
    summary = out / SUMMARY
    step = WriteSets(saved, str(out.absolute()), tuple(ids), top, scores, domain)
    with workers.started() as runs, only_writer(out):
        with suppress(OSError):  # it must not stand beside parts of another model
            summary.unlink()
        found = _fixed(runs, step, data) if domain is None else _adapted(runs, step, data, workers)
        for folder in {(out / part.name).parent for part in data.parts}:
            remove_unfinished(folder)  # of workers that were killed; no other command writes here
        content = {"parts": len(data.parts), "rows": found.sizes.total(), "sizes": dict(sorted(found.sizes.items()))}
        write_whole(summary, json.dumps({**content, "domains": found.n_domains, "model": saved.digest}).encode())
    return found


def _fixed(runs: PartRuns, step: WriteSets, data: PartsTable) -> PredictedParts:
    sizes: Counter[int] = Counter()
    for _, of_part in runs.each("Parts", step, numbered(data), GOES_ON):
        sizes.update(of_part)
    return PredictedParts(sizes)


def _adapted(runs: PartRuns, step: WriteSets, data: PartsTable, workers: PartWorkers) -> PredictedParts:
    sizes: Counter[int] = Counter()
    with scratch_folder(workers, Path(step.out)) as scratch:
        plan = surveyed(runs, step.model, step.domain, data, scratch)
        step = replace(step, scratch=str(scratch), table_digest=plan.table_digest)
        found = adapted_names(runs, plan, step.model, step.domain, scratch)
        for _, of_part in runs.each("Parts", step, plan.parts, GOES_ON):
            sizes.update(of_part)
    return PredictedParts(sizes, len(found.names), found.n_moved, found.warning())
