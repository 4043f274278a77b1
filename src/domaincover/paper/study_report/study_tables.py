"""The tables of a study: their order and rows, and as text, ours beside the paper's, and training times."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, get_args

import pandas as pd

from domaincover.criteria import is_hardly_better_than_lot
from domaincover.errors import InputError, check_choice
from domaincover.options import TableStyle
from domaincover.paper.published import WILDS_MISSING, is_quotable
from domaincover.paper.study_report.style import (
    DATASET_ORDER,
    KNOWN_METHODS,
    SINGLE_LABEL_METHODS,
    SPLIT_LABELS,
    dataset_label,
    method_styles,
)
from domaincover.paper.study_report.text_tables import Column, TextTable, as_data, table_text
from domaincover.report.readable import ABSENT, percent, printable, sentence, with_spread

Row = Mapping[Any, Any]

USUAL_TARGET = 0.9
NOTE = "note"  # what a reader must know of a row wherever it stands, such as that it is of a quick run
COLUMNS = {
    "dataset": Column("Data set", is_text=True),
    "method": Column("Method", is_text=True),
    "target": Column("Target", is_text=True),
    "split": Column("Split", is_text=True),
    "seeds": Column("Seeds"),
    "min_recall": Column("Median min recall", "Median\nmin recall"),
    "set_size": Column("Median set size", "Median\nset size"),
    "share": Column("Share at target", "Share at\ntarget"),
    "noise": Column("Share by chance alone", "Chance\nalone", turn=2),
    "p10": Column("10th percentile", "10th\nperc.", turn=3),
    "worst": Column("Worst", turn=4),
    "seconds": Column("Train seconds", "Train\n(s)", turn=1),
}
DAGGER = "†"
DEGENERATE = (
    f"{DAGGER} Degenerate: less than a tenth smaller than sets drawn by lot with the same recall, since "
    "answering with every label reaches any target"
)


def in_order(results: pd.DataFrame) -> pd.DataFrame:
    """Return the results by data set, target, split and method."""
    if results.empty:
        raise InputError("results is empty: there is nothing to report.")
    order = ["dataset", "target_recall", "split", "method"]
    return results.sort_values(order, key=rank, kind="stable", ignore_index=True)


def rank(column: pd.Series) -> pd.Series:
    """Return a sort key: known data sets, methods and splits in a fixed order, others in order of appearance."""
    if column.name == "target_recall":
        return column
    fixed = {"dataset": DATASET_ORDER, "method": list(method_styles(column)), "split": list(SPLIT_LABELS)}
    order = dict.fromkeys([*fixed.get(str(column.name), []), *column])
    return column.map({value: place for place, value in enumerate(order)})


def notes_of(results: pd.DataFrame) -> list[str]:
    """Return what must be said wherever these rows stand, each once."""
    return [str(note) for note in dict.fromkeys(results[NOTE]) if note]


def sentences_of_notes(results: pd.DataFrame) -> list[str]:
    """Return the notes as sentences."""
    return list(map(sentence, notes_of(results)))


def of_dataset(table: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Return the rows of one data set."""
    return table[table["dataset"] == dataset]


def of_experiment(table: pd.DataFrame, dataset: str, target_recall: float) -> pd.DataFrame:
    """Return the rows of one data set and target recall."""
    return table[(table["dataset"] == dataset) & (table["target_recall"] == target_recall)]


def unseen_rows(results: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of unseen domains."""
    return results[results["split"] == "unseen"]


def targets_of(results: pd.DataFrame, dataset: str) -> list[float]:
    """Return the target recalls of a data set, lowest first."""
    return sorted(map(float, set(of_dataset(results, dataset)["target_recall"])))


def main_target(results: pd.DataFrame, dataset: str) -> float:
    """Return a data set's main target recall: 0.9, as in the paper, or else the highest."""
    targets = targets_of(results, dataset)
    return USUAL_TARGET if USUAL_TARGET in targets else targets[-1]


def answers_with_one_label(results: pd.DataFrame) -> pd.Series:
    """Return for each row whether its method is single-label: known methods by name, others by their sizes."""
    one_label_always = (results[["set_size_q25", "set_size", "set_size_q75"]] == 1).all(axis=1)
    return one_label_always.mask(results["method"].isin(KNOWN_METHODS), results["method"].isin(SINGLE_LABEL_METHODS))


def is_degenerate(results: pd.DataFrame) -> pd.Series:
    """Return for each row whether its sets are hardly better than sets drawn by lot; single labels never are."""
    by_lot = is_hardly_better_than_lot(*(results[name].to_numpy() for name in ("set_size", "set_size_by_lot")))
    return pd.Series(by_lot, index=results.index) & ~answers_with_one_label(results)


def rules_in_words(results: pd.DataFrame) -> list[str]:
    """Return what the mark of degenerate sets means, if there are any."""
    return [DEGENERATE] if is_degenerate(results).any() else []


def readable_rows(results: pd.DataFrame) -> list[Row]:
    """Return the rows of results for readers, by `COLUMNS`."""
    styles = method_styles(results["method"])
    return [
        {
            "dataset": printable(dataset_label(row["dataset"])),
            "method": printable(styles[row["method"]].label),
            "target": f"{row['target_recall']:g}",
            "split": printable(row["split"]),
            "seeds": str(row["n_seeds"]),
            "domains": str(row["n_domains"]),
            "min_recall": with_spread(row["min_recall"], row["min_recall_ci"]),
            "set_size": size_of(row["set_size"], row["set_size_ci"], row["n_labels"], no_better),
            "share": percent(row["share_at_target"], row["share_at_target_ci"]),
            "noise": percent(row["share_by_noise"]),
            "p10": with_spread(row["min_recall_p10"]),
            "worst": with_spread(row["min_recall_worst"]),
            "seconds": seconds(row["train_seconds"]),
            "style": styles[row["method"]],
        }
        for row, no_better in zip(results.to_dict("records"), is_degenerate(results), strict=True)
    ]


def columns_of(rows: Iterable[Row]) -> dict[str, Column]:
    """Return the columns of a table of these rows; the number of seeds is one only if it differs."""
    same = len({row["seeds"] for row in rows}) == 1
    return {name: column for name, column in COLUMNS.items() if not (same and name == "seeds")}


def seeds_and_domains(rows: Iterable[Row]) -> str:
    """Return what these numbers are means of, as the end of a sentence."""
    shown = list(rows)
    seeds, domains = ({int(row[name]) for row in shown} for name in ("seeds", "domains"))
    each = str(domains.pop()) if len(domains) == 1 else f"{min(domains)} to {max(domains)}"
    each += " domain" if each == "1" else " domains"
    if seeds == {1}:
        return f"every number is of one seed with {each}, so the spread over seeds is unknown"
    over = f"{seeds.pop()} seeds" if len(seeds) == 1 else "seeds"
    return f"every number is the mean over {over} of {each} each, ± half the 95 % interval of that mean"


def size_of(size: float, spread: float, n_labels: float, is_degenerate: bool = False) -> str:
    """Return a set size with the number of labels, marked if the sets are hardly better than sets drawn by lot.

    >>> size_of(1.234, 0.01, 2), size_of(1.96, math.nan, 2, is_degenerate=True)
    ('1.23 ± 0.01 of 2', '1.96 of 2 †')
    """
    return f"{with_spread(size, spread, decimals=2)} of {n_labels:.0f}{f' {DAGGER}' if is_degenerate else ''}"


def seconds(duration: float) -> str:
    """Return seconds, without decimals for long times.

    >>> seconds(3.14), seconds(1234.5)
    ('3.1', '1234')
    """
    if math.isnan(duration):
        return ABSENT
    return f"{duration:.1f}" if duration < 100 else f"{duration:.0f}"


CHANCE_ALONE = "by chance alone: the share at target if no domain differed from another"
CAPTION = (
    "recall and size of prediction sets. Min recall is the smallest recall over a domain's labels. The "
    "columns give its median over domains, the median of the mean set size, the share of domains whose min "
    "recall is at least the target, and the share that chance alone would leave if every domain's true "
    "recall were at its mean; then the 10th percentile of min recall and its worst domain"
)
MAIN = "main"
NOT_RUN = "not run"
KEYS = ["dataset", "target_recall", "method"]
MEASURES = ("min_recall", "set_size", "share_at_target")
KINDS = ("", "_std", "_published", "_published_std", "_difference")
BESIDE = {
    "dataset": Column("Data set", is_text=True),
    "method": Column("Method", is_text=True),
    "target": Column("Target", is_text=True, turn=5),
    "min_recall": Column("Min recall", "Min\nrecall"),
    "min_recall_published": Column("paper"),
    "min_recall_difference": Column("difference", "diff.", turn=2),
    "set_size": Column("Set size", "Set\nsize"),
    "set_size_published": Column("paper"),
    "set_size_difference": Column("difference", "diff.", turn=3),
    "share_at_target": Column("At target", "At\ntarget"),
    "share_at_target_published": Column("paper"),
    "share_at_target_difference": Column("difference", "diff.", turn=4),
    "source": Column("Source", is_text=True, turn=1),
}
TIMES = {
    "dataset": Column("Data set", is_text=True),
    "erm_seconds": Column("ERM (s)"),
    "set_cover_seconds": Column("SET-COVER (s)"),
    "ratio": Column("Ratio"),
    "erm_minutes_published": Column("Paper: ERM (min)", "Paper:\nERM (min)"),
    "set_cover_minutes_published": Column("Paper: SET-COVER (min)", "Paper:\nSET-COVER (min)"),
    "ratio_published": Column("Paper: ratio", "Paper:\nratio"),
    "source": Column("Source", is_text=True, turn=1),
}
MEASURED = ("dataset", "erm_seconds", "set_cover_seconds", "ratio")


def format_results(
    results: pd.DataFrame,
    style: TableStyle = "table",
    *,
    width: int = 100,
    color: bool = True,
    published: pd.DataFrame | None = None,
    experiment: str | None = None,
) -> str:
    """Return the results as text; width and color matter to the terminal table only.

    Where `published` has numbers of the same data sets, targets and methods in unseen domains, they stand beside
    ours with the difference: in a table of their own below, in csv and json in columns of their own. Of several
    published numbers, that of the named experiment is taken, else that of the main one.
    """
    table = in_order(results)
    check_choice("table style", style, get_args(TableStyle))
    compared = None if published is None else compared_with_published(table, published, experiment)
    if compared is not None and compared["min_recall"].isna().all():  # a table of nothing but "not run" says nothing
        compared = None
    if style in ("csv", "json"):
        return as_data(table if compared is None else _with_published(table, compared), style)
    text = _results_text(table, style, width, color)
    return text if compared is None else f"{text}\n{_beside_text(compared, style, width, color)}"


def _results_text(table: pd.DataFrame, style: TableStyle, width: int, color: bool) -> str:
    rows = readable_rows(table)
    # what is the same in all rows is said once
    once = [name for name in ("split", "target") if len({row[name] for row in rows}) == 1]
    columns = {name: column for name, column in columns_of(rows).items() if name not in once}
    counted = [*(f"{COLUMNS[name].head.lower()} {rows[0][name]}" for name in once), seeds_and_domains(rows)]
    rules = rules_in_words(table)
    if style == "latex":
        counted = [CAPTION, f"here {'; '.join(counted)}"]
    if style == "table":
        rules = [CHANCE_ALONE, *(f"{rule[0].lower()}{rule[1:]}" for rule in rules)]
    return table_text(TextTable(columns, rows), style, [*notes_of(table), *counted, *rules], width, color)


def compared_with_published(
    results: pd.DataFrame, published: pd.DataFrame, experiment: str | None = None
) -> pd.DataFrame:
    """Return published rows of unseen domains: theirs, ours, and the difference of each measure.

    Of a named experiment these are all rows that it published, ours NaN where it was not run. Without a name, they are
    the rows that were run, and of several published numbers that of "main" is taken. Rows with a note, such as those of
    a quick run, do not stand beside published numbers, but for rows as the authors' code.
    """
    ours = unseen_rows(results)
    quotable = ours[is_quotable(ours[NOTE])]
    if experiment is None:
        main_first = published.sort_values("experiment", key=lambda names: names != MAIN, kind="stable")
        theirs = main_first.drop_duplicates(KEYS)
    else:
        theirs = published[published["experiment"] == experiment]
    if quotable.empty and not ours.empty:
        theirs = theirs[:0]
    values = [column for measure in MEASURES for column in (measure, f"{measure}_std")]
    names = {column: f"{column.removesuffix('_std')}_published{'_std' * column.endswith('_std')}" for column in values}
    compared = theirs[[*KEYS, *values, "source"]].rename(columns=names)
    ours = quotable[[*KEYS, *values, "n_labels"]]
    compared = compared.merge(ours, on=KEYS, how="inner" if experiment is None else "left")
    for measure in MEASURES:
        compared[f"{measure}_difference"] = compared[measure] - compared[f"{measure}_published"]
    return compared.sort_values(KEYS, key=rank, kind="stable", ignore_index=True)


def _with_published(results: pd.DataFrame, compared: pd.DataFrame) -> pd.DataFrame:
    """Return the results with columns of published numbers, empty where there are none, and rows that were not run."""
    added = [f"{measure}{kind}" for measure in MEASURES for kind in KINDS[2:]]
    theirs = compared[[*KEYS, *added, "source"]].rename(columns={"source": "published_source"})
    wide = results.merge(theirs.assign(split="unseen"), on=[*KEYS, "split"], how="outer", sort=False)
    wide["note"] = wide["note"].fillna(NOT_RUN).where(wide["n_seeds"].isna(), wide["note"])
    wide = wide.astype(dict.fromkeys(("n_seeds", "n_domains", "n_labels"), "Int64"))
    return wide.assign(published_source=wide["published_source"].astype(object).where(wide["published_source"].notna()))


def beside_table(compared: pd.DataFrame, left_out: Collection[str] = ()) -> TextTable:
    """Return the comparison as texts without some columns, rounded like the published numbers."""
    styles = method_styles(compared["method"])
    rows = []
    for row in compared.to_dict("records"):
        texts = {
            "dataset": printable(dataset_label(row["dataset"])),
            "method": printable(styles[row["method"]].label),
            "target": f"{row['target_recall']:g}",
            "source": printable(str(row["source"])),
            "style": styles[row["method"]],
        }
        for measure in MEASURES:
            ours, paper, difference = beside_paper(row, measure)
            texts[measure] = NOT_RUN if math.isnan(row[measure]) else ours
            texts |= {f"{measure}_published": paper, f"{measure}_difference": difference}
        rows.append(texts)
    columns = {name: column for name, column in BESIDE.items() if name not in left_out}
    return TextTable(columns, rows, "Beside the paper")


def _beside_text(compared: pd.DataFrame, style: TableStyle, width: int, color: bool) -> str:
    sources = ", ".join(printable(str(source)) for source in dict.fromkeys(compared["source"]))
    caption = (
        f"ours, the paper’s ({sources}) and ours less the paper’s, in unseen domains; "
        "± standard deviation over seeds; shares in percent, their difference in points"
        + (f"; {WILDS_MISSING}" if compared["min_recall"].isna().any() else "")
    )
    return table_text(beside_table(compared), style, [caption], width, color)


def beside_paper(row: Mapping[Any, Any], measure: str) -> tuple[str, str, str]:
    """Return ours and the paper's number with their spreads, and the difference; of shares in percent and points."""
    ours, spread, theirs, their_spread, difference = (row[f"{measure}{kind}"] for kind in KINDS)
    if measure == "share_at_target":
        return percent(ours, spread), percent(theirs, their_spread), signed(100 * difference, 0)
    return with_spread(ours, spread, 2), with_spread(theirs, their_spread, 2), signed(difference, 2)


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


def training_times(measured: pd.DataFrame, published_times: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return seconds of both methods by data set (columns dataset, erm_seconds, set_cover_seconds), with their ratio.

    Published times (columns dataset, erm_minutes, set_cover_minutes, source) are added as columns, and as rows where
    nothing was measured; those of a quick run are not compared.
    """
    ratio = measured["set_cover_seconds"] / measured["erm_seconds"].where(measured["erm_seconds"] > 0)
    times = measured.assign(ratio=ratio, **{NOTE: measured.get(NOTE, "")})[[*MEASURED, NOTE]]
    quotable = is_quotable(times[NOTE])
    if published_times is not None and (times.empty or quotable.any()):
        names = {name: f"{name}_published" for name in ("erm_minutes", "set_cover_minutes")} | {"dataset": "key"}
        theirs = published_times.rename(columns=names)
        theirs["ratio_published"] = theirs["set_cover_minutes_published"] / theirs["erm_minutes_published"]
        joined = times.assign(key=times["dataset"].where(quotable)).merge(theirs, on="key", how="outer", sort=False)
        joined = joined.assign(dataset=joined["dataset"].fillna(joined["key"]), note=joined[NOTE].fillna(""))
        times = joined[[*TIMES, NOTE]]
    return times.sort_values("dataset", key=rank, kind="stable", ignore_index=True)


def times_caption(times: pd.DataFrame) -> str:
    """Return the caption of the times, without a full stop."""
    said = (
        "Seconds to train one network: small ones are timed separately, ERM and SET-COVER alternating in one process; "
        "for networks with all layers trained, the mean over runs"
    )
    said += "".join(f" ({note})" for note in notes_of(times))
    if "source" in times and times["ratio_published"].notna().any():
        ratio = times["ratio_published"]
        said += (
            ". The paper’s times are from other machines and networks, so compare ratios, which are "
            f"{ratio.min():.2f} to {ratio.max():.2f} in the paper"
        )
        said += f"; {WILDS_MISSING}" if times["ratio"].isna().any() else ""
    return said


def times_table(times: pd.DataFrame) -> TextTable:
    """Return the times as texts."""
    columns = {name: column for name, column in TIMES.items() if name in times}
    rows = [{name: _time_text(name, record[name]) for name in columns} for record in times.to_dict("records")]
    return TextTable(columns, rows, has_blocks=False)


def format_times(times: pd.DataFrame, style: TableStyle = "table", *, width: int = 100, color: bool = True) -> str:
    """Return the times as text; width and color matter to the terminal table only."""
    check_choice("table style", style, get_args(TableStyle))
    if times.empty:
        raise InputError("there are no times to compare.")
    if style in ("csv", "json"):
        return as_data(times, style)
    return table_text(times_table(times), style, [times_caption(times)], width, color)


def _time_text(name: str, value: object) -> str:
    if name == "dataset":
        return printable(dataset_label(str(value)))
    if name == "source":
        return printable(value) if isinstance(value, str) else ABSENT
    number = float(str(value))
    if math.isnan(number) and name in MEASURED:
        return NOT_RUN
    if name.endswith("_seconds"):
        return seconds(number)
    return with_spread(number, decimals=0 if "minutes" in name else 2)
