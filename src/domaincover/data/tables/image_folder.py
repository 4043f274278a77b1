"""Folders of images, domain/label/image, as tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from domaincover.data.tables.table import Table, Wanted
from domaincover.errors import InputError

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".jp2")
LAYOUT = "images belong in folders domain/label, such as hospital-1/tumor/a.png"


class ImageTable(Table):
    """A folder of images as a table with the columns path, label and domain."""

    is_images = True

    def __init__(self, path: Path) -> None:
        self._cells = image_folder(path)
        super().__init__(path, self._cells.columns.tolist())
        self.files = []

    def _read(self, wanted: Wanted) -> pd.DataFrame:
        return self._cells[wanted.columns].copy()

    def _blocks(
        self, rows_at_once: int, wanted: Wanted, copied: list[str]
    ) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        for start in range(0, len(self._cells), rows_at_once):
            block = self._cells[start : start + rows_at_once].reset_index(drop=True)
            yield block[wanted.columns], block[copied]


def image_folder(folder: str | Path) -> pd.DataFrame:
    """Return the sorted images of the folders `domain/label` as a table with columns path (absolute), label, domain.

    Hidden files and files without an image extension are skipped.
    """
    root = os.path.abspath(folder)
    if not os.path.isdir(root):
        raise InputError(f"{folder} is not a folder; {LAYOUT}.")
    rows: list[tuple[str, str, str]] = []
    for above, folders, files in os.walk(root, onerror=_cannot_read, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        images = sorted(name for name in files if not name.startswith(".") and name.lower().endswith(ENDINGS))
        within = Path(above).relative_to(root).parts
        _check_level(above, len(within), folders, images)
        rows += [(os.path.join(above, name), within[1], within[0]) for name in images]
    if not rows:
        raise InputError(f"{folder} contains no images; {LAYOUT}.")
    return pd.DataFrame(rows, columns=["path", "label", "domain"])


def _check_level(above: str, depth: int, folders: list[str], images: list[str]) -> None:
    """Raise unless images are in label folders, two levels down, and only there."""
    if depth < 2 and images:
        raise InputError(f"{os.path.join(above, images[0])} is not inside a label folder; {LAYOUT}.")
    if depth == 1 and not folders:
        raise InputError(f"{above} contains no label folders; {LAYOUT}.")
    if depth == 2 and folders:
        raise InputError(f"{os.path.join(above, folders[0])} is a folder inside a label folder; {LAYOUT}.")
    if depth == 2 and not images:
        raise InputError(f"{above} contains no images ({', '.join(ENDINGS)}); add some or remove the folder.")


def _cannot_read(error: OSError) -> None:
    raise InputError(f"cannot read {error.filename}: {error.strerror}.") from error
