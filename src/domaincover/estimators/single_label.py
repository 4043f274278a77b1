"""Networks that predict probabilities, with the most likely label as the set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from domaincover.criteria import TargetRecall, check_criterion
from domaincover.estimators.network import NetworkClassifier, NetworkFit
from domaincover.options import CriterionName
from domaincover.predictors.network_predictors import SingleLabelPredictor

if TYPE_CHECKING:
    from domaincover.estimators.judges import HeldOutDomains, LowestLoss


class SingleLabelNetwork(SingleLabelPredictor, NetworkClassifier):
    """What ERM and the methods that compare domains share; held-out domains judge by cross-entropy."""

    target_recall: TargetRecall
    criterion: CriterionName

    @property
    def _needs_domains(self) -> bool:
        return False  # the set is one label, however rows are grouped

    def _check_settings(self) -> None:
        super()._check_settings()
        check_criterion(self.criterion, self.target_recall)

    def _judge(self, held_out: HeldOutDomains) -> LowestLoss:
        from domaincover.estimators.judges import LowestLoss

        return LowestLoss(held_out)

    def _learn(self, fit: NetworkFit) -> None:
        self.history_ = pd.DataFrame({"epoch": fit.history.epoch, "loss": fit.history.loss})
