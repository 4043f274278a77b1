"""Malaria cell images of the NIH (Rajaraman et al., 2018): red blood cells of 200 patients, as released.

cell_images/Parasitized/C33P1thinF_IMG_20150619_114756a_cell_179.png is a cell of patient C33: 150 patients were
infected, 50 healthy. What follows the number in the name (a slide, its stain, a microscope) differs within a patient.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.data.images import load_or_reason
from domaincover.errors import InputError
from domaincover.paper.real.contents import Contents, Files, decode_files, names_in

CELL = re.compile(r"(C\d+)\D.*\.png")
LABELS = {"Parasitized": "parasitized", "Uninfected": "uninfected"}
IGNORED = "Thumbs.db"  # of Windows; the release contains one per folder
SIZE = 40  # pixels in height and width; cells are about 130
RECIPE = f"malaria-grey-{SIZE}-1"


def locate(folder: Path) -> Path | None:
    """Return the folder of Parasitized and Uninfected: the given one, or its folder cell_images."""
    for place in (folder, folder / "cell_images"):
        if all(os.path.isdir(place / name) for name in LABELS):
            return place  # a copy has the same images once more in cell_images/cell_images
    return None


def load(place: Path, cache: Path | None = None) -> Contents:
    """Read all cells in grey, 40 by 40 pixels; the domain is the patient."""
    paths: list[Path] = []
    faults: list[str] = []
    for name in LABELS:
        cells = [file for file in names_in(place / name) if file != IGNORED and not file.startswith(".")]
        faults += [
            f"{place / name / file} is not named as the cell of a patient is, C33P1thinF_..._cell_179.png"
            for file in cells
            if not CELL.fullmatch(file)
        ]
        if not cells:
            faults.append(f"{place / name} has no image of a cell")
        paths += [place / name / file for file in cells if CELL.fullmatch(file)]
    labels = np.array([LABELS[path.parent.name] for path in paths], dtype=str)
    patients = np.array([CELL.sub(r"\1", path.name) for path in paths], dtype=str)
    table, unreadable = decode_files(Files(paths, labels, patients), read_cell, RECIPE, cache)
    return Contents(table, (*faults, *unreadable))


def read_cell(path: Path) -> NDArray[np.uint8]:
    """Return a cell in grey."""
    image = load_or_reason(path, _in_grey)
    if isinstance(image, str):
        raise InputError(f"{path} cannot be decoded: {image}")
    return np.asarray(image)


def _in_grey(image: Any) -> Any:
    from PIL.Image import Resampling

    return image.convert("L").resize((SIZE, SIZE), Resampling.BILINEAR)  # Pillow averages when it shrinks
