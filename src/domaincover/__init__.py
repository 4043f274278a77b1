"""Set-valued prediction in new domains: every label's recall kept, sets as small as they can be."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from domaincover.calibration import cell_thresholds, pooled_thresholds, robust_thresholds
    from domaincover.data.dataset import DomainDataset
    from domaincover.data.synthetic import GaussianDomains
    from domaincover.errors import InputError
    from domaincover.evaluation import DomainReport, Summary, domain_report
    from domaincover.training.objectives import SetCoverLoss

__version__ = version("domaincover")

# Where each public name lives; it is imported when first asked for, so that `import domaincover` stays fast.
_HOMES = {
    "DomainDataset": "data.dataset",
    "DomainReport": "evaluation",
    "GaussianDomains": "data.synthetic",
    "InputError": "errors",
    "SetCoverLoss": "training.objectives",
    "Summary": "evaluation",
    "cell_thresholds": "calibration",
    "domain_report": "evaluation",
    "pooled_thresholds": "calibration",
    "robust_thresholds": "calibration",
}

__all__ = [
    "DomainDataset",
    "DomainReport",
    "GaussianDomains",
    "InputError",
    "SetCoverLoss",
    "Summary",
    "cell_thresholds",
    "domain_report",
    "pooled_thresholds",
    "robust_thresholds",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'domaincover' has no attribute {name!r}")
    return getattr(import_module(f"domaincover.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
