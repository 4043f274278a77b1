"""Base of the network classifiers: a network on tables, images or texts, trained and validated by domains."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from domaincover.data.dataset import DomainDataset
from domaincover.data.disk_table import DiskTable
from domaincover.data.splits import hold_out_rows
from domaincover.errors import InputError, check_choice, torch_needed_for
from domaincover.estimators.base import SetClassifier, Targets
from domaincover.estimators.network_inputs import NetworkInputs
from domaincover.estimators.seeds import generators
from domaincover.estimators.table_network import MakeNetwork, TableNetwork
from domaincover.networks.threads import one_thread
from domaincover.options import Iterate, NetworkName, RecallFrom
from domaincover.predictors.network_predictors import ROWS_AT_ONCE, NetworkPredictor

if TYPE_CHECKING:
    from torch import Tensor, nn

    from domaincover.estimators.judges import HeldOutDomains
    from domaincover.estimators.stacked_fit import Prepared, Trained
    from domaincover.training.batches import Pool, Shard, ShuffledBatches
    from domaincover.training.history import History
    from domaincover.training.run import TrainingRun

Network = NetworkName | MakeNetwork | NetworkInputs

# Defaults for tables of a thousand to a million rows; docs/experiment-log.md has the measurements.
STEPS = 6_000
MOST_EPOCHS = 200
DUAL_STEPS = 60
FEWEST_DOMAINS_TO_HOLD_OUT_FROM = 4


class Plan(NamedTuple):
    """Epochs, batch size and spacing of the dual steps."""

    batch_size: int
    epochs: int
    update_every: int
    recall_from: RecallFrom


def plan_training(n_rows: int, batch_size: int | None, epochs: int | None, update_every: int | None) -> Plan:
    """Fill in defaults: about 6,000 steps, larger batches for larger tables, 60 dual steps or more."""
    if batch_size is None:
        batch_size = int(np.clip(2 ** round(math.log2(max(n_rows, 2) / 100)), 32, 1024))
    from domaincover.training.batches import whole_batches

    batch_size = whole_batches(batch_size, n_rows)
    n_batches = max(1, math.ceil(n_rows / max(batch_size, 1)))
    if epochs is None:
        epochs = min(MOST_EPOCHS, math.ceil(STEPS / n_batches))
    if update_every is None:
        update_every = n_batches // max(1, round(DUAL_STEPS / max(epochs, 1))) + 1
    # With several dual steps per epoch, a full pass at each would cost more than training itself.
    return Plan(batch_size, epochs, update_every, "full-pass" if update_every > n_batches else "batches")


def plan_fine_tuning(n_rows: int, batch_size: int | None, epochs: int | None, update_every: int | None) -> Plan:
    """Fill in defaults for a network that is costly to train: the paper's five epochs, batches of 64.

    Recall is that of the training batches, which is free; multipliers are updated eight times per epoch.
    """
    given = 64 if batch_size is None else batch_size
    batch_size, _, _, _ = plan_training(n_rows, given, 1, 1)
    n_batches = math.ceil(n_rows / batch_size)
    epochs = 5 if epochs is None else epochs
    # Rounded up, so that the last update of an epoch does not rest on a few remaining batches.
    update_every = math.ceil(n_batches / 8) if update_every is None else update_every
    return Plan(batch_size, epochs, update_every, "batches")


class NetworkClassifier(NetworkPredictor, SetClassifier):
    """A network with one score per label; tables are encoded and standardised internally."""

    encoder_: Any  # of tables, or of images and texts
    network: Network
    hidden: int | Sequence[int]
    epochs: int | None
    batch_size: int | None
    learning_rate: float
    learning_rate_decay: bool
    iterate: Iterate
    validation_domains: float
    patience: int | None
    device: str
    run: TrainingRun | None
    random_state: Any
    verbose: bool
    min_cell_size: int = 1
    update_every: int | None = None
    recall_from: RecallFrom | None = None

    _history: History  # recall and multiplier of every cell in the last training; not saved with the model
    _merges_small_cells = True  # of training examples, those with fewer than min_cell_size

    @abstractmethod
    def _objective(self, group: Sequence[Prepared], n_steps: int) -> nn.Module:
        """Return the training objective of a group of networks, for at most `n_steps` steps."""

    @abstractmethod
    def _judge(self, held_out: HeldOutDomains) -> Any:
        """Return the criterion that compares weights on held-out domains."""

    @abstractmethod
    def _learn(self, trained: Trained) -> None:
        """Set the learned attributes of a subclass."""

    def _check_training(self, targets: Targets, trains: NDArray[np.bool_]) -> None:
        """Reject training rows that a subclass cannot use."""

    def _batches(
        self,
        pool: Pool,
        rows: Sequence[NDArray[np.int64]],
        domains: Sequence[NDArray[np.int64]],  # noqa: ARG002
        batch_size: int,
        rngs: Sequence[np.random.Generator],
        shard: Shard,
    ) -> ShuffledBatches:
        """Return the training batches, given the rows and domains of each network."""
        from domaincover.training.batches import ShuffledBatches

        return ShuffledBatches(pool, rows, batch_size, rngs, shard)

    def _plan_training(self, n_rows: int) -> Plan:
        """Fill in the defaults of the schedule."""
        inputs = self._inputs
        is_costly = inputs.reads_sources and self.encoder_.is_lazy and not inputs.is_small
        plan = plan_fine_tuning if is_costly else plan_training
        found = plan(n_rows, self.batch_size, self.epochs, self.update_every)
        return found if self.recall_from is None else found._replace(recall_from=self.recall_from)

    def fit(self, X: Any, y: Any, *, domains: Any = None) -> Self:
        """Train on examples, labels and the domain of each example; None means a single domain."""
        with torch_needed_for("training"):
            from domaincover.estimators.stacked_fit import train_together

        train_together([self._prepare(X, y, domains)])
        return self

    @cached_property
    def network_(self) -> Any:
        """The trained network; that of a loaded perceptron is made when first asked for."""
        if "layers_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} has no network_: it is not fitted.")
        with torch_needed_for("network_"):
            from domaincover.networks.perceptrons import from_layers
        return from_layers(self.layers_)

    @property
    def _n_threads(self) -> int:
        return super()._n_threads if self._inputs.is_dense else 1  # torch has threads of its own

    def _checked(self, X: Any) -> Any:
        return self._inputs.checked(self, X, reset=False)

    def _unread_in_words(self, X: Any, unread: NDArray[np.bool_]) -> str:
        return self._inputs.unread_in_words(X, unread)

    def _score(self, part: Any, thresholds: NDArray[np.float32] | None) -> NDArray[np.float32]:
        if self._inputs.is_dense:
            return super()._score(part, thresholds)
        from domaincover.training.scoring import score

        encoded = self._encoded(part)
        if self._inputs.reads_sources:
            self.network_.to(self.encoder_.use(self._inputs.device(self.device)))
        scores = score(self.network_, encoded, ROWS_AT_ONCE)
        if isinstance(encoded, np.ndarray) and self._inputs.reads_sources:
            scores[np.isnan(encoded).any(axis=1)] = np.inf  # an unreadable example: its set holds every label
        return scores

    def _scorer(self) -> Callable[[Tensor], Tensor]:
        """Return what scores encoded rows just as `label_scores` does: a threshold may equal one of these scores."""
        if not self._inputs.is_dense:
            return self.network_.eval()
        import torch

        return lambda rows: torch.from_numpy(self.layers_.scores(rows.cpu().numpy()))

    @property
    def _inputs(self) -> NetworkInputs:
        """The kind of input that the network reads, and how it is built."""
        return self.network if isinstance(self.network, NetworkInputs) else TableNetwork(self.network, self.hidden)

    def _prepare(self, X: Any, y: Any, domains: Any) -> Prepared:
        """Check the arguments of `fit`, draw the held-out domains, and encode."""
        from domaincover.estimators.judges import HeldOutDomains
        from domaincover.estimators.stacked_fit import Prepared
        from domaincover.training.run import TrainingRun

        X = self._inputs.checked(self, X, reset=True)
        self._check_settings()
        targets = self._learn_targets(y, domains, len(X))
        rngs = generators(self.random_state, "network", 4)
        judges = rows_that_judge(targets, self.validation_domains, rngs[0])
        trains = ~judges
        self.held_out_domains_ = np.delete(self.domains_, np.unique(targets.domains[trains]))
        readable = self._inputs.readable(self, X)
        if readable is not None:
            trains, judges = trains & readable, judges & readable
            self._check_all_labels(targets, trains)
        self._check_training(targets, trains)
        device = self._inputs.device(self.device)
        # Fitted without the held-out domains, which stay as new to the encoder as any other new domain.
        name = str(getattr(self, "feature_names_in_", [""])[0])
        self.encoder_ = self._inputs.fitted_encoder(_rows(X, trains), device, name, self.standardize)
        engine = (self.run or TrainingRun()).engine(device)
        held_out = self._examples(X, targets, judges, 0) if judges.any() else None
        judge = None if held_out is None else self._judge(HeldOutDomains(held_out, engine))
        examples = self._examples(X, targets, trains, self.min_cell_size if self._merges_small_cells else 0)
        return Prepared(self, targets, trains, examples, held_out, judge, rngs[1:], engine)

    def _check_all_labels(self, targets: Targets, trains: NDArray[np.bool_]) -> None:
        """Reject data in which every example of some label is unreadable."""
        n_by_label = np.bincount(targets.labels[trains], minlength=len(targets.classes))
        if not n_by_label.all():
            lost = targets.classes[n_by_label == 0].tolist()
            raise InputError(f"no training example of label {lost[0]!r} can be read; restore its files.")

    def _examples(self, X: Any, targets: Targets, rows: NDArray[np.bool_], min_cell_size: int) -> DomainDataset:
        """Return the chosen rows, encoded, with small cells merged into one additional domain."""
        labels, domains = _rows(targets.labels, rows), _rows(targets.domains, rows)
        n_domains, n_labels = len(targets.domain_names), len(targets.classes)
        return DomainDataset(
            self._encoded(_rows(X, rows)),
            labels,
            self.own_criterion.merged_domains(domains, labels, n_domains, min_cell_size),
            tuple(range(n_labels)),
            tuple(range(n_domains + 1)),
        )

    def _encoded(self, X: Any) -> Any:
        if isinstance(X, DiskTable):
            return X.mapped(super()._encoded, self.encoder_.n_features_out)
        return self.encoder_.encode(X) if self._inputs.reads_sources else super()._encoded(X)

    def _check_settings(self) -> None:
        import torch

        from domaincover.training.engine import n_processes

        self._inputs.check()
        for name, known in (("iterate", get_args(Iterate)), ("recall_from", (None, *get_args(RecallFrom)))):
            check_choice(name, getattr(self, name), known)
        device = self._inputs.device(self.device)
        try:
            torch.zeros(1, device=device)
        except (AssertionError, RuntimeError) as fault:
            raise InputError(f"device {device!r} cannot be used: {str(fault).splitlines()[0]}") from None
        if not 0 <= self.validation_domains < 1:
            raise InputError(
                f"validation_domains is a share of the domains from 0 to below 1, got {self.validation_domains:g}."
            )
        if n_processes() > 1 and not isinstance(self.random_state, int | np.integer):
            raise InputError("with several processes random_state must be an integer, so that all draw the same.")

    @contextmanager
    def _reproducible(self, rng: np.random.Generator) -> Iterator[None]:
        """Seed torch's global generator (initial weights, dropout), and restore its state afterwards."""
        import torch

        device = torch.device(self._inputs.device(self.device))
        with (
            torch.random.fork_rng([device] if device.type == "cuda" else []),
            one_thread() if self._inputs.stacks(self.device) else nullcontext(),
        ):
            torch.random.manual_seed(int(rng.integers(2**63)))
            yield

    def __sklearn_is_fitted__(self) -> bool:
        return super().__sklearn_is_fitted__() or "network_" in vars(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def rows_that_judge(targets: Targets, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a mask of the rows held out of training.

    A share of the domains is held out, at least three of nine or more, and every label keeps a training domain. For a
    label that no held-out domain has, and for all labels with too few domains, a share of the rows is held out.
    """
    if share == 0:
        return np.zeros(len(targets.labels), dtype=bool)
    n_domains = len(targets.domain_names)
    few = n_domains < FEWEST_DOMAINS_TO_HOLD_OUT_FROM
    n_held_out = 0 if few else min(max(round(share * n_domains), min(3, n_domains // 3)), n_domains - 1)
    return hold_out_rows(targets.domains, targets.labels, n_held_out, share, rng)


def _rows(X: Any, rows: NDArray[np.bool_]) -> Any:
    """Return the chosen rows, without a copy if all are chosen."""
    return X if rows.all() else X[rows]
