"""Base of the network classifiers: a network on tables, images or texts, trained and validated by domains."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import nn

from domaincover.data.dataset import DomainDataset
from domaincover.data.splits import hold_out_rows
from domaincover.errors import InputError
from domaincover.estimators.base import SetClassifier, Targets
from domaincover.estimators.judges import HeldOutDomains
from domaincover.estimators.seeds import generators
from domaincover.estimators.source_network import SourceNetwork
from domaincover.estimators.stacked_fit import Prepared, Trained, train_together
from domaincover.estimators.table_network import MakeNetwork, TableNetwork
from domaincover.networks.perceptrons import one_thread
from domaincover.options import Iterate, NetworkName, RecallFrom
from domaincover.training.batches import Pool, Shard, ShuffledBatches, whole_batches
from domaincover.training.engine import n_processes
from domaincover.training.history import History
from domaincover.training.run import TrainingRun
from domaincover.training.scoring import score

Network = NetworkName | MakeNetwork | SourceNetwork
ROWS_AT_ONCE = 16_384  # scored per block, so that encoded rows stay in the processor's cache

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


class NetworkClassifier(SetClassifier):
    """A network with one score per label; tables are encoded and standardised internally."""

    network: Network
    hidden: int | Sequence[int]
    epochs: int | None
    batch_size: int | None
    learning_rate: float
    learning_rate_decay: bool
    iterate: Iterate
    standardize: bool
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
    _merges_small_cells = True  # before training, those with fewer than min_cell_size examples

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
        return ShuffledBatches(pool, rows, batch_size, rngs, shard)

    def _plan_training(self, n_rows: int) -> Plan:
        """Fill in the defaults of the schedule."""
        inputs = self._inputs
        is_costly = isinstance(inputs, SourceNetwork) and self.encoder_.is_lazy and not inputs.is_small
        plan = plan_fine_tuning if is_costly else plan_training
        found = plan(n_rows, self.batch_size, self.epochs, self.update_every)
        return found if self.recall_from is None else found._replace(recall_from=self.recall_from)

    def fit(self, X: Any, y: Any, *, domains: Any = None) -> Self:
        """Train on examples, labels and the domain of each example; None means a single domain."""
        train_together([self._prepare(X, y, domains)])
        return self

    def label_scores(self, X: Any) -> NDArray[np.float32]:
        """Return the network's scores, examples × labels in the order of `classes_`."""
        check_is_fitted(self, "network_")
        X = self._inputs.checked(self, X, reset=False)
        scores = np.empty((len(X), len(self.classes_)), dtype=np.float32)
        for start, part in _parts(X):
            scores[start : start + len(part)] = self._score(part)
        unread: NDArray[np.bool_] = np.isposinf(scores[:, 0])
        if unread.any():
            warnings.warn(self._inputs.unread_in_words(X, unread), stacklevel=2)
        return scores

    def _score(self, part: Any) -> NDArray[np.float32]:
        encoded = self._encoded(part)
        if isinstance(self._inputs, SourceNetwork):
            self.network_.to(self.encoder_.use(self._inputs.device(self.device)))
        scores = score(self.network_, encoded, ROWS_AT_ONCE)
        if isinstance(encoded, np.ndarray) and isinstance(self._inputs, SourceNetwork):
            scores[np.isnan(encoded).any(axis=1)] = np.inf  # an unreadable example: its set holds every label
        return scores

    @property
    def _inputs(self) -> TableNetwork | SourceNetwork:
        """The kind of input that the network reads, and how it is built."""
        return self.network if isinstance(self.network, SourceNetwork) else TableNetwork(self.network, self.hidden)

    def _prepare(self, X: Any, y: Any, domains: Any) -> Prepared:
        """Check the arguments of `fit`, draw the held-out domains, and encode."""
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
        held_out = self._examples(X, targets, judges) if judges.any() else None
        judge = None if held_out is None else self._judge(HeldOutDomains(held_out, engine))
        return Prepared(self, targets, trains, self._examples(X, targets, trains), held_out, judge, rngs[1:], engine)

    def _check_all_labels(self, targets: Targets, trains: NDArray[np.bool_]) -> None:
        """Reject data in which every example of some label is unreadable."""
        n_by_label = np.bincount(targets.labels[trains], minlength=len(targets.classes))
        if not n_by_label.all():
            lost = targets.classes[n_by_label == 0].tolist()
            raise InputError(f"no training example of label {lost[0]!r} can be read; restore its files.")

    def _examples(self, X: Any, targets: Targets, rows: NDArray[np.bool_]) -> DomainDataset:
        """Return the chosen rows, encoded, with small cells merged into one additional domain."""
        labels, domains = targets.labels[rows], targets.domains[rows]
        n_domains, n_labels = len(targets.domain_names), len(targets.classes)
        least = self.min_cell_size if self._merges_small_cells else 0
        return DomainDataset(
            self._encoded(_rows(X, rows)),
            labels,
            self.own_criterion.merged_domains(domains, labels, n_domains, least),
            tuple(range(n_labels)),
            tuple(range(n_domains + 1)),
        )

    def _encoded(self, X: Any) -> Any:
        """Return the network's inputs; reject missing values without standardisation, which would impute them."""
        encoded: Any = self.encoder_.encode(X)
        if not self.standardize and isinstance(self._inputs, TableNetwork) and np.isnan(encoded).any():
            raise InputError(
                "the inputs contain missing values (NaN), which standardize=False leaves as they are; impute them, or "
                "use standardize=True."
            )
        return encoded

    def _check_settings(self) -> None:
        self._inputs.check()
        for name, known in (("iterate", get_args(Iterate)), ("recall_from", (None, *get_args(RecallFrom)))):
            if (value := getattr(self, name)) not in known:
                raise InputError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}.")
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
        device = torch.device(self._inputs.device(self.device))
        with (
            torch.random.fork_rng([device] if device.type == "cuda" else []),
            one_thread() if self._inputs.stacks(self.device) else nullcontext(),
        ):
            torch.random.manual_seed(int(rng.integers(2**63)))
            yield

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


def _parts(X: Any) -> Iterator[tuple[int, Any]]:
    rows = X.iloc if hasattr(X, "iloc") else X
    for start in range(0, len(X), ROWS_AT_ONCE):
        yield start, rows[start : start + ROWS_AT_ONCE]
