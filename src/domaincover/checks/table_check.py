"""Check a table before anything is fitted to it: what gives labels or domains away, what is too small or missing."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.calibration.rules import domains_needed
from domaincover.checks.column_check import GIVEN_AWAY, MOST_CATEGORIES, ColumnCheck, Subject, check_column
from domaincover.checks.seen_rows import alike_in_words
from domaincover.data.dataset import Coded, check_min_cell_size, code_names, count_cells, one_dimensional, texts
from domaincover.data.identity import in_words, look_alikes
from domaincover.errors import InputError
from domaincover.options import MIN_CELL_SIZE
from domaincover.promises.plans import Reach, domains_with_enough
from domaincover.terminal.text import counted, listed, wrapped

Harm = Literal["stops", "misleads", "weakens", "note"]
HARM_WORDS = {"stops": "Stops a fit", "misleads": "Misleads", "weakens": "Weakens", "note": "Good to know"}
NEARLY = 0.95  # mean recall of labels from which a single column is suspicious
TELLS_DOMAIN = 0.9  # share of rows
MOST_NAMES = 6
HOLD_OUT_DOMAINS = 0.25  # the default of `fit`
CONFIDENCE = 0.9
FEWEST_DOMAINS = 9
DRIFTS = "Domains drift along"
N_ORDERS = 1999  # random orders that the real one is compared with
SURELY = 0.001  # a table without order is reported once in a thousand


class Drift(NamedTuple):
    """The number of a domain that follows the order most, its rank correlation with it, and the p-value over all."""

    what: str
    correlation: float
    p_value: float


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


@dataclass(frozen=True, eq=False)
class TableCheck:
    """What a table allows, and what to change in it; `check_table` makes it.

    `findings` come in the order of harm: what stops a fit, what misleads it, what weakens it, and notes. `reach` says
    which promises the domains allow.
    """

    cells: Cells
    n_rows: int
    columns: tuple[ColumnCheck, ...]
    findings: tuple[Finding, ...]
    reach: str
    n_rows_compared: int

    @property
    def counts(self) -> pd.DataFrame:
        """Rows by domain and label."""
        cells = self.cells
        domains, labels = pd.Index(cells.domain_names, name=cells.domain), pd.Index(cells.label_names, name=cells.label)
        return pd.DataFrame(cells.counts, domains, labels)

    @property
    def drop(self) -> tuple[str, ...]:
        """The columns that the findings advise to leave out."""
        return tuple(dict.fromkeys(name for finding in self.findings for name in finding.drop))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for strict JSON."""
        return {
            "n_rows": self.n_rows,
            "n_rows_compared": self.n_rows_compared,
            **self.cells._asdict(),
            "counts": self.cells.counts.tolist(),
            **{name: [part._asdict() for part in getattr(self, name)] for name in ("findings", "columns")},
            "reach": self.reach,
        }

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def text(self, width: int = 100, *, for_shell: bool = False) -> str:
        """Return the findings and what is possible, as lines; for a shell, advice in options of `fit`."""
        found = _findings(self.findings, width, for_shell) or [["Nothing to change was found."]]
        parts = [_lines(self._sizes(), width), *found, _lines(self.reach, width), _lines(self._limits(), width)]
        return "\n\n".join("\n".join(lines) for lines in parts)

    def __str__(self) -> str:
        return self.text()

    def _sizes(self) -> str:
        cells = self.cells
        sizes = " to ".join(dict.fromkeys(f"{end:,}" for end in np.sort(cells.counts.sum(axis=1))[[0, -1]].tolist()))
        labels = f"{counted(len(cells.label_names), 'label')} ({cells.label})"
        domains = f"{counted(len(cells.domain_names), 'domain')} ({cells.domain}) of {sizes} rows"
        return f"{self.n_rows:,} rows; {labels}; {domains}; {len(self.columns):,} columns to learn from."

    def _limits(self) -> str:
        n_rows, compared = self.cells.n_rows, self.n_rows_compared
        sampled = f" Columns were compared with labels and domains on {compared:,} of {n_rows:,} rows, at random."
        told = "Each column was looked at by itself; two that together give something away are not found."
        return told + sampled if compared < n_rows else told


def check_table(
    X: Any,
    y: Any,
    domains: Any,
    *,
    min_cell_size: int = MIN_CELL_SIZE,
    random_state: int = 0,
) -> TableCheck:
    """Check a table of features, its labels and its domains, without fitting a model.

    It finds columns that by themselves give the label away in domains that did not teach it, columns that give the
    domain away, identifiers, cells and domains that are too small, missing values, and text that nearly looks like
    numbers or dates; and it says what promises the domains allow. A large table is compared with labels and domains on
    a sample of its rows, which the result tells.

    Parameters
    ----------
    X : table
        Features, as a pandas, polars or Arrow table.
    y, domains : array-like
        Label and domain of each row; rows in which one is missing are counted and left out.
    min_cell_size : int
        Rows of a label that a domain needs to count in a promise.
    random_state : int
        Seed of the sample and of the halves that are compared.

    >>> X = pd.DataFrame({"dose": [1.0, 2.0, 3.0, 4.0] * 30, "copy": ["no", "no", "yes", "yes"] * 30})
    >>> y, clinic = ["well", "well", "ill", "ill"] * 30, ["A", "B", "C", "D", "E", "F"] * 20
    >>> check = check_table(X, y, clinic)
    >>> check.findings[0].harm, check.drop
    ('misleads', ('dose', 'copy'))
    """
    check_min_cell_size(min_cell_size)
    table = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X.to_pandas() if hasattr(X, "to_pandas") else X)
    names, groups = _series(y, "label", len(table)), _series(domains, "domain", len(table))
    known = (names.notna() & groups.notna()).to_numpy()
    if not known.any():
        raise InputError("no row has both a label and a domain.")
    n_known = int(known.sum())
    labels = code_names(names[known].to_numpy(), "labels", n_known)
    of_domains = code_names(groups[known].to_numpy(), "domains", n_known)
    if len(labels.names) < 2:
        raise InputError(f"every label is {labels.names[0]!r}; sets need at least two labels.")
    cells = Cells(
        label=str(names.name),
        domain=str(groups.name),
        label_names=tuple(texts(labels.names)),
        domain_names=tuple(texts(of_domains.names)),
        counts=count_cells(of_domains.codes, labels.codes, len(of_domains.names), len(labels.names)),
        min_cell_size=min_cell_size,
        n_without_label=int(names.isna().sum()),
        n_without_domain=int(groups.isna().sum()),
    )
    subject = Subject(labels.codes, of_domains.codes, len(labels.names), len(of_domains.names), random_state)
    features = table if known.all() else table[known]
    columns = tuple(check_column(features[name], subject) for name in features)
    return TableCheck(
        cells=cells,
        n_rows=len(table),
        columns=columns,
        findings=findings_of(
            cells,
            columns,
            _drift_along_names(features, columns, cells, of_domains, random_state),
            alike_in_words(features, columns, of_domains.codes, cells.domain_names),
        ),
        reach=reach_in_words(cells),
        n_rows_compared=len(subject.sample),
    )


def _drift_along_names(
    features: pd.DataFrame, columns: Sequence[ColumnCheck], cells: Cells, domains: Coded, random_state: int
) -> Drift | None:
    """Return what drifts along the names of the domains, where they are numbers or dates."""
    order = in_order(pd.Series(cells.domain_names))
    if order is None:
        return None
    sizes = cells.counts.sum(axis=1)
    numbers = {
        f"the share of {cells.label} {name!r}": cells.counts[:, k] / sizes for k, name in enumerate(cells.label_names)
    }
    of_numbers = [
        name
        for name, check in zip(features, columns, strict=True)
        if check.kind == "number" and check.spelling is None and not check.is_constant_in_domains
    ]
    means = features[of_numbers].groupby(domains.codes).mean()
    numbers |= {f"the mean of {name}": means[name].to_numpy(float) for name in of_numbers}
    return drift_of(numbers, order, random_state)


def _series(values: Any, name: str, n_rows: int) -> pd.Series[Any]:
    """Return labels or domains as a column with a name, one per row."""
    listed = one_dimensional(values, f"{name}s")
    if len(listed) != n_rows:
        raise InputError(f"X has {n_rows} rows, but there are {len(listed)} {name}s.")
    given = getattr(values, "name", None)
    return pd.Series(listed, name=name if given is None else str(given))


def _findings(findings: Sequence[Finding], width: int, for_shell: bool) -> list[list[str]]:
    blocks = {harm: [words] for harm, words in HARM_WORDS.items()}
    for finding in findings:
        drop = shlex.join([word for name in finding.drop for word in ("--drop", name)]) if for_shell else ""
        blocks[finding.harm] += _lines(f"{finding.what} {finding.advice} {drop}", width, "- ", "  ")
    return [lines for lines in blocks.values() if len(lines) > 1]


def _lines(words: str, width: int, first: str = "", then: str = "") -> list[str]:
    """Return lines no longer than the width that break neither an option nor between it and its value."""
    kept = re.sub(r"--\S+ (?=\S)", lambda found: found[0].replace(" ", "\u00a0"), words)
    return wrapped(kept, width, first, then)


def findings_of(
    cells: Cells, columns: Sequence[ColumnCheck], drift: Drift | None, alike: str | None
) -> tuple[Finding, ...]:
    """Return all findings, the most harmful first; `drift` is along the order of the domains, `alike` share rows."""
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
    return tuple(sorted(found, key=lambda finding: list(HARM_WORDS).index(finding.harm)))


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


def _same_rows(cells: Cells, alike: str | None) -> Iterator[Finding]:
    if alike is not None:
        what = f"Some domains of {cells.domain} share most of their rows: {alike}."
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
    enough = domains_with_enough(cells.counts, cells.min_cell_size)
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
    n_domains, needed = len(cells.domain_names), domains_needed(CONFIDENCE)
    enough = domains_with_enough(cells.counts, cells.min_cell_size)
    beside, alone = Reach(n_domains, HOLD_OUT_DOMAINS), Reach(n_domains)
    pool = " Not every label is in all of them: add --on-infeasible pool." if (enough < n_domains).any() else ""
    return (
        f"fit promises {CONFIDENCE:g} where {needed} domains have {cells.min_cell_size} rows or more of a label, "
        f"beside the {beside.n_evaluate} of {n_domains} held out to evaluate; {enough.max()} of all have them. The "
        f"highest promise is --domain-confidence {beside.highest} beside an evaluation, and {alone.highest} without "
        f"one (--hold-out-domains 0).{pool}"
    )


def in_order(names: pd.Series[Any]) -> NDArray[np.float64] | None:
    """Return numbers or dates as numbers; None for other texts, or where one is missing."""
    numbers = pd.to_numeric(names, errors="coerce")
    if numbers.isna().any():
        dates = pd.to_datetime(names.astype(str), errors="coerce", format="ISO8601")
        if dates.isna().any():
            return None
        numbers = dates.astype("int64")
    return numbers.to_numpy(float)


def drift_of(
    numbers: Mapping[str, NDArray[np.float64]], order: NDArray[np.float64], random_state: int = 0
) -> Drift | None:
    """Return what drifts most along an order of the domains, if it does so surely.

    `numbers` are of each domain, by what they are. Their rank correlations with the order are compared with those of
    random orders; the largest of all counts, so that many numbers do not raise more false alarms.
    """
    usable = {name: values for name, values in numbers.items() if np.isfinite(values).all() and np.ptp(values) > 0}
    if len(order) < FEWEST_DOMAINS or not usable:
        return None
    ranks = np.stack([_standardised(values) for values in usable.values()], axis=1)
    own = _standardised(order)
    rng = np.random.default_rng(random_state)
    shuffled = np.stack([rng.permutation(own) for _ in range(N_ORDERS)])
    found = own @ ranks / len(own)
    most = int(np.abs(found).argmax())
    at_random = np.abs(shuffled @ ranks / len(own)).max(axis=1)
    p_value = (1 + int((at_random >= abs(found[most]) - 1e-12).sum())) / (1 + N_ORDERS)
    return Drift(list(usable)[most], float(found[most]), p_value) if p_value <= SURELY else None


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    ranks = pd.Series(values).rank().to_numpy()
    return np.asarray((ranks - ranks.mean()) / ranks.std())
