"""How often clean new domains look unlike training (false alarms), and how often a fault of one column is noticed.

`python -m benchmarks.input_faults FOLDER [--sets tv16,vehicles]`: Parquet tables with columns label and domain; half of
the domains train, each of the others is compared by itself, with one random column broken in turn.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincover import TableEncoder
from domaincover.checks.input_profile import FEWEST_ROWS, InputProfile

MOST_ROWS, MOST_DOMAINS = 1000, 40
OTHER_GROUPS = ["alt_domain", "station", "activity"]  # never features
FAULTS: dict[str, tuple[str | None, Callable[[pd.Series], Any]]] = {  # which kind of column, and what is done to it
    "empty": (None, lambda _: np.nan),
    "constant": (None, lambda column: column.dropna().iloc[0] if column.notna().any() else column),
    "unknown category": ("category", lambda _: "unknown"),
    "times 10": ("number", lambda column: column.astype(float) * 10),
    "times 1,000": ("number", lambda column: column.astype(float) * 1000),
    "times 1/100": ("number", lambda column: column.astype(float) / 100),
    "other sign": ("number", lambda column: -column.astype(float)),
}


def noticed(path: Path, seed: int) -> dict[str, list[bool]]:
    """Return whether an alarm was raised, by fault and new domain, on one split of a table's domains."""
    table, rng = pd.read_parquet(path), np.random.default_rng(seed)
    domains = table.pop("domain").astype(str).to_numpy()
    X = table.drop(columns=["label", *(name for name in OTHER_GROUPS if name in table)])
    counts = pd.Series(domains).value_counts()
    names = rng.permutation(sorted(counts.index[counts >= FEWEST_ROWS]))
    known, new = names[: len(names) // 2], names[len(names) // 2 :][:MOST_DOMAINS]
    train = np.isin(domains, known)
    kinds = {name: kind for name, kind in TableEncoder().fit(X[train]).kinds_.items() if kind != "ignored"}
    profile = InputProfile.learn(X[train], domains[train], kinds)
    found: dict[str, list[bool]] = defaultdict(list)
    for domain in new if profile is not None else ():
        own = X[domains == domain]
        own = own.sample(min(MOST_ROWS, len(own)), random_state=seed)
        found["clean"].append(bool(profile.differences(own)))
        column = rng.choice(list(kinds))
        for fault, (kind, change) in FAULTS.items():
            if kind in (None, kinds[column]):
                broken = own.assign(**{column: change(own[column])})
                found[fault].append(any(told.column == column for told in profile.differences(broken)))
    return found


def main() -> None:
    """Print the shares of alarms by set and fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default="")
    parser.add_argument("--splits", type=int, default=5)
    given = parser.parse_args()
    for path in sorted(given.folder.glob("*.parquet")):
        if path.stem in given.sets.split(",") or not given.sets:
            splits = [noticed(path, seed) for seed in range(given.splits)]
            shares = {
                fault: np.mean([each for split in splits for each in split[fault]])
                for fault in ["clean", *FAULTS]
                if any(split[fault] for split in splits)
            }
            print(path.stem, ", ".join(f"{fault} {share:.2f}" for fault, share in shares.items()), flush=True)


if __name__ == "__main__":
    main()
