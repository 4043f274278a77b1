import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from domaincover import InputError
from domaincover.training.engine import Engine, make_engine
from domaincover.training.pools import Batch, Shard
from tests.processes import LIMIT
from tests.training.several_processes import CASES, PENALTIES, compared, of_table, own_loop, trained

SCRIPT = Path(__file__).with_name("several_processes.py")


@pytest.fixture(scope="module")
def of_two_processes(once_for_all_workers):
    """What each of two real processes has learned, by case."""
    pytest.importorskip("accelerate")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(SCRIPT)]
    _, folder = once_for_all_workers(
        "two-processes", lambda folder: subprocess.run([*command, str(folder)], check=True, timeout=LIMIT).returncode
    )
    names = (*CASES, *PENALTIES, "on disk", "own loop", "updates")
    return {name: [dict(np.load(folder / f"{name}-{rank}.npz")) for rank in range(2)] for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_processes_learn_what_one_does_also_where_the_rows_do_not_divide(of_two_processes, case):
    one, (first, second) = trained(CASES[case][0]), of_two_processes[case]
    for name in one:
        assert np.array_equal(first[name], second[name], equal_nan=True), f"both processes have the same {name}"
    # Recall is a ratio of counts, equal to the last bit while no score changes its sign by rounding
    assert np.array_equal(first["multipliers"], one["multipliers"])
    assert np.array_equal(first["size"], one["size"], equal_nan=True)
    assert np.allclose(first["weights"], one["weights"], atol=1e-5)
    assert np.allclose(first["loss"], one["loss"], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", PENALTIES)
def test_two_processes_compare_all_domains_of_the_whole_batch(of_two_processes, penalty):
    one, (first, second) = compared(penalty), of_two_processes[penalty]
    for name in one:
        assert np.array_equal(first[name], second[name]), f"both processes have the same {name}"
        assert np.allclose(first[name], one[name], atol=1e-5), name


@pytest.mark.slow
def test_two_processes_learn_from_a_table_on_disk_what_one_does_from_memory(of_two_processes):
    one, (first, second) = of_table(on_disk=False), of_two_processes["on disk"]
    for name in one:
        assert np.array_equal(first[name], second[name]), f"both processes have the same {name}"
        assert np.allclose(first[name], one[name], atol=1e-4), name


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


@pytest.mark.parametrize("penalty", PENALTIES)
def test_mixed_precision_compares_domains_nearly_the_same(penalty):
    pytest.importorskip("accelerate")
    full, mixed = compared(penalty), compared(penalty, precision="bf16")
    assert not np.array_equal(full["weights"], mixed["weights"])
    # bfloat16 has 8 bits: scores differ by a part in 256, and Adam moves every weight by at most the rate a step
    assert np.allclose(full["weights"], mixed["weights"], atol=0.1)


def test_batches_in_pieces_teach_what_whole_ones_do():
    whole, in_pieces = trained(), trained(accumulate=4)
    assert np.array_equal(whole["multipliers"], in_pieces["multipliers"])
    assert np.allclose(whole["weights"], in_pieces["weights"], atol=1e-5)
    assert np.allclose(whole["loss"], in_pieces["loss"], rtol=1e-5)


def test_mixed_precision_learns_nearly_the_same():
    pytest.importorskip("accelerate")
    full, mixed = trained(), trained(precision="bf16")
    assert mixed["weights"].dtype == np.float32
    assert not np.array_equal(full["weights"], mixed["weights"])
    # bfloat16 has 8 bits: scores differ by a part in 256, and Adam moves every weight by at most the rate a step
    assert np.allclose(full["weights"], mixed["weights"], atol=0.1)


def test_the_parts_of_all_processes_are_the_whole():
    for n, n_processes in [(7, 2), (1, 2), (0, 3), (10, 3)]:
        parts = [np.arange(n)[Shard(rank, n_processes).part(n)] for rank in range(n_processes)]
        assert np.concatenate(parts).tolist() == list(range(n))


def test_no_process_and_no_piece_has_a_single_example_of_a_batch():
    for n, n_processes in [(3, 2), (4, 2), (5, 2), (5, 3), (7, 3), (2, 2)]:
        parts = [Shard(rank, n_processes).part_of_batch(n) for rank in range(n_processes)]
        assert sum(part.stop - part.start for part in parts) == n
        assert all(part.stop - part.start != 1 for part in parts)
    three = Batch(torch.zeros(1, 3, 1), torch.zeros(1, 3, dtype=torch.long), torch.zeros(1, 3, dtype=torch.long))
    assert [piece.labels.shape[1] for piece, _ in Engine(accumulate=2).pieces(three)] == [3]


def test_pieces_of_a_batch_are_all_of_it_and_their_shares_add_up():
    batch = Batch(torch.arange(7.0)[None, :, None], torch.arange(7)[None], torch.zeros(1, 7, dtype=torch.long), 0.5)
    pieces = [piece for piece, _ in Engine(accumulate=3).pieces(batch)]
    assert torch.equal(torch.cat([piece.labels for piece in pieces], dim=1), batch.labels)
    assert sum(piece.share for piece in pieces) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "half"}, "must be 'full', 'bf16' or 'fp16', got 'half'"),
        ({"precision": "fp16"}, "needs a GPU"),
        ({"accumulate": 0}, "accumulate must be at least 1, got 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        make_engine("cpu", **options)


def test_mixed_precision_without_accelerate_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"which is not installed: pip install 'domaincover\[accelerate\]'"):
        make_engine("cpu", "bf16")
