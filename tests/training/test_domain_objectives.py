"""Each objective against a literal computation from its formula, one domain after the other, in double precision."""

from itertools import combinations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from domaincover import InputError
from domaincover.training.domain_objectives import CORAL, IRM, MMD, DomainObjective, VREx

N_LABELS, N_FEATURES, N_CODES = 3, 4, 9
UNEQUAL = [7, 2, 12, 5]  # examples of each domain in a batch, one with two
EVEN = [6, 6, 6, 6]


def batch(sizes, seed=0):
    """Return scores, labels, domains and features that want a gradient."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(N_CODES)[: len(sizes)]
    domains = rng.permutation(np.repeat(codes, sizes))
    scores = torch.tensor(rng.normal(size=(len(domains), N_LABELS)), requires_grad=True)
    features = torch.tensor(rng.normal(size=(len(domains), N_FEATURES)), requires_grad=True)
    labels = torch.tensor(rng.integers(0, N_LABELS, len(domains)))
    return scores, labels, torch.tensor(domains), features


def parts(values, domains):
    return [values[domains == code] for code in domains.unique()]


def risks(scores, labels, domains):
    pairs = zip(parts(scores, domains), parts(labels, domains), strict=True)
    return torch.stack([cross_entropy(own, true) for own, true in pairs])


def irm(scores, labels, domains, _):
    products = []
    for own, true in zip(parts(scores, domains), parts(labels, domains), strict=True):
        scale = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        slopes = [
            torch.autograd.grad(cross_entropy(scale * own[half::2], true[half::2]), scale, create_graph=True)[0]
            for half in (0, 1)
        ]
        products.append(slopes[0] * slopes[1])
    return risks(scores, labels, domains).mean() + 100 * torch.stack(products).mean()


def vrex(scores, labels, domains, _):
    each = risks(scores, labels, domains)
    return each.mean() + 10 * ((each - each.mean()) ** 2).mean()


def kernel(a, b):
    total = 0.0
    for rate in (0.001, 0.01, 0.1, 1, 10, 100, 1000):
        total = total + torch.exp(-rate * ((a[:, None] - b[None]) ** 2).sum(-1))
    return total.mean()


def mmd(scores, labels, domains, features):
    pairs = combinations(parts(features, domains), 2)
    each = [kernel(a, a) + kernel(b, b) - 2 * kernel(a, b) for a, b in pairs]
    return risks(scores, labels, domains).mean() + torch.stack(each).mean()


def coral(scores, labels, domains, features):
    each = [
        ((a.mean(0) - b.mean(0)) ** 2).mean() + ((torch.cov(a.T) - torch.cov(b.T)) ** 2).mean()
        for a, b in combinations(parts(features, domains), 2)
    ]
    return risks(scores, labels, domains).mean() + torch.stack(each).mean()


OBJECTIVES = {
    "irm": (lambda: IRM(warmup_steps=0), irm),
    "vrex": (lambda: VREx(warmup_steps=0), vrex),
    "mmd": (lambda: MMD(), mmd),
    "coral": (lambda: CORAL(), coral),
}


def value_and_gradients(loss, scores, features):
    gradients = torch.autograd.grad(loss, [scores, features], allow_unused=True)
    return loss.detach(), *(torch.zeros(1) if gradient is None else gradient for gradient in gradients)


@pytest.mark.parametrize("sizes", [UNEQUAL, EVEN])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", OBJECTIVES)
def test_value_and_gradient_are_those_of_the_formula(name, seed, sizes):
    scores, labels, domains, features = batch(sizes, seed)
    make, formula = OBJECTIVES[name]
    ours = value_and_gradients(make()(scores, labels, domains, features), scores, features)
    literal = value_and_gradients(formula(scores, labels, domains, features), scores, features)
    for one, other in zip(ours, literal, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_each_replica_of_a_stack_has_the_loss_that_it_would_have_alone(name):
    batches = [batch([6, 3, 3], seed=1), batch([2, 5, 4, 1], seed=2)]  # two replicas, three and four domains
    objective = OBJECTIVES[name][0]()
    stacked = objective(*(torch.stack([own[k] for own in batches]) for k in range(4)))
    for own, loss in zip(batches, stacked, strict=True):
        torch.testing.assert_close(objective(*own), loss, rtol=0, atol=1e-12)


def test_irms_penalty_may_be_negative_and_is_not_clipped():
    scores = torch.tensor([[3.0, 0.0], [3.0, 0.0]])  # right on the even half, wrong on the odd one
    labels, domains = torch.tensor([0, 1]), torch.tensor([0, 0])
    risk = IRM(weight=0, warmup_steps=0)(scores, labels, domains)
    assert IRM(weight=1, warmup_steps=0)(scores, labels, domains) < risk - 0.1


@pytest.mark.parametrize("objective", [IRM, VREx])
def test_the_weight_is_one_until_the_switch_where_the_optimiser_starts_afresh(objective):
    scores, labels, domains, _ = batch(UNEQUAL)
    switching, before, after = objective(50, 3), objective(1, 0), objective(50, 0)
    starts = []
    for step in range(5):
        starts.append(switching.begin_step(step))
        expected = before if step < 3 else after
        assert switching(scores, labels, domains).item() == expected(scores, labels, domains).item()
    assert starts == [False, False, False, True, False]


def test_alignment_of_one_domain_costs_nothing():
    scores, labels, domains, features = batch([9])
    for objective in (MMD(), CORAL(), VREx(warmup_steps=0)):
        expected = cross_entropy(scores, labels)
        assert objective(scores, labels, domains, features).item() == pytest.approx(expected.item())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: IRM(weight=-1), "weight must be a finite number, 0 or more, got -1"),
        (lambda: VREx(weight=float("nan")), "weight must be a finite number, 0 or more, got nan"),
        (lambda: MMD(warmup_steps=-5), "warmup_steps must be a whole number, 0 or more, got -5"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_a_line(make, words):
    with pytest.raises(InputError, match=words) as refusal:
        make()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("offset", "n_features"), [(100.0, 8), (0.0, 2048)])
def test_mmd_is_as_good_in_single_precision_also_far_from_zero_and_with_many_features(offset, n_features):
    scores, labels, domains, _ = batch(EVEN)
    features = offset + 0.1 * torch.randn(
        24, n_features, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    single = features.float()
    exact, _, exact_slope = computed(scores, labels, domains, single.double())
    value, _, slope = computed(scores.float(), labels, domains, single)
    assert value.item() == pytest.approx(exact.item(), rel=1e-4)
    assert float((slope - exact_slope).abs().max()) < 1e-2 * float(exact_slope.abs().max())


def computed(scores, labels, domains, features):
    value, slopes = MMD().value_and_slopes(scores[None], labels[None], domains[None], features[None])
    return value, *slopes


def test_a_label_that_is_ruled_out_costs_nothing():
    scores = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    scores[:, 2] = -torch.inf
    labels, domains = torch.tensor([0, 1] * 4), torch.arange(8) // 4
    scores.requires_grad_()
    loss = VREx(warmup_steps=0)(scores, labels, domains)
    expected = VREx(warmup_steps=0)(scores[:, :2], labels, domains)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    loss.backward()
    assert scores.grad.isfinite().all()


def test_half_precision_is_computed_in_single_precision():
    scores, labels, domains, features = batch(UNEQUAL)
    half = [values.detach().bfloat16().requires_grad_() for values in (scores, features)]
    loss = CORAL()(half[0], labels, domains, half[1])
    expected = CORAL()(half[0].float(), labels, domains, half[1].float())
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    loss.backward()
    assert half[1].grad.dtype == torch.bfloat16


def test_before_the_switch_a_small_weight_is_not_raised():
    scores, labels, domains, _ = batch(UNEQUAL)
    assert VREx(0.5, 10)(scores, labels, domains).item() == VREx(0.5, 0)(scores, labels, domains).item()


def test_an_objective_says_whether_it_needs_features():
    assert {kind.__name__ for kind in DomainObjective.__subclasses__() if kind.needs_features} == {"MMD", "CORAL"}
