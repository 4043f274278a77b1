"""The names of the objectives that compare domains; without torch, so that a wrong name need not wait for it."""

from __future__ import annotations

from typing import Literal

PenaltyOnFeatures = Literal["mmd", "coral"]
WeightedPenalty = Literal["irm", "vrex", PenaltyOnFeatures]
DomainPenalty = Literal[WeightedPenalty, "group-dro", "qrm"]
