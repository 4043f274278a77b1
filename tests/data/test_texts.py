import json
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from domaincover.data.readers import TextReader, _tokenizer, check_texts, n_tokens
from domaincover.errors import InputError

NUMBERS = {"[PAD]": 0, "[UNK]": 1, "<": 2, ">": 3, "a": 4, "b": 5, "c": 6}


def made_tokenizer(*, with_ends=True):
    tokenizer = Tokenizer(models.WordLevel(NUMBERS, unk_token=[*NUMBERS][1]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if with_ends:
        tokenizer.post_processor = processors.TemplateProcessing(single="< $A >", special_tokens=[("<", 2), (">", 3)])
    return tokenizer


CONTENT = made_tokenizer().to_str()
WITHOUT_ENDS = made_tokenizer(with_ends=False).to_str()


def test_a_block_is_filled_up_to_its_longest_text():
    block = TextReader(CONTENT, pad_id=0, max_tokens=10)(["a b x", "", "c"])
    assert block.values.tolist() == [[2, 4, 5, 1, 3], [2, 3, 0, 0, 0], [2, 6, 3, 0, 0]]
    assert block.values.dtype == np.int64
    assert block.readable is None


def test_a_long_text_is_cut_and_keeps_its_ends():
    assert TextReader(CONTENT, pad_id=0, max_tokens=4)(["a b c a b c"]).values.tolist() == [[2, 4, 5, 3]]


@given(texts=st.lists(st.lists(st.sampled_from("abc"), max_size=9).map(" ".join), min_size=1), most=st.integers(3, 12))
def test_every_row_is_what_the_text_alone_gives(texts, most):
    read = TextReader(CONTENT, pad_id=0, max_tokens=most)
    for text, row in zip(texts, read(texts).values, strict=True):
        alone = read([text]).values[0]
        assert row[: len(alone)].tolist() == alone.tolist()
        assert not row[len(alone) :].any()


def test_what_the_tokenizer_says_on_cutting_and_filling_does_not_count():
    tokenizer = made_tokenizer()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=20, pad_id=6)
    assert TextReader(tokenizer.to_str(), pad_id=0, max_tokens=10)(["a b c", "a"]).values.tolist() == [
        [2, 4, 5, 6, 3],
        [2, 4, 3, 0, 0],
    ]


def test_texts_without_any_token_have_one_place_of_padding():
    assert TextReader(WITHOUT_ENDS, pad_id=0, max_tokens=5)(["", ""]).values.tolist() == [[0], [0]]


def test_a_tokenizer_is_built_once():
    _tokenizer.cache_clear()
    for _ in range(3):
        TextReader(CONTENT, pad_id=0, max_tokens=5)(["a"])
    assert _tokenizer.cache_info().misses == 1


def test_tokens_are_counted_to_the_highest_number():
    assert n_tokens(CONTENT) == 7
    added = json.loads(CONTENT)
    added["model"]["vocab"]["d"] = 11
    assert n_tokens(json.dumps(added)) == 12


def refusal(call, *arguments):
    with pytest.raises(InputError) as told:
        call(*arguments)
    assert "\n" not in str(told.value)
    return str(told.value)


@pytest.mark.parametrize(("content", "most", "least"), [(CONTENT, 2, 2), (CONTENT, -1, 2), (WITHOUT_ENDS, 0, 0)])
def test_a_limit_that_leaves_no_room_for_words_is_refused(content, most, least):
    assert f"above {least}" in refusal(TextReader(content, 0, most), ["a"])


@pytest.mark.parametrize("content", ["", "{}", '{"version": "9"}'])
def test_a_damaged_tokenizer_is_refused(content):
    assert "the tokenizer cannot be read" in refusal(TextReader(content, 0, 5), ["a"])


def test_without_tokenizers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert "domaincover[text]" in refusal(n_tokens, CONTENT)


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, lambda texts: pd.array(texts, dtype="string")])
def test_texts_come_in_any_kind_of_column(kind):
    texts = check_texts(kind(["good", "", "schön 🙂"]))
    assert texts.dtype == object
    assert [type(text) for text in texts] == [str, str, str]
    assert texts.tolist() == ["good", "", "schön 🙂"]


@pytest.mark.parametrize("null", [None, float("nan"), np.nan, pd.NA, pd.NaT])
def test_null_text_is_counted_and_its_first_row_named(null):
    told = refusal(check_texts, ["a", null, "", null], "review")
    assert told.startswith("2 of 4 values of column 'review' are missing, first at row 1; drop these rows")


@pytest.mark.parametrize("other", [3, 2.5, b"bytes", ["a"], np.zeros(2), True])
def test_what_is_no_text_is_refused_and_shown(other):
    told = refusal(check_texts, ["a", "b", other])
    assert "1 of 3 values of column 'text' are not text" in told
    assert f"such as {other!r}, first at row 2" in told


def test_the_name_of_a_column_may_hold_braces():
    assert "column '{x}'" in refusal(check_texts, [1], "{x}")


def test_half_a_character_is_refused():
    assert "lone surrogate, first at row 1" in refusal(check_texts, ["ü", "a\ud800"])


@pytest.mark.parametrize("values", ["one text", np.array([["a", "b"]]), pd.DataFrame({"x": ["a"]})])
def test_a_text_alone_or_a_table_is_no_column_of_texts(values):
    assert "a list or column of texts" in refusal(check_texts, values)
