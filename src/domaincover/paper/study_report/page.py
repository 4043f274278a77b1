"""A self-contained HTML page: sentences, tables, interactive plots and their code."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from domaincover.files import write_whole
from domaincover.paper.study_report.comparisons import compared_methods
from domaincover.paper.study_report.headline import experiment_sentences, overall_sentence
from domaincover.paper.study_report.page_charts import chart_templates
from domaincover.paper.study_report.page_data import captions_of, page_data
from domaincover.paper.study_report.published_comparison import MEASURES, compared_with_published, measure_texts
from domaincover.paper.study_report.results_table import (
    CheckedDomains,
    CheckedResults,
    at_main_targets,
    checked_domains,
    checked_results,
    experiments,
    main_target,
    of_dataset,
    of_experiment,
    targets_of,
)
from domaincover.paper.study_report.study_certificates import RESTS_ON, StudyEvidence, study_evidence
from domaincover.paper.study_report.theory_chart import (
    MARKS_IN_WORDS,
    learnability_data,
    learnability_sentence,
    learnability_spec,
)
from domaincover.paper.study_report.time_tables import times_caption, times_table, training_times
from domaincover.paper.study_report.tradeoff_charts import CURVE_NOTE, left_out_in_words
from domaincover.paper.study_report.tradeoffs import curves_of, has_curves
from domaincover.report.readable import (
    HEADS,
    TEXT_HEADS,
    ReadableRow,
    heads_of,
    readable_rows,
    seeds_and_domains,
)
from domaincover.report.style import dataset_label
from domaincover.report.template import chart_library, rendered

__all__ = ["chart_library", "write_page"]

COLUMN_OF = {"min_recall": "min_recall", "set_size": "set_size", "share_at_target": "share"}


class TableRow(NamedTuple):
    """A row of results and, by column, the paper's number with the difference."""

    row: ReadableRow
    paper: dict[str, str]


class Section(NamedTuple):
    """The page's content for one data set; captions by kind of chart."""

    title: str
    sentences: list[str]
    rows: list[TableRow]
    sources: str
    target: str
    captions: dict[str, str]
    evidence: list[StudyEvidence]


def write_page(
    results: pd.DataFrame,
    domains: pd.DataFrame,
    path: Path,
    title: str = "Prediction sets in new domains",
    settings: Mapping[str, str] | None = None,
    published: pd.DataFrame | None = None,
    times: pd.DataFrame | None = None,
    published_times: pd.DataFrame | None = None,
    theory: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Write the report atomically, as one file that needs no network.

    Published numbers and times are shown beside ours for the same data sets; `times` has seconds of ERM and SET-COVER
    by data set, and `theory` is the content of a `theory.json`. Notes are shown below the headline.
    """
    table = checked_results(results)
    single = checked_domains(domains, table)
    rows = readable_rows(table)
    compared_times = None if times is None or times.empty else training_times(times, published_times)
    data = page_data(table, single)
    page = rendered(
        "page.html",
        title=title,
        headline=overall_sentence(at_main_targets(table)),
        sections=[_section(table, single, rows, dataset, published) for dataset in dict.fromkeys(table["dataset"])],
        charts=data
        | {"templates": chart_templates()}
        | {"theory": None if theory is None else learnability_spec(learnability_data(theory))},
        rows=[TableRow(row, {}) for row in rows],
        heads=HEADS,
        text_heads=TEXT_HEADS,
        heads_of=lambda shown: heads_of(one.row for one in shown),
        seeds_and_domains=lambda shown: seeds_and_domains(one.row for one in shown),
        rests_on=RESTS_ON,
        targets=sorted({f"{target:g}" for _, target in experiments(table)}),
        times=None if compared_times is None else times_table(compared_times),
        times_caption="" if compared_times is None else times_caption(compared_times),
        theory=None if theory is None else [learnability_sentence(theory), *MARKS_IN_WORDS],
        notes=notes,
        settings=settings or {},
    )
    write_whole(Path(path), page)


def _section(
    results: CheckedResults,
    domains: CheckedDomains,
    rows: list[ReadableRow],
    dataset: str,
    published: pd.DataFrame | None,
) -> Section:
    target = main_target(results, dataset)
    own = of_dataset(results, dataset)
    own = CheckedResults(own[own["split"] == "unseen"])
    # The main target first, then the others from the lowest.
    order = [target, *(other for other in targets_of(results, dataset) if other != target)]
    places = [place for one in order for place in own.index[own["target_recall"] == one]]
    compared = None if published is None or own.empty else compared_with_published(own, published)
    beside = {} if compared is None else {_key(row): row for row in compared.to_dict("records")}
    papers = [beside.get(_key(results.loc[place])) for place in places]
    return Section(
        title=dataset_label(dataset),
        sentences=experiment_sentences(results, dataset, target),
        rows=[TableRow(rows[place], _paper_texts(paper)) for place, paper in zip(places, papers, strict=True)],
        sources=", ".join(dict.fromkeys(str(paper["source"]) for paper in papers if paper is not None)),
        target=f"{target:g}",
        captions=_captions(results, dataset, target),
        evidence=study_evidence(results, domains, dataset),
    )


def _key(row: Any) -> tuple[float, str]:
    return row["target_recall"], row["method"]


def _paper_texts(paper: Mapping[Any, Any] | None) -> dict[str, str]:
    """Return by column the paper's number and, in brackets, ours minus the paper's."""
    if paper is None:
        return {}
    texts = {measure: list(measure_texts(paper, measure).values())[1:] for measure in MEASURES}
    return {COLUMN_OF[measure]: f"{theirs} ({difference})" for measure, (theirs, difference) in texts.items()}


def _captions(results: CheckedResults, dataset: str, target: float) -> dict[str, str]:
    """Return the captions of the data set's charts of unseen domains, by kind."""
    if "unseen" not in set(of_experiment(results, dataset, target)["split"]):
        return {}
    found = captions_of(compared_methods(results, dataset, target))
    if has_curves(results, dataset):
        found["curves"] = f"{CURVE_NOTE} {left_out_in_words(curves_of(results, dataset))}"
    return found
