"""Which rows occurred before: rows of training among new ones, and rows that several domains share.

A row's fingerprint is a salted hash of its features. A model keeps those of at most `MOST_KEPT` rows, four bytes each;
of a larger table, those of the rows whose hash is lowest, which is a random sample that new rows can be compared with.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.checks.column_check import ColumnCheck
from domaincover.data.columns import Kind, category_text, plain_table, read_days, read_numbers
from domaincover.errors import InputError
from domaincover.terminal.text import listed

MOST_KEPT = 50_000
BEYOND_CHANCE = 0.02
FEWEST_ALIKE = 0.5  # share of a domain's rows that another one has, too
FEWEST_ROWS = 20
MOST_SHARING = 10  # a row that more domains have is no sign that two are one
Hashes = NDArray[np.uint64]
LOW = np.uint64(0xFFFFFFFF)


class SeenRows(NamedTuple):
    """Fingerprints of training rows."""

    salt: int
    highest: int  # rows with a higher hash are not compared
    fingerprints: NDArray[np.uint32]  # sorted
    by_chance: float  # share of its rows that nine training domains in ten do not exceed sharing with others

    @classmethod
    def of(cls, X: pd.DataFrame, domains: Any, kinds: Mapping[Any, Kind], salt: int | None = None) -> SeenRows:
        """Return the fingerprints of training rows; the salt is made from all of them, so that it can be repeated."""
        salt = int(np.bitwise_xor.reduce(row_hashes(X, kinds, 0))) if salt is None else salt
        hashes = row_hashes(X, kinds, salt)
        distinct = np.unique(hashes)
        kept = distinct[:MOST_KEPT]
        highest = int(kept[-1]) if len(kept) < len(distinct) else int(np.iinfo(np.uint64).max)
        shared = float(np.quantile(shared_by_domain(hashes, domains), 0.9))
        return cls(salt, highest, np.unique((kept & LOW).astype(np.uint32)), shared)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        kept = base64.b64encode(self.fingerprints.astype("<u4").tobytes()).decode()
        return {**self._asdict(), "fingerprints": kept}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> SeenRows:
        """Return what `to_dict` wrote."""
        try:
            kept = np.frombuffer(base64.b64decode(plain["fingerprints"], validate=True), "<u4").astype(np.uint32)
            salt, highest = int(plain["salt"]), int(plain["highest"])
            if not 0 <= min(salt, highest) <= max(salt, highest) < 2**64:
                raise ValueError("a number is out of range")
            return cls(salt, highest, kept, float(plain["by_chance"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the model's fingerprints of its training rows are corrupt: {error}.") from None

    def note(self, X: pd.DataFrame, kinds: Mapping[Any, Kind]) -> str | None:
        """Say how many rows were in training, if it is more than chance: rows may be alike without being the same."""
        hashes = row_hashes(X, kinds, self.salt)
        compared = hashes[hashes <= np.uint64(self.highest)]
        seen = np.count_nonzero(np.isin((compared & LOW).astype(np.uint32), self.fingerprints))
        if seen <= (self.by_chance + BEYOND_CHANCE) * len(compared) + 3 * np.sqrt(self.by_chance * len(compared)):
            return None
        n_seen, about = round(seen / len(compared) * len(X)), "" if len(compared) == len(X) else "about "
        return (
            f"{about}{n_seen:,} of {len(X):,} rows were in training; what is seen in them says little about new ones."
        )


def row_hashes(X: pd.DataFrame, kinds: Mapping[Any, Kind], salt: int) -> Hashes:
    """Return a hash of each row: numbers in single precision, categories as text, whatever the file's types."""
    found = np.full(len(X), np.uint64(salt))
    for name, kind in kinds.items():
        if kind != "ignored":
            with np.errstate(over="ignore"):
                found = _mixed(found * np.uint64(31) + pd.util.hash_array(_plain(X[name], kind)))
    return found


def _plain(column: pd.Series[Any], kind: Kind) -> NDArray[Any]:
    if kind == "category":
        return column.astype(object).map(category_text, na_action="ignore").fillna("\0").to_numpy(object)
    with np.errstate(over="ignore"):
        return np.asarray(read_days(column) if kind == "date" else read_numbers(column)).astype(np.float32) + 0.0


def _mixed(hashes: Hashes) -> Hashes:
    """Return hashes in which every bit depends on all bits (the finaliser of SplitMix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashes = (hashes ^ (hashes >> np.uint64(shift))) * np.uint64(factor)
    return hashes ^ (hashes >> np.uint64(31))


def shared_by_domain(hashes: Hashes, domains: Any) -> NDArray[np.float64]:
    """Return for each domain the share of its rows that another domain has, too."""
    table = pd.DataFrame({"row": hashes, "domain": pd.factorize(np.asarray(domains))[0]})
    n_domains = table.groupby("row")["domain"].transform("nunique")
    return np.asarray((n_domains > 1).groupby(table["domain"]).mean(), dtype=np.float64)


def domains_alike(hashes: Hashes, domains: Any) -> list[tuple[Any, Any, float]]:
    """Return pairs of domains that share most rows of the smaller one, with that share, the largest first."""
    codes, names = pd.factorize(np.asarray(domains))
    rows = pd.DataFrame({"row": hashes, "domain": codes}).drop_duplicates()
    n_rows = rows["domain"].value_counts()
    n_domains = rows.groupby("row")["domain"].transform("size")
    shared = rows[(n_domains > 1) & (n_domains <= MOST_SHARING)].sort_values("domain", kind="stable")
    both = shared.merge(shared, on="row", suffixes=("", "_2")).query("domain < domain_2")
    least = max(FEWEST_ALIKE, 2 * float(np.median(shared_by_domain(hashes, domains))))
    pairs = both.groupby(["domain", "domain_2"]).size().reset_index(name="n_rows")
    smaller = np.minimum(pairs["domain"].map(n_rows), pairs["domain_2"].map(n_rows))
    pairs["share"] = pairs["n_rows"] / smaller
    told = pairs[(smaller >= FEWEST_ROWS) & (pairs["share"] >= least)].sort_values("share", ascending=False)
    columns = (told[name].tolist() for name in ("domain", "domain_2", "share"))
    return [(names[one], names[other], share) for one, other, share in zip(*columns, strict=True)]


def alike_in_words(
    features: pd.DataFrame, columns: Sequence[ColumnCheck], domains: NDArray[np.int64], names: Sequence[str]
) -> str | None:
    """Name pairs of domains that share most rows, apart from columns that tell them apart anyway; None without any."""
    told_by = [
        (name, check)
        for name, check in zip(features, columns, strict=True)
        if check.fault is None and not (check.is_key or check.is_constant_in_domains)
    ]
    kinds = {name: check.kind for name, check in told_by}
    if set(kinds.values()) <= {"ignored"}:
        return None
    plain = plain_table(features, {name: check.spelling for name, check in told_by if check.spelling is not None})
    found = domains_alike(row_hashes(plain, kinds, salt=0), domains)
    return listed([f"{names[one]} and {names[other]} ({100 * share:.3g} %)" for one, other, share in found], 6) or None
