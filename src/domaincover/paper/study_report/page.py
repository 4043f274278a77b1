"""A self-contained HTML page: sentences, tables, certificates, interactive plots and their code."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from domaincover.files import write_whole
from domaincover.paper.collect import TrainingHistory
from domaincover.paper.published import Published
from domaincover.paper.study_report.chart_data import (
    TRAINING,
    TrainingCurves,
    caption,
    has_curves,
    left_out_in_words,
    swing_in_words,
    training_curves,
)
from domaincover.paper.study_report.chart_templates import PARTS
from domaincover.paper.study_report.exhibits import exhibit_sections
from domaincover.paper.study_report.page_data import page_data
from domaincover.paper.study_report.results_table import (
    COLUMNS,
    Row,
    answers_with_one_label,
    columns_of,
    in_order,
    is_best,
    main_target,
    notes_of,
    of_dataset,
    of_experiment,
    readable_rows,
    rules_in_words,
    seeds_and_domains,
    sentences_of_notes,
    targets_of,
    unseen_rows,
)
from domaincover.paper.study_report.study_tables import (
    MEASURES,
    beside_paper,
    times_caption,
    times_table,
    training_times,
)
from domaincover.paper.study_report.style import MethodStyle, dataset_label, method_styles
from domaincover.paper.study_report.theory_chart import (
    MARKS_IN_WORDS,
    learnability_chart,
    learnability_data,
    learnability_sentence,
    theory_notes,
)
from domaincover.promises.clopper_pearson import lower_bound, upper_bound
from domaincover.report.charts import PAGE_INK
from domaincover.report.readable import sentence
from domaincover.report.template import rendered

TITLE = "Prediction sets in new domains"
CONFIDENCE = 0.95  # of a certificate
RESTS_ON = (
    "Each line takes one model, that of the first seed, as fixed, and its unseen domains as drawn one by one from "
    "where the next will come from; the bounds are exact (Clopper and Pearson, 1934). The confidence is that of one "
    "line, not of all lines at once. At target means counted at target: with few examples of a label, luck takes part."
)


def write_page(
    results: pd.DataFrame,
    domains: pd.DataFrame,
    path: Path,
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
    table = in_order(results)
    rows = readable_rows(table)
    exhibits = [] if published is None else exhibit_sections(published, table)
    compared_times = _times(times, published)
    trained = {one.dataset: one for one in histories if one.target_recall == main_target(table, one.dataset)}
    curves = {name: training_curves(history) for name, history in trained.items()}
    charts = page_data(table, domains, curves, exhibits)
    page = rendered(
        "page.html",
        title=TITLE if published is None else published.title,
        paper=published,
        exhibits=exhibits,
        headline=what_was_run(table),
        sections=[_section(table, domains, rows, name, curves.get(name)) for name in dict.fromkeys(table["dataset"])],
        charts=charts | {"theory": None if theory is None else learnability_chart(learnability_data(theory), PAGE_INK)},
        rows=rows,
        columns=COLUMNS,
        measures=MEASURES,
        beside_paper=beside_paper,
        columns_of=columns_of,
        seeds_and_domains=seeds_and_domains,
        rule=" ".join(map(sentence, rules_in_words(table))),
        rests_on=RESTS_ON,
        targets=[f"{target:g}" for target in sorted(set(table["target_recall"]))],
        times=None if compared_times is None else times_table(compared_times),
        has_times=times is not None and not times.empty,
        times_caption="" if compared_times is None else times_caption(compared_times),
        theory=None
        if theory is None
        else [learnability_sentence(theory), *map(sentence, theory_notes(theory)), *MARKS_IN_WORDS],
        notes=notes_of(table),
        training_parts=list(PARTS),
        training_caption=TRAINING,
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
    results: pd.DataFrame, domains: pd.DataFrame, rows: list[Row], dataset: str, curves: TrainingCurves | None
) -> dict[str, Any]:
    """Return the page's content for one data set."""
    target = main_target(results, dataset)
    own = unseen_rows(of_dataset(results, dataset))
    # The main target first, then the others from the lowest.
    order = [target, *(other for other in targets_of(results, dataset) if other != target)]
    places = [place for one in order for place in own.index[own["target_recall"] == one]]
    return {
        "title": dataset_label(dataset),
        "sentence": first_place(results, dataset, target),
        "rows": [rows[place] for place in places],
        "rule": " ".join(map(sentence, rules_in_words(own))),
        "target": f"{target:g}",
        "captions": _captions(results, dataset, target),
        "evidence": study_evidence(results, domains, dataset),
        "training": "" if curves is None else swing_in_words(curves),
        "notes": sentences_of_notes(own),
    }


def _captions(results: pd.DataFrame, dataset: str, target: float) -> dict[str, str]:
    """Return the captions of the data set's charts by kind; those of unseen domains only if there are any."""
    every = of_experiment(results, dataset, target)
    unseen = unseen_rows(every)
    own = every if unseen.empty else unseen
    kinds = ("cross",) if unseen.empty else ("cross", "share", "min-recall", "coverage")
    found = {kind: caption(kind, int(own["n_seeds"].max())) for kind in kinds}
    if has_curves(results, dataset):
        found["curves"] = f"{caption('curves', 1)} {left_out_in_words(results, dataset)}".strip()
    return found


def what_was_run(results: pd.DataFrame) -> str:
    """Return the numbers of methods and data sets, the targets, seeds and domains."""
    unseen = unseen_rows(results)
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


def first_place(results: pd.DataFrame, dataset: str, target_recall: float) -> str:
    """Return the method with the smallest sets at the highest share of unseen domains at target."""
    rows = unseen_rows(of_experiment(results, dataset, target_recall))
    rows = rows[rows["share_at_target"].notna()]
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


class StudyEvidence(NamedTuple):
    """Number of unseen domains at target, the interval of the share, and a bound for the next domain."""

    style: MethodStyle
    n_at_target: int
    n_domains: int
    share: float
    low: float
    high: float
    next_at_least: float


def study_evidence(results: pd.DataFrame, domains: pd.DataFrame, dataset: str) -> list[StudyEvidence]:
    """Return a row per method that gives sets, at the main target: the unseen domains of its first seed."""
    target = main_target(results, dataset)
    rows = unseen_rows(of_experiment(results, dataset, target))
    styles = method_styles(results["method"])
    single = unseen_rows(of_experiment(domains, dataset, target))
    single = single[single["min_recall"].notna()]
    found = []
    for method in rows[~answers_with_one_label(rows)]["method"]:
        own = single[single["method"] == method]
        own = own[own["seed"] == own["seed"].min()]
        if (total := len(own)) > 0:
            n = int((own["min_recall"] >= target).sum())
            each_side = (1 + CONFIDENCE) / 2
            low, high = float(lower_bound(n, total, each_side)), float(upper_bound(n, total, each_side))
            at_least = float(lower_bound(n, total, CONFIDENCE))
            found.append(StudyEvidence(styles[method], n, total, n / total, low, high, at_least))
    return found
