"""The paper's hyperparameters for its four WILDS datasets, except those that are the same for all."""

from __future__ import annotations

from typing import NamedTuple

EPOCHS = 5
HIDDEN_UNITS = 10  # of the perceptron on mean word embeddings
IMAGENET_SIZE = 224  # of images in the transforms of the pretrained network


class PaperSetting(NamedTuple):
    """One column of the paper's table, and the size to which images are resized (None for texts)."""

    batch_size: int
    n_train_domains: int
    n_unseen_domains: int
    max_train_rows: int
    max_test_rows: int
    image_size: int | None


PAPER = {
    "camelyon17": PaperSetting(128, 20, 20, 6_000, 2_000, 96),  # the original size
    "fmow": PaperSetting(64, 20, 18, 4_500, 3_000, 224),
    "iwildcam": PaperSetting(64, 80, 40, 3_000, 1_000, 224),
    "amazon": PaperSetting(128, 500, 100, 1_000, 1_000, None),
}
