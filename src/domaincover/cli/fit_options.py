"""The options of `fit` as one object, which makes the classifier and the settings that are saved with it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from domaincover.cli.arguments import (
    DOMAIN,
    LABEL,
    cell_size,
    column,
    complete_columns,
    page,
    parsed_targets,
    table_file,
    targets,
)
from domaincover.cli.network_options import SourceOptions, TrainingOptions
from domaincover.cli.outputs import check_page
from domaincover.errors import InputError
from domaincover.options import (
    MIN_CELL_SIZE,
    Base,
    ConformalMethod,
    CriterionName,
    FittedCalibration,
    Method,
    NetworkName,
    OnRareLabel,
)
from domaincover.terminal.command_options import REQUIRED, option

if TYPE_CHECKING:
    import pandas as pd

    from domaincover.cli.inputs import LabelledTable
    from domaincover.criteria import TargetRecall
    from domaincover.data.tables import Table
    from domaincover.estimators.base import SetClassifier
    from domaincover.estimators.source_network import SourceNetwork

DEFAULT_TARGET, DEFAULT_CONFIDENCE, NO_PROMISE = "0.9", "0.9", "none"
SETS, PROMISE, EVALUATION = "How sets are made", "Promise about new domains", "Evaluation"


def _choice(panel: str, about: str, default: Any = None, metavar: str = "NAME") -> Any:
    """Return an option of which the help does not list the values, but names some."""
    return option(about, default, metavar=metavar, rich_help_panel=panel)


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Arguments and options of `fit`."""

    table: Path = table_file()
    out: Path = option("Folder for the model.", REQUIRED)
    label: str | None = column(LABEL)
    number: str | None = option(
        "Column with a number to predict, instead of --label: intervals, which promise the coverage of a new domain.",
        None,
        "--target",
        metavar="COLUMN",
        autocompletion=complete_columns,
    )
    domain: str | None = column(DOMAIN)
    method: Method | None = _choice(
        SETS,
        f"Method that makes the sets: {', '.join(get_args(Method))}; erm and those after it predict single labels, or "
        "sets with a promise. Default: erm for a promise on tables, else set-cover.",
    )
    base: Base | None = _choice(
        SETS,
        f"Model that scores labels: {', '.join(get_args(Base))}; those with boosting go with robust, pooled, erm. "
        "Default: mlp+boosting, the mean of both, where the method is left to the default and is erm; else mlp.",
    )
    target_recall: list[str] | None = targets(
        "Recall wanted for every label in every domain; default: 0.9. As LABEL=NUMBER, repeated, for labels with "
        "targets of their own: other labels are not constrained."
    )
    criterion: CriterionName = _choice(
        SETS,
        "What a domain has to reach: min-recall, of every label, or coverage, of all its rows together.",
        "min-recall",
    )
    domain_confidence: str | None = _choice(
        PROMISE,
        "Promise that all labels of a new domain are at target with this probability, or none for no promise; "
        "default: 0.9 where there are enough domains.",
        metavar="NUMBER",
    )
    calibration: FittedCalibration | None = _choice(
        PROMISE,
        f"How the promise is calibrated: {', '.join(get_args(FittedCalibration))}; cross-fit (default) has no proof, "
        "the others have one.",
    )
    on_infeasible: OnRareLabel | None = _choice(
        PROMISE,
        "A label in too few domains for the promise: raise an error (default with --domain-confidence), pool its rows "
        "and promise it by itself (default otherwise), or widen sets by it.",
    )
    order: str | None = column(
        "Column that orders the domains, such as a date or, if it is one, the domain's own: fits go forward, recent "
        "domains weigh more, and the last ones are held out. It is not learned from."
    )
    drop: list[str] | None = column("Column to leave out; may be repeated.")
    hold_out_domains: float = _choice(
        EVALUATION, "Share of the domains held out for the evaluation; 0 for none.", 0.25, metavar="NUMBER"
    )
    final_fit: bool = option(
        "Refit on all domains, or keep the evaluated model.",
        True,
        "--final-fit/--no-final-fit",
        rich_help_panel=EVALUATION,
    )
    min_cell_size: int | None = cell_size()
    html: Path | None = page()
    fingerprints: bool = option(
        "Keep salted fingerprints of training rows, by which new tables are told that hold some of them.",
        True,
        "--fingerprints/--no-fingerprints",
    )
    seed: int = option("Seed of all random draws.", 0, min=0, max=2**32 - 1, metavar="NUMBER")
    verbose: bool = option("Print a line for every epoch and every fit.", False)
    sources: SourceOptions = field(default_factory=SourceOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)

    def check(self) -> None:
        """Reject values out of range and options that contradict each other."""
        from domaincover.criteria import check_criterion, check_share

        check_criterion(self.criterion, self.target)
        check_page(self.html, self.table)
        share = self.hold_out_domains
        if not 0 <= share < 1:
            raise InputError(f"--hold-out-domains is a share of the domains, from 0 to below 1, got {share:g}.")
        if share == 0 and not self.final_fit:
            raise InputError("--no-final-fit keeps the evaluated model, but --hold-out-domains 0 evaluates none.")
        if share == 0 and self.html is not None:
            raise InputError("--html shows the evaluation, but --hold-out-domains 0 leaves it out.")
        if self.confidence is not None:
            check_share(self.confidence, "--domain-confidence")
            return
        for name, value in (("--calibration", self.calibration), ("--on-infeasible", self.on_infeasible)):
            if value is not None and self.domain_confidence is not None:
                raise InputError(f"{name} is about a promise, but --domain-confidence none asks for no promise.")

    def for_table(self, data: Table) -> FitOptions:
        """Return the options with the columns of a table; a folder of images has its own."""
        label, domain = self.label, self.domain
        if data.is_images:
            label, domain = label or "label", domain or "domain"
        for role, name in (("--label", label), ("--domain", domain)):
            if name is None:
                raise InputError(f"{role} is missing: name its column of {data.path}.")
        sources = self.sources.for_table(data)
        if self.training.on_disk and sources.column is not None:
            raise InputError("--on-disk is for tables; images are read as they are needed anyway, and texts are small.")
        if self.training.on_disk and self.base not in (None, *get_args(NetworkName)):
            raise InputError(f"--base {self.base} needs the table in memory; --on-disk goes with mlp and linear.")
        return replace(self, label=label, domain=domain, sources=sources)

    @property
    def roles(self) -> tuple[str, str]:
        """The columns of labels and domains."""
        return str(self.label), str(self.domain)

    def feature_columns(self, data: Table) -> list[str]:
        """Return the columns to learn from."""
        from domaincover.cli.inputs import feature_columns

        drop = [*(self.drop or [])]
        if self.order is not None:
            data.check_column(self.order, "--order")
            if self.order == self.label:
                raise InputError(f"--order {self.order!r} is the column of labels (--label); name a date or a number.")
            drop += [self.order] if self.order != self.domain else []
        return self.sources.learned_columns(feature_columns(data, *self.roles, drop), *self.roles)

    def domain_order(self, data: Table, domains: pd.Series[Any]) -> list[Any] | None:
        """Return the domains from the first to the last; None where their order does not matter."""
        if self.order is None:
            return None
        if self.calibration == "jackknife-minmax" or self.domain_confidence == NO_PROMISE:
            raise InputError("--order is for a promise by cross-fit or held-out-domains; leave out the other option.")
        import pandas as pd

        from domaincover.checks.table_check import in_order

        values = in_order(domains if self.order == self.domain else data.read([self.order])[self.order])
        if values is None:
            raise InputError(f"--order {self.order}: it must have a number or a date like 2026-03-31 in every row.")
        middle = pd.Series(values).groupby(domains.to_numpy(), sort=False).median()
        return list(middle.sort_values(kind="stable").index)

    def read(self, data: Table, features: list[str]) -> LabelledTable:
        """Read the table to fit on; features that stay on disk are opened only."""
        from domaincover.cli.inputs import read_training

        min_domains = 2 if self.hold_out_domains > 0 else 1
        if self.training.on_disk:
            from domaincover.data.tables import DiskTable

            read = read_training(data, [], *self.roles, min_domains)
            return read._replace(X=DiskTable(data, features, first_row=1))
        sources = self.sources
        return read_training(data, features, *self.roles, min_domains, sources.image_column, sources.text_column)

    @property
    def target(self) -> TargetRecall:
        """The target recall, or targets by label."""
        return parsed_targets(self.target_recall or [DEFAULT_TARGET])

    @property
    def confidence(self) -> float | None:
        """The probability of the promise; None without one, and before `with_promise` has decided."""
        asked = DEFAULT_CONFIDENCE if self.domain_confidence is None and self._insists else self.domain_confidence
        if asked is None or asked == NO_PROMISE:
            return None
        try:
            return float(asked)
        except ValueError:
            raise InputError(f"--domain-confidence must be a number below 1, or none, got {asked!r}.") from None

    @property
    def _insists(self) -> bool:
        """Whether options ask for a promise that must not be left out."""
        return self.domain_confidence is not None or self.calibration is not None or self.on_infeasible is not None

    def with_promise(
        self, training: LabelledTable, order: Sequence[Any] | None = None
    ) -> tuple[FitOptions, str | None]:
        """Return the options with a promise by default where there are enough domains, and a line that says so.

        Reject one that is asked for and takes more domains.
        """
        self._check_enough_domains(training.n_domains)
        if self._insists or self.method in get_args(ConformalMethod):
            return self._with_scorer(), None

        from domaincover.calibration.rules import domains_needed
        from domaincover.promises.plans import Reach

        n_found, n_needed = self._most_domains_of_a_label(training, order), domains_needed(float(DEFAULT_CONFIDENCE))
        if n_found < n_needed:
            if order is not None:
                raise InputError(
                    f"--order is for a promise, which takes {n_needed} domains with {self.cell_size} or more rows of a "
                    f"label beside those held out, and there are {n_found}; leave out --order or add domains."
                )
            n_evaluate = Reach(training.n_domains, self.hold_out_domains).n_evaluate
            held_out = f" beside the {n_evaluate} held out to evaluate" if n_evaluate else ""
            return replace(self, domain_confidence=NO_PROMISE)._with_scorer(), (
                f"The sets only aim at the target in new domains: a promise with probability {DEFAULT_CONFIDENCE} "
                f"takes {n_needed} domains with {self.cell_size} or more rows of a label (--min-cell-size), and there "
                f"are {n_found}{held_out}."
            )
        promised = replace(self, domain_confidence=DEFAULT_CONFIDENCE, on_infeasible="pool")._with_scorer()
        is_coverage, scorer = self.criterion == "coverage", ""
        what = "the coverage of a new domain is" if is_coverage else "all labels of a new domain are"
        if promised.base == "mlp+boosting" and self.base is None:
            scorer = "; labels are scored by the mean of a network and boosting"
        elif self.training.on_disk and self.method is None and self.base is None:
            scorer = "; labels are scored by a network, since boosting needs the table in memory"
        return promised, (
            f"Promising that {what} at target with probability {DEFAULT_CONFIDENCE} "
            f"(--domain-confidence none for no promise){scorer}."
        )

    def _check_enough_domains(self, n_domains: int) -> None:
        """Reject a promise that needs more domains than there are, before training."""
        from domaincover.calibration.rules import domains_needed
        from domaincover.promises.plans import Reach

        if self.confidence is None or self.on_infeasible == "widen":
            return
        reach = Reach(n_domains, self.hold_out_domains, n_to_train=int(self.calibration == "held-out-domains"))
        if reach.allows(self.confidence):
            return
        beside = " beside one to train on" if reach.n_to_train else ""
        n_out = reach.n_evaluate
        held_out = f", {n_out} of which are held out to evaluate (--hold-out-domains)" if n_out else ""
        raise InputError(
            f"--domain-confidence {self.confidence:g} takes {domains_needed(self.confidence)} domains{beside}, and "
            f"there are {n_domains}{held_out}; the most that {reach.n_left} allow is {reach.highest}. Ask for less, "
            "add domains, or use --on-infeasible widen for sets that hold every label."
        )

    def _most_domains_of_a_label(self, training: LabelledTable, order: Sequence[Any] | None) -> int:
        """Return how many domains to train on have rows enough of the label that most of them have."""
        import numpy as np

        from domaincover.criteria import criterion_for
        from domaincover.data.dataset import code_names, count_cells
        from domaincover.estimators.assessment import rows_to_train_on
        from domaincover.promises.plans import domains_with_enough

        domains, labels = (code_names(names, "names", len(names)) for names in (training.domains, training.labels))
        rows = np.arange(len(domains.codes))
        if self.hold_out_domains > 0:
            share = self.hold_out_domains
            rows = rows_to_train_on(training.domains, share, random_state=self.seed, domain_order=order)
        cells = count_cells(domains.codes[rows], labels.codes[rows], len(domains.names), len(labels.names))
        counted = criterion_for(self.target, labels.names, self.criterion).group_counts(cells)
        return int(domains_with_enough(counted, self.cell_size).max())

    def _with_scorer(self) -> FitOptions:
        """Return the options with the method and base that were left to the default.

        With a promise on tables it is the mean of a network and boosting, which gave the smallest sets on most data
        sets (docs/experiment-log.md); on disk a network alone.
        """
        left_open = self.method is None and self.base is None
        if left_open and self.sources.column is None and self.confidence is not None:
            return replace(self, method="erm", base="mlp" if self.training.on_disk else "mlp+boosting")
        return replace(self, method=self.method or "set-cover", base=self.base or "mlp")

    def make_classifier(self, network: SourceNetwork | None) -> SetClassifier:
        """Return the unfitted classifier."""
        from domaincover.estimators.recipes import make_classifier

        return make_classifier(
            self.method or "set-cover",
            self.base or "mlp",
            self.target,
            criterion=self.criterion,
            network=network,
            training=self.training.parameters(),
            domain_confidence=self.confidence,
            calibration=self.calibration or "cross-fit",
            on_infeasible=self.on_infeasible or "raise",
            min_cell_size=self.cell_size,
            random_state=self.seed,
            verbose=sys.stderr.isatty() and not self.verbose,
        )

    @property
    def cell_size(self) -> int:
        """How many rows of a label a domain needs for it to count there."""
        return MIN_CELL_SIZE if self.min_cell_size is None else self.min_cell_size

    def saved_settings(self) -> dict[str, Any]:
        """Return the settings that are saved with the model and shown on its page."""
        names = ("label", "domain", "method", "base", "hold_out_domains", "seed")
        settings = {name: getattr(self, name) for name in names}
        settings |= {"target_recall": self.target, "min_cell_size": self.cell_size}
        settings |= {} if self.order is None else {"order": self.order}
        settings |= {} if self.criterion == "min-recall" else {"criterion": self.criterion}
        if self.confidence is not None:
            settings |= {"method": f"{self.method}-joint", "domain_confidence": self.confidence}
            settings["calibration"] = self.calibration or "cross-fit"
        return settings
