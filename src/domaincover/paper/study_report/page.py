"""A self-contained HTML page: sentences, tables, interactive plots and their code."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from domaincover.files import write_whole
from domaincover.paper.histories import TrainingHistory
from domaincover.paper.published import Published
from domaincover.paper.study_report.comparisons import compared_methods
from domaincover.paper.study_report.exhibits import CAPTIONS, exhibit_sections
from domaincover.paper.study_report.headline import experiment_sentences, overall_sentence
from domaincover.paper.study_report.page_charts import chart_templates
from domaincover.paper.study_report.page_data import captions_of, exhibit_data, page_data
from domaincover.paper.study_report.results_table import (
    CheckedDomains,
    CheckedResults,
    at_main_targets,
    checked_domains,
    checked_results,
    experiments,
    main_target,
    notes_of,
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
    theory_notes,
)
from domaincover.paper.study_report.time_tables import times_caption, times_table, training_times
from domaincover.paper.study_report.tradeoff_charts import CURVE_NOTE, left_out_in_words
from domaincover.paper.study_report.tradeoffs import curves_of, has_curves
from domaincover.paper.study_report.training_curves import (
    CAPTION,
    PARTS,
    TrainingCurves,
    swing_in_words,
    training_curves,
)
from domaincover.report.ranking import rule_in_words
from domaincover.report.readable import (
    HEADS,
    TEXT_HEADS,
    ReadableRow,
    heads_of,
    readable_rows,
    seeds_and_domains,
    sentence,
)
from domaincover.report.style import dataset_label, short_label
from domaincover.report.template import chart_library, rendered

__all__ = ["chart_library", "write_page"]

HEADS_OF_SETTINGS = {"synthetic": "Synthetic", "synthetic-10": "Synthetic, d = 10", "synthetic-50": "Synthetic, d = 50"}


class DatasetSection(NamedTuple):
    """The page's content for one data set; captions by kind of chart."""

    title: str
    sentences: list[str]
    rows: list[ReadableRow]
    rule: str
    target: str
    captions: dict[str, str]
    evidence: list[StudyEvidence]
    training: str
    notes: list[str]


def write_page(
    results: pd.DataFrame,
    domains: pd.DataFrame,
    path: Path,
    title: str = "Prediction sets in new domains",
    settings: Mapping[str, str] | None = None,
    published: Published | None = None,
    times: pd.DataFrame | None = None,
    theory: Mapping[str, Any] | None = None,
    histories: Sequence[TrainingHistory] = (),
) -> None:
    """Write the report atomically, as one file that needs no network.

    With a published paper, the page opens with its index and has a section for each of its tables and figures, ours
    beside the paper's; what is ours alone follows. `times` has seconds of ERM and SET-COVER by data set, and `theory`
    is the content of a `theory.json`. `histories` of SET-COVER's training are shown with their data sets.
    """
    table = checked_results(results)
    single = checked_domains(domains, table)
    rows = readable_rows(table)
    exhibits = [] if published is None else exhibit_sections(published, table)
    compared_times = _times(times, published)
    trained = {one.dataset: one for one in histories if one.target_recall == main_target(table, one.dataset)}
    curves = {name: training_curves(history) for name, history in trained.items()}
    data = page_data(table, single, curves)
    page = rendered(
        "page.html",
        title=title if published is None else published.title,
        paper=published,
        exhibits=exhibits,
        exhibit_captions=CAPTIONS,
        headline=overall_sentence(at_main_targets(table)),
        sections=[
            _section(table, single, rows, dataset, curves.get(dataset)) for dataset in dict.fromkeys(table["dataset"])
        ],
        charts=data
        | {"templates": chart_templates()}
        | {"exhibits": {one.number: exhibit_data(one, table, single) for one in exhibits if one.is_figure}}
        | {"theory": None if theory is None else learnability_spec(learnability_data(theory))},
        rows=rows,
        heads=HEADS,
        text_heads=TEXT_HEADS,
        heads_of=heads_of,
        seeds_and_domains=seeds_and_domains,
        rule=rule_in_words(table),
        rests_on=RESTS_ON,
        targets=sorted({f"{target:g}" for _, target in experiments(table)}),
        times=None if compared_times is None else times_table(compared_times),
        has_times=times is not None and not times.empty,
        times_caption="" if compared_times is None else times_caption(compared_times),
        printed_settings=lambda name: {} if published is None else _printed_settings(published, name),
        theory=None
        if theory is None
        else [learnability_sentence(theory), *map(sentence, theory_notes(theory)), *MARKS_IN_WORDS],
        notes=notes_of(table),
        training_parts=list(PARTS),
        training_caption=CAPTION,
        settings=settings or {},
    )
    write_whole(Path(path), page)


def _times(times: pd.DataFrame | None, published: Published | None) -> pd.DataFrame | None:
    """Return our times beside the paper's; None if there are neither."""
    measured = pd.DataFrame(columns=["dataset", "erm_seconds", "set_cover_seconds"]) if times is None else times
    if measured.empty and published is None:
        return None
    return training_times(measured.astype({"dataset": "str"}), None if published is None else published.times)


def _printed_settings(published: Published, name: str) -> dict[str, Any]:
    """Return one of the paper's tables of settings: heads, and rows of texts."""
    own = published.settings[published.settings["source"] == name].drop(columns="source")
    own = own.loc[:, (own != "").any()]
    heads = ["", *(HEADS_OF_SETTINGS.get(name) or short_label(name) for name in own.columns[1:])]
    return {"heads": heads, "rows": own.to_numpy().tolist()}


def _section(
    results: CheckedResults,
    domains: CheckedDomains,
    rows: list[ReadableRow],
    dataset: str,
    curves: TrainingCurves | None,
) -> DatasetSection:
    target = main_target(results, dataset)
    own = of_dataset(results, dataset)
    own = CheckedResults(own[own["split"] == "unseen"])
    # The main target first, then the others from the lowest.
    order = [target, *(other for other in targets_of(results, dataset) if other != target)]
    places = [place for one in order for place in own.index[own["target_recall"] == one]]
    return DatasetSection(
        title=dataset_label(dataset),
        sentences=experiment_sentences(results, dataset, target),
        rows=[rows[place] for place in places],
        rule=rule_in_words(own),
        target=f"{target:g}",
        captions=_captions(results, dataset, target),
        evidence=study_evidence(results, domains, dataset),
        training="" if curves is None else swing_in_words(curves),
        notes=list(map(sentence, notes_of(own))),
    )


def _captions(results: CheckedResults, dataset: str, target: float) -> dict[str, str]:
    """Return the captions of the data set's charts of unseen domains, by kind."""
    if "unseen" not in set(of_experiment(results, dataset, target)["split"]):
        return {}
    found = captions_of(compared_methods(results, dataset, target))
    if has_curves(results, dataset):
        found["curves"] = f"{CURVE_NOTE} {left_out_in_words(curves_of(results, dataset))}"
    return found
