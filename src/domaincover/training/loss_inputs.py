"""Check what a training loop gives to a loss: scores, label codes and domain codes."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from domaincover.errors import InputError

FEWEST_TO_CALL_PROBABILITIES = 10  # examples; scores of fewer may add up to 1 by chance
ROUNDING = 0.01  # of a sum of probabilities in bfloat16


def check_scores(scores: Any, replicas: tuple[int, ...], n_labels: int) -> None:
    """Reject scores of another shape, NaN, and what has been through a softmax."""
    expected = f"({', '.join([*map(str, replicas), 'examples', str(n_labels)])})"
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        raise InputError(f"scores must be a floating-point tensor, {expected}, got {_kind(scores)}.")
    shape = tuple(scores.shape)
    if len(shape) != len(replicas) + 2 or shape[:-2] != replicas or shape[-1] != n_labels:
        raise InputError(f"scores must have one column for each of the {n_labels} labels, {expected}, got {shape}.")
    if shape[-2] == 0:
        raise InputError("the batch has no examples; leave it out.")
    scores = scores.detach()
    low, high = map(float, scores.aminmax())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError("the network's scores are NaN or infinite; lower the learning rate.")
    is_constant = float((scores[..., 0] - scores[..., :1, 0]).abs().max()) < ROUNDING
    if n_labels == 1 or shape[-2] < FEWEST_TO_CALL_PROBABILITIES or is_constant:
        return
    for name, may_be, values in (("softmax", low >= 0, scores), ("log_softmax", high <= 0, scores.float().exp())):
        if may_be and float((values.float().sum(-1) - 1).abs().max()) < ROUNDING:
            raise InputError(
                f"scores look like the result of {name}; leave it out: the loss takes a network's raw outputs, and a "
                "label is in the set if its score is at least 0."
            )


def checked_codes(codes: Any, shape: tuple[int, ...], n: int, what: str) -> Tensor:
    """Return integer codes from 0 to n − 1, of the given shape, as int64; reject others."""
    if not isinstance(codes, Tensor) or codes.is_floating_point() or codes.is_complex():
        raise InputError(f"{what}s must be a tensor of integer codes, 0 to {n - 1}, got {_kind(codes)}.")
    if tuple(codes.shape) != shape:
        raise InputError(f"{what}s must have one code for each example, shape {shape}, got {tuple(codes.shape)}.")
    codes = codes.long()
    check_codes(codes, n, what)
    return codes


def check_codes(codes: Tensor, n: int, what: str) -> None:
    """Raise if codes are not within 0 to n − 1, since they would select multipliers of other cells."""
    low, high = map(int, codes.aminmax())
    if low < 0 or high >= n:
        raise InputError(f"{what} codes run from {low} to {high}, but the loss has {n} {what}s: 0 to {n - 1}.")


def _kind(value: Any) -> str:
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__
