"""Files with the scores of a part's rows in the order of their domains, one batch of rows for each bucket of domains.

They are read through memory maps: a worker that sets the thresholds of a bucket touches this bucket's batches only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from domaincover.data.table_errors import reading
from domaincover.errors import InputError
from domaincover.files import write_whole
from domaincover.predictors.adapted_domains import Scored

ORIGIN, BUCKETS = b"origin", b"buckets"
PARTS_IN_FOLDER = 100


def place_of(scratch: Path, number: int) -> Path:
    """Return the folder for files of a part; not all in one, since each writer looks for leftovers of others there."""
    return scratch / f"{number // PARTS_IN_FOLDER}"


def write_scores(
    scratch: Path,
    number: int,
    origin: str,
    scored: Callable[[], Scored],
    codes: NDArray[np.int64],
    buckets: NDArray[np.int64],
) -> None:
    """Write the scores of a part, unless its file is there and of this origin.

    `codes` are the domains of its rows, and `buckets` the bucket of every domain.
    """
    path = _path(scratch, number)
    if _origin_of(path) == origin:
        return
    rows = scored()
    if len(codes) != len(rows.scores):
        raise InputError("the part has changed since it was surveyed; run the command again.")
    order = np.argsort(codes, kind="stable")
    of_rows = buckets[codes[order]]
    present, starts = np.unique(of_rows, return_index=True)
    batches = [
        _batch(codes[some], some, Scored(*(values[some] for values in rows)))
        for some in np.split(order, starts[1:])
        if len(some)
    ]
    about = {ORIGIN: origin.encode(), BUCKETS: json.dumps(present.tolist()).encode()}
    empty = _batch(codes[:0], order[:0], Scored(*(values[:0] for values in rows)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, empty.schema.with_metadata(about)) as file:
        for batch in batches:
            file.write_batch(batch)
    write_whole(path, memoryview(sink.getvalue()))


def scores_of_bucket(scratch: Path, parts: Sequence[int], bucket: int, n_rows: int) -> tuple[NDArray[np.int64], Scored]:
    """Return the domains and scores of a bucket's rows, in the order of parts and, by domain, of rows."""
    found: list[NDArray[Any]] = []
    start = 0
    for number in parts:
        with _opened(_path(scratch, number)) as (file, buckets):
            batch = file.get_batch(buckets.index(bucket))
            values = [np.asarray(batch["code"]), _matrix(batch["scores"]), _matrix(batch["probabilities"])]
            found = found or [np.empty((n_rows, *own.shape[1:]), own.dtype) for own in values]
            for whole, own in zip(found, values, strict=True):
                whole[start : start + len(own)] = own
            start += len(batch)
    codes, scores, probabilities = found
    return codes, Scored(scores, probabilities)


def part_scores(scratch: Path, number: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the domains and scores of a part's rows, in their order."""
    codes, scores = _in_order_of_rows(scratch, number, ("code", "scores"))
    return codes, scores


def scored_rows(scratch: Path, number: int) -> Scored:
    """Return the scores and probabilities of a part's rows, in their order."""
    return Scored(*_in_order_of_rows(scratch, number, ("scores", "probabilities")))


def _in_order_of_rows(scratch: Path, number: int, names: Sequence[str]) -> list[NDArray[Any]]:
    found = []
    with _opened(_path(scratch, number)) as (file, _):
        table = file.read_all()
        order = table["row"].to_numpy()
        for name in names:
            column = table[name].combine_chunks()
            values = column.to_numpy() if name == "code" else _matrix(column)
            in_order = np.empty_like(values)
            in_order[order] = values
            found.append(in_order)
    return found


def _batch(codes: NDArray[np.int64], rows: NDArray[np.int64], scored: Scored) -> Any:
    matrices = [pa.FixedSizeListArray.from_arrays(pa.array(m.reshape(-1)), m.shape[1]) for m in scored]
    return pa.record_batch([pa.array(codes), pa.array(rows), *matrices], ["code", "row", "scores", "probabilities"])


def _matrix(column: Any) -> NDArray[Any]:
    chunk = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, chunk.type.list_size))


def _origin_of(path: Path) -> str | None:
    if not path.exists():
        return None
    with _opened(path) as (file, _):
        return str(file.schema.metadata[ORIGIN].decode())


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, list[int]]]:
    with reading(path), pa.memory_map(str(path)) as source:
        file = pa.ipc.open_file(source)
        yield file, json.loads(file.schema.metadata[BUCKETS])


def _path(scratch: Path, number: int) -> Path:
    return place_of(scratch, number) / f"scores-{number}.arrow"
