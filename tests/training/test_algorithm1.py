"""Training, and SetCoverClassifier, against the paper's algorithm in plain loops; stacks against networks alone."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn

from domaincover.data.dataset import DomainDataset
from domaincover.estimators.base import generators
from domaincover.estimators.network_classifiers import SetCoverClassifier
from domaincover.estimators.stacked_fit import fit_together
from domaincover.networks.perceptrons import linear, perceptron
from domaincover.training.batches import MemoryPool, ShuffledBatches
from domaincover.training.loop import train
from domaincover.training.objectives import SetCoverLoss
from domaincover.training.settings import TrainingSettings

from .algorithm1 import Algorithm1

pytestmark = pytest.mark.no_cover  # tests of the loop count these lines

N_DOMAINS, N_LABELS, N_FEATURES, EPOCHS, BATCH_SIZE = 4, 3, 6, 2, 40
N_ROWS = 5 * BATCH_SIZE + 17  # six batches, the last one shorter
# Both sides sum the same float64 numbers in another order: 1e-16 each, 1e-13 after 12 Adam steps that divide by the
# gradient's size. A kink or a recall that differed would show at 1e-3.
EXACT = {"rtol": 1e-9, "atol": 1e-12}


@pytest.fixture(autouse=True)
def _one_thread():
    """Sums of a few hundred numbers are slower in more threads, much so beside other work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def made_up_data(seed, without_cells=()):
    """Labels shift the examples, domains shift them again, and the labels overlap."""
    rng = np.random.default_rng(seed)
    domains = rng.integers(0, N_DOMAINS, N_ROWS)
    labels = rng.integers(0, N_LABELS, N_ROWS)
    for domain, label in without_cells:
        moved = (domains == domain) & (labels == label)
        domains[moved] = (domain + 1) % N_DOMAINS
    shifts = rng.standard_normal((N_LABELS, N_FEATURES)) + 0.5 * rng.standard_normal((N_DOMAINS, 1, N_FEATURES))
    examples = shifts[domains, labels] + rng.standard_normal((N_ROWS, N_FEATURES))
    return DomainDataset(examples, labels, domains, tuple(range(N_LABELS)), tuple(range(N_DOMAINS)))


COMPLETE = made_up_data(1)
ONE_LABEL_ABSENT = made_up_data(2, without_cells=[(1, 2)])
ONE_DOMAIN_EMPTY = made_up_data(3, without_cells=[(3, 0), (3, 1), (3, 2)])


def a_perceptron(seed):
    return perceptron(N_FEATURES, 5, N_LABELS, np.random.default_rng(seed)).double()


def a_linear_network(seed):
    return linear(N_FEATURES, N_LABELS, np.random.default_rng(seed)).double()


class SkipConnection(nn.Module):
    """A user's own network, which is no row of plain layers."""

    def __init__(self, n_features, n_labels):
        super().__init__()
        self.inner = nn.Linear(n_features, n_features)
        self.norm = nn.LayerNorm(n_features)
        self.head = nn.Linear(n_features, n_labels, bias=False)

    def forward(self, x):
        return self.head(self.norm(x + torch.tanh(self.inner(x))))


def a_users_network(seed):
    generator = torch.Generator().manual_seed(seed)
    network = SkipConnection(N_FEATURES, N_LABELS).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return network


def train_ours(networks, data, seeds, targets, settings, penalty="wrong-label", dtype=torch.float64):
    rows, rngs = [np.arange(len(data))] * len(seeds), [np.random.default_rng(seed) for seed in seeds]
    batches = ShuffledBatches(MemoryPool([data], dtype), rows, BATCH_SIZE, rngs)
    loss = SetCoverLoss(data.n_domains, data.n_labels, targets, penalty=penalty).to(dtype)
    return [trained.history for trained in train(networks, batches, loss, settings)]


def train_by_the_paper(network, data, seed, target, settings, penalty="wrong-label"):
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(data)) for _ in range(settings.epochs)]
    epochs = [[order[k : k + BATCH_SIZE].tolist() for k in range(0, len(data), BATCH_SIZE)] for order in orders]
    algorithm = Algorithm1(
        data.n_domains,
        data.n_labels,
        target,
        settings.update_every,
        learning_rate=settings.learning_rate,
        full_set_penalty=penalty == "full-set",
        recall_from_batches=settings.recall_from == "batches",
    )
    return algorithm.run(network, torch.as_tensor(data.examples), data.labels.tolist(), data.domains.tolist(), epochs)


def assert_same_weights(ours, theirs, **tolerance):
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, **tolerance, msg=lambda text, name=name: f"{name}: {text}")


def assert_ours_is_the_papers(data, seeds, targets, settings, penalty="wrong-label"):
    ours, papers = ([a_perceptron(seed) for seed in seeds] for _ in range(2))
    histories = train_ours(ours, data, seeds, targets, settings, penalty)
    for mine, network, history, seed, target in zip(ours, papers, histories, seeds, targets, strict=True):
        trained = train_by_the_paper(network, data, seed, target, settings, penalty)
        assert list(zip(history.epoch, history.batch, strict=True)) == trained.updates_at
        np.testing.assert_array_equal(history.recall, trained.recalls)
        np.testing.assert_allclose(history.set_size, trained.mean_set_sizes, rtol=1e-12)
        np.testing.assert_allclose(history.multipliers, trained.multipliers_after, rtol=1e-9)
        assert_same_weights(mine, network, **EXACT)


def quick_settings(recall_from="full-pass", update_every=500, iterate="last"):
    return TrainingSettings(EPOCHS, 0.02, update_every, recall_from, iterate)


RECALLS = pytest.mark.parametrize("recall_from", ["full-pass", "batches"])


@RECALLS
@pytest.mark.parametrize("penalty", ["wrong-label", "full-set"])
def test_one_network_alone_ends_where_the_papers_algorithm_ends(recall_from, penalty):
    assert_ours_is_the_papers(COMPLETE, [7], [0.9], quick_settings(recall_from), penalty)


@RECALLS
@pytest.mark.parametrize("penalty", ["wrong-label", "full-set"])
def test_stacked_networks_with_their_own_seeds_and_targets_end_where_the_papers_algorithm_ends(recall_from, penalty):
    settings = quick_settings(recall_from, update_every=4)
    assert_ours_is_the_papers(COMPLETE, [7, 8, 9], [0.6, 0.9, 0.97], settings, penalty)


@RECALLS
@pytest.mark.parametrize(
    "update_every", [1, 4, 6]
)  # every batch; inside the epoch; with its last batch, so twice there
def test_updates_inside_an_epoch_are_the_papers(recall_from, update_every):
    assert_ours_is_the_papers(COMPLETE, [7], [0.9], quick_settings(recall_from, update_every))


@RECALLS
@pytest.mark.parametrize("data", [ONE_LABEL_ABSENT, ONE_DOMAIN_EMPTY], ids=["label absent", "domain empty"])
def test_cells_without_examples_keep_their_multiplier_and_the_rest_is_the_papers(data, recall_from):
    settings = quick_settings(recall_from, update_every=4)
    assert (data.cell_counts() == 0).any()
    assert_ours_is_the_papers(data, [7, 8], [0.9, 0.8], settings)
    network = a_perceptron(7)
    (history,) = train_ours([network], data, [7], [0.9], settings)
    assert (history.multipliers[:, data.cell_counts() == 0] == 5).all()
    assert np.isfinite(history.multipliers).all()


def best_update(trained, target):
    """Return the update with no cell below the target, or the least far below; of those, the one with smallest sets."""
    best, best_at = (np.inf, np.inf), None
    for k, (recalls, size) in enumerate(zip(trained.recalls, trained.mean_set_sizes, strict=True)):
        known = [recall for row in recalls for recall in row if not np.isnan(recall)]
        if known and (key := (max(0, *(target - recall for recall in known)), size)) < best:
            best, best_at = key, k
    return best_at


def assert_ours_keeps_the_best(data, seeds, targets, settings):
    ours = [a_perceptron(seed) for seed in seeds]
    train_ours(ours, data, seeds, targets, settings)
    for mine, seed, target in zip(ours, seeds, targets, strict=True):
        trained = train_by_the_paper(a_perceptron(seed), data, seed, target, settings)
        expected = trained.weights[best_update(trained, target)]
        torch.testing.assert_close([p.detach() for p in mine.parameters()], expected, **EXACT)


@RECALLS
@pytest.mark.parametrize("data", [COMPLETE, ONE_LABEL_ABSENT, ONE_DOMAIN_EMPTY], ids=["all", "no label", "no domain"])
def test_the_kept_weights_are_those_of_the_best_update(data, recall_from):
    settings = quick_settings(recall_from, update_every=4, iterate="best")
    assert_ours_keeps_the_best(data, [7, 8, 9], [0.2, 0.6, 0.9], settings)


def test_alone_the_kept_weights_are_those_of_the_best_update():
    assert_ours_keeps_the_best(COMPLETE, [7], [0.6], quick_settings(update_every=1, iterate="best"))


def test_an_update_that_saw_no_examples_is_not_the_best():
    settings = quick_settings("batches", update_every=6, iterate="best")  # again after the epoch, with nothing gathered
    assert_ours_keeps_the_best(COMPLETE, [7, 8, 9], [0.2, 0.6, 0.9], settings)


def the_papers_classifier(seed, target, iterate="last", **settings):
    """Return SetCoverClassifier with the settings of the paper's Algorithm 1."""
    return SetCoverClassifier(
        target,
        hidden=5,
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        learning_rate=0.02,
        learning_rate_decay=False,
        iterate=iterate,
        initial_multiplier=5.0,
        min_cell_size=1,
        standardize=False,
        validation_domains=0,
        random_state=seed,
        **{"update_every": 4, "recall_from": "full-pass", **settings},
    )


def assert_the_classifier_is_the_papers(model, data):
    """Compare in single precision, which classifiers train in; the tolerance is that of replicas of a stack, below."""
    _, _, for_network, for_batches = generators(model.random_state, "network", 4)
    network = perceptron(N_FEATURES, 5, N_LABELS, for_network)
    orders = [for_batches.permutation(len(data)) for _ in range(EPOCHS)]
    algorithm = Algorithm1(
        N_DOMAINS,
        N_LABELS,
        model.target_recall,
        model.update_every,
        learning_rate=model.learning_rate,
        full_set_penalty=model.penalty == "full-set",
        recall_from_batches=model.recall_from == "batches",
    )
    trained = algorithm.run(
        network,
        torch.as_tensor(data.examples, dtype=torch.float32),
        data.labels.tolist(),
        data.domains.tolist(),
        [[order[k : k + BATCH_SIZE].tolist() for k in range(0, len(data), BATCH_SIZE)] for order in orders],
    )
    weights = [*network.parameters()]
    if model.iterate == "best":
        weights = trained.weights[best_update(trained, model.target_recall)]
    longest_way = EPOCHS * -(-N_ROWS // BATCH_SIZE) * model.learning_rate
    tolerance = {"rtol": 0, "atol": 100 * BATCH_SIZE * 2**-24 * longest_way}
    torch.testing.assert_close(
        [p.detach() for p in model.network_.parameters()], [p.detach() for p in weights], **tolerance
    )
    np.testing.assert_allclose(model.multipliers_, trained.multipliers, rtol=1e-5)
    np.testing.assert_allclose(model.history_["set_size"], trained.mean_set_sizes, rtol=1e-6)
    assert (model.thresholds_ == 0).all()
    network.load_state_dict(model.network_.state_dict())
    with torch.no_grad():
        expected = network(torch.as_tensor(data.examples, dtype=torch.float32)) >= 0
    np.testing.assert_array_equal(model.predict_set(data.examples), expected)


@RECALLS
@pytest.mark.parametrize("penalty", ["wrong-label", "full-set"])
@pytest.mark.parametrize("iterate", ["last", "best"])
def test_the_public_classifier_can_be_the_papers_algorithm(recall_from, penalty, iterate):
    model = the_papers_classifier(7, 0.9, iterate, recall_from=recall_from, penalty=penalty)
    model.fit(COMPLETE.examples, COMPLETE.labels, domains=COMPLETE.domains)
    assert_the_classifier_is_the_papers(model, COMPLETE)


def test_classifiers_with_their_own_seeds_and_targets_that_train_as_one_stack_are_the_papers_algorithm():
    models = [the_papers_classifier(seed, target) for seed, target in ((7, 0.6), (8, 0.9), (9, 0.97))]
    list(fit_together(models, [(COMPLETE.examples, COMPLETE.labels, COMPLETE.domains)] * 3, as_if_alone=True))
    for model in models:
        assert_the_classifier_is_the_papers(model, COMPLETE)


@pytest.mark.parametrize(
    "changes", [{"learning_rate_decay": True}, {"standardize": True}, {"validation_domains": 0.25}, {"hidden": 6}]
)
def test_that_comparison_notices_other_settings(changes):
    model = the_papers_classifier(7, 0.9).set_params(**changes)
    model.fit(COMPLETE.examples, COMPLETE.labels, domains=COMPLETE.domains)
    with pytest.raises(AssertionError):
        assert_the_classifier_is_the_papers(model, COMPLETE)


NETWORKS = pytest.mark.parametrize("make", [a_perceptron, a_linear_network])


@RECALLS
def test_a_linear_replica_of_a_stack_comes_out_as_if_trained_alone(recall_from):
    seeds, targets, settings = [3, 4, 5], [0.7, 0.9, 0.95], quick_settings(recall_from, update_every=4)
    together = [a_linear_network(seed) for seed in seeds]
    histories = train_ours(together, COMPLETE, seeds, targets, settings)
    for network, history, seed, target in zip(together, histories, seeds, targets, strict=True):
        alone = a_linear_network(seed)
        (history_alone,) = train_ours([alone], COMPLETE, [seed], [target], settings)
        assert_same_weights(network, alone, **EXACT)
        np.testing.assert_allclose(history.multipliers, history_alone.multipliers, rtol=1e-9)
        np.testing.assert_allclose(history.loss, history_alone.loss, rtol=1e-9)


@NETWORKS
def test_in_float32_a_replica_of_a_stack_stays_beside_the_one_trained_alone(make):
    """A sum over a batch of n errs by n·2⁻²⁴ relative to its terms, and by 100 times that where the terms cancel to a
    hundredth; Adam's step is as relative as the gradient, so the error is this share of the longest way, steps · rate.
    """
    seeds, settings = [3, 4, 5], TrainingSettings(epochs=1, learning_rate=0.01, iterate="last")
    together = [make(seed).float() for seed in seeds]
    train_ours(together, COMPLETE, seeds, [0.9] * 3, settings, dtype=torch.float32)
    longest_way = -(-N_ROWS // BATCH_SIZE) * settings.learning_rate
    for network, seed in zip(together, seeds, strict=True):
        alone = make(seed).float()
        train_ours([alone], COMPLETE, [seed], [0.9], settings, dtype=torch.float32)
        assert_same_weights(network, alone, rtol=0, atol=100 * BATCH_SIZE * 2**-24 * longest_way)


def test_a_network_that_was_scored_before_trains_in_training_mode():
    modes = []
    network = a_users_network(0).eval()
    network.register_forward_hook(lambda module, *_: modes.append(module.training))
    train_ours([network], COMPLETE, [0], [0.9], TrainingSettings(epochs=1, recall_from="batches"))
    assert modes
    assert all(modes)


def tied(seed):
    """A user's row of plain layers, one of which is used twice."""
    layer, head = a_perceptron(seed)[0], a_linear_network(seed)[0]
    square = nn.Linear(5, 5).double()
    square.weight.data, square.bias.data = 0.5 * torch.eye(5).double(), layer.bias.data.clone()
    last = nn.Linear(5, N_LABELS).double()
    last.weight.data, last.bias.data = head.weight.data[:, :5].clone(), head.bias.data.clone()
    return nn.Sequential(layer, nn.ReLU(), square, nn.ReLU(), square, nn.Tanh(), last)


def hooked(seed):
    """A user's row of plain layers, with a hook that changes scores."""
    network = nn.Sequential(*a_perceptron(seed))
    network[0].register_forward_hook(lambda _, __, outputs: 2 * outputs)
    return network


def frozen(seed):
    """A user's row of plain layers, the first of which does not learn."""
    network = nn.Sequential(*a_perceptron(seed))
    network[0].requires_grad_(False)
    return network


@pytest.mark.parametrize("make", [tied, hooked, frozen])
def test_a_users_row_of_plain_layers_is_trained_as_it_is(make):
    ours, papers = make(3), make(3)
    before = [weight.detach().clone() for weight in ours.parameters()]
    train_ours([ours], COMPLETE, [3], [0.9], quick_settings())
    train_by_the_paper(papers, COMPLETE, 3, 0.9, quick_settings())
    assert_same_weights(ours, papers, **EXACT)
    moved = [not torch.equal(*pair) for pair in zip(before, ours.parameters(), strict=True)]
    assert moved == [weight.requires_grad for weight in ours.parameters()]


N_MOST = 4
SCORES = st.integers(-64, 64).map(lambda k: k / 16)  # exact in binary, so that the kinks at -1 and 1 are met
MULTIPLIERS = st.floats(2**-10, 2**10, width=32)  # the loss keeps its start value as a float32


@st.composite
def batches_with_multipliers(draw):
    n, n_labels, n_domains = draw(st.integers(1, 8)), draw(st.integers(2, N_MOST)), draw(st.integers(1, N_MOST))
    scores = draw(hnp.arrays(np.float64, (n, n_labels), elements=SCORES))
    labels = draw(hnp.arrays(np.int64, n, elements=st.integers(0, n_labels - 1)))
    domains = draw(hnp.arrays(np.int64, n, elements=st.integers(0, n_domains - 1)))
    multipliers = draw(hnp.arrays(np.float64, (n_domains, n_labels), elements=MULTIPLIERS))
    return scores, labels, domains, multipliers


def loss_by_formula(scores, labels, domains, multipliers, penalty):
    """Return the loss and its gradient by score; a hinge has slope 0 at its kink."""
    own = labels[:, None] == np.arange(scores.shape[1])
    on_inclusion = np.where(own, float(penalty == "full-set"), 1.0)
    on_miss = np.where(own, multipliers[domains, labels][:, None], 0.0)
    loss = on_inclusion * np.maximum(0, 1 + scores) + on_miss * np.maximum(0, 1 - scores)
    gradient = on_inclusion * (scores > -1) - on_miss * (scores < 1)
    return loss.sum() / len(labels), gradient / len(labels)


def our_loss(scores, labels, domains, multipliers, penalty):
    loss = SetCoverLoss(*multipliers.shape, penalty=penalty).double()
    loss.multipliers.copy_(torch.as_tensor(multipliers))
    scores = torch.tensor(scores, requires_grad=True)
    value = loss(scores, torch.as_tensor(labels), torch.as_tensor(domains))
    value.backward()
    return value.item(), scores.grad.numpy()


PENALTIES = pytest.mark.parametrize("penalty", ["wrong-label", "full-set"])


@PENALTIES
@settings(deadline=None)
@given(batches_with_multipliers())
def test_the_loss_and_its_gradient_are_the_formulas(penalty, batch):
    value, gradient = our_loss(*batch, penalty)
    expected, expected_gradient = loss_by_formula(*batch, penalty)
    assert value == pytest.approx(expected, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-12, atol=1e-15)


def updated(multiplier, n_hits, n_examples, target, floor=1e-6, cap=1e6):
    """Update the first of two cells by n_hits of n_examples; return both multipliers."""
    loss = SetCoverLoss(2, 2, target, initial_multiplier=multiplier, floor=floor, cap=cap).double()
    own = torch.where(torch.arange(n_examples) < n_hits, 0.0, -1.0).double()
    scores = torch.stack([own, torch.ones_like(own)], dim=1)
    codes = torch.zeros(n_examples, dtype=torch.int64)
    loss.count(scores, codes, codes)
    loss.update()
    return loss.multipliers


# The quotients of equal fractions are the same float, so "at the target" is exact.
TARGETS = st.integers(1, 99).map(lambda percent: percent / 100)
COUNTS = st.integers(1, 50).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@settings(deadline=None)
@given(MULTIPLIERS, COUNTS, TARGETS)
@example(5.0, (9, 10), 0.9)
def test_a_multiplier_more_than_doubles_below_the_target_falls_above_and_rests_on_it(multiplier, counts, target):
    n_hits, n_examples = counts
    recall = n_hits / n_examples
    ratio = updated(multiplier, n_hits, n_examples, target)[0, 0].item() / multiplier
    if recall < target:
        assert 2 < ratio <= 2 * (1 + target) * (1 + 1e-12)
    elif recall > target:
        assert target * (1 - 1e-12) <= ratio < 1
    else:
        assert ratio == 1


@settings(deadline=None)
@given(st.floats(0.5, 2.0), COUNTS, TARGETS)
@example(1.0, (0, 5), 0.9)
@example(0.5, (5, 5), 0.5)
def test_a_multiplier_stays_between_floor_and_cap(multiplier, counts, target):
    free, kept = (updated(multiplier, *counts, target, floor, cap)[0, 0] for floor, cap in ((1e-9, 1e9), (0.5, 2.0)))
    assert kept == free.clamp(0.5, 2.0)
