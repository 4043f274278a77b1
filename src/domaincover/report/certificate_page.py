"""A certificate to print and sign: which model, what was promised, what was seen, and the words; two A4 pages."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from domaincover.criteria import TargetRecall
from domaincover.evaluation import DomainReport
from domaincover.files import write_whole
from domaincover.promises.certificate_text import (
    DOES_NOT_SAY,
    RESTS_ON,
    THRESHOLDS,
    WORTH_SAYING,
    noise_sentence,
    statement,
    truth_sentence,
)
from domaincover.promises.certificates import Certificate, Evidence
from domaincover.report.domain_bars import size_histogram
from domaincover.report.domain_headline import claim_in_words
from domaincover.report.domain_reports import n_at_target, worst_first
from domaincover.report.domain_table import domain_columns
from domaincover.report.readable import shown_names
from domaincover.report.template import rendered

MOST_DOMAINS_IN_PRINT = 16
MOST_LABELS_IN_PRINT = 8
LEFT_OUT = ("from examples", "Empty sets")
NO_PROMISE = "Nothing was promised when the model was fitted: the target was an aim."


class CertifiedModel(NamedTuple):
    """What a certificate is about: the model with its SHA-256 and promise, the table, and the versions."""

    folder: str
    checksum: str
    promise: str | None
    label: str
    domain: str
    table: str
    n_rows: int
    versions: Mapping[str, str]


def write_certificate_page(
    path: Path,
    certificate: Certificate,
    report: DomainReport,
    target_recall: TargetRecall,
    model: CertifiedModel,
    *,
    date: datetime.date,
    notes: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> None:
    """Write the certificate as one file that needs no network and no script.

    On paper the worst domains and the labels with the lowest bounds are listed, on the screen all of them.
    """
    shown = worst_first({"model": report}, target_recall)["model"]
    n_domains, n_held = len(shown.domain_names), n_at_target(shown, target_recall)
    columns = domain_columns({"model": shown}, target_recall)
    block = certified(certificate)
    together, *labels = block["rows"]
    page = rendered(
        "certificate_page.html",
        charts={},
        title="Certificate",
        statement=statement(certificate),
        subject=f"Prediction sets for {model.label}, by {model.domain}",
        identity=_identity(model, certificate, report, date),
        promise=model.promise or NO_PROMISE,
        seen=f"In {n_held} of {n_domains} domains {claim_in_words(shown, target_recall)}"
        f"{THRESHOLDS[certificate.thresholds]}.",
        sizes=size_histogram(shown),
        columns=[column for column in columns if not column.of_label and column.head not in LEFT_OUT],
        n_domains=n_domains,
        most_domains=MOST_DOMAINS_IN_PRINT,
        certificate=block | {"rows": [together, *sorted(labels, key=_what_is_known)]},
        follows=[truth_sentence(certificate), noise_sentence(certificate)],
        most_labels=MOST_LABELS_IN_PRINT,
        notes=list(notes),
        settings=settings or {},
    )
    write_whole(Path(path), page)


def certified(certificate: Certificate, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return what a page shows of a certificate: figures, sentences with notes on its model, and a row per label."""
    found, is_coverage = certificate.domains, certificate.criterion == "coverage"
    says_something = any(bound and bound >= WORTH_SAYING for bound in (found.next_at_least, found.next_truly_at_least))
    nothing = f"From these {found.n_domains} domains nothing can be promised about the next one."
    return {
        "of": certificate,
        "paragraphs": [truth_sentence(certificate) if says_something else nothing, *notes],
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


def _identity(
    model: CertifiedModel, certificate: Certificate, report: DomainReport, date: datetime.date
) -> dict[str, str]:
    counted = ""
    if certificate.n_examples < report.n.sum():
        rule = f"a label counts in a domain with {report.min_cell_size} rows of it or more"
        counted = f"; {certificate.n_examples:,} of them count, since {rule}"
    versions = ", ".join(f"{name} {version}" for name, version in model.versions.items())
    return {
        "Date": date.isoformat(),
        "Model": model.folder,
        "SHA-256": model.checksum,
        "Table": f"{model.table}: {len(report.domain_names)} domains counted, with {model.n_rows:,} rows{counted}",
        "Versions": versions,
    }
