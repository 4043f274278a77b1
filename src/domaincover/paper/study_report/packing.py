"""Single domains packed for a page: whole numbers of 1e-4, compressed, with names and counts once."""

import base64
import zlib
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

UNIT = 1e-4
ABSENT = 65535  # missing value
LARGEST = 65000


def packed_domains(
    domains: pd.DataFrame, methods: list[str], targets: list[float], splits: list[str]
) -> dict[str, Any]:
    """Return the domains of one data set by run (method, target, split, seed), each a code into the given lists.

    A roster is a list of domains with their numbers of examples; most runs share theirs. `values` has a number per
    domain in the order of runs, for set size in its own unit and then for every label's recall in units of 1e-4; min
    recall is the least of these.
    """
    known = domains["method"].isin(methods) & domains["target_recall"].isin(targets) & domains["split"].isin(splits)
    rows = domains[known].assign(
        method_code=lambda table: table["method"].map({name: code for code, name in enumerate(methods)}),
        target_code=lambda table: table["target_recall"].map({target: code for code, target in enumerate(targets)}),
        split_code=lambda table: table["split"].map({name: code for code, name in enumerate(splits)}),
    )
    keys = ["method_code", "target_code", "split_code", "seed"]
    rows = rows.sort_values(keys, kind="stable", ignore_index=True)
    codes, names = pd.factorize(rows["domain"])
    rosters: dict[tuple[bytes, bytes], int] = {}
    lists: list[dict[str, Any]] = []
    runs = []
    counts = rows["n"].to_numpy(dtype=np.int64)
    for key, places in rows.groupby(keys, sort=False).indices.items():
        *run, seed = cast(tuple[Any, ...], key)
        members, numbers = codes[places], counts[places]
        place = rosters.setdefault((members.tobytes(), numbers.tobytes()), len(lists))
        if place == len(lists):
            lists.append({"domains": members.tolist(), "n": _once(numbers.tolist())})
        runs.append([*(int(code) for code in run), _plain(seed), place])
    recalls = pd.DataFrame(rows["recall"].tolist(), index=rows.index).astype(float)
    largest = float(np.nanmax(rows["set_size"].to_numpy(dtype=float), initial=1.0))
    size_unit = max(UNIT, 10.0 ** np.ceil(np.log10(largest / LARGEST)))
    target = rows["target_recall"].to_numpy(dtype=float)
    columns = [
        _whole(rows["set_size"].to_numpy(dtype=float) / size_unit),
        *(quantized(recalls[label].to_numpy(dtype=float), target) for label in recalls),
    ]
    return {
        "labels": [str(label) for label in recalls],
        "domains": [str(name) for name in names],
        "rosters": lists,
        "runs": runs,
        "size_unit": size_unit,
        "values": _compressed(np.stack(columns)),
    }


def _compressed(values: NDArray[np.int64]) -> str:
    """Return two-byte numbers as text: all low bytes, then all high ones, which compresses best."""
    low_and_high = np.stack([values % 256, values // 256]).astype(np.uint8)
    return base64.b64encode(zlib.compress(low_and_high.tobytes(), 9)).decode()


def least_at_target(target: float) -> int:
    """Return the smallest whole number of 1e-4 that counts as at target."""
    return int(np.ceil(target / UNIT - 1e-6))


def quantized(recalls: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return recalls in units of 1e-4, rounded without crossing the target."""
    whole = _whole(recalls / UNIT)
    least = np.ceil(target / UNIT - 1e-6).astype(np.int64)
    below = recalls < target
    return np.where(whole == ABSENT, ABSENT, np.where(below, np.minimum(whole, least - 1), np.maximum(whole, least)))


def _whole(values: NDArray[np.float64]) -> NDArray[np.int64]:
    absent = np.isnan(values)
    return np.where(absent, ABSENT, np.round(np.where(absent, 0, values))).astype(np.int64)


def _once(numbers: list[int]) -> list[int] | int:
    """Return a single number if all are equal."""
    return numbers[0] if len(set(numbers)) == 1 else numbers


def _plain(seed: Any) -> Any:
    return seed.item() if isinstance(seed, np.generic) else seed
