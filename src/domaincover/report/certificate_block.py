"""A certificate on a page: figures, sentences, and a row of numbers with a bar for each label."""

from collections.abc import Sequence
from typing import NamedTuple

from domaincover.promises.certificate_text import (
    DOES_NOT_SAY,
    RESTS_ON,
    WORTH_SAYING,
    interval_text,
    percent,
    probability,
    truth_sentence,
)
from domaincover.promises.certificates import Certificate, Evidence
from domaincover.report.domain_reports import shown_names
from domaincover.report.readable import ABSENT


class Bar(NamedTuple):
    """Where the interval of a share begins, how long it is, and where the share stands, all in percent."""

    low: str
    length: str
    share: str


class EvidenceRow(NamedTuple):
    """One row of the table: numbers as text, and a bar if any domain counts; "" where true recall was not tested."""

    name: str
    at_target: str
    bar: Bar | None
    interval: str
    next_at_least: str
    shown: str
    truly_at_least: str


class CertificateBlock(NamedTuple):
    """Values for the template; `figures` are the large numbers with their captions."""

    confidence: str
    figures: list[tuple[str, str]]
    paragraphs: list[str]
    rows: list[EvidenceRow]
    rests_on: Sequence[str]
    does_not_say: Sequence[str]


def certificate_block(certificate: Certificate, notes: Sequence[str] = ()) -> CertificateBlock:
    """Return the text and numbers of a certificate, with notes on its model."""
    found, confidence = certificate.domains, percent(certificate.confidence)
    bounds = {
        f"probability that the next domain is at target, with {confidence} confidence": found.next_at_least,
        f"probability that its true {_true(certificate)}, the luck of few rows taken out": found.next_truly_at_least,
    }
    figures = [(f"≥ {probability(bound)}", words) for words, bound in bounds.items() if bound and bound >= WORTH_SAYING]
    nothing = f"From these {found.n_domains} domains nothing can be promised about the next one."
    labels = zip(shown_names(list(certificate.labels)), certificate.labels.values(), strict=True)
    return CertificateBlock(
        confidence=confidence,
        figures=figures,
        paragraphs=[truth_sentence(certificate) if figures else nothing, *notes],
        rows=[
            _row("Coverage" if certificate.criterion == "coverage" else "All labels", found),
            *(_row(name, of_label) for name, of_label in labels),
        ],
        rests_on=RESTS_ON,
        does_not_say=DOES_NOT_SAY,
    )


def _true(certificate: Certificate) -> str:
    return "coverage is" if certificate.criterion == "coverage" else "recalls are"


def _row(name: str, found: Evidence) -> EvidenceRow:
    if found.share is None:
        return EvidenceRow(name, "in no domain", None, *[ABSENT] * 4)
    ends, truly = (found.low, found.high - found.low, found.share), found.next_truly_at_least
    return EvidenceRow(
        name=name,
        at_target=f"{found.n_at_target} of {found.n_domains}",
        bar=Bar(*(f"{100 * end:.2f}%" for end in ends)),
        interval=interval_text(found),
        next_at_least=probability(found.next_at_least),
        shown="" if truly is None else f"{found.n_shown} / {found.n_undecided} / {found.n_shown_below}",
        truly_at_least="" if truly is None else probability(truly),
    )
