"""Names of options and their values, each defined once. Imports nothing heavy, so that `--help` stays fast."""

from __future__ import annotations

from typing import Literal, get_args

# What is fitted.
PenaltyOnFeatures = Literal["mmd", "coral"]
DomainPenalty = Literal["irm", "vrex", PenaltyOnFeatures]
ConformalMethod = Literal["robust", "pooled"]
Method = Literal["set-cover", ConformalMethod, "erm", DomainPenalty]
NetworkName = Literal["mlp", "linear"]
Base = Literal[NetworkName, "boosting", "mlp+boosting"]

# What a promise about new domains is calibrated on, and what happens with too few domains.
FittedCalibration = Literal["cross-fit", "held-out-domains", "jackknife-minmax"]
PromiseCalibration = Literal[FittedCalibration, "prefit"]
Calibration = Literal[PromiseCalibration, "training-data"]
OnInfeasible = Literal["raise", "widen"]
OnRareLabel = Literal[OnInfeasible, "pool"]
RecallOn = Literal["rows given", "later rows"]  # rows on which an adapted promise counts recall
LabelRows = Literal["uncertain", "random"]  # which rows of a new domain are labelled: uncertain and spread, or any

ThresholdKind = Literal["adapted", "fixed"]
CriterionName = Literal["min-recall", "coverage"]  # what a domain must reach: each label's recall, or all rows together
SizedRows = Literal["all", "counted"]  # examples over which set sizes are averaged
SmallCells = Literal["pool", "omit"]  # what becomes of calibration cells with few examples
MIN_CELL_SIZE = 20  # examples that a (domain, label) cell needs to count, in promises and in reports

# How SET-COVER trains.
Penalty = Literal["wrong-label", "full-set"]
RecallFrom = Literal["full-pass", "batches"]
Iterate = Literal["best", "last"]
ERMLoss = Literal["cross-entropy", "double-softmax"]
JudgeAt = Literal["steps", "epochs"]

# Networks on images and texts.
SourceKind = Literal["image", "text"]
LearnedPart = Literal["head", "all"]
Learn = Literal["auto", LearnedPart]
TextFeatures = Literal["word-embeddings", "encoder"]

# How training is carried out.
DEVICES = ("auto", "cpu", "cuda", "mps")  # examples: any device that torch knows is accepted

# Synthetic domains, and what a study writes.
Covariance = Literal["shared", "random"]
TableStyle = Literal["table", "csv", "latex", "json"]
FigureFormat = Literal["png", "svg", "pdf"]
Figure = Literal["cross", "cross-splits", "share", "min-recall", "curves", "coverage"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
