import numpy as np
import pytest

from domaincover.errors import InputError
from domaincover.paper.catalogue import CATALOGUE
from domaincover.paper.real.contents import Files, decode_files
from tests.paper.real.released_folders import build_audiomnist, tone, write_wav

DATA = CATALOGUE["audiomnist"]


class Counting:
    """Decodes a file as its bytes, and counts the files."""

    def __init__(self):
        self.n_files = 0

    def __call__(self, path):
        self.n_files += 1
        content = path.read_bytes()
        if len(content) != 4:
            raise InputError(f"{path} has {len(content)} bytes")
        return np.frombuffer(content, np.uint8).reshape(2, 2)


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{i}.bin" for i in range(20)]
    for i, path in enumerate(paths):
        path.write_bytes(bytes([i, 1, 2, 3]))
    return Files(paths, np.arange(20), np.array(["a", "b"] * 10))


def test_arrays_are_in_the_order_of_the_files(files):
    table = decode_files(files, Counting(), "test-1", None)
    np.testing.assert_array_equal(table.X[:, 0, 0], np.arange(20))


def test_a_second_call_reads_one_file_and_gives_the_same(files, tmp_path):
    decode, cache = Counting(), tmp_path / "cache"
    first = decode_files(files, decode, "test-1", cache)
    again = decode_files(files, decode, "test-1", cache)
    assert decode.n_files == 20
    assert len([*cache.iterdir()]) == 1
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_changed_files_or_another_recipe_are_decoded_again(files, tmp_path):
    decode, cache = Counting(), tmp_path / "cache"
    decode_files(files, decode, "test-1", cache)
    decode_files(files, decode, "test-2", cache)
    assert decode.n_files == 40
    files.paths[3].unlink()
    files.paths[3].write_bytes(b"\x63\0\0\0")
    assert decode_files(files, decode, "test-1", cache).X[3, 0, 0] == 99
    assert decode.n_files == 60


def test_a_damaged_cache_is_made_again(files, tmp_path):
    cache = tmp_path / "cache"
    decode_files(files, Counting(), "test-1", cache)
    (kept,) = cache.iterdir()
    content = kept.read_bytes()
    for damaged in (content[:200], b"", b"pickle", content.replace(bytes([7, 1, 2, 3]), bytes([8, 1, 2, 3]))):
        kept.write_bytes(damaged)
        decode = Counting()
        np.testing.assert_array_equal(decode_files(files, decode, "test-1", cache).X[:, 0, 0], np.arange(20))
        assert decode.n_files == 20


def test_nothing_is_kept_of_files_with_faults(files, tmp_path):
    files.paths[4].write_bytes(b"")
    with pytest.raises(InputError, match="has 0 bytes"):
        decode_files(files, Counting(), "test-1", tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_recordings_are_kept_until_one_changes(tmp_path):
    place, cache = build_audiomnist(tmp_path), tmp_path / "cache"
    first = DATA.read(place, cache)
    again = DATA.read(place, cache)
    np.testing.assert_array_equal(first.X, again.X)
    assert [again.y.tolist(), again.domains.tolist()] == [first.y.tolist(), first.domains.tolist()]
    write_wav(place / "01" / "0_01_0.wav", tone(3000))
    assert (DATA.read(place, cache).X[0] != first.X[0]).any()
    assert len([*cache.iterdir()]) == 2
