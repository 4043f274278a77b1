"""HTML pages of a model by domain, its certificate to print and sign, and its record.

Each is one file that needs no network.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincover.criteria import TargetRecall
from domaincover.evaluation import DomainReport
from domaincover.files import write_whole
from domaincover.predictors.domain_record import AdaptedDomains
from domaincover.predictors.promised_predictor import UNFAMILIAR, PromisedPredictor
from domaincover.promises.certificate_text import (
    DOES_NOT_SAY,
    RESTS_ON,
    THRESHOLDS,
    WORTH_SAYING,
    next_sentence,
    noise_sentence,
    statement,
    truth_sentence,
)
from domaincover.promises.certificates import Certificate, Evidence
from domaincover.promises.verdict import CONFIDENCE, log_e_model, share_bounds, verdict_lines
from domaincover.report.domain_reports import (
    Reports,
    all_targets,
    claim_in_words,
    label_targets,
    lowest,
    measure_of,
    n_at_target,
    size_bars,
    summary_lines,
    target_in_words,
    track_start,
    worst_first,
    worst_order,
)
from domaincover.report.domain_table import domain_columns, summary_texts
from domaincover.report.readable import ABSENT, recall_text, rendered, shown_names

MOST_DOMAINS_IN_PRINT = 16
MOST_LABELS_IN_PRINT = 8
LEFT_OUT = ("from examples", "Empty sets")
CONTRADICTED = "Certificate of a contradicted promise"
NO_PROMISE = "Nothing was promised when the model was fitted: the target was an aim."
LEAST_ROWS_TO_SEARCH = 15
MOST_LABEL_COLUMNS = 6  # in print
LARGEST_SHOWN = 1e6  # of e-values


def write_certificate_page(
    path: Path,
    certificate: Certificate,
    report: DomainReport,
    target_recall: TargetRecall,
    settings: Mapping[str, str],
    *,
    versions: Mapping[str, str],
    date: datetime.date,
    promise: str | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Write the certificate as one file that needs no network and no script.

    The settings name the model and its SHA-256, the table, and its label and domain columns, beside what else the page
    lists. On paper the worst domains and the labels with the lowest bounds are listed, on the screen all of them.
    """
    shown = worst_first({"model": report}, target_recall)["model"]
    n_domains, n_held = len(shown.domain_names), n_at_target(shown)
    columns = domain_columns({"model": shown})
    block, verdict = certified(certificate), certificate.verdict
    together, *labels = block["rows"]
    page = rendered(
        "certificate_page.html",
        title="Certificate" if verdict is None or not verdict.is_contradicted else CONTRADICTED,
        verdict=verdict_lines(verdict, shown),
        statement=statement(certificate),
        subject=f"Prediction sets for {settings.get('label', 'labels')}, by {settings.get('domain', 'domain')}",
        identity={
            "Date": date.isoformat(),
            "Model": settings["model"],
            "SHA-256": settings["sha256"],
            "Table": f"{settings['table']}: {_counted(certificate, report)}",
            "Versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        },
        promise=promise or NO_PROMISE,
        seen=f"In {n_held} of {n_domains} domains {claim_in_words(shown)}{THRESHOLDS[certificate.thresholds]}.",
        sizes=size_bars(shown),
        columns=[column for column in columns if not column.of_label and column.head not in LEFT_OUT],
        n_domains=n_domains,
        most_domains=MOST_DOMAINS_IN_PRINT,
        certificate=block | {"rows": [together, *sorted(labels, key=_what_is_known)]},
        follows=[truth_sentence(certificate), noise_sentence(certificate)],
        most_labels=MOST_LABELS_IN_PRINT,
        notes=list(notes),
        settings=settings,
    )
    write_whole(Path(path), page)


def certified(certificate: Certificate, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return what a page shows of a certificate: figures, sentences with notes on its model, and a row per label."""
    found, is_coverage = certificate.domains, certificate.criterion == "coverage"
    says_something = any(bound and bound >= WORTH_SAYING for bound in (found.next_at_least, found.next_truly_at_least))
    return {
        "of": certificate,
        "paragraphs": [(truth_sentence if says_something else next_sentence)(certificate), *notes],
        "rows": [
            ("Coverage" if is_coverage else "All labels", found),
            *zip(shown_names(list(certificate.labels)), certificate.labels.values(), strict=True),
        ],
        "rests_on": RESTS_ON,
        "does_not_say": DOES_NOT_SAY,
    }


def _what_is_known(row: tuple[str, Evidence]) -> tuple[bool, float, float]:
    """Return what sorts a label by its bounds for the next domain, one that is in no domain last."""
    found = row[1]
    return (found.share is None, found.next_at_least, found.next_truly_at_least or 0.0)


def _counted(certificate: Certificate, report: DomainReport) -> str:
    """Return how many domains and rows a certificate is about, and how many of the rows count."""
    all_rows = f"{len(report.domain_names)} domains counted, with {report.n.sum():,} rows"
    if certificate.n_examples == report.n.sum():
        return all_rows
    rule = f"a label counts in a domain with {report.min_cell_size} rows of it or more"
    return f"{all_rows}; {certificate.n_examples:,} of them count, since {rule}"


def write_domain_page(
    path: Path,
    reports: Reports,
    target_recall: TargetRecall,
    *,
    title: str,
    notes: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    kind: str = "unseen",
    certificate: Certificate | None = None,
    certificate_notes: Sequence[str] = (),
    adaptation: AdaptedDomains | None = None,
    label_gain: pd.DataFrame | None = None,
    verdict: Sequence[str] = (),
    by: str | None = None,
    groups: Mapping[str, DomainReport] | None = None,
) -> None:
    """Write the page as one file that needs no network; `kind` is a word for the domains, such as "unseen".

    It begins with the `verdict` on a promise (`verdict_lines`). The reports of `groups` of rows, told apart by a column
    `by`, have a row each in a table of their own.

    A certificate of the same domains is shown in its own block, with notes on its model. An `adaptation`, in
    the order of the reports' domains, adds the thresholds and the p-value of each domain, and a `label_gain` set size
    and share at target by number of labels of a domain.
    """
    shown = worst_first(reports, target_recall)
    model = next(iter(shown.values()))
    # The first sentence is not about the same model with its other thresholds, which the table has.
    spoken_of = {name: each for k, (name, each) in enumerate(reports.items()) if k == 0 or each.thresholds is None}
    headline, *lines = summary_lines(spoken_of, target_recall, kind=kind)
    marks, targets = _marks(shown), all_targets(model)
    if adaptation is not None:
        adaptation = adaptation.subset(worst_order(next(iter(reports.values())), target_recall))
    page = rendered(
        "domain_page.html",
        title=title,
        verdict=list(verdict),
        headline=headline,
        notes=[*lines, *notes],
        sizes=size_bars(model),
        label_gain=None if label_gain is None or len(label_gain) < 2 else label_gain.reset_index().to_dict("records"),
        summaries={name: summary_texts(report) for name, report in shown.items()},
        by=by,
        groups={name: summary_texts(report.under(target_recall)) for name, report in (groups or {}).items()},
        certificate=None if certificate is None else certified(certificate, certificate_notes),
        target=target_in_words(target_recall),
        measure=measure_of(model),
        ascending=not isinstance(target_recall, Mapping),  # by the measure; by the distance to each label's target
        columns=domain_columns(shown, adaptation),
        marks=marks,
        low=track_start(min(place for of_domain in marks for _, place, _ in of_domain), targets),
        targets=targets,
        baseline=list(shown)[1] if len(shown) > 1 else None,
        n_domains=len(model.domain_names),
        searchable=len(model.domain_names) >= LEAST_ROWS_TO_SEARCH,
        wide=len(model.label_names) > MOST_LABEL_COLUMNS,
        level=None if adaptation is None else f"{adaptation.level:.2g}",
        settings=settings or {},
    )
    write_whole(Path(path), page)


def _marks(shown: Mapping[str, DomainReport]) -> list[list[tuple[str, float, str]]]:
    """Return the marks of each domain's chart: their look, the recall where they stand, and what they are."""
    (_, model), *others = shown.items()
    targets, every, measure = label_targets(model), all_targets(model), measure_of(model)
    rows = []
    for row in range(len(model.domain_names)):
        of_labels = zip(model.label_names, model.recall[row], targets, model.n_by_label[row], strict=True)
        marks = [
            ("dot miss" if recall < target else "dot", float(recall), f"{name}: {recall_text(recall, every)} (n = {n})")
            for name, recall, target, n in of_labels
            if not np.isnan(recall)
        ]
        if model.is_coverage:
            value = float(model.coverage[row])
            marks.append(("line", value, f"{measure}: {recall_text(value, every)}"))
        for name, other in others[:1]:
            value = float(other.min_recall[row])
            marks.append(("ring", value, f"{measure} of {name}: {recall_text(value, every)}"))
        rows.append(marks)
    return rows


def record_lines(model: PromisedPredictor) -> list[str]:
    """Return how many recorded domains were at target, the verdict, and where it contradicts, what was missed."""
    report = model.record_report()
    told = (model.record_.p_values, model.unfamiliar_level) if model.can_adapt else ()
    so_far = f"{report.at_target().sum()} of {len(report.domain_names)} so far."
    return [*verdict_lines(model.verdict(), report, *told), so_far]


def write_record_page(path: Path, model: PromisedPredictor, lines: Sequence[str], settings: Mapping[str, str]) -> None:
    """Write the record as one file that needs no network and no script."""
    report, rows = model.record_report(), _rows(model)
    targets = all_targets(report)
    low = track_start(float(report.min_recall.min()), targets)
    page = rendered(
        "record_page.html",
        title=f"Record of {settings.get('model', 'a model')}",
        verdict=lines[:-1],
        promise=model.promise_,
        rows=rows,
        low=low,
        target_places=[(target - low) / (1 - low) for target in targets],
        target=target_in_words(report.judged_by.given),
        measure=measure_of(report).capitalize(),
        n_labels=len(report.label_names),
        level=model.unfamiliar_level if model.can_adapt else UNFAMILIAR,
        confidence=CONFIDENCE,
        settings=settings,
    )
    write_whole(Path(path), page)


def _rows(model: PromisedPredictor) -> list[dict[str, object]]:
    """Return what is shown of each domain of the record, with the share at target so far and its bounds."""
    report, p_values = model.record_report(), model.record_.p_values
    at_target, targets, lowest_groups = report.at_target(), all_targets(report), lowest(report.group_recall)
    n_held, n = np.cumsum(at_target), np.arange(1, len(at_target) + 1)
    lows, highs = share_bounds(n_held, n, 1 - CONFIDENCE)
    e_values = np.exp(np.minimum(log_e_model(n_held, n, model.domain_confidence), np.log(LARGEST_SHOWN)))
    groups = [""] if report.is_coverage else report.judged_by.group_names(shown_names(report.label_names))
    return [
        {
            "name": name,
            "n": int(report.n[k]),
            "is_at": bool(at_target[k]),
            "value": float(report.min_recall[k]),
            "recall": recall_text(report.min_recall[k], targets),
            "of_label": groups[lowest_groups[k]],
            "size": f"{report.set_size[k]:.2f}",
            "p_value": ABSENT if np.isnan(p_values[k]) else f"{p_values[k]:.2g}",
            "is_flagged": bool(model.can_adapt and p_values[k] <= model.unfamiliar_level),
            "so_far": f"{n_held[k]} of {n[k]}",
            "share": n_held[k] / n[k],
            "low": float(lows[k]),
            "high": float(highs[k]),
            "e_value": f"{e_values[k]:.2g}",
            "contradicts": bool(e_values[k] >= 1 / (1 - CONFIDENCE)),
        }
        for k, name in enumerate(shown_names(report.domain_names))
    ]
