"""Rules that make thresholds of scores, whoever made the scores, and the criteria that they calibrate for."""

from domaincover.calibration.order_statistics import cell_thresholds
from domaincover.calibration.rules import (
    hierarchical_thresholds,
    joint_thresholds,
    order_thresholds,
    pooled_thresholds,
    robust_thresholds,
)
from domaincover.criteria import Criterion, criterion_for
from domaincover.estimators.score_comparison import compare_scores

__all__ = [
    "Criterion",
    "cell_thresholds",
    "compare_scores",
    "criterion_for",
    "hierarchical_thresholds",
    "joint_thresholds",
    "order_thresholds",
    "pooled_thresholds",
    "robust_thresholds",
]
