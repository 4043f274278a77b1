"""A certificate as plain sentences, for readers such as clinicians or auditors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from domaincover.options import ThresholdKind
from domaincover.terminal.text import cut, table_lines, wrapped

if TYPE_CHECKING:
    from domaincover.promises.certificates import Certificate, Evidence

WORTH_SAYING = 0.01  # smaller lower bounds are not reported
RESTS_ON = (
    "the new domain is drawn like the ones counted here: the same kind of place, with about as many rows, not picked "
    "because it is easy or hard",
    "no two of the domains belong together: years of one hospital are one domain if the next is a new hospital",
    "the model saw none of them in training, and was not chosen among several by how they came out",
    "their true labels are known and right, and the rows were not picked",
)
THRESHOLDS: dict[ThresholdKind | None, str] = {
    None: "",
    "adapted": ", with thresholds adapted to the rows of each domain that has enough",
    "fixed": ", with fixed thresholds",
}
RECALL_NOT_TESTED = (
    "A count at the target may be luck. Nothing is said about true recall here, since the rows that are counted also "
    "set the thresholds; with fixed thresholds it can be tested."
)
DOES_NOT_SAY = (
    "that any one domain is at target, or what happens in a kind of domain that none of these stands for",
    "anything about a label that a domain lacks, or has too few rows of to count there",
    "how large the sets are, or how far below the target a domain may fall that misses it",
    "that all lines hold at once: each holds with the confidence given on its own",
)


def certificate_text(certificate: Certificate, width: int = 100) -> str:
    """Return sentences, a table of the labels, the assumptions and the limits."""
    n_domains, n_examples = certificate.domains.n_domains, certificate.n_examples
    thresholds = THRESHOLDS[certificate.thresholds]
    paragraphs = [
        f"{observed_sentence(certificate)} {next_sentence(certificate)}",
        truth_sentence(certificate),
        noise_sentence(certificate),
    ]
    parts = [
        *([] if certificate.verdict is None else [wrapped(str(certificate.verdict), width)]),
        wrapped(f"From {n_domains} domains{_whose(certificate)}, {n_examples:,} examples{thresholds}.", width),
        *([wrapped(certificate.doubt, width)] if certificate.doubt else []),
        *(wrapped(paragraph, width) for paragraph in paragraphs),
        *([_label_table(certificate, width)] if certificate.labels else []),
        ["This rests on:", *_points(RESTS_ON, width)],
        ["It does not say:", *_points(DOES_NOT_SAY, width)],
    ]
    return "\n\n".join("\n".join(lines) for lines in parts)


def _points(points: Sequence[str], width: int) -> list[str]:
    ended = [f"- {point};" for point in points[:-1]] + [f"- {points[-1]}."]
    return [line for point in ended for line in wrapped(point, width, then="  ")]


def _whose(certificate: Certificate) -> str:
    """Say that the model has not seen the domains, or that nobody has looked."""
    if certificate.known_unseen:
        return " that the model has not seen"
    return "; whether the model has seen any of them in training was not checked (seen_domains=model.seen_domains_)"


def one_line(certificate: Certificate) -> str:
    """Return what follows for the next domain in one line."""
    return f"{' '.join(_follows(certificate))} (domaincover certify says more.)"


def _follows(certificate: Certificate) -> list[str]:
    """Return what follows for the next domain: counted, of its true recalls, and on what condition."""
    found = certificate.domains
    if found.next_at_least < WORTH_SAYING:
        return [next_sentence(certificate)]
    truly = [] if found.next_truly_at_least is None else [_conclusion(certificate)]
    return [next_sentence(certificate), *truly, "This holds if the next domain is drawn like these."]


def observed_sentence(certificate: Certificate) -> str:
    """Return how many domains were at target."""
    found, new = certificate.domains, "new " if certificate.known_unseen else ""
    return f"{found.n_at_target} of {found.n_domains} {new}domains had {reached_in_words(certificate)}."


def reached_in_words(certificate: Certificate) -> str:
    """Return what a domain at target has reached."""
    target = certificate.target_recall
    if isinstance(target, dict):
        each = ", ".join(f"{name} at least {percent(value)}" for name, value in target.items())
        return f"every label with a target caught as often as that ({each} of the time)"
    what = "the labels of all examples together" if certificate.criterion == "coverage" else "every label"
    return f"{what} caught at least {percent(target)} of the time"


def next_sentence(certificate: Certificate) -> str:
    """Return the statement about the next domain's observed recall."""
    found = certificate.domains
    if found.next_at_least < WORTH_SAYING:
        return f"From these {found.n_domains} domains nothing can be promised about the next one."
    return (
        f"With {percent(certificate.confidence)} confidence, the next domain will be at target with a probability "
        f"of at least {probability(found.next_at_least)} (among all such domains, their share lies between "
        f"{percent(found.low, down=True)} and {percent(found.high, up=True)})."
    )


def truth_sentence(certificate: Certificate) -> str:
    """Return the statement about true recall, without sampling noise."""
    found, error, truly = certificate.domains, percent(certificate.row_error), certificate.domains.next_truly_at_least
    if truly is None:
        return RECALL_NOT_TESTED
    shown = (
        f"A count at the target may be luck. By a test that lets at most {error} of the domains pass that are truly "
        f"below, {_domains(found.n_shown)} shown at target, {found.n_shown_below} shown below, and {found.n_undecided} "
        "undecided by their rows."
    )
    return f"{shown} {_conclusion(certificate)}"


def _conclusion(certificate: Certificate) -> str:
    """Return what the test of true recall shows about the next domain."""
    truly = certificate.domains.next_truly_at_least or 0.0
    what = "true coverage is" if certificate.criterion == "coverage" else "true recalls are all"
    if truly < WORTH_SAYING:
        return f"Rows or domains are too few to say whether the next domain's {what} at target."
    return (
        f"So, with {percent(certificate.confidence)} confidence, the next domain's {what} at target with a "
        f"probability of at least {probability(truly)}."
    )


def noise_sentence(certificate: Certificate) -> str:
    """Return the share at target expected by chance alone."""
    share = certificate.domains.share or 0.0
    return (
        f"If no domain differed from another, chance alone would put {100 * certificate.share_by_noise:.0f} % of them "
        f"at the target; {100 * share:.0f} % are. The smallest recall counted rests on "
        f"{certificate.smallest_cell} example{'' if certificate.smallest_cell == 1 else 's'}."
    )


def statement(certificate: Certificate) -> str:
    """Return what somebody who signs the certificate states, in a few sentences."""
    found = certificate.domains
    new = "new to it" if certificate.known_unseen else "taken to be new to it"
    found_wrong = certificate.verdict is not None and certificate.verdict.is_contradicted
    said = [
        *([str(certificate.verdict)] if found_wrong else []),
        f"The model named above was tried in {found.n_domains} domains that were {new}, on {certificate.n_examples:,} "
        "rows with known labels.",
        observed_sentence(certificate),
        *_follows(certificate),
    ]
    return " ".join(said)


def percent(share: float, *, down: bool = False, up: bool = False) -> str:
    """Return a share in percent; bounds are rounded in the conservative direction.

    >>> percent(0.975), percent(0.7397, down=True), percent(0.9902, up=True)
    ('97.5 %', '73 %', '100 %')
    """
    if down or up:
        return f"{(math.floor if down else math.ceil)(round(100 * share, 9))} %"
    return f"{100 * share:.3g} %"


def probability(bound: float) -> str:
    """Return a lower bound with two digits, rounded down.

    >>> probability(0.7689), probability(0.9)
    ('0.76', '0.90')
    """
    return f"{math.floor(round(100 * bound, 9)) / 100:.2f}"


def interval_text(found: Evidence) -> str:
    """Return the two-sided interval of a share, rounded outward."""
    return f"{percent(found.low, down=True)} to {percent(found.high, up=True)}"


def _domains(n: int | None) -> str:
    return "1 domain is" if n == 1 else f"{n} domains are"


def _label_table(certificate: Certificate, width: int) -> list[str]:
    tested = certificate.domains.next_truly_at_least is not None
    heads = ["label", "domains", "at target", "interval", "next at least"]
    heads += ["shown", "truly at least"] if tested else []
    rows: list[list[str]] = []
    for name, found in certificate.labels.items():
        numbers = (found.n_domains, found.n_at_target, interval_text(found), probability(found.next_at_least))
        truly = found.next_truly_at_least
        truth = () if truly is None else (found.n_shown, probability(truly))
        rows.append([cut(name, 30), *map(str, (*numbers, *truth))])
    return table_lines(heads, rows, n_text=1, width=width)
