"""Small models in the layout that `save_pretrained` of transformers writes, with weights drawn at random."""

from pathlib import Path

import torch

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def tiny_bert_folder(path, words, *, hidden=32, layers=2, max_tokens=64, seed=0):
    """Write a BERT whose vocabulary is the given words (lower case) and special tokens; return its folder."""
    from transformers import BertConfig, BertModel

    n_tokens = write_tokenizer(path, words, max_tokens)
    config = BertConfig(
        vocab_size=n_tokens,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=2 * hidden,
        max_position_embeddings=max_tokens,
    )
    model = BertModel(config)
    draw_weights(model, seed)
    model.save_pretrained(path)
    return Path(path)


def tiny_resnet_folder(path, *, seed=0):
    """Write a ResNet with a few thousand weights; return its folder."""
    from transformers import ResNetConfig, ResNetModel

    model = ResNetModel(ResNetConfig(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic"))
    draw_weights(model, seed)
    model.save_pretrained(path)
    return Path(path)


def write_tokenizer(path, words, max_tokens):
    """Write a WordPiece tokenizer that knows the words; return how many tokens it has."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *dict.fromkeys(words)])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=SPECIAL[1]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    roles = {f"{token[1:-1].lower()}_token": token for token in SPECIAL}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=max_tokens, **roles).save_pretrained(path)
    return len(vocabulary)


def draw_weights(model, seed):
    """Draw every weight anew from a generator of its own, away from torch's global state."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3, generator=generator)
