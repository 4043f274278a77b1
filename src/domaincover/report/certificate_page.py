"""A certificate to print and sign: which model, what was promised, what was seen, and the words; two A4 pages."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from domaincover.criteria import TargetRecall
from domaincover.evaluation import DomainReport
from domaincover.files import write_whole
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
from domaincover.promises.verdict import verdict_lines
from domaincover.report.domain_headline import claim_in_words
from domaincover.report.domain_reports import n_at_target, size_bars, worst_first
from domaincover.report.domain_table import domain_columns
from domaincover.report.readable import shown_names
from domaincover.report.template import rendered

MOST_DOMAINS_IN_PRINT = 16
MOST_LABELS_IN_PRINT = 8
LEFT_OUT = ("from examples", "Empty sets")
CONTRADICTED = "Certificate of a contradicted promise"
NO_PROMISE = "Nothing was promised when the model was fitted: the target was an aim."


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
