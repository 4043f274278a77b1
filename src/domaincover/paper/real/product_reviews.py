"""The FDU multi-task review corpus (Liu et al., 2017): reviews of 16 kinds of product, as released.

books.task.train and books.task.test have a review per line: 1 (positive) or 0 (negative), a tab, and the text. Both
files are read; texts without label (books.task.unlabel) are not. Some lines are UTF-8, others Windows-1252.
"""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import numpy as np

from domaincover.data.tables.table import reading
from domaincover.datasets import DatasetTable
from domaincover.errors import InputError
from domaincover.paper.real.contents import Contents

PRODUCTS = (
    *("MR", "apparel", "baby", "books", "camera_photo", "dvd", "electronics", "health_personal_care", "imdb"),
    *("kitchen_housewares", "magazines", "music", "software", "sports_outdoors", "toys_games", "video"),
)
FILES = {f"{name}.task.{part}": name for name, part in product(PRODUCTS, ("train", "test"))}
LABELS = {b"0": "neg", b"1": "pos"}


def locate(folder: Path) -> Path | None:
    """Return the folder with the files of products: the given one, or where copies of the corpus have it."""
    for place in (folder, folder / "mtl-dataset", folder / "fdu-mtl", folder / "data" / "fdu-mtl"):
        if any(os.path.isfile(place / file) for file in FILES):
            return place
    return None


def load(place: Path, cache: Path | None = None) -> Contents:  # noqa: ARG001 - it is read within a second
    """Read all reviews with labels; the domain is the kind of product."""
    texts: list[str] = []
    labels: list[str] = []
    products: list[str] = []
    faults: list[str] = []
    present = [file for file in FILES if os.path.isfile(place / file)]
    for file in present:
        path = place / file
        try:
            with reading(path):
                content = path.read_bytes()
        except InputError as error:
            faults.append(str(error).rstrip("."))
            continue
        for number, line in enumerate(content.split(b"\n"), start=1):
            label, tab, text = line.rstrip(b"\r").partition(b"\t")
            if label in LABELS and tab:  # one review of the release is empty
                texts.append(decoded(text))
                labels.append(LABELS[label])
                products.append(FILES[file])
            elif line.strip():
                faults.append(
                    f"{path}:{number} is not 0 or 1, a tab and a text, but starts with {decoded(line[:20])!r}"
                )
    missing = tuple(file for file in FILES if file not in present)
    table = DatasetTable(np.array(texts, dtype=object), np.array(labels, dtype=str), np.array(products, dtype=str))
    return Contents(table, tuple(faults), missing)


def decoded(text: bytes) -> str:
    """Return a text that is UTF-8 or, if it is not, Windows-1252."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("cp1252", errors="replace")
