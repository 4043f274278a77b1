"""Set-valued prediction in new domains: every label's recall kept, sets as small as they can be."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from domaincover.calibration.cell_thresholds import cell_thresholds
    from domaincover.calibration.rules import (
        hierarchical_thresholds,
        joint_thresholds,
        order_thresholds,
        pooled_thresholds,
        robust_thresholds,
    )
    from domaincover.checks.table_check import TableCheck, check_table
    from domaincover.criteria import Criterion, criterion_for
    from domaincover.data.dataset import DomainDataset
    from domaincover.data.disk_table import DiskTable
    from domaincover.data.encoding import TableEncoder
    from domaincover.data.synthetic import GaussianDomains
    from domaincover.data.tables.image_folder import image_folder
    from domaincover.errors import InputError
    from domaincover.estimators.assessment import Assessment, assess
    from domaincover.estimators.conformal import ConformalSetClassifier
    from domaincover.estimators.domain_generalization import DomainGeneralizationClassifier
    from domaincover.estimators.erm import ERMClassifier
    from domaincover.estimators.image_network import ImageNetwork
    from domaincover.estimators.mean import MeanClassifier
    from domaincover.estimators.promised import PromisedSetClassifier
    from domaincover.estimators.scorers import mean_size_scorer, min_recall_scorer, share_at_target_scorer
    from domaincover.estimators.set_cover import SetCoverClassifier
    from domaincover.estimators.text_network import TextNetwork
    from domaincover.evaluation import DomainReport, Summary, domain_report
    from domaincover.exporting.onnx_models import export_onnx, onnx_inputs
    from domaincover.paper.catalogue import read_real, read_wilds
    from domaincover.paper.plugins import register_dataset, register_method
    from domaincover.predictors.names import to_label_lists
    from domaincover.predictors.set_predictor import predict_set
    from domaincover.promises.certificates import Certificate, certify
    from domaincover.promises.plans import DomainPlan, plan_domains
    from domaincover.report.domain_table import summary_table
    from domaincover.saving.models import load, save
    from domaincover.training.objectives import SetCoverLoss
    from domaincover.training.settings import TrainingRun


# Where each public name lives; it is imported when first asked for, so that `import domaincover` stays fast.
_HOMES = {
    "Assessment": "estimators.assessment",
    "Certificate": "promises.certificates",
    "ConformalSetClassifier": "estimators.conformal",
    "Criterion": "criteria",
    "DiskTable": "data.disk_table",
    "DomainDataset": "data.dataset",
    "DomainGeneralizationClassifier": "estimators.domain_generalization",
    "DomainPlan": "promises.plans",
    "DomainReport": "evaluation",
    "ERMClassifier": "estimators.erm",
    "GaussianDomains": "data.synthetic",
    "ImageNetwork": "estimators.image_network",
    "InputError": "errors",
    "MeanClassifier": "estimators.mean",
    "PromisedSetClassifier": "estimators.promised",
    "SetCoverClassifier": "estimators.set_cover",
    "SetCoverLoss": "training.objectives",
    "Summary": "evaluation",
    "TableCheck": "checks.table_check",
    "TableEncoder": "data.encoding",
    "TextNetwork": "estimators.text_network",
    "TrainingRun": "training.settings",
    "assess": "estimators.assessment",
    "cell_thresholds": "calibration.cell_thresholds",
    "certify": "promises.certificates",
    "check_table": "checks.table_check",
    "criterion_for": "criteria",
    "domain_report": "evaluation",
    "export_onnx": "exporting.onnx_models",
    "hierarchical_thresholds": "calibration.rules",
    "image_folder": "data.tables.image_folder",
    "joint_thresholds": "calibration.rules",
    "load": "saving.models",
    "mean_size_scorer": "estimators.scorers",
    "min_recall_scorer": "estimators.scorers",
    "onnx_inputs": "exporting.onnx_models",
    "order_thresholds": "calibration.rules",
    "plan_domains": "promises.plans",
    "pooled_thresholds": "calibration.rules",
    "predict_set": "predictors.set_predictor",
    "read_real": "paper.catalogue",
    "read_wilds": "paper.catalogue",
    "register_dataset": "paper.plugins",
    "register_method": "paper.plugins",
    "robust_thresholds": "calibration.rules",
    "save": "saving.models",
    "share_at_target_scorer": "estimators.scorers",
    "summary_table": "report.domain_table",
    "to_label_lists": "predictors.names",
}

__all__ = [
    "Assessment",
    "Certificate",
    "ConformalSetClassifier",
    "Criterion",
    "DiskTable",
    "DomainDataset",
    "DomainGeneralizationClassifier",
    "DomainPlan",
    "DomainReport",
    "ERMClassifier",
    "GaussianDomains",
    "ImageNetwork",
    "InputError",
    "MeanClassifier",
    "PromisedSetClassifier",
    "SetCoverClassifier",
    "SetCoverLoss",
    "Summary",
    "TableCheck",
    "TableEncoder",
    "TextNetwork",
    "TrainingRun",
    "assess",
    "cell_thresholds",
    "certify",
    "check_table",
    "criterion_for",
    "domain_report",
    "export_onnx",
    "hierarchical_thresholds",
    "image_folder",
    "joint_thresholds",
    "load",
    "mean_size_scorer",
    "min_recall_scorer",
    "onnx_inputs",
    "order_thresholds",
    "plan_domains",
    "pooled_thresholds",
    "predict_set",
    "read_real",
    "read_wilds",
    "register_dataset",
    "register_method",
    "robust_thresholds",
    "save",
    "share_at_target_scorer",
    "summary_table",
    "to_label_lists",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # which takes longer to import than all of this

        return version("domaincover")
    if name not in _HOMES:
        raise AttributeError(f"module 'domaincover' has no attribute {name!r}")
    from domaincover.errors import torch_needed_for

    with torch_needed_for(name):
        return getattr(import_module(f"domaincover.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
