"""Names of the objectives that compare domains; imports no torch, so that a wrong name is reported quickly."""

from __future__ import annotations

from typing import Literal

PenaltyOnFeatures = Literal["mmd", "coral"]
WeightedPenalty = Literal["irm", "vrex", PenaltyOnFeatures]
DomainPenalty = Literal[WeightedPenalty, "group-dro", "qrm"]
