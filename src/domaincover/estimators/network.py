"""Base of the network classifiers: a network on tables, images or texts, trained and validated by domains."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from domaincover.criteria import TargetRecall, check_criterion
from domaincover.data.dataset import DomainDataset, hold_out_rows
from domaincover.data.encoding import TableEncoder, checked_inputs, learned_rows
from domaincover.data.examples import LazyExamples
from domaincover.data.tables import DiskTable
from domaincover.errors import InputError, check_choice, torch_needed_for
from domaincover.estimators.base import SetClassifier, Targets, generators
from domaincover.networks.pretrained import copy_tensors
from domaincover.options import MIN_CELL_SIZE, CriterionName, Iterate, NetworkName, RecallFrom
from domaincover.predictors.table_predictors import ROWS_AT_ONCE, NetworkPredictor

if TYPE_CHECKING:
    from torch import Tensor, nn

    from domaincover.estimators.source_network import SourceNetwork
    from domaincover.training.loop import History
    from domaincover.training.objectives import Objective
    from domaincover.training.settings import TrainingRun, TrainingSettings

MakeNetwork = Callable[[int, int], Any]  # the numbers of features and labels -> a torch.nn.Module
FEWEST_DOMAINS_TO_HOLD_OUT_FROM = 4


class NetworkInputs:
    """Base class of `TableNetwork` and `SourceNetwork`, which have the same methods; this one needs no torch."""

    is_dense: ClassVar[bool] = False  # layers and ReLUs, which numpy scores
    reads_sources: ClassVar[bool] = False  # files or texts, some of which may be unreadable

    is_small: ClassVar[bool] = False  # trained whole in seconds, so that a default schedule can be long

    def readable(self, X: Any) -> NDArray[np.bool_] | None:  # noqa: ARG002
        """Return a mask of readable examples; None means all."""
        return None

    def tensors(self, network: nn.Module) -> dict[str, Any]:
        """Return a network's tensors by name."""
        return network.state_dict()


@dataclass(frozen=True)
class TableNetwork(NetworkInputs):
    """The `network` and `hidden` parameters of a classifier on tables."""

    network: NetworkName | MakeNetwork
    hidden: int | Sequence[int]

    @property
    def is_dense(self) -> bool:  # type: ignore[override]
        """Whether it is a perceptron or a linear model, rather than a user's network."""
        return not callable(self.network)

    def stacks(self, device: str) -> bool:  # noqa: ARG002
        """Whether several networks are trained as one stack; a user's network may not support it."""
        return self.is_dense

    def check(self) -> None:
        """Raise if settings are invalid."""
        if not callable(self.network) and self.network not in get_args(NetworkName):
            raise InputError(
                f"network must be 'linear', 'mlp', a function that returns one, an ImageNetwork or a TextNetwork, "
                f"got {self.network!r}."
            )
        widths = np.atleast_1d(np.asarray(self.hidden))
        if self.network == "mlp" and widths.size and (widths.dtype.kind not in "iu" or widths.min() < 1):
            raise InputError(f"hidden must be one or several positive integers, got {self.hidden!r}.")

    def device(self, device: str) -> str:
        """Return the device: by default the CPU, since small networks gain nothing from a GPU."""
        return "cpu" if device == "auto" else device

    def checked(self, model: Any, X: Any, *, reset: bool) -> Any:
        """Validate the names and number of columns, or learn them."""
        if isinstance(X, DiskTable):
            checked_inputs(model, X[:1].read(), reset=reset)
            return X
        return checked_inputs(model, X, reset=reset)

    def fitted_encoder(self, X: Any, device: str, name: str = "", standardize: bool = True) -> TableEncoder:  # noqa: ARG002
        """Return an encoder fitted to the table, or to some rows of a large one."""
        return TableEncoder(scale=standardize).fit(learned_rows(X))

    def make(self, encoder: TableEncoder, n_labels: int, rng: np.random.Generator) -> nn.Module:
        """Return an initialised network."""
        from domaincover.networks.perceptrons import linear, perceptron

        n_features = encoder.n_features_out
        if callable(self.network):
            return self._called(n_features, n_labels)
        if self.network == "linear":
            return linear(n_features, n_labels, rng)
        return perceptron(n_features, self.hidden, n_labels, rng)

    def rebuilt(self, encoder: TableEncoder, n_labels: int, tensors: Mapping[str, Tensor], name: str) -> nn.Module:
        """Rebuild a user's network from saved tensors."""
        import torch

        with torch.random.fork_rng(devices=[]):  # its initial weights are discarded
            network = made_by(self.network, encoder.n_features_out, n_labels)
        copy_tensors(network, tensors, name)
        return network

    def _called(self, n_features: int, n_labels: int) -> nn.Module:
        import torch

        network = made_by(self.network, n_features, n_labels)
        n_scores = network.eval()(torch.zeros(2, n_features)).shape[-1]
        if n_scores != n_labels:
            raise InputError(f"network must return one score per label, {n_labels}; it returns {n_scores}.")
        return network


Network = NetworkName | MakeNetwork | NetworkInputs


class NetworkFit(NamedTuple):
    """What the arguments of a classifier's `fit` become before training."""

    model: NetworkClassifier
    targets: Targets
    trains: NDArray[np.bool_]
    examples: DomainDataset
    held_out: DomainDataset | None
    judge: Any
    rngs: list[np.random.Generator]
    device: str


class _Network(NetworkPredictor, SetClassifier):
    """What every network classifier has beside the parameters of its constructor."""

    encoder_: Any  # of tables, or of images and texts
    update_every: int | None = None
    recall_from: RecallFrom | None = None
    _history: History  # recall and multiplier of every cell in the last training; not saved with the model
    _merges_small_cells = True  # of training examples, those with fewer than min_cell_size


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkClassifier(_Network):
    """A network with one score per label; tables are encoded and standardised internally."""

    target_recall: TargetRecall = 0.9
    criterion: CriterionName = "min-recall"
    network: Network = "mlp"
    hidden: int | Sequence[int] = 64
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float = 1e-3
    learning_rate_decay: bool = True
    iterate: Iterate = "best"
    standardize: bool = True
    min_cell_size: int = MIN_CELL_SIZE
    validation_domains: float = 0.2
    patience: int | None = 20
    device: str = "auto"
    run: TrainingRun | None = None
    random_state: Any = None
    verbose: bool = False

    @abstractmethod
    def _objective(self, fits: Sequence[NetworkFit], n_steps: int) -> Objective:
        """Return the training objective of networks that train together, for at most `n_steps` steps."""

    @abstractmethod
    def _judge(self, held_out: DomainDataset, device: str) -> Any:
        """Return the criterion that compares weights on held-out domains."""

    @abstractmethod
    def _learn(self, fit: NetworkFit, history: History) -> None:
        """Set the learned attributes of a subclass."""

    def _check_training(self, targets: Targets, trains: NDArray[np.bool_]) -> None:
        """Reject training rows that a subclass cannot use."""

    def _settings(self, examples: DomainDataset, is_judged: bool) -> TrainingSettings:
        """Return the settings of a training, with the defaults for so many examples."""
        from domaincover.training.settings import STEPS_ON_IMAGES, plan_fine_tuning, plan_training

        given = len(examples), self.batch_size, self.epochs, self.update_every
        if not isinstance(examples.examples, LazyExamples):
            found = plan_training(*given)
        elif self._inputs.is_small:
            found = plan_training(*given, STEPS_ON_IMAGES)
        else:
            found = plan_fine_tuning(*given)
        return replace(
            found,
            learning_rate=self.learning_rate,
            recall_from=self.recall_from or found.recall_from,
            iterate=self.iterate,
            decay=self.learning_rate_decay,
            patience=self.patience if is_judged else None,
            judge_at="epochs" if isinstance(examples.examples, LazyExamples) else "steps",
        )

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
        inputs: Any = self._inputs
        return inputs.unread_in_words(X, unread) if inputs.reads_sources else super()._unread_in_words(X, unread)

    def _score(self, part: Any) -> NDArray[np.float32]:
        if self._inputs.is_dense:
            return super()._score(part)
        from domaincover.training.batches import score

        encoded = self._encoded(part)
        if self._inputs.reads_sources:
            self.network_.to(self.encoder_.use(self._inputs.device(self.device)))
        scores = score(self.network_, encoded, rows_at_once=ROWS_AT_ONCE)
        if isinstance(encoded, np.ndarray) and self._inputs.reads_sources:
            scores[np.isnan(encoded).any(axis=1)] = np.inf  # an unreadable example: its set holds every label
        return scores

    def last_features(self, X: Any) -> NDArray[np.float32]:
        """Return the features of images or texts that the last part of the network scores."""
        inputs: Any = self._inputs
        return inputs.last_features(self.encoder_, self.network_, self._checked(X), inputs.device(self.device))

    def _scorer(self) -> Callable[[Tensor], Tensor]:
        """Return what scores encoded rows just as `label_scores` does: a threshold may equal one of these scores."""
        if not self._inputs.is_dense:
            return self.network_.eval()
        import torch

        return lambda rows: torch.from_numpy(self.layers_.scores(rows.cpu().numpy()))

    @property
    def _inputs(self) -> TableNetwork | SourceNetwork:
        """The kind of input that the network reads, and how it is built."""
        given: Any = self.network
        is_made = isinstance(given, NetworkInputs)
        return given if is_made else TableNetwork(given, self.hidden)

    def _prepare(self, X: Any, y: Any, domains: Any) -> NetworkFit:
        """Check the arguments of `fit`, draw the held-out domains, and encode."""
        X = self._inputs.checked(self, X, reset=True)
        self._check_settings()
        targets = self._learn_targets(y, domains, len(X))
        rngs = generators(self.random_state, "network", 4)
        judges = rows_that_judge(targets, self.validation_domains, rngs[0])
        trains = ~judges
        self.held_out_domains_ = np.delete(self.domains_, np.unique(targets.domains[trains]))
        readable = self._inputs.readable(X)
        if readable is not None:
            trains, judges = trains & readable, judges & readable
            self._check_all_labels(targets, trains)
        self._check_training(targets, trains)
        device = self._inputs.device(self.device)
        # Fitted without the held-out domains, which stay as new to the encoder as any other new domain.
        name = str(getattr(self, "feature_names_in_", [""])[0])
        self.encoder_ = self._inputs.fitted_encoder(_rows(X, trains), device, name, self.standardize)
        held_out = self._examples(X, targets, judges, 0) if judges.any() else None
        judge = None if held_out is None else self._judge(held_out, device)
        examples = self._examples(X, targets, trains, self.min_cell_size if self._merges_small_cells else 0)
        for earlier in ("layers_", "network_"):
            self.__dict__.pop(earlier, None)
        return NetworkFit(self, targets, trains, examples, held_out, judge, rngs[1:], device)

    def _finish(self, fit: NetworkFit, network: nn.Module, history: History) -> None:
        """Take over a trained network, and learn the rest from its training."""
        if self._inputs.is_dense:  # from here on the layers score, and network_ is made from them on demand
            from domaincover.networks.perceptrons import to_layers

            self.layers_ = to_layers(network.to("cpu"))
        else:
            self.network_ = network.to(fit.device)
        self._learn(fit, history)
        self._history = history
        if not self._inputs.is_dense:
            self.network_.to("cpu")

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
        encoded = self._encoded(_rows(X, rows))
        return DomainDataset(
            encoded.kept() if isinstance(encoded, LazyExamples) else encoded,
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

        self._inputs.check()
        check_criterion(self.criterion, self.target_recall)
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


def made_by(function: Any, *sizes: int) -> nn.Module:
    """Return the network created by a user's function."""
    from torch import nn

    if isinstance(function, nn.Module):
        raise InputError("network must be a function that returns a new torch.nn.Module, not a module.")
    network = function(*sizes)
    if not isinstance(network, nn.Module):
        raise InputError(f"network must return a torch.nn.Module, got {type(network).__name__}.")
    return network
