"""Folders of images, domain/label/image, as tables."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from domaincover.data.tables.table import MemoryTable
from domaincover.errors import InputError

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".jp2")
LAYOUT = "images belong in folders domain/label, such as hospital-1/tumor/a.png"


class ImageTable(MemoryTable):
    """A folder of images as a table with the columns path, label and domain."""

    is_images = True

    def __init__(self, path: Path) -> None:
        super().__init__(path, image_folder(path))

    @property
    def files(self) -> list[Path]:
        """The files that the table consists of: none, since images are identified by name and size."""
        return []


def image_folder(folder: str | Path) -> pd.DataFrame:
    """Return the sorted images of the folders `domain/label` as a table with columns path (absolute), label, domain.

    Hidden files and files without an image extension are skipped.
    """
    root = os.path.abspath(folder)
    if not os.path.isdir(root):
        raise InputError(f"{folder} is not a folder; {LAYOUT}.")
    rows = [
        (path, label, domain)
        for domain, in_domain in _folders_in(root)
        for label, in_label in _labels_of(in_domain)
        for path in _images_of(in_label)
    ]
    if not rows:
        raise InputError(f"{folder} contains no images; {LAYOUT}.")
    return pd.DataFrame(rows, columns=["path", "label", "domain"])


def _labels_of(domain: str) -> list[tuple[str, str]]:
    labels = _folders_in(domain)
    if not labels:
        raise InputError(f"{domain} contains no label folders; {LAYOUT}.")
    return labels


def _folders_in(folder: str) -> list[tuple[str, str]]:
    """Return the names and paths of subfolders; raise for an image at the wrong depth."""
    entries = _visible(folder)
    stray = next((entry.path for entry in entries if not entry.is_dir() and _is_image(entry.name)), None)
    if stray is not None:
        raise InputError(f"{stray} is not inside a label folder; {LAYOUT}.")
    return [(entry.name, entry.path) for entry in entries if entry.is_dir()]


def _images_of(label: str) -> list[str]:
    entries = _visible(label)
    deeper = next((entry.path for entry in entries if entry.is_dir()), None)
    if deeper is not None:
        raise InputError(f"{deeper} is a folder inside a label folder; {LAYOUT}.")
    images = [entry.path for entry in entries if _is_image(entry.name)]
    if not images:
        raise InputError(f"{label} contains no images ({', '.join(ENDINGS)}); add some or remove the folder.")
    return images


def _visible(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror}.") from error


def _is_image(name: str) -> bool:
    return name.lower().endswith(ENDINGS)
