"""New rows beside those of training: columns that look different, and rows that were in training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from domaincover.errors import InputError
from domaincover.terminal.messages import say

if TYPE_CHECKING:
    import pandas as pd

    from domaincover.checks.input_profile import Difference
    from domaincover.cli.part_scores import SavedModel
    from domaincover.data.tables import Table

MOST_ROWS = 200_000  # that are compared
COMPARED = ("number", "boolean", "date", "category")


def learned_input(model: Any, X: Any, domains: Any, *, fingerprints: bool) -> dict[str, Any]:
    """Return what is kept of training rows to compare new ones with; nothing for images and texts."""
    from domaincover.checks.input_profile import InputProfile
    from domaincover.checks.seen_rows import SeenRows
    from domaincover.data.disk_table import DiskTable
    from domaincover.data.encoding import evenly_spaced

    kinds, spellings = _compared_columns(model)
    if not kinds:
        return {}
    rows = evenly_spaced(len(X), MOST_ROWS)
    own = X[rows].read() if isinstance(X, DiskTable) else X.iloc[rows]
    own, own_domains = _plain(own, kinds, spellings), domains.iloc[rows]
    profile = InputProfile.learn(own, own_domains, kinds)
    seen = SeenRows.of(own, own_domains, kinds) if fingerprints else None
    kept = {"profile": profile, "seen_rows": seen}
    return {name: value.to_dict() for name, value in kept.items() if value is not None}


def note_on_input(saved: SavedModel, data: Table, domain: str | None = None, *, strict: bool = False) -> None:
    """Say in a line how columns differ most from training, and how many rows were in it; with `strict`, refuse them.

    The domains are in the column given, or in that of the fit.
    """
    seen, found = compared_input(saved, data, domain)
    if seen is not None:
        say(f"Note: {seen}")
    if found:
        more = f" ({len(found) - 1:,} more: domaincover check TABLE --model MODEL)" if len(found) > 1 else ""
        line = f"{found[0]}{more}."
        if strict:
            raise InputError(f"{data.path} is unlike the training rows: {line}")
        say(f"Note: {line}")


def compared_input(saved: SavedModel, data: Table, domain: str | None) -> tuple[str | None, tuple[Difference, ...]]:
    """Return a line about rows that were in training, and how columns differ from training."""
    from domaincover.checks.input_profile import InputProfile
    from domaincover.checks.seen_rows import SeenRows

    extra = saved.extra()
    kept, domain = extra.get("input", {}), domain or extra.get("settings", {}).get("domain")
    kinds, spellings = _compared_columns(saved.load()) if kept else ({}, {})
    if not kinds or not data.has_rows:
        return None, ()
    X, domains = _rows_of(saved, data, domain)
    own = _plain(X, kinds, spellings)
    seen = SeenRows.from_dict(kept["seen_rows"]).note(own, kinds) if "seen_rows" in kept else None
    found = InputProfile.from_dict(kept["profile"]).differences(own, domains) if "profile" in kept else ()
    return seen, found


def _compared_columns(model: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the kinds of a model's columns, and how those are written that texts are read from."""
    from domaincover.predictors.label_scores import input_encoder_of

    encoder = input_encoder_of(model)
    kinds = {str(name): kind for name, kind in getattr(encoder, "kinds_", {}).items() if kind in COMPARED}
    return kinds, {str(name): way for name, way in getattr(encoder, "spellings_", {}).items() if str(name) in kinds}


def _plain(X: pd.DataFrame, kinds: dict[str, Any], spellings: dict[str, str]) -> pd.DataFrame:
    from domaincover.data.spellings import plain_table

    return plain_table(X[list(kinds)], spellings)


def _rows_of(saved: SavedModel, data: Table, domain: str | None) -> tuple[pd.DataFrame, pd.Series[Any] | None]:
    """Return the first rows of a table as the model reads them, and their domains where it has that column."""
    import pandas as pd

    from domaincover.cli.inputs import ModelColumns
    from domaincover.data import tables
    from domaincover.data.identity import canonical_texts

    blocks, n_rows, ids = [], 0, [domain] if domain in data.columns else []
    for X, kept in ModelColumns.of(saved.load(), data).blocks(data, tables.ROWS_AT_ONCE, ids):
        blocks.append((X, kept))
        n_rows += len(X)
        if n_rows >= MOST_ROWS:
            break
    X = pd.concat([X for X, _ in blocks])
    names = pd.concat([canonical_texts(kept[domain]) for _, kept in blocks]) if ids else None
    return X, names
