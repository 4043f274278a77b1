"""One HTML page that holds everything: sentences, tables, interactive plots and the code that draws them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import pandas as pd

from domaincover.files import write_whole
from domaincover.report.comparison_charts import captions, comparison_specs
from domaincover.report.comparisons import ComparedMethods, compared_methods
from domaincover.report.crosses import CrossPlotTables, cross_plot_tables, note_on_random_sets
from domaincover.report.drawing import Pen, chart_config, inline
from domaincover.report.figures import splits_of
from domaincover.report.frames import checked_domains, checked_results, experiments, of_experiment
from domaincover.report.headline import experiment_sentences, overall_sentence
from domaincover.report.readable import HEADS, TEXT_HEADS, ReadableRow, heads_of, readable_rows, seeds_and_domains
from domaincover.report.style import dataset_label, split_label
from domaincover.report.template import chart_library, rendered

__all__ = ["chart_library", "chart_spec", "packed", "write_page"]

CHOSEN_SPLIT = "chosen_split"
CODED_COLUMNS = ("label", "split", "domain")


class Section(NamedTuple):
    """What the page shows of one data set and target recall."""

    title: str
    sentences: str
    rows: list[ReadableRow]
    note: str
    comparison: dict[str, str]


def write_page(
    results: pd.DataFrame,
    domains: pd.DataFrame,
    path: Path,
    title: str = "Prediction sets in new domains",
    settings: Mapping[str, str] | None = None,
) -> None:
    """Write the report as one file that needs no network; it appears whole or not at all."""
    table = checked_results(results)
    single = checked_domains(domains, table)
    all_tables = [cross_plot_tables(table, single, *experiment) for experiment in experiments(table)]
    compared = [_compared(table, tables) for tables in all_tables]
    rows = readable_rows(table)
    page = rendered(
        "page.html",
        title=title,
        headline=overall_sentence(table),
        sections=[_section(table, rows, *shown) for shown in zip(all_tables, compared, strict=True)],
        charts=[
            {
                "spec": chart_spec(tables),
                "points": packed(tables.points),
                "comparison": {} if methods is None else comparison_specs(methods, single),
            }
            for tables, methods in zip(all_tables, compared, strict=True)
        ],
        rows=rows,
        heads=HEADS,
        text_heads=TEXT_HEADS,
        heads_of=heads_of,
        seeds_and_domains=seeds_and_domains,
        targets=sorted({f"{target:g}" for _, target in experiments(table)}),
        settings=settings or {},
    )
    write_whole(Path(path), page)


def chart_spec(tables: CrossPlotTables) -> dict[str, Any]:
    """Return a cross-plot with a choice of splits; the page itself adds the single domains as "points"."""
    splits = splits_of(tables)
    choice = alt.param(
        name=CHOSEN_SPLIT,
        value=splits[0],
        bind=alt.binding_radio(options=splits, labels=[split_label(split) for split in splits], name="Split"),
    )
    pen = Pen(tables, interactive=True, keep=f"datum.split === {CHOSEN_SPLIT}")
    chart = pen.draw(inline(tables.crosses), alt.NamedData("points"), choice)
    chart = chart.properties(width="container", height=380)
    spec: dict[str, Any] = chart.configure(**chart_config("currentColor")).to_dict()
    return spec


def packed(points: pd.DataFrame) -> dict[str, Any]:
    """Return the points column by column, repeated texts as codes: a quarter of the size of rows."""
    columns: dict[str, Any] = {}
    for name in points:
        column = points[name]
        if name in CODED_COLUMNS:
            codes, texts = pd.factorize(column)
            columns[str(name)] = {"codes": codes.tolist(), "texts": texts.tolist()}
        else:
            columns[str(name)] = column.astype(object).where(column.notna(), None).tolist()
    return columns


def _compared(results: pd.DataFrame, tables: CrossPlotTables) -> ComparedMethods | None:
    """Return the methods to compare in unseen domains, None where there are none."""
    if "unseen" not in splits_of(tables):
        return None
    return compared_methods(results, tables.dataset, tables.target_recall)


def _section(
    results: pd.DataFrame, rows: list[ReadableRow], tables: CrossPlotTables, compared: ComparedMethods | None
) -> Section:
    dataset, target = tables.dataset, tables.target_recall
    shown = of_experiment(results, dataset, target).query("split == 'unseen'").index
    one_target = results["target_recall"].nunique() == 1
    return Section(
        title=dataset_label(dataset) + ("" if one_target else f", target {target:g}"),
        sentences=experiment_sentences(results, dataset, target),
        rows=[rows[place] for place in shown],
        note=note_on_random_sets(tables),
        comparison={} if compared is None else captions(compared),
    )
