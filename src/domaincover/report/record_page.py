"""The record of a model in words and as a page: domains in the order in which they came, and the running verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from domaincover.files import write_whole
from domaincover.predictors.promised_predictor import UNFAMILIAR, PromisedPredictor
from domaincover.promises.verdict import CONFIDENCE, log_e_model, share_bounds, verdict_lines
from domaincover.report.domain_headline import target_in_words
from domaincover.report.domain_reports import all_targets, lowest, measure_of, track_start
from domaincover.report.readable import ABSENT, recall_text, shown_names
from domaincover.report.template import rendered

LARGEST_SHOWN = 1e6  # of e-values


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
