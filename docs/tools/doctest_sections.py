"""Shows the doctests of docstrings as examples: they stand below the text, without a heading of their own."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

FIRST_PROMPT = re.compile(r"^\s*>>> ", re.MULTILINE)


class DoctestSections(Extension):
    """Puts the heading of a section before the first prompt of each docstring."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring is None or "Examples\n---" in obj.docstring.value:
            return
        text = obj.docstring.value
        if prompt := FIRST_PROMPT.search(text):
            obj.docstring.value = f"{text[: prompt.start()].rstrip()}\n\nExamples\n--------\n{text[prompt.start() :]}"
