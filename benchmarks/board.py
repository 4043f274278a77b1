"""A board of prediction sets in new domains: fixed splits of data that come with a package, and anybody's sets.

    python -m benchmarks.board tasks FOLDER               # known.parquet and new.parquet of every split
    python -m benchmarks.board score SETS.parquet --name NAME --uses WHAT
    python -m benchmarks.board make ENTRY SETS.parquet    # the sets of our own entries
    python -m benchmarks.board table                      # docs/board.md

SETS.parquet has a line for each row of every split's new.parquet: its `split`, its `row`, and a boolean column
`in_set[LABEL]` for each label (of another table's labels, missing). Sets may use everything in known.parquet and the
rows of new.parquet with their domains, not more: labels of new rows are for scoring only. `score` writes a JSON file
into benchmarks/board_entries, which a pull request adds, together with docs/board.md.

The target is 0.9 for every label of a domain; (domain, label) cells of fewer than 20 rows do not count.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_predict

from benchmarks.class_conditional import class_thresholds
from domaincover import InputError, domain_report
from domaincover.calibration.adaptation_fit import ScoredRows
from domaincover.datasets import load_flights, load_storms, load_votes
from domaincover.estimators.recipes import make_classifier

ROOT = Path(__file__).parent.parent
ENTRIES, PAGE = ROOT / "benchmarks/board_entries", ROOT / "docs/board.md"
TARGET, MIN_CELL_SIZE, FOLDS = 0.9, 20, 5
DOMAINS, ROWS_PER_DOMAIN, UNSEEN = 60, 200, 0.25
LOADERS = {"storms": load_storms, "votes": load_votes, "flights": load_flights}
SPLITS = tuple(f"{table}/{k}" for table, k in product(LOADERS, range(2)))


class Task(NamedTuple):
    """The rows of a split: features, `row`, `domain` and `label`, of known and of new domains."""

    known: pd.DataFrame
    new: pd.DataFrame

    @property
    def labels(self) -> list[str]:
        """The labels in order."""
        return sorted(self.known["label"].unique())


def task(split: str) -> Task:
    """Return a split: up to 60 domains of up to 200 rows, a quarter of the domains new."""
    name, _, seed = split.partition("/")
    X, y, domains = LOADERS[name]()
    table = X.reset_index(drop=True).assign(label=y.to_numpy(), domain=domains.astype(str).to_numpy())
    rng = np.random.default_rng(int(seed))
    drawn = rng.permutation(sorted(set(table["domain"])))[:DOMAINS]
    mixed = table.iloc[rng.permutation(len(table))].groupby("domain").head(ROWS_PER_DOMAIN).sort_index()
    rows = mixed.rename_axis("row").reset_index()
    n_new = round(UNSEEN * len(drawn))
    new, known = (rows[rows["domain"].isin(part)].reset_index(drop=True) for part in (drawn[:n_new], drawn[n_new:]))
    return Task(known, new)


def features(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what a model may look at."""
    return rows.drop(columns=["row", "label", "domain"])


def write_tasks(folder: Path) -> None:
    """Write every split as two tables, the labels of new rows left out."""
    for split in SPLITS:
        known, new = task(split)
        (folder / split).mkdir(parents=True, exist_ok=True)
        known.to_parquet(folder / split / "known.parquet", index=False)
        new.drop(columns="label").to_parquet(folder / split / "new.parquet", index=False)


def score(sets: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the figures of sets by split; sets of every row of every split are required."""
    missing = [name for name in ("split", "row") if name not in sets]
    if missing:
        raise InputError(f"the sets have no column {missing[0]!r}; they need split, row and in_set[LABEL].")
    if unknown := sorted(set(sets["split"]) - set(SPLITS)):
        raise InputError(f"there is no split {unknown[0]!r}; there are {', '.join(SPLITS)}.")
    return {split: score_of_split(split, sets[sets["split"] == split]) for split in SPLITS}


def score_of_split(split: str, sets: pd.DataFrame) -> dict[str, Any]:
    """Return how many new domains are at target, the lowest tenth of min recall, and labels per set."""
    found = task(split)
    columns = [f"in_set[{label}]" for label in found.labels]
    if missing := [column for column in columns if column not in sets]:
        raise InputError(f"{split}: the sets have no column {missing[0]!r}.")
    if sets["row"].duplicated().any():
        raise InputError(f"{split}: row {sets['row'][sets['row'].duplicated()].iloc[0]} has two sets.")
    if wrong := sorted(set(sets["row"]) ^ set(found.new["row"])):
        what = "has no set" if wrong[0] in set(found.new["row"]) else "is no row of its new.parquet"
        raise InputError(f"{split}: row {wrong[0]} {what} ({len(wrong)} such rows).")
    ordered = sets.set_index("row").loc[found.new["row"], columns]
    if ordered.isna().to_numpy().any() or not ordered.isin([True, False]).to_numpy().all():
        raise InputError(f"{split}: the columns in_set[LABEL] must be true or false in every row.")
    in_set, label, domain = ordered.to_numpy(dtype=bool), found.new["label"], found.new["domain"]
    report = domain_report(in_set, label.to_numpy(), domain.to_numpy(), found.labels, min_cell_size=MIN_CELL_SIZE)
    summary = report.summary(TARGET)
    return {
        "n_domains": summary.n_domains,
        "n_at_target": round(summary.share_at_target * summary.n_domains),
        "min_recall_p10": round(summary.min_recall_p10, 4),
        "set_size": round(summary.set_size, 4),
    }


def promised(known: pd.DataFrame, new: pd.DataFrame, split: int) -> np.ndarray:
    """Return the sets of the default scorer with a promise, thresholds adapted to each new domain."""
    model: Any = make_classifier("erm", "mlp+boosting", TARGET, domain_confidence=0.9, random_state=split)
    model.set_params(on_infeasible="pool").fit(features(known), known["label"], domains=known["domain"])
    return model.predict_set(features(new), domains=new["domain"])


def by_class(level: float) -> Callable[[pd.DataFrame, pd.DataFrame, int], np.ndarray]:
    """Return the maker of class-conditional split conformal sets at a level: boosted trees, out-of-fold scores."""

    def make(known: pd.DataFrame, new: pd.DataFrame, split: int) -> np.ndarray:
        trees = make_classifier("erm", "boosting", TARGET, random_state=split).estimator
        labels, groups = pd.factorize(known["label"], sort=True)[0], pd.factorize(known["domain"])[0]
        folds = GroupKFold(FOLDS, shuffle=True, random_state=split)
        held_out = cross_val_predict(
            clone(trees), features(known), labels, groups=groups, cv=folds, method="predict_proba"
        )
        thresholds = class_thresholds(ScoredRows(held_out, held_out, labels, groups), level)
        return trees.fit(features(known), labels).predict_proba(features(new)) >= thresholds

    return make


MAKERS = {"promised": promised, "by-class-90": by_class(0.9), "by-class-97": by_class(0.97)}


def make(entry: str) -> pd.DataFrame:
    """Return the sets of one of our own entries on every split."""
    return pd.concat(sets_of(entry, split) for split in SPLITS)


def sets_of(entry: str, split: str) -> pd.DataFrame:
    """Return an entry's sets on a split."""
    found = task(split)
    sets = MAKERS[entry](*found, int(split.partition("/")[2]))
    flags = pd.DataFrame(sets, columns=[f"in_set[{label}]" for label in found.labels])
    print(entry, split, file=sys.stderr, flush=True)
    return pd.concat([found.new["row"], flags], axis=1).assign(split=split)


def lines() -> Iterator[str]:
    """Yield the lines of the table: each table's new domains at target and labels per set, over its splits."""
    entries = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(ENTRIES.glob("*.json"))]
    yield f"| | uses | {' | '.join(LOADERS)} | all new domains |"
    yield "|---" * (len(LOADERS) + 3) + "|"
    for entry in entries:
        of_tables = [[entry["splits"][split] for split in SPLITS if split.startswith(table)] for table in LOADERS]
        cells = [f"{_at_target(found)}, {np.mean([each['set_size'] for each in found]):.2f}" for found in of_tables]
        total = _at_target([each for found in of_tables for each in found])
        worst = min(each["min_recall_p10"] for found in of_tables for each in found)
        yield f"| {_plain(entry['name'])} | {_plain(entry['uses'])} | {' | '.join(cells)} | {total}; {worst:.2f} |"


def _at_target(found: list[dict[str, Any]]) -> str:
    n, n_domains = (sum(each[name] for each in found) for name in ("n_at_target", "n_domains"))
    return f"{n} of {n_domains} ({n / n_domains:.0%})"


def _plain(text: str) -> str:
    return re.sub(r"[|<>\[\]\s]+", " ", text)  # it ends up in a table of Markdown


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tasks").add_argument("folder", type=Path)
    scoring = commands.add_parser("score")
    scoring.add_argument("sets", type=Path)
    scoring.add_argument("--name", required=True, help="what the table calls it, with a version")
    scoring.add_argument("--uses", required=True, help="the scorer, and what it takes from new domains")
    making = commands.add_parser("make")
    making.add_argument("entry", choices=MAKERS)
    making.add_argument("sets", type=Path)
    commands.add_parser("table")
    options = parser.parse_args()
    try:
        run(options)
    except InputError as error:
        sys.exit(str(error))


def run(options: argparse.Namespace) -> None:
    """Do what a command says."""
    if options.command == "tasks":
        write_tasks(options.folder)
    elif options.command == "make":
        warnings.simplefilter("ignore")
        make(options.entry).to_parquet(options.sets, index=False)
    elif options.command == "score":
        found = score(pd.read_parquet(options.sets))
        entry = {"name": options.name, "uses": options.uses, "splits": found}
        path = ENTRIES / f"{re.sub(r'[^a-z0-9]+', '-', options.name.lower()).strip('-')}.json"
        ENTRIES.mkdir(exist_ok=True)
        path.write_text(json.dumps(entry, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path)
    else:
        head, _, tail = PAGE.read_text(encoding="utf-8").partition("<!-- table -->\n")
        rest = tail.partition("<!-- end -->")[2]
        PAGE.write_text("\n".join([f"{head}<!-- table -->", *lines(), f"<!-- end -->{rest}"]), encoding="utf-8")


if __name__ == "__main__":
    main()
