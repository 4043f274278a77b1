"""The same seed gives the same bits: in another process, with other threads and hash seeds, after save and load."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from domaincover import ERMClassifier, ImageNetwork, load
from domaincover.paper.job import at_most
from domaincover.paper.runner import plan_studies, run_study
from tests.faults.conftest import tiny_study
from tests.faults.determinism import DOMAINS, LABELS, digest, outcome, outcomes

# A product of float32 matrices in another order differs by rounding, of which there are two epochs here.
WHOLE_NETWORKS = 1e-5
# The product of a network's matrices depends on how the stack that it is in lies in memory; 1.5e-8 was seen.
IN_A_STACK = 1e-5


@pytest.fixture(scope="module")
def fitted():
    with at_most(1):
        return list(outcomes())


def test_another_process_with_other_threads_and_another_hash_seed_says_the_same_bits(fitted):
    other = os.environ | {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "PYTHONHASHSEED": "1"}
    root = Path(__file__).parents[2]
    call = [sys.executable, "-m", "tests.faults.determinism"]
    printed = subprocess.run(call, env=other, cwd=root, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == {name: digest(said) for name, _, _, said in fitted}


def test_a_model_says_the_same_bits_after_save_and_load_and_in_other_threads(fitted, tmp_path):
    for name, model, examples, said in fitted:
        model.save(tmp_path / "model")
        with at_most(2):
            assert digest(outcome(load(tmp_path / "model"), examples)) == digest(said), name


def test_whole_networks_differ_between_numbers_of_threads_by_rounding_alone():
    images = np.random.default_rng(0).integers(256, size=(32, 12, 12, 3), dtype=np.uint8)

    def scores(n_threads):
        with at_most(n_threads):
            network = ImageNetwork(module=_convolution, workers=0)
            model = ERMClassifier(network=network, epochs=2, batch_size=16, random_state=0)
            return model.fit(images, LABELS[:32], domains=DOMAINS[:32]).predict_proba(images)

    one = scores(1)
    assert np.array_equal(one, scores(1))
    assert np.abs(one - scores(2)).max() <= WHOLE_NETWORKS


def test_a_run_differs_by_rounding_alone_where_its_study_was_done_in_parts(tmp_path):
    for n_seeds in (1, 3):
        run_study(plan_studies([tiny_study(n_seeds)], tmp_path / "parts"), tmp_path / "parts")
    run_study(plan_studies([tiny_study(3)], tmp_path / "whole"), tmp_path / "whole")
    run_study(plan_studies([tiny_study(3)], tmp_path / "again"), tmp_path / "again")
    parts, whole, again = (
        [pd.read_parquet(file) for file in sorted((tmp_path / study).rglob("predictions.parquet"))]
        for study in ("parts", "whole", "again")
    )
    assert len(parts) == 3
    for in_parts, at_once, once_more in zip(parts, whole, again, strict=True):
        pd.testing.assert_frame_equal(once_more, at_once, check_exact=True)
        scores = [column for column in at_once if column.startswith("score")]
        assert (in_parts[scores] - at_once[scores]).abs().max(axis=None) <= IN_A_STACK
        pd.testing.assert_frame_equal(in_parts.drop(columns=scores), at_once.drop(columns=scores))


def _convolution(n_labels):
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(400, n_labels)
    )
