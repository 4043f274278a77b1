"""Shared by all pages: the templates and the script that draws charts."""

import functools
from typing import Any

FOLDERS = ("report", "paper/study_report")


def rendered(name: str, **content: Any) -> bytes:
    """Return a page; text is escaped, and JSON is safe in a script."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("domaincover", folder) for folder in ("report", "paper/study_report")]
        ),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"capitalize_first": lambda text: text[:1].upper() + text[1:], "with_stop": "{}.".format}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    library = chart_library() if content["charts"] else ""
    return environment.get_template(name).render(library=library, **content).encode(errors="replace")


@functools.cache
def chart_library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script; it defines window.vegaEmbed."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
