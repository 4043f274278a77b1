"""What is worth changing in a table before a fit, in the order of harm, and what its domains allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.rules import domains_needed
from domaincover.checks.column_check import GIVEN_AWAY, MOST_CATEGORIES, ColumnCheck
from domaincover.checks.domain_drift import DRIFTS, Drift
from domaincover.data.identity import in_words, look_alikes
from domaincover.promises.plans import Reach, domains_with_enough
from domaincover.terminal.text import counted, listed

Harm = Literal["stops", "misleads", "weakens", "note"]
HARMS: tuple[Harm, ...] = ("stops", "misleads", "weakens", "note")
NEARLY = 0.95  # mean recall of labels from which a single column is suspicious
TELLS_DOMAIN = 0.9  # share of rows
MOST_NAMES = 6
HOLD_OUT_DOMAINS = 0.25  # the default of `fit`
CONFIDENCE = 0.9


class Finding(NamedTuple):
    """Something to know or change: its harm, what was found, what to do, and columns to leave out, if any."""

    harm: Harm
    what: str
    advice: str
    drop: tuple[str, ...] = ()


class Cells(NamedTuple):
    """Rows by domain and label, and the rows without one of both."""

    label: str
    domain: str
    label_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    counts: NDArray[np.int64]
    min_cell_size: int
    n_without_label: int
    n_without_domain: int

    @property
    def n_rows(self) -> int:
        """How many rows have both a label and a domain."""
        return int(self.counts.sum())

    @property
    def enough(self) -> NDArray[np.int64]:
        """In how many domains each label counts."""
        return domains_with_enough(self.counts, self.min_cell_size)


def findings_of(
    cells: Cells,
    columns: Sequence[ColumnCheck],
    alike: Sequence[tuple[str, str, float]] = (),
    drift: Drift | None = None,
) -> tuple[Finding, ...]:
    """Return all findings, the most harmful first.

    `alike` are pairs of domains that share rows, with their share, and `drift` is along the order of the domains.
    """
    sound = [column for column in columns if column.fault is None]
    leaks = {column.name: _label_leak(column, cells) or _domain_leak(column, cells) for column in sound}
    told = sorted((column for column in sound if leaks[column.name]), key=lambda column: -(column.tells_label or 0))
    found = [
        *_stops(cells, columns),
        *_look_alikes(cells),
        *_same_rows(cells, alike),
        *_drift(cells, drift),
        *(finding for column in told if (finding := leaks[column.name])),
        *(finding for column in sound for finding in _of_column(column, cells, leaks[column.name])),
        *_small_cells(cells),
        *_missing(sound, cells),
    ]
    return tuple(sorted(found, key=lambda finding: HARMS.index(finding.harm)))


def _stops(cells: Cells, columns: Sequence[ColumnCheck]) -> Iterator[Finding]:
    for name, n_missing in ((cells.label, cells.n_without_label), (cells.domain, cells.n_without_domain)):
        if n_missing:
            what = f"{name} is empty in {counted(n_missing, 'row')}."
            yield Finding("stops", what, "Drop those rows, or name the value.")
    if len(cells.domain_names) == 1:
        what = f"{cells.domain} has one value only, {cells.domain_names[0]!r}."
        advice = "An evaluation on unseen domains needs two or more; --hold-out-domains 0 fits without one."
        yield Finding("stops", what, advice)
    for column in columns:
        if column.fault is not None:
            yield Finding("stops", column.fault, "Correct the values, or leave the column out.", (column.name,))
    if columns and all(column.kind == "ignored" for column in columns):
        yield Finding("stops", "No column can be learned from: texts differ in almost every row.", "Add columns.")


def _look_alikes(cells: Cells) -> Iterator[Finding]:
    both = (cells.label, "labels", cells.label_names), (cells.domain, "domains", cells.domain_names)
    for column, what, names in both:
        if pairs := look_alikes(names):
            words = f"In {column}, different {what} look alike: {in_words(pairs)}."
            yield Finding("weakens", words, "If they are the same, write them alike.")


def _same_rows(cells: Cells, alike: Sequence[tuple[str, str, float]]) -> Iterator[Finding]:
    if alike:
        pairs = listed([f"{one} and {other} ({_percent(share)})" for one, other, share in alike], MOST_NAMES)
        what = f"Some domains of {cells.domain} share most of their rows: {pairs}."
        yield Finding("misleads", what, "If they are one, give them one name; rows that occur twice are no new domain.")


def _drift(cells: Cells, drift: Drift | None) -> Iterator[Finding]:
    if drift is not None:
        rises = "rises" if drift.correlation > 0 else "falls"
        found = f"rank correlation {drift.correlation:.2f}, p {drift.p_value:.2g}"
        what = f"{DRIFTS} {cells.domain}: {drift.what} {rises} ({found})."
        advice = f"If new domains come later, a promise from domains drawn at random fails: fit --order {cells.domain}."
        yield Finding("misleads", what, advice)


def _of_column(column: ColumnCheck, cells: Cells, leak: Finding | None) -> Iterator[Finding]:
    name = column.name
    if column.n_distinct == 0:
        yield Finding("note", f"{name} is empty in all rows.", "It can be left out.", (name,))
        return
    if column.is_key and (leak is None or not leak.drop):
        each = "another whole number in every row" if column.n_distinct == cells.n_rows else "the name of one"
        yield Finding("weakens", f"{name} looks like an identifier: it has {each}.", "Leave it out.", (name,))
    if column.n_distinct == 1 and column.n_missing == 0:
        yield Finding("note", f"{name} has the same value in all rows.", "It can be left out.", (name,))
    if column.doubt is not None:
        what, _, advice = column.doubt.rpartition("; ")
        yield Finding("weakens", f"{name} {what}.", f"{advice[:1].upper()}{advice[1:]}.")
    elif column.kind == "category" and column.n_distinct > MOST_CATEGORIES:
        yield Finding(
            "note",
            f"{name} has {column.n_distinct:,} categories; the {MOST_CATEGORIES} most frequent are kept.",
            "Group them into fewer, if others matter.",
        )
    if column.kind == "ignored":
        what = f"{name} is ignored: its texts differ in almost every row."
        yield Finding("note", what, "To learn from texts, give fit --text-column.")


def _label_leak(column: ColumnCheck, cells: Cells) -> Finding | None:
    told, name = column.tells_label, column.name
    advice = "Unless it is known when you predict, leave it out."
    if told is not None and told >= GIVEN_AWAY:
        what = f"{name} gives {cells.label} away: by itself it tells {_percent(told)} of each label in other domains."
        return Finding("misleads", what, advice, (name,))
    if column.tells_one is not None:
        label = cells.label_names[column.tells_one]
        return Finding("misleads", f"{name} gives the label {label!r} away in domains that did not teach it.", advice)
    if told is not None and told >= NEARLY:
        what = f"{name} nearly gives {cells.label} away: by itself it tells {_percent(told)} of each label."
        return Finding("misleads", what, advice)
    return None


def _domain_leak(column: ColumnCheck, cells: Cells) -> Finding | None:
    name, largest = column.name, cells.counts.sum(axis=1).max() / max(cells.n_rows, 1)
    if column.kind == "ignored" or len(cells.domain_names) < 2:
        return None
    if column.is_copy_of_domain:
        what = f"{name} is another name of {cells.domain}: one value for each."
        return Finding("misleads", what, "In a new domain it is new too. Leave it out.", (name,))
    if column.tells_domain is not None and column.tells_domain >= TELLS_DOMAIN and largest < TELLS_DOMAIN - 0.1:
        what = f"{name} gives {cells.domain} away: it tells the domain of {_percent(column.tells_domain)} of the rows."
        advice = "In a new domain its values are new. Leave it out, or measure it relative to the domain."
        return Finding("misleads", what, advice, (name,))
    if column.is_constant_in_domains:
        what = (
            f"{name} has one value in each {cells.domain}, so there are {len(cells.domain_names)} values to learn from."
        )
        return Finding("weakens", what, "Keep it only if it means something in a new domain.")
    return None


def _small_cells(cells: Cells) -> Iterator[Finding]:
    n_domains, needed = len(cells.domain_names), domains_needed(CONFIDENCE)
    enough = cells.enough
    if enough.max() < needed:
        yield Finding(
            "weakens",
            f"No label has {cells.min_cell_size} rows or more in {needed} domains, which a promise of {CONFIDENCE:g} "
            f"takes; the most is {counted(int(enough.max()), 'domain')} of {n_domains}.",
            "Add domains, or ask for less (--domain-confidence).",
        )
    elif (rare := np.flatnonzero(enough < needed)).size:
        named = listed([f"{cells.label_names[k]} ({enough[k]})" for k in rare], MOST_NAMES)
        yield Finding(
            "weakens",
            f"Too few domains have {cells.min_cell_size} rows or more of: {named}. A promise of {CONFIDENCE:g} takes "
            f"{needed}.",
            "Their rows are pooled, and the label is promised by itself; add rows, or merge labels.",
        )
    small = (cells.counts < cells.min_cell_size) & (cells.counts > 0)
    if small.any():
        yield Finding(
            "weakens",
            f"In {small.sum():,} of {cells.counts.size:,} cells (a label in a domain) there are 1 to "
            f"{cells.min_cell_size - 1} rows: their recall is mostly chance, and a promise does not count them.",
            "Add rows, or merge small domains or rare labels.",
        )


def _missing(columns: Sequence[ColumnCheck], cells: Cells) -> Iterator[Finding]:
    somewhere = [column for column in columns if column.n_domains_without and column.n_distinct]
    if somewhere:
        named = listed([f"{column.name} ({column.n_domains_without})" for column in somewhere], MOST_NAMES)
        yield Finding(
            "weakens",
            f"Empty in whole domains: {named} of {len(cells.domain_names)}.",
            "The sets there rest on the other columns; leave the column out if new domains will lack it.",
        )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share < 0.9995 else "100 %"


def reach_in_words(cells: Cells) -> str:
    """Say which promises the domains of a table allow, and with which options of `fit`."""
    n_domains, needed, most = len(cells.domain_names), domains_needed(CONFIDENCE), int(cells.enough.max())
    beside, alone = Reach(n_domains, HOLD_OUT_DOMAINS), Reach(n_domains)
    pool = " Not every label is in all of them: add --on-infeasible pool." if (cells.enough < n_domains).any() else ""
    return (
        f"fit promises {CONFIDENCE:g} where {needed} domains have {cells.min_cell_size} rows or more of a label, "
        f"beside the {beside.n_evaluate} of {n_domains} held out to evaluate; {most} of all have them. The highest "
        f"promise is --domain-confidence {beside.highest} beside an evaluation, and {alone.highest} without one "
        f"(--hold-out-domains 0).{pool}"
    )
