"""What a study can be given: data sets and methods of one's own, and readers of real data and of WILDS."""

from domaincover.paper.catalogue import read_real, read_wilds
from domaincover.paper.plugins import register_dataset, register_method

__all__ = ["read_real", "read_wilds", "register_dataset", "register_method"]
