"""Durations of past jobs (seconds per network and epoch, in the user's cache), to estimate those of a new study."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from domaincover.data.feature_cache import default_cache_folder
from domaincover.errors import InputError
from domaincover.files import plain_json, write_whole

if TYPE_CHECKING:
    from domaincover.paper.job import Job

FILE = "timings.json"


class Expected(NamedTuple):
    """Estimated seconds of the jobs with known durations in one process, and the number of other jobs."""

    seconds: float
    n_unknown: int


def seconds_of_jobs(jobs: Iterable[Job]) -> list[float | None]:
    """Estimate the duration of each job from similar ones on the same dataset; None where there was none."""
    known = _known()
    each = [(job, known.get(_key(job))) for job in jobs]
    return [None if per is None else per * _n_epochs(job) for job, per in each]


def expected_seconds(jobs: Iterable[Job]) -> Expected:
    """Estimate the duration of all jobs."""
    each = seconds_of_jobs(jobs)
    return Expected(sum(filter(None, each)), each.count(None))


def remember(seconds: Mapping[Job, float]) -> None:
    """Store the durations of jobs; do nothing if they cannot be written."""
    if not seconds:
        return
    known = _known() | {_key(job): took / _n_epochs(job) for job, took in seconds.items()}
    with suppress(InputError):
        write_whole(default_cache_folder() / FILE, json.dumps(known, indent=0).encode())


def _known() -> dict[str, float]:
    try:
        found = plain_json((default_cache_folder() / FILE).read_text(encoding="utf-8"))
        return {str(key): float(value) for key, value in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _key(job: Job) -> str:
    """Return a key shared by jobs with about the same time per network and epoch."""
    setting = job.setting
    return f"{job.dataset}/{job.scorer}/{setting.n_train_domains}x{setting.max_train_rows}/{len(job.runs)}"


def _n_epochs(job: Job) -> int:
    return job.n_networks * job.runs[0].epochs
