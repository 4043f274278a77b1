"""A certificate on a page: three figures, sentences, and a row of numbers with a bar for each label."""

from collections.abc import Sequence
from typing import NamedTuple

from domaincover.promises.certificate_text import (
    DOES_NOT_SAY,
    RESTS_ON,
    WORTH_SAYING,
    interval_text,
    next_sentence,
    noise_sentence,
    observed_sentence,
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
    """One row of the table: numbers as text, and a bar if any domain counts."""

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
    lead: str
    paragraphs: list[str]
    rows: list[EvidenceRow]
    rests_on: Sequence[str]
    does_not_say: Sequence[str]


def certificate_block(certificate: Certificate, notes: Sequence[str] = ()) -> CertificateBlock:
    """Return the text and numbers of a certificate, with notes on its model."""
    found, confidence = certificate.domains, percent(certificate.confidence)
    figures = [
        (
            f"{found.n_at_target} of {found.n_domains}",
            f"{'new ' if certificate.known_unseen else ''}domains had {_what(certificate)} at target",
        ),
        _figure(found.next_at_least, f"probability that the next one has, with {confidence} confidence"),
        _figure(
            found.next_truly_at_least,
            f"probability that its true {_true(certificate)}, the luck of few rows taken out, with {confidence} "
            "confidence",
        ),
    ]
    labels = zip(shown_names(list(certificate.labels)), certificate.labels.values(), strict=True)
    return CertificateBlock(
        confidence=confidence,
        figures=figures,
        lead=f"{observed_sentence(certificate)} {next_sentence(certificate)}",
        paragraphs=[truth_sentence(certificate), noise_sentence(certificate), *notes],
        rows=[
            _row("Coverage" if certificate.criterion == "coverage" else "All labels", found),
            *(_row(name, of_label) for name, of_label in labels),
        ],
        rests_on=RESTS_ON,
        does_not_say=DOES_NOT_SAY,
    )


def _what(certificate: Certificate) -> str:
    return "coverage" if certificate.criterion == "coverage" else "every label’s recall"


def _true(certificate: Certificate) -> str:
    return "coverage is" if certificate.criterion == "coverage" else "recalls are"


def _figure(bound: float, words: str) -> tuple[str, str]:
    return (f"≥ {probability(bound)}", words) if bound >= WORTH_SAYING else ("nothing", f"can be said of the {words}")


def _row(name: str, found: Evidence) -> EvidenceRow:
    if found.share is None:
        return EvidenceRow(name, "in no domain", None, *[ABSENT] * 4)
    ends = (found.low, found.high - found.low, found.share)
    return EvidenceRow(
        name=name,
        at_target=f"{found.n_at_target} of {found.n_domains}",
        bar=Bar(*(f"{100 * end:.2f}%" for end in ends)),
        interval=interval_text(found),
        next_at_least=probability(found.next_at_least),
        shown=f"{found.n_shown} / {found.n_undecided} / {found.n_shown_below}",
        truly_at_least=probability(found.next_truly_at_least),
    )
