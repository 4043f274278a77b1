"""What a study can be given: data sets and methods of one's own, and readers of real data and of WILDS."""

from domaincover.paper.plugins import register_dataset, register_method
from domaincover.paper.real.catalogue import read_real
from domaincover.paper.wilds.reader import WildsData, read_wilds

__all__ = ["WildsData", "read_real", "read_wilds", "register_dataset", "register_method"]
