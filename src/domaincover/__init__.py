"""Set-valued prediction in new domains: every label's recall kept, sets as small as they can be.

Beside the names here there are `domaincover.datasets` (example tables), `domaincover.thresholds` (rules for scores),
`domaincover.scoring` (scorers for scikit-learn) and `domaincover.study` (plug-ins and readers for studies).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from domaincover.checks.table_check import check_table as check_table
    from domaincover.data.dataset import DomainDataset as DomainDataset
    from domaincover.data.encoding import TableEncoder as TableEncoder
    from domaincover.data.synthetic import GaussianDomains as GaussianDomains
    from domaincover.data.tables import DiskTable as DiskTable
    from domaincover.data.tables.table import image_folder as image_folder
    from domaincover.errors import InputError as InputError
    from domaincover.estimators.assessment import Assessment as Assessment
    from domaincover.estimators.assessment import assess as assess
    from domaincover.estimators.calibrated_classifiers import ConformalSetClassifier as ConformalSetClassifier
    from domaincover.estimators.calibrated_classifiers import PromisedSetClassifier as PromisedSetClassifier
    from domaincover.estimators.image_and_text_networks import ImageNetwork as ImageNetwork
    from domaincover.estimators.image_and_text_networks import TextNetwork as TextNetwork
    from domaincover.estimators.intervals import PromisedIntervalRegressor as PromisedIntervalRegressor
    from domaincover.estimators.mean import MeanClassifier as MeanClassifier
    from domaincover.estimators.network_classifiers import (
        DomainGeneralizationClassifier as DomainGeneralizationClassifier,
    )
    from domaincover.estimators.network_classifiers import ERMClassifier as ERMClassifier
    from domaincover.estimators.network_classifiers import SetCoverClassifier as SetCoverClassifier
    from domaincover.evaluation import DomainReport as DomainReport
    from domaincover.evaluation import domain_report as domain_report
    from domaincover.exporting.onnx_models import export_onnx as export_onnx
    from domaincover.exporting.onnx_models import onnx_inputs as onnx_inputs
    from domaincover.predictors.set_predictor import predict_set as predict_set
    from domaincover.predictors.set_predictor import to_label_lists as to_label_lists
    from domaincover.promises.certificates import Certificate as Certificate
    from domaincover.promises.certificates import certify as certify
    from domaincover.promises.plans import plan_domains as plan_domains
    from domaincover.report.domain_table import summary_table as summary_table
    from domaincover.saving.models import load as load
    from domaincover.saving.models import save as save
    from domaincover.training.objectives import SetCoverLoss as SetCoverLoss
    from domaincover.training.settings import TrainingRun as TrainingRun


# Where each public name lives; it is imported when first asked for, so that `import domaincover` stays fast.
_HOMES = {
    "Assessment": "estimators.assessment",
    "Certificate": "promises.certificates",
    "ConformalSetClassifier": "estimators.calibrated_classifiers",
    "DiskTable": "data.tables",
    "DomainDataset": "data.dataset",
    "DomainGeneralizationClassifier": "estimators.network_classifiers",
    "DomainReport": "evaluation",
    "ERMClassifier": "estimators.network_classifiers",
    "GaussianDomains": "data.synthetic",
    "ImageNetwork": "estimators.image_and_text_networks",
    "InputError": "errors",
    "MeanClassifier": "estimators.mean",
    "PromisedIntervalRegressor": "estimators.intervals",
    "PromisedSetClassifier": "estimators.calibrated_classifiers",
    "SetCoverClassifier": "estimators.network_classifiers",
    "SetCoverLoss": "training.objectives",
    "TableEncoder": "data.encoding",
    "TextNetwork": "estimators.image_and_text_networks",
    "TrainingRun": "training.settings",
    "assess": "estimators.assessment",
    "certify": "promises.certificates",
    "check_table": "checks.table_check",
    "domain_report": "evaluation",
    "export_onnx": "exporting.onnx_models",
    "image_folder": "data.tables.table",
    "load": "saving.models",
    "onnx_inputs": "exporting.onnx_models",
    "plan_domains": "promises.plans",
    "predict_set": "predictors.set_predictor",
    "save": "saving.models",
    "summary_table": "report.domain_table",
    "to_label_lists": "predictors.set_predictor",
}

__all__ = list(_HOMES)


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
