"""`SetCoverLoss` in a training loop of one's own: what it refuses, counts, saves, and computes in any precision."""

import copy
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from domaincover import InputError, SetCoverLoss
from tests.processes import LIMIT
from tests.training.several_processes import own_loop

N_DOMAINS, N_LABELS, N_ROWS = 3, 4, 60
SCRIPT = Path(__file__).with_name("several_processes.py")


def batch(seed=0):
    rng = np.random.default_rng(seed)
    scores = torch.tensor(rng.normal(size=(N_ROWS, N_LABELS)), dtype=torch.float32, requires_grad=True)
    return scores, torch.tensor(rng.integers(N_LABELS, size=N_ROWS)), torch.tensor(rng.integers(N_DOMAINS, size=N_ROWS))


SCORES, LABELS, DOMAINS = batch()


def replaced(tensor, value):
    changed = tensor.detach().clone()
    changed[3] = value
    return changed


REFUSED = {
    "a wider network": (
        {"scores": torch.zeros(N_ROWS, 5)},
        r"for each of the 4 labels, \(examples, 4\), got \(60, 5\)",
    ),
    "a narrower network": ({"scores": torch.zeros(N_ROWS, 3)}, r"for each of the 4 labels, .* got \(60, 3\)"),
    "a stack": ({"scores": torch.zeros(2, N_ROWS, 4)}, r"got \(2, 60, 4\)"),
    "one score": ({"scores": torch.zeros(4)}, r"got \(4,\)"),
    "integer scores": (
        {"scores": torch.zeros(N_ROWS, 4, dtype=torch.int64)},
        "floating-point tensor, .* got torch.int64",
    ),
    "an array": ({"scores": np.zeros((N_ROWS, 4))}, "floating-point tensor, .* got ndarray"),
    "NaN": ({"scores": replaced(SCORES, torch.nan)}, "scores are NaN or infinite; lower the learning rate"),
    "infinity": ({"scores": replaced(SCORES, torch.inf)}, "scores are NaN or infinite"),
    "softmax": ({"scores": SCORES.softmax(-1)}, "look like the result of softmax; leave it out"),
    "softmax in bfloat16": ({"scores": SCORES.bfloat16().softmax(-1)}, "look like the result of softmax; leave it out"),
    "log_softmax": ({"scores": SCORES.log_softmax(-1)}, "look like the result of log_softmax; leave it out"),
    "float labels": ({"labels": LABELS.float()}, "labels must be a tensor of integer codes, 0 to 3, got torch.float32"),
    "listed labels": ({"labels": LABELS.tolist()}, "labels must be a tensor of integer codes, 0 to 3, got list"),
    "one-hot labels": (
        {"labels": nn.functional.one_hot(LABELS)},
        r"one code for each example, shape \(60,\), got \(60, 4\)",
    ),
    "fewer labels": ({"labels": LABELS[1:]}, r"labels must have one code for each example, shape \(60,\), got \(59,\)"),
    "a label of a wider loss": (
        {"labels": replaced(LABELS, 4)},
        "label codes run from 0 to 4, but the loss has 4 labels",
    ),
    "no label": ({"labels": replaced(LABELS, -1)}, "label codes run from -1 to 3"),
    "float domains": (
        {"domains": DOMAINS.double()},
        "domains must be a tensor of integer codes, 0 to 2, got torch.float64",
    ),
    "another domain": ({"domains": replaced(DOMAINS, 3)}, "domain codes run from 0 to 3, but the loss has 3 domains"),
    "no domain": ({"domains": replaced(DOMAINS, -1)}, "domain codes run from -1 to 2"),
    "columns of codes": ({"domains": DOMAINS[:, None]}, r"domains must have one code for each .* got \(60, 1\)"),
    "nothing": ({"scores": SCORES[:0], "labels": LABELS[:0], "domains": DOMAINS[:0]}, "the batch has no examples"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_batch_of_the_loss_is_refused_in_a_line_and_not_counted(what):
    changes, message = REFUSED[what]
    given = {"scores": SCORES, "labels": LABELS, "domains": DOMAINS} | changes
    loss = SetCoverLoss(N_DOMAINS, N_LABELS)
    for call in (loss, loss.count):
        with pytest.raises(InputError, match=message) as error:
            call(**given)
        assert "\n" not in str(error.value)
    assert loss.update().isnan().all()


@pytest.mark.parametrize("scores", [torch.rand(N_ROWS, N_LABELS), torch.full((N_ROWS, N_LABELS), 0.25)])
def test_scores_between_0_and_1_are_taken_where_they_are_no_probabilities_of_examples(scores):
    assert SetCoverLoss(N_DOMAINS, N_LABELS)(scores, LABELS, DOMAINS) > 0


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_codes_of_any_integer_type_find_their_cells(dtype):
    many = SetCoverLoss(100, N_LABELS)  # 400 cells, more than eight bits can count
    domains = torch.arange(N_ROWS)
    many.multipliers.copy_(torch.arange(400.0).view(100, 4))
    assert many(SCORES, LABELS.to(dtype), domains.to(dtype)) == many(SCORES, LABELS, domains)


def gradient_and_value(loss, scores):
    scores = scores.detach().clone().requires_grad_()
    value = loss(scores, LABELS, DOMAINS)
    value.backward()
    return scores.grad, value.detach()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_has_the_loss_and_gradient_of_the_same_scores_in_single(dtype):
    loss, scores = SetCoverLoss(N_DOMAINS, N_LABELS), SCORES.to(dtype)
    gradient, value = gradient_and_value(loss, scores)
    expected_gradient, expected = gradient_and_value(loss, scores.float())
    assert (value.dtype, gradient.dtype) == (torch.float32, dtype)
    assert value == expected
    assert torch.equal(gradient, expected_gradient.to(dtype))


def test_double_precision_stays_double():
    gradient, value = gradient_and_value(SetCoverLoss(N_DOMAINS, N_LABELS), SCORES.double())
    assert value.dtype == gradient.dtype == torch.float64


@pytest.mark.parametrize("n_rows", [1, 2, N_ROWS])
def test_large_multipliers_overflow_no_half_precision(n_rows):
    loss = SetCoverLoss(N_DOMAINS, N_LABELS, initial_multiplier=1e6)
    scores = (SCORES.detach()[:n_rows] - 3).half().requires_grad_()
    value = loss(scores, LABELS[:n_rows], DOMAINS[:n_rows])
    value.backward()
    assert value.isfinite()
    assert value > 1e6
    assert scores.grad.isfinite().all()
    assert (scores.grad.gather(1, LABELS[:n_rows, None]) <= -min(6e4, 1e6 / n_rows * 0.99)).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_changes_neither_loss_nor_update(dtype):
    linear = nn.Linear(5, N_LABELS)
    examples = torch.randn(N_ROWS, 5, generator=torch.Generator().manual_seed(0))
    inside, outside = SetCoverLoss(N_DOMAINS, N_LABELS), SetCoverLoss(N_DOMAINS, N_LABELS)
    with torch.autocast("cpu", dtype=dtype):
        scores = linear(examples)
        value = inside(scores, LABELS, DOMAINS)
        recall = inside.update()
    assert scores.dtype == dtype
    assert value == outside(scores, LABELS, DOMAINS)
    torch.testing.assert_close(recall, outside.update(), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(inside.multipliers, outside.multipliers)
    value.backward()
    assert linear.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("change", [lambda loss: loss.to(torch.bfloat16), nn.Module.half, nn.Module.bfloat16])
def test_a_lower_precision_of_the_network_leaves_target_and_multipliers(change):
    loss, changed = SetCoverLoss(N_DOMAINS, N_LABELS), SetCoverLoss(N_DOMAINS, N_LABELS)
    nn.Sequential(nn.Linear(2, 2), change(nn.ModuleList([changed])))
    for each in (loss, changed):
        each(SCORES, LABELS, DOMAINS)
        each.update()
    assert changed.multipliers.dtype == torch.float32
    assert torch.equal(loss.multipliers, changed.multipliers)
    assert dict(changed.named_buffers())["multipliers"] is changed.multipliers


class NoDouble(TorchDispatchMode):
    """Fails at any tensor of double precision, which some devices, such as Apple's, do not have."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            assert not isinstance(tensor, torch.Tensor) or tensor.dtype != torch.float64, function
        return made


def test_nothing_on_the_device_is_in_double_precision():
    loss = SetCoverLoss(N_DOMAINS, N_LABELS)
    assert {buffer.dtype for buffer in loss.buffers()} == {torch.float32}
    assert not any(value.dtype == torch.float64 for value in loss.state_dict().values())
    with NoDouble():
        for _ in range(2):
            loss(SCORES, LABELS, DOMAINS).backward()
        assert loss.counts.totals.sum() > 0
    assert loss.to("meta").multipliers.device.type == "meta"
    assert loss.target_recall.device.type == "cpu"


def test_batches_are_counted_in_training_with_gradients_only():
    trained, also_validated = SetCoverLoss(N_DOMAINS, N_LABELS), SetCoverLoss(N_DOMAINS, N_LABELS)
    other = batch(1)
    for loss in (trained, also_validated):
        loss(SCORES, LABELS, DOMAINS)
    with torch.no_grad():
        also_validated(*other)
    with torch.inference_mode():
        also_validated(*other)
    also_validated.eval()(*other)
    also_validated.train()
    torch.testing.assert_close(also_validated.update(), trained.update(), rtol=0, atol=0, equal_nan=True)


def test_counts_since_the_last_update_are_restored_with_the_state():
    loss = SetCoverLoss(N_DOMAINS, N_LABELS, [0.8, 0.9])
    stacks = [tuple(torch.stack([part, part.flip(0)]) for part in batch(seed)) for seed in range(3)]
    loss(*stacks[0])
    loss.update()
    loss(*stacks[1])
    saved = io.BytesIO()
    torch.save(loss.state_dict(), saved)
    saved.seek(0)
    resumed, copied = SetCoverLoss(N_DOMAINS, N_LABELS, [0.8, 0.9]), copy.deepcopy(loss)
    resumed.load_state_dict(torch.load(saved, weights_only=True))
    recalls = []
    for each in (loss, resumed, copied):
        each(*stacks[2])
        recalls.append(each.update())
        assert torch.equal(each.multipliers, loss.multipliers)
    for recall in recalls[1:]:
        torch.testing.assert_close(recall, recalls[0], rtol=0, atol=0, equal_nan=True)


def test_loading_a_state_leaves_the_saved_tensors_alone():
    loss = SetCoverLoss(N_DOMAINS, N_LABELS)
    loss(SCORES, LABELS, DOMAINS)
    state = copy.deepcopy(loss.state_dict())
    before = copy.deepcopy(state)
    loss.load_state_dict(state)
    loss(SCORES, LABELS, DOMAINS)
    loss.update()
    assert all(torch.equal(state[name], before[name]) for name in before)


@pytest.fixture(scope="module")
def of_two_processes(once_for_all_workers):
    """What each of two real processes has learned."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(SCRIPT)]
    _, folder = once_for_all_workers(
        "two-processes", lambda folder: subprocess.run([*command, str(folder)], check=True, timeout=LIMIT).returncode
    )
    names = ("own loop", "updates")
    return {name: [dict(np.load(folder / f"{name}-{rank}.npz")) for rank in range(2)] for name in names}


@pytest.mark.slow
def test_two_processes_of_a_loop_of_ones_own_have_the_multipliers_of_one(of_two_processes):
    """In float64; a mean over two processes of means over 20 rows differs from one of 40 by rounding only."""
    one, (first, second) = own_loop(), of_two_processes["own loop"]
    for name in one:
        assert np.array_equal(first[name], second[name], equal_nan=True), f"both processes have the same {name}"
    assert np.array_equal(first["recalls"], one["recalls"])
    assert np.array_equal(first["multipliers"], one["multipliers"])
    np.testing.assert_allclose(first["weights"], one["weights"].numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_an_update_counts_all_processes_also_one_without_a_batch_unless_asked_not_to(of_two_processes):
    for rank, found in enumerate(of_two_processes["updates"]):
        apart = np.full((2, 2), np.nan)
        apart[rank] = 0
        assert np.array_equal(found["apart"], apart, equal_nan=True)
        assert np.array_equal(found["together"], [[np.nan, np.nan], [1, np.nan]], equal_nan=True)
