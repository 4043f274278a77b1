"""A certificate to print and sign: which model, what was promised, what was seen, and the words; two A4 pages."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from domaincover.criteria import TargetRecall
from domaincover.evaluation import DomainReport
from domaincover.files import write_whole
from domaincover.promises.certificate_text import THRESHOLDS, next_sentence, noise_sentence, statement, truth_sentence
from domaincover.promises.certificates import Certificate
from domaincover.report.certificate_block import CertificateBlock, EvidenceRow, certificate_block
from domaincover.report.domain_headline import claim_in_words, n_at_target
from domaincover.report.domain_page import PageColumn, domain_columns
from domaincover.report.domain_reports import worst_first
from domaincover.report.size_histogram import size_histogram
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
        columns=_columns(shown, target_recall),
        n_domains=n_domains,
        most_domains=MOST_DOMAINS_IN_PRINT,
        certificate=_worst_labels_first(certificate_block(certificate)),
        follows=[next_sentence(certificate), truth_sentence(certificate), noise_sentence(certificate)],
        most_labels=MOST_LABELS_IN_PRINT,
        notes=list(notes),
        settings=settings or {},
    )
    write_whole(Path(path), page)


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


def _columns(shown: DomainReport, target_recall: TargetRecall) -> list[PageColumn]:
    """Return the columns of the domains' table that somebody who signs needs."""
    columns = domain_columns({"model": shown}, target_recall)
    return [column for column in columns if not column.of_label and column.head not in LEFT_OUT]


def _worst_labels_first(block: CertificateBlock) -> CertificateBlock:
    """Return the rows with all labels together first, then the labels by what is known of the next domain."""

    def bound(row: EvidenceRow) -> tuple[bool, str, str]:
        return (row.bar is None, row.next_at_least, row.truly_at_least)

    together, *labels = block.rows
    return block._replace(rows=[together, *sorted(labels, key=bound)])
