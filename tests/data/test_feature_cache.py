import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from domaincover.data import examples
from domaincover.data.examples import (
    array_keys,
    cached_features,
    default_cache_folder,
    file_keys,
    model_key,
    text_keys,
)


class Lengths:
    """Two features of a text, and which rows they were asked for."""

    def __init__(self, texts, block=2, fails_after=None):
        self.texts, self.block, self.fails_after = texts, block, fails_after
        self.asked = []

    def __call__(self, rows):
        for start in range(0, len(rows), self.block):
            if self.fails_after is not None and len(self.asked) >= self.fails_after:
                raise KeyboardInterrupt
            some = rows[start : start + self.block]
            self.asked += some.tolist()
            yield some, np.array([[len(self.texts[row]), -ord(self.texts[row][0])] for row in some], dtype=np.float32)


def features_of(texts):
    return np.array([[len(text), -ord(text[0])] for text in texts], dtype=np.float32)


def run(folder, texts, model="m", **options):
    compute = Lengths(texts, **options)
    return cached_features(folder, model, text_keys(texts), 2, compute), compute.asked


def files(folder):
    return sorted(Path(folder).rglob("*.npz"))


TEXTS = ["b", "aa", "b", "ccc", "aa", "b"]


@given(texts=st.lists(st.text("abc", min_size=1, max_size=3)), block=st.integers(1, 5))
def test_features_are_those_of_the_rows_in_order(texts, block):
    features, _ = run(None, texts, block=block)
    assert features.shape == (len(texts), 2)
    assert np.array_equal(features, features_of(texts).reshape(-1, 2))


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_first_row_of_every_distinct_item_is_computed(tmp_path, in_memory):
    assert run(None if in_memory else tmp_path, TEXTS)[1] == [0, 1, 3]


def test_only_what_is_new_is_computed(tmp_path):
    run(tmp_path, ["aa", "b"])
    features, asked = run(tmp_path, ["new", "b", "newer", "aa"])
    assert asked == [0, 2]
    assert np.array_equal(features, features_of(["new", "b", "newer", "aa"]))


def test_another_model_has_features_of_its_own(tmp_path):
    run(tmp_path, TEXTS)
    assert run(tmp_path, TEXTS, model="other")[1] == [0, 1, 3]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, list("abcdefg"), fails_after=4)
    features, asked = run(tmp_path, list("abcdefg"))
    assert asked == [4, 5, 6]
    assert np.array_equal(features, features_of("abcdefg"))


def test_items_are_found_among_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(examples, "FILE_ITEMS", 4)
    texts = [f"{number}" for number in range(50)]
    cached_features(tmp_path, "m", text_keys(texts), 2, Lengths(texts))
    assert len(files(tmp_path)) == 13
    features, asked = run(tmp_path, texts[::-3])
    assert asked == []
    assert np.array_equal(features, features_of(texts[::-3]))


def test_no_temporary_file_is_left(tmp_path):
    run(tmp_path, TEXTS)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == files(tmp_path)


def test_items_that_two_processes_computed_at_once_count_once(tmp_path):
    def meanwhile(rows):
        run(tmp_path, TEXTS)
        yield from Lengths(TEXTS)(rows)

    cached_features(tmp_path, "m", text_keys(TEXTS), 2, meanwhile)
    assert len(files(tmp_path)) == 2
    features, asked = run(tmp_path, TEXTS)
    assert asked == []
    assert np.array_equal(features, features_of(TEXTS))


def test_rows_of_nan_are_returned_and_not_kept(tmp_path):
    def unreadable(rows):
        yield rows, np.where(rows[:, None] == 1, np.nan, features_of(TEXTS)[rows])

    features = cached_features(tmp_path, "m", text_keys(TEXTS), 2, unreadable)
    assert np.flatnonzero(np.isnan(features).all(axis=1)).tolist() == [1, 4]
    assert run(tmp_path, TEXTS)[1] == [1]
    cached_features(tmp_path / "none", "m", text_keys("a"), 2, lambda rows: [(rows, np.full((1, 2), np.nan))])
    assert files(tmp_path / "none") == []


def torn(content):
    return content[:-5]


def flipped(content):
    return content[:100] + bytes([content[100] ^ 1]) + content[101:]


def emptied(_):
    return b""


@pytest.mark.parametrize("damage", [torn, flipped, emptied])
def test_a_damaged_file_is_named_and_its_features_computed_again(tmp_path, damage):
    run(tmp_path, TEXTS)
    (file,) = files(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.warns(UserWarning, match=f"{file.name} cannot be read"):
        features, asked = run(tmp_path, TEXTS)
    assert asked == [0, 1, 3]
    assert np.array_equal(features, features_of(TEXTS))
    assert run(tmp_path, TEXTS)[1] == []


@pytest.mark.parametrize(
    "keys", [np.zeros((2, 3), dtype=np.uint8), np.zeros((3, 16), dtype=np.uint8), np.array([None, "x"])]
)
def test_a_file_with_other_keys_counts_as_damaged(tmp_path, keys):
    (tmp_path / "m").mkdir()
    np.savez(tmp_path / "m" / "x.npz", keys=keys, features=np.zeros((2, 2), dtype=np.float32))
    with pytest.warns(UserWarning, match="cannot be read"):
        assert run(tmp_path, TEXTS)[1] == [0, 1, 3]


def test_a_file_of_another_width_counts_as_damaged(tmp_path):
    run(tmp_path, TEXTS)
    with pytest.warns(UserWarning, match="cannot be read"):
        features = cached_features(
            tmp_path, "m", text_keys(TEXTS), 3, lambda rows: [(rows, np.ones((len(rows), 3), dtype=np.float32))]
        )
    assert np.array_equal(features, np.ones((6, 3)))


def test_features_are_returned_even_where_they_cannot_be_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(examples, "FILE_ITEMS", 1)
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="features are not kept: cannot write") as told:
        features = cached_features(tmp_path / "file", "m", text_keys(TEXTS), 2, Lengths(TEXTS, 1))
    assert np.array_equal(features, features_of(TEXTS))
    assert len(told) == 1


def test_the_key_of_a_text_is_its_digest():
    expected = hashlib.blake2b("höher".encode(), digest_size=16).digest()
    assert text_keys(["höher"]) == [expected]


def test_a_file_has_the_key_of_its_bytes_whatever_its_name(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"1")
    (tmp_path / "c").write_bytes(b"2")
    one, same, other = file_keys([tmp_path / "a", str(tmp_path / "b"), tmp_path / "c"])
    assert one == same
    (tmp_path / "a").write_bytes(b"2")
    assert one != other == file_keys([tmp_path / "a"])[0]


@pytest.mark.parametrize("name", ["missing", "", "zero\0byte"])
def test_files_that_cannot_be_read_have_keys_of_their_own(tmp_path, name):
    one, other = file_keys([os.path.join(tmp_path, name)] * 2)
    assert one != other


def test_images_have_one_key_if_and_only_if_numbers_type_and_shape_agree():
    image = np.arange(6, dtype=np.uint8).reshape(2, 3)
    same, other = image.T.copy().T, image + 1
    keys = array_keys([image, same, other, image.astype(np.int16), image.reshape(3, 2)])
    assert keys[0] == keys[1]
    assert len({*keys}) == 4


def key_of(config=(), settings=(), **tensors):
    return model_key(dict(config), tensors, dict(settings))


def test_the_key_of_a_model_does_not_depend_on_the_order_of_names_or_the_kind_of_array():
    a, b = np.arange(3, dtype=np.float32), np.ones((2, 2), dtype=np.float32)
    one = model_key({"x": 1, "y": 2}, {"a": a, "b": b}, {})
    assert one == model_key({"y": 2, "x": 1}, {"b": b, "a": a.copy()}, {})


def test_the_key_of_a_model_changes_with_everything_that_it_names():
    a = np.arange(4, dtype=np.float32)
    changed = a.copy()
    changed[2] += 1
    keys = [
        key_of(a=a),
        key_of(b=a),
        key_of(a=changed),
        key_of(a=a.reshape(2, 2)),
        key_of(a=a.view(np.int32)),
        key_of({"x": 1}, a=a),
        key_of((), {"x": 1}, a=a),
    ]
    assert len(set(keys)) == len(keys)
    assert bytes.fromhex(key_of({"x": "../é"})), "a name for a folder"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_tensors_of_torch_have_keys_too(dtype):
    weight = torch.nn.Parameter(torch.arange(4).to(dtype), requires_grad=dtype.is_floating_point)
    assert key_of(a=weight) == key_of(a=weight.detach().clone())
    assert key_of(a=weight) != key_of(a=weight.detach() + 1)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"DOMAINCOVER_CACHE": "/own", "XDG_CACHE_HOME": "/xdg"}, "/own"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/domaincover"),
        ({}, "/home/me/.cache/domaincover"),
    ],
)
def test_the_cache_is_where_the_user_keeps_caches(monkeypatch, variables, expected):
    for name in ("DOMAINCOVER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert default_cache_folder() == Path(expected)
