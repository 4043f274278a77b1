"""Comparison of published numbers with ours, and their differences."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from domaincover.errors import InputError
from domaincover.paper.published import WILDS_MISSING, is_quotable
from domaincover.paper.study_report.results_table import NOTE, CheckedResults, rank
from domaincover.paper.study_report.style import dataset_label, method_styles
from domaincover.paper.study_report.text_tables import TextTable
from domaincover.report.readable import ABSENT, percent, printable, with_spread

KEYS = ["dataset", "target_recall", "method"]
MEASURES = ("min_recall", "set_size", "share_at_target")
PUBLISHED_COLUMNS = (
    *("experiment", *KEYS),
    *(column for measure in MEASURES for column in (measure, f"{measure}_std")),
    "source",
)
VALUES = [column for measure in MEASURES for column in (measure, f"{measure}_std")]
COMPARED = [
    f"{measure}{kind}" for measure in MEASURES for kind in ("", "_std", "_published", "_published_std", "_difference")
]
MAIN = "main"
NOT_RUN = "not run"
SPLIT = "unseen"  # the only split with published numbers
DIGITS = 6  # targets that agree to this many digits are the same

TITLE = "Beside the paper"
HEADS = {"dataset": "Data set", "method": "Method", "target": "Target"}
HEADS |= {
    f"{measure}{kind}": head or own
    for measure, own in (("min_recall", "Min recall"), ("set_size", "Set size"), ("share_at_target", "At target"))
    for kind, head in (("", ""), ("_published", "paper"), ("_difference", "difference"))
}
HEADS |= {"source": "Source"}
SHORT_HEADS = {name: head.replace("difference", "diff.") for name, head in HEADS.items()}
SHORT_HEADS |= {measure: SHORT_HEADS[measure].replace(" ", "\n") for measure in MEASURES}
TURNS = ("source", *(f"{measure}_difference" for measure in MEASURES), "target")


class BesidePaper(NamedTuple):
    """Ours and the paper's number, each with its spread, and ours less the paper's."""

    ours: str
    paper: str
    difference: str


def compared_with_published(
    results: CheckedResults, published: pd.DataFrame, experiment: str | None = None
) -> pd.DataFrame:
    """Return published rows of unseen domains: theirs, ours, and the difference of each measure.

    Of a named experiment these are all rows that it published, ours NaN where it was not run. Without a name, they are
    the rows that were run, and of several published numbers that of "main" is taken. Rows with a note, such as those of
    a quick run, do not stand beside published numbers, but for rows as the authors' code.
    """
    missing = [column for column in PUBLISHED_COLUMNS if column not in published.columns]
    if missing:
        raise InputError(f"the published numbers lack the columns {', '.join(missing)}.")
    if experiment is None:
        is_other = published["experiment"] != MAIN
        theirs = published.assign(order=is_other).sort_values("order", kind="stable").drop_duplicates(KEYS)
    else:
        theirs = published[published["experiment"] == experiment]
    theirs = theirs[[*KEYS, *VALUES, "source"]].assign(key=theirs["target_recall"].round(DIGITS))
    ours = results[results["split"] == SPLIT]
    quotable = is_quotable(ours[NOTE])
    if not quotable.any() and len(ours):
        theirs = theirs[:0]
    ours = ours[quotable]
    ours = ours[[*KEYS, *VALUES, "n_labels"]].assign(key=ours["target_recall"].round(DIGITS))
    merged = theirs.merge(
        ours.drop(columns="target_recall"),
        on=["dataset", "key", "method"],
        how="inner" if experiment is None else "left",
        suffixes=("_published", ""),
    )
    for measure in MEASURES:
        merged[f"{measure}_difference"] = merged[measure] - merged[f"{measure}_published"]
    merged = merged.rename(columns={f"{measure}_std_published": f"{measure}_published_std" for measure in MEASURES})
    compared = merged[[*KEYS, *COMPARED, "n_labels", "source"]]
    return compared.sort_values(["dataset", "target_recall", "method"], key=rank, kind="stable", ignore_index=True)


def with_published(results: CheckedResults, compared: pd.DataFrame) -> pd.DataFrame:
    """Return the results with columns of published numbers, empty where there are none, and rows that were not run."""
    added = [f"{measure}_{kind}" for measure in MEASURES for kind in ("published", "published_std", "difference")]
    theirs = compared[[*KEYS, *added, "source"]].rename(columns={"source": "published_source"})
    wide = results.merge(theirs.assign(split=SPLIT), on=[*KEYS, "split"], how="outer", sort=False)
    wide["note"] = wide["note"].fillna("not run").where(wide["n_seeds"].isna(), wide["note"])
    counts = dict.fromkeys(("n_seeds", "n_domains", "n_labels"), "Int64")
    wide = wide.astype(counts)
    return wide.assign(published_source=wide["published_source"].astype(object).where(wide["published_source"].notna()))


def beside_table(compared: pd.DataFrame) -> TextTable:
    """Return the comparison as texts, rounded like the published numbers."""
    styles = method_styles(compared["method"])
    rows = []
    for row in compared.to_dict("records"):
        texts = {
            "dataset": printable(dataset_label(row["dataset"])),
            "method": printable(styles[row["method"]].label),
            "target": f"{row['target_recall']:g}",
            "source": printable(str(row["source"])),
        }
        for measure in MEASURES:
            ours, paper, difference = beside_paper(row, measure)
            texts[measure] = NOT_RUN if math.isnan(row[measure]) else ours
            texts |= {f"{measure}_published": paper, f"{measure}_difference": difference}
        rows.append(texts)
    text_columns = ("dataset", "method", "target", "source")
    return TextTable(HEADS, rows, text_columns, [None] * len(rows), SHORT_HEADS, TURNS, TITLE)


def beside_paper(row: Mapping[Any, Any], measure: str) -> BesidePaper:
    """Return the texts of one measure, shares in percent and their difference in points."""
    ours, spread = row[measure], row[f"{measure}_std"]
    theirs, their_spread = row[f"{measure}_published"], row[f"{measure}_published_std"]
    difference = row[f"{measure}_difference"]
    if measure == "share_at_target":
        return BesidePaper(percent(ours, spread), percent(theirs, their_spread), signed(100 * difference, 0))
    return BesidePaper(with_spread(ours, spread, 2), with_spread(theirs, their_spread, 2), signed(difference, 2))


def signed(value: float, decimals: int) -> str:
    """Return a number with its sign; zero after rounding has none.

    >>> signed(0.0123, 2), signed(-3.2, 0), signed(-0.001, 2)
    ('+0.01', '−3', '0.00')
    """
    if math.isnan(value):
        return ABSENT
    rounded = round(value, decimals)
    sign = "+" if rounded > 0 else "−" if rounded < 0 else ""
    return f"{sign}{abs(rounded):.{decimals}f}"


def beside_caption(compared: pd.DataFrame) -> str:
    """Return what is compared, as the end of a sentence."""
    sources = ", ".join(printable(str(source)) for source in dict.fromkeys(compared["source"]))
    return (
        f"ours, the paper’s ({sources}) and ours less the paper’s, in unseen domains; "
        "± standard deviation over seeds; shares in percent, their difference in points"
        + (f"; {WILDS_MISSING}" if compared["min_recall"].isna().any() else "")
    )
