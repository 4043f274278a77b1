"""Choices on which the paper's text is silent, or on which the code that its authors released does otherwise.

`PAPER_TEXT` is the default of a study, and `AUTHORS_CODE` what `--as-authors` (`as_authors = true`) sets. Each field is
used in one place. docs/method.md has the same table, with the effect of each, and a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from domaincover.options import ERMLoss, RecallFrom, SizedRows

AUTHORS_MARK = "as the authors’ released code"  # said wherever results of such runs stand


@dataclass(frozen=True)
class SilentChoices:
    """What the experiments of the paper leave open, one choice per field; the default is the paper's text."""

    # Training cells that calibrate the conformal rules: all, or those of `min_cell_size` − 1 (100) or more rows.
    calibration_cells: Literal["all", "large"] = "all"
    # How the rows of a training domain are divided that has too few for training and test.
    small_domains: Literal["in proportion", "train first"] = "in proportion"
    # Rows over which a domain's mean set size is taken: all, or those in cells that count.
    sized_rows: SizedRows = "all"
    # The standard deviation over seeds divides by their number less this.
    deviation_ddof: Literal[0, 1] = 1
    # Images keep their size or are resized to 224 × 224, or they are resized to 256 and the central 224 are kept.
    image_transform: Literal["own size", "imagenet"] = "own size"
    # Hidden units of the perceptron on mean word embeddings.
    amazon_hidden: Literal["10", "half of the input"] = "10"
    # The loss of ERM, and so of the conformal rules around it.
    erm_loss: ERMLoss = "cross-entropy"
    # Where the multipliers' recall comes from, unless a study sets it.
    recall_from: RecallFrom = "full-pass"


PAPER_TEXT = SilentChoices()
AUTHORS_CODE = SilentChoices(
    calibration_cells="large",
    small_domains="train first",
    sized_rows="counted",
    deviation_ddof=0,
    image_transform="imagenet",
    amazon_hidden="half of the input",
    erm_loss="double-softmax",
)


def silent_choices(as_authors: bool) -> SilentChoices:
    """Return the choices of a study: the paper's text, or its authors' code."""
    return AUTHORS_CODE if as_authors else PAPER_TEXT
