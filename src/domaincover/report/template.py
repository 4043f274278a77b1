"""Shared by all pages: the templates and their filters."""

import functools
from typing import TYPE_CHECKING, Any

from domaincover.promises.certificate_text import WORTH_SAYING, interval_text, probability
from domaincover.promises.certificate_text import percent as confidence
from domaincover.report.readable import ABSENT, percent, sentence

if TYPE_CHECKING:
    import jinja2

FOLDERS = ("report", "paper/study_report")


def rendered(name: str, **content: Any) -> bytes:
    """Return a page; text is escaped."""
    return templates().get_template(name).render(**content).encode(errors="replace")


@functools.cache
def templates() -> "jinja2.Environment":
    """Return the templates of all pages, with filters for names and numbers."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader("domaincover", folder) for folder in FOLDERS]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "sentence": sentence,
        "thousands": "{:,}".format,
        "percent": percent,
        "percentage": lambda share: "<1" if 0 < share < 0.005 else f"{100 * share:.0f}",  # 0 only for nothing
        "place": lambda share: f"{100 * share:.2f}%",  # of a mark on a bar
        "confidence": confidence,
        "probability": probability,
        "interval": interval_text,
    }
    environment.globals |= {"ABSENT": ABSENT, "WORTH_SAYING": WORTH_SAYING}
    return environment
