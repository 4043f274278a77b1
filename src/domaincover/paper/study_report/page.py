"""A self-contained HTML page of a study: tables, certificates, and the figures as pictures."""

import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from domaincover.files import write_whole
from domaincover.paper.published import Published
from domaincover.paper.study_report.exhibits import exhibit_sections
from domaincover.paper.study_report.figures import figures_of, picture
from domaincover.paper.study_report.study_tables import (
    COLUMNS,
    MEASURES,
    Row,
    beside_paper,
    columns_of,
    in_order,
    main_target,
    notes_of,
    of_dataset,
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
from domaincover.paper.study_report.style import dataset_label
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
    rows = readable_rows(table)
    exhibits = () if published is None else published.exhibits
    figures = figures_of(table, domains, None, exhibits)
    # of all splits side by side there is only the paper's figure
    pictures = [_picture(name, figure()) for name, figure in figures.items() if not name.startswith("cross-splits")]
    of_paper = {
        one.slug: [found for found in pictures if re.fullmatch(rf"{one.slug}(-\d+)?", found.name)] for one in exhibits
    }
    shown = {found.name for own in of_paper.values() for found in own}
    compared_times = _times(times, published)
    page = rendered(
        "page.html",
        title=TITLE if published is None else published.title,
        paper=published,
        exhibits=[] if published is None else exhibit_sections(published, table),
        pictures=of_paper,
        others=[found for found in pictures if found.name not in shown],
        headline=what_was_run(table),
        sections=[_section(table, rows, name) for name in dict.fromkeys(table["dataset"])],
        columns=COLUMNS,
        measures=MEASURES,
        beside_paper=beside_paper,
        columns_of=columns_of,
        seeds_and_domains=seeds_and_domains,
        rule=" ".join(map(sentence, rules_in_words(table))),
        targets=[f"{target:g}" for target in sorted(set(table["target_recall"]))],
        times=None if compared_times is None else times_table(compared_times),
        has_times=times is not None and not times.empty,
        times_caption="" if compared_times is None else times_caption(compared_times),
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


def _times(times: pd.DataFrame | None, published: Published | None) -> pd.DataFrame | None:
    """Return our times beside the paper's; None if there are neither."""
    measured = pd.DataFrame(columns=["dataset", "erm_seconds", "set_cover_seconds"]) if times is None else times
    if measured.empty and published is None:
        return None
    return training_times(measured.astype({"dataset": "str"}), None if published is None else published.times)


def _section(results: pd.DataFrame, rows: list[Row], dataset: str) -> dict[str, Any]:
    """Return the page's content for one data set."""
    target = main_target(results, dataset)
    own = unseen_rows(of_dataset(results, dataset))
    # The main target first, then the others from the lowest.
    order = [target, *(other for other in targets_of(results, dataset) if other != target)]
    places = [place for one in order for place in own.index[own["target_recall"] == one]]
    return {
        "title": dataset_label(dataset),
        "rows": [rows[place] for place in places],
        "targets": order,
        "rule": " ".join(map(sentence, rules_in_words(own))),
        "notes": sentences_of_notes(own),
    }


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
