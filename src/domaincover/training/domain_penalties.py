"""The names of the objectives that compare domains; without torch, so that a wrong name need not wait for it."""

from __future__ import annotations

from typing import Literal

WithFeatures = Literal["mmd", "coral"]
WithWeight = Literal["irm", "vrex", WithFeatures]
DomainPenalty = Literal[WithWeight, "group-dro", "qrm"]
