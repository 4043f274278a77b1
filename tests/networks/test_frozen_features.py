import numpy as np
import pytest
import torch
from torch import nn

from domaincover.data.examples import Block, LazyExamples, cached_features, text_keys
from domaincover.data.readers import check_texts
from domaincover.estimators.source_network import features_by_block
from domaincover.networks.text_models import text_backbone
from tests.tiny_models import tiny_bert_folder


class Doubled(nn.Module):
    """Twice the numbers; in training, wrong ones. Remembers how long its blocks were."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def forward(self, numbers):
        self.sizes.append(len(numbers))
        return numbers * (torch.nan if self.training else 2)


def read(sources):
    return Block(np.array(sources, dtype=np.float32)[:, None], readable=np.array(sources) != 3)


EXAMPLES = LazyExamples(np.arange(6), read)


def run(rows=range(6), network=None, **options):
    return list(features_by_block(network or Doubled(), EXAMPLES, **options)(np.array(rows, dtype=np.int64)))


def test_features_come_with_their_rows():
    rows, features = map(np.concatenate, zip(*run([5, 1, 4], block_size=2), strict=True))
    assert rows.tolist() == [5, 1, 4]
    assert features.tolist() == [[10], [2], [8]]


def test_no_block_is_larger_than_asked_for():
    network = Doubled()
    run(network=network, block_size=4)
    assert network.sizes == [4, 2]


def test_rows_that_cannot_be_read_are_nan():
    ((_, features),) = run()
    assert np.flatnonzero(np.isnan(features)).tolist() == [3]


def test_the_longest_come_first():
    rows = np.concatenate([rows for rows, _ in run([0, 2, 4, 5], lengths=np.array([3, 9, 1, 9, 3, 7]), block_size=2)])
    assert rows.tolist() == [5, 0, 4, 2]


@pytest.mark.parametrize("training", [True, False])
def test_a_network_predicts_meanwhile_and_is_left_as_it_was(training):
    network = Doubled().train(training)
    ((_, features),) = run([0, 1], network=network)
    assert features.tolist() == [[0], [2]]
    assert network.training == training


def test_a_network_is_left_as_it_was_by_an_interrupted_run():
    network = Doubled()
    blocks = iter(features_by_block(network, EXAMPLES, block_size=1)(np.arange(6)))
    next(blocks)
    blocks.close()
    assert network.training


@pytest.mark.parametrize("features", ["word-embeddings", "encoder"])
def test_cached_features_of_texts_are_those_of_every_text_alone(tmp_path, features):
    texts = check_texts(["good film", "bad", "", "good", "bad film bad film", "bad"])
    backbone = text_backbone(tiny_bert_folder(tmp_path / "model", ["good", "bad", "film"]), features)
    read = backbone.reader()
    compute = features_by_block(
        backbone, LazyExamples(texts, read), block_size=2, lengths=np.array([len(text) for text in texts])
    )
    found = [cached_features(tmp_path / "cache", "m", text_keys(texts), backbone.n_features, compute) for _ in range(2)]
    with torch.no_grad():
        alone = torch.cat([backbone(torch.from_numpy(read([text]).values)) for text in texts])
    assert np.allclose(found[0], alone, atol=1e-5)  # states of layer norm are near 1, the order of sums differs
    assert np.array_equal(found[0], found[1])
