"""Makes the site of what the project has outside docs/ as well, and links that leave docs/ lead somewhere.

Pages are written to be read in the repository. What they link to there is, on the site, either a page of its own
(README of the examples, changelog, …) or, for code and data, its path as text: the site has no copy of it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
# Markdown outside docs/ that the site shows, and under which name.
SHOWN = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples.md",
    "paper/README.md": "experiments.md",
    "README.md": "index.md",
}
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the Markdown outside docs/ that the site shows."""
    for source, page in SHOWN.items():
        if (ROOT / source).exists() and files.get_file_from_path(page) is None:
            files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links between Markdown files lead to pages, and show links to other files of the project as their path."""
    uri = page.file.src_uri
    shown = {page: source for source, page in SHOWN.items()}
    source = shown.get(uri, f"docs/{uri}")
    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else linked(part, source, uri) for part in parts)


def linked(markdown: str, source: str, uri: str) -> str:
    """Return the text of a file of the project, `source`, with links as the page at `uri` needs them."""

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found["target"]))
        page = SHOWN.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
        if page is not None:
            start = posixpath.dirname(uri)
            return f"{found['image']}[{found['text']}]({posixpath.relpath(page, start or '.')}{found['anchor'] or ''})"
        if (ROOT / target).exists():
            text = found["text"].strip("`")
            return f"`{text}`" if target.endswith(text) else f"{found['text']} (`{target}`)"
        return found[0]  # the strict build says that it leads nowhere

    return LINK.sub(link, markdown)
