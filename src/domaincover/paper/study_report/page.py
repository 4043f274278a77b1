"""A self-contained HTML page of a study: tables, certificates, and the figures as pictures."""

import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from domaincover.files import write_whole
from domaincover.paper.catalogue import DATASET_GROUPS
from domaincover.paper.published import WILDS_MISSING, Exhibit, Published, is_quotable
from domaincover.paper.study_report.figures import drawn_datasets, figures_of, picture, rows_of
from domaincover.paper.study_report.study_tables import (
    CAPTION,
    KEYS,
    NOT_RUN,
    NOTE,
    beside_table,
    columns_of,
    compared_with_published,
    in_order,
    main_target,
    notes_of,
    of_dataset,
    rank,
    readable_rows,
    rules_in_words,
    seeds_and_domains,
    sentences_of_notes,
    targets_of,
    times_caption,
    times_table,
    training_times,
    unseen_rows,
)
from domaincover.paper.study_report.style import dataset_label, short_label
from domaincover.paper.study_report.text_tables import TextTable
from domaincover.paper.theory import theory_figure
from domaincover.report.charts import Spec
from domaincover.report.readable import rendered, sentence

TITLE = "Prediction sets in new domains"
PIXELS_PER_POINT = 1.9  # on the page


class Picture(NamedTuple):
    """A figure in the page: its name and address, what it shows in words, and its width in pixels."""

    name: str
    address: str
    words: str
    width: int


class Section(NamedTuple):
    """A table or figure of the paper on the page: what of it was not run and why, and its table if it is one."""

    exhibit: Exhibit
    status: str
    missing: str
    table: TextTable | None = None
    caption: str = ""


def write_page(
    results: pd.DataFrame,
    domains: pd.DataFrame,
    path: Path,
    settings: Mapping[str, str] | None = None,
    published: Published | None = None,
    times: pd.DataFrame | None = None,
    theory: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
) -> None:
    """Write the report atomically, as one file that needs no network.

    With a published paper, the page opens with its index and has a section for each of its tables and figures, ours
    beside the paper's; what is ours alone follows. `times` has seconds of ERM and SET-COVER by data set, and `theory`
    is the content of a `theory.json`; `files` are the addresses of tables to link to, by name.
    """
    table = in_order(results)
    exhibits = () if published is None else published.exhibits
    figures = figures_of(table, domains, None, exhibits)
    # of all splits side by side there is only the paper's figure
    pictures = [_picture(name, figure()) for name, figure in figures.items() if not name.startswith("cross-splits")]
    of_paper = {
        one.slug: [found for found in pictures if re.fullmatch(rf"{one.slug}(-\d+)?", found.name)] for one in exhibits
    }
    shown = {found.name for own in of_paper.values() for found in own}
    measured = pd.DataFrame(columns=["dataset", "erm_seconds", "set_cover_seconds"]) if times is None else times
    compared = training_times(measured.astype({"dataset": "str"}), None if published is None else published.times)
    page = rendered(
        "page.html",
        title=TITLE if published is None else published.title,
        paper=published,
        exhibits=[] if published is None else exhibit_sections(published, table, compared),
        pictures=of_paper,
        others=[found for found in pictures if found.name not in shown],
        headline=what_was_run(table),
        numbers=sentence(CAPTION),
        not_run=NOT_RUN,
        sections=[_section(table, name) for name in dict.fromkeys(table["dataset"])],
        times=None if compared.empty or published is not None else times_table(compared),
        times_caption=times_caption(compared),
        theory=None if theory is None else _picture("theory-figure", theory_figure(theory)),
        notes=notes_of(table),
        files=files or {},
        settings=settings or {},
    )
    write_whole(Path(path), page)


def _picture(name: str, spec: Spec) -> Picture:
    """Draw a figure; as a picture within the page it neither loads nor runs anything."""
    content = picture(spec, "svg")
    found = re.search(rb'width="([\d.]+)pt"', content)
    width = 0 if found is None else round(float(found[1]) * PIXELS_PER_POINT)
    said = [part for key in ("text", "subtitle") for part in _lines(spec["title"][key])]
    address = f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"
    return Picture(name, address, " ".join(said), width)


def _lines(text: str | list[str]) -> list[str]:
    return [text] if isinstance(text, str) else text


def _section(results: pd.DataFrame, dataset: str) -> dict[str, Any]:
    """Return the page's content for one data set: the main target first, then the others from the lowest."""
    own = unseen_rows(of_dataset(results, dataset))
    targets, main = targets_of(results, dataset), main_target(results, dataset)
    order = [main, *(other for other in targets if other != main)]
    title = dataset_label(dataset)
    if own.empty:
        return {"title": title, "table": None}
    rows = readable_rows(pd.concat([own[own["target_recall"] == target] for target in order]))
    left_out = {"dataset", "split", *(["target"] if len(order) == 1 else [])}
    columns = {name: column for name, column in columns_of(rows).items() if name not in left_out}
    said = [f"Unseen domains, {title}: {seeds_and_domains(rows)}.", *map(sentence, rules_in_words(own))]
    caption = " ".join([*sentences_of_notes(own), *said])
    return {"title": title, "table": TextTable(columns, rows, has_blocks=False), "caption": caption}


def exhibit_sections(published: Published, results: pd.DataFrame, times: pd.DataFrame) -> list[Section]:
    """Return a section for every table and figure of the paper, in its order; `times` are ours beside the paper's.

    Results of quick runs alone do not stand beside the paper's numbers.
    """
    if not is_quotable(results[NOTE]).any():
        published = published._replace(results=published.results[:0])
    return [
        Section(exhibit, "" if times["ratio"].notna().any() else NOT_RUN, "", times_table(times), times_caption(times))
        if exhibit.kind == "times"
        else _exhibit(published, exhibit, results)
        for exhibit in published.exhibits
    ]


def _exhibit(published: Published, exhibit: Exhibit, results: pd.DataFrame) -> Section:
    rows = rows_of(exhibit, results)
    rows = unseen_rows(rows[rows["dataset"].isin(exhibit.datasets)])
    is_table = exhibit.kind == "results"
    run = set(rows["dataset"]) if is_table else set(drawn_datasets(exhibit, results))
    missing: dict[str, list[str]] = {}
    for name in exhibit.datasets:
        if name not in run:
            reason = WILDS_MISSING if name in DATASET_GROUPS["wilds"] else NOT_RUN
            missing.setdefault(reason, []).append(short_label(name))
    status = f"{len(run)} of {len(exhibit.datasets)} run" if missing else ""
    said = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in missing.items())
    section = Section(exhibit, status if run else NOT_RUN, said)
    if not is_table:
        return section
    compared = compared_with_published(rows, published.results, exhibit.experiment)
    compared = pd.concat([compared[compared["source"] == exhibit.name], rows]).drop_duplicates(KEYS)
    compared = compared.sort_values(KEYS, key=rank, kind="stable")
    targets = ", ".join(f"{target:g}" for target in exhibit.target_recalls)
    caption = (
        f"Unseen domains at target {targets}, ± standard deviation over seeds; differences are ours less the paper’s."
    )
    caption = " ".join([*sentences_of_notes(rows), caption])
    return section._replace(table=beside_table(compared, ("target", "source")), caption=caption)


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
