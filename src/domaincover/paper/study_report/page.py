"""A self-contained HTML page: sentences, tables, interactive plots and their code."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from domaincover.files import write_whole
from domaincover.paper.collect import TrainingHistory
from domaincover.paper.published import Published
from domaincover.paper.study_report.chart_data import caption, has_curves, left_out_in_words, unseen_rows
from domaincover.paper.study_report.chart_templates import PARTS
from domaincover.paper.study_report.exhibits import exhibit_sections
from domaincover.paper.study_report.page_data import page_data
from domaincover.paper.study_report.published_comparison import MEASURES, beside_paper
from domaincover.paper.study_report.results_rows import (
    HEADS,
    TEXT_HEADS,
    ReadableRow,
    heads_of,
    is_best,
    readable_rows,
    rules_in_words,
    seeds_and_domains,
)
from domaincover.paper.study_report.results_table import (
    CheckedDomains,
    CheckedResults,
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
from domaincover.paper.study_report.style import dataset_label, method_styles
from domaincover.paper.study_report.theory_chart import (
    MARKS_IN_WORDS,
    learnability_chart,
    learnability_data,
    learnability_sentence,
    theory_notes,
)
from domaincover.paper.study_report.time_tables import times_caption, times_table, training_times
from domaincover.paper.study_report.training_curves import (
    CAPTION,
    TrainingCurves,
    swing_in_words,
    training_curves,
)
from domaincover.report.charts import PAGE_INK
from domaincover.report.readable import sentence
from domaincover.report.template import rendered


class DatasetSection(NamedTuple):
    """The page's content for one data set; captions by kind of chart."""

    title: str
    sentence: str
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
    data = page_data(table, single, curves, exhibits)
    page = rendered(
        "page.html",
        title=title if published is None else published.title,
        paper=published,
        exhibits=exhibits,
        headline=what_was_run(table),
        sections=[
            _section(table, single, rows, dataset, curves.get(dataset)) for dataset in dict.fromkeys(table["dataset"])
        ],
        charts=data | {"theory": None if theory is None else learnability_chart(learnability_data(theory), PAGE_INK)},
        rows=rows,
        heads=HEADS,
        text_heads=TEXT_HEADS,
        measures=MEASURES,
        beside_paper=beside_paper,
        heads_of=heads_of,
        seeds_and_domains=seeds_and_domains,
        rule=" ".join(map(sentence, rules_in_words(table))),
        rests_on=RESTS_ON,
        targets=sorted({f"{target:g}" for _, target in experiments(table)}),
        times=None if compared_times is None else times_table(compared_times),
        has_times=times is not None and not times.empty,
        times_caption="" if compared_times is None else times_caption(compared_times),
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
        sentence=first_place(results, dataset, target),
        rows=[rows[place] for place in places],
        rule=" ".join(map(sentence, rules_in_words(own))),
        target=f"{target:g}",
        captions=_captions(results, dataset, target),
        evidence=study_evidence(results, domains, dataset),
        training="" if curves is None else swing_in_words(curves),
        notes=list(map(sentence, notes_of(own))),
    )


def _captions(results: CheckedResults, dataset: str, target: float) -> dict[str, str]:
    """Return the captions of the data set's charts by kind; those of unseen domains only if there are any."""
    unseen = unseen_rows(results, dataset, target)
    own = of_experiment(results, dataset, target) if unseen.empty else unseen
    kinds = ("cross",) if unseen.empty else ("cross", "share", "min-recall", "coverage")
    found = {kind: caption(kind, int(own["n_seeds"].max())) for kind in kinds}
    if has_curves(results, dataset):
        found["curves"] = f"{caption('curves', 1)} {left_out_in_words(results, dataset)}".strip()
    return found


def what_was_run(results: CheckedResults) -> str:
    """Return the numbers of methods and data sets, the targets, seeds and domains."""
    unseen = CheckedResults(results[results["split"] == "unseen"])
    if unseen.empty:
        return "These results hold no unseen domains, so they say nothing about new ones."
    targets = [f"{target:g}" for target in sorted(set(unseen["target_recall"]))]
    counts = [
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((unseen["method"].nunique(), "method"), (unseen["dataset"].nunique(), "data set"))
    ]
    said = seeds_and_domains(readable_rows(unseen))
    noun = "target recall" if len(targets) == 1 else "target recalls"
    return f"{' on '.join(counts)}, {noun} {', '.join(targets)}. {sentence(said)}"


def first_place(results: CheckedResults, dataset: str, target_recall: float) -> str:
    """Return the method with the smallest sets at the highest share of unseen domains at target."""
    own = (results["dataset"] == dataset) & (results["target_recall"] == target_recall) & (results["split"] == "unseen")
    rows = results[own & results["share_at_target"].notna()]
    if rows.empty:
        return "No unseen domains were evaluated."
    best = rows[is_best(rows)].sort_values("share_at_target", ascending=False, kind="stable")
    if best.empty:
        return "No method has sets worth having: all are hardly smaller than sets drawn by lot with the same recall."
    first = best.iloc[0]
    spread = first["share_at_target_std"]
    doubt = "" if math.isnan(spread) else f" (± {100 * spread:.0f} points between seeds)"
    doubt = " (one seed: the spread is unknown)" if first["n_seeds"] == 1 else doubt
    return (
        f"{method_styles(results['method'])[first['method']].label} keeps every label's recall at {target_recall:g} or "
        f"more in {100 * first['share_at_target']:.0f} % of unseen domains{doubt}, with {first['set_size']:.2f} of "
        f"{first['n_labels']} labels per set."
    )
