"""Training times of ERM and SET-COVER, and their ratio."""

import math
from typing import get_args

import pandas as pd

from domaincover.errors import InputError, check_choice
from domaincover.options import TableStyle
from domaincover.paper.published import WILDS_MISSING, is_quotable
from domaincover.paper.study_report.published_comparison import NOT_RUN
from domaincover.paper.study_report.results_rows import seconds
from domaincover.paper.study_report.results_table import NOTE, notes_of, rank
from domaincover.paper.study_report.style import dataset_label
from domaincover.paper.study_report.text_tables import TextTable, as_csv, as_json, table_text
from domaincover.report.readable import ABSENT, printable, with_spread

TIME_COLUMNS = ("dataset", "erm_seconds", "set_cover_seconds", "ratio")
PUBLISHED = {
    "dataset": "key",
    "erm_minutes": "erm_minutes_published",
    "set_cover_minutes": "set_cover_minutes_published",
    "source": "source",
}
TIME_HEADS = {
    "dataset": "Data set",
    "erm_seconds": "ERM (s)",
    "set_cover_seconds": "SET-COVER (s)",
    "ratio": "Ratio",
    "erm_minutes_published": "Paper: ERM (min)",
    "set_cover_minutes_published": "Paper: SET-COVER (min)",
    "ratio_published": "Paper: ratio",
    "source": "Source",
}
OURS = (
    "Seconds to train one network: small ones are timed separately, ERM and SET-COVER alternating in one process; "
    "for networks with all layers trained, the mean over runs"
)
THEIRS = (
    ". The paper’s times are from other machines and networks, so compare ratios, which are {low:.2f} to {high:.2f} "
    "in the paper"
)


def training_times(measured: pd.DataFrame, published_times: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return seconds of both methods by data set (columns dataset, erm_seconds, set_cover_seconds), with their ratio.

    Published times (columns dataset, erm_minutes, set_cover_minutes, source) are added as columns, and as rows where
    nothing was measured; those of a quick run are not compared.
    """
    seconds_of_erm = measured["erm_seconds"].where(measured["erm_seconds"] > 0)
    ratio = measured["set_cover_seconds"] / seconds_of_erm
    times = measured.assign(ratio=ratio, **{NOTE: measured.get(NOTE, "")})[[*TIME_COLUMNS, NOTE]]
    quotable = is_quotable(times[NOTE])
    if published_times is not None and (times.empty or quotable.any()):
        missing = [name for name in PUBLISHED if name not in published_times]
        if missing:
            raise InputError(f"the published times lack the columns {', '.join(missing)}.")
        theirs = published_times[[*PUBLISHED]].drop_duplicates("dataset").rename(columns=PUBLISHED)
        theirs["ratio_published"] = theirs["set_cover_minutes_published"] / theirs["erm_minutes_published"]
        joined = times.assign(key=times["dataset"].where(quotable)).merge(theirs, on="key", how="outer", sort=False)
        joined = joined.assign(dataset=joined["dataset"].fillna(joined["key"]), note=joined[NOTE].fillna(""))
        times = joined[[*TIME_HEADS, NOTE]]
    return times.sort_values("dataset", key=rank, kind="stable", ignore_index=True)


def times_caption(times: pd.DataFrame) -> str:
    """Return the caption of the times, without a full stop."""
    said = [OURS, *(f" ({note})" for note in notes_of(times))]
    if "source" in times and times["ratio_published"].notna().any():
        ratio = times["ratio_published"]
        said.append(THEIRS.format(low=ratio.min(), high=ratio.max()))
        said += [f"; {WILDS_MISSING}"] if times["ratio"].isna().any() else []
    return "".join(said)


def times_table(times: pd.DataFrame) -> TextTable:
    """Return the times as texts."""
    heads = {name: TIME_HEADS[name] for name in times.columns if name in TIME_HEADS}
    short = {name: head.replace(": ", ":\n") for name, head in heads.items()}
    rows = [{name: _text(name, record[name]) for name in heads} for record in times.to_dict("records")]
    return TextTable(heads, rows, ("dataset", "source"), [None] * len(rows), short, ("source",), has_blocks=False)


def format_times(times: pd.DataFrame, style: TableStyle = "table", *, width: int = 100, color: bool = True) -> str:
    """Return the times as text; width and color matter to the terminal table only."""
    check_choice("table style", style, get_args(TableStyle))
    if times.empty:
        raise InputError("there are no times to compare.")
    if style in ("csv", "json"):
        return as_csv(times) if style == "csv" else as_json(times)
    return table_text(times_table(times), style, [times_caption(times)], width, color)


def _text(name: str, value: object) -> str:
    if name == "dataset":
        return printable(dataset_label(str(value)))
    if name == "source":
        return printable(value) if isinstance(value, str) else ABSENT
    number = float(str(value))
    if math.isnan(number) and name in TIME_COLUMNS:
        return NOT_RUN
    if name.endswith("_seconds"):
        return seconds(number)
    return with_spread(number, decimals=0 if name.endswith("_published") and "minutes" in name else 2)
