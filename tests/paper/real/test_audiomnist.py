from contextlib import suppress

import numpy as np
import pytest

from domaincover.errors import InputError
from domaincover.paper.catalogue import CATALOGUE
from domaincover.paper.real.released_images import read_recording
from tests.paper.real.released_folders import build_audiomnist, tone, write_wav

DATA = CATALOGUE["audiomnist"]


def test_the_label_is_the_digit_and_the_domain_the_speaker(tmp_path):
    place = build_audiomnist(tmp_path)
    X, y, domains = DATA.read(place)
    assert X.shape == (12, 32, 32)
    assert X.dtype == np.uint8
    assert y.tolist() == [0, 0, 1, 1, 2, 2] * 2
    assert domains.tolist() == ["01"] * 6 + ["02"] * 6
    heights = X.mean(axis=2).argmax(axis=1)  # of tones that rise with the digit
    assert heights[0] < heights[2] < heights[4]


@pytest.mark.parametrize("given", [".", "AudioMNIST", "AudioMNIST/data"])
def test_a_clone_is_found_by_its_folder_its_parent_or_its_data(tmp_path, given):
    place = build_audiomnist(tmp_path / "AudioMNIST", speakers=("07",))
    assert DATA.find(tmp_path / given) == place


@pytest.mark.parametrize("made", [[], ["data/01/notes.txt"], ["data/2024/0_01_0.wav"], ["01.wav"]])
def test_other_folders_are_not_taken_for_it(tmp_path, made):
    for name in made:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert DATA.find(tmp_path) is None


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, r"1_02_0\.wav is truncated: 4,750 of 4,800 samples are left"),
        (lambda path: path.write_bytes(b""), r"1_02_0\.wav is damaged or not a wav file \(it ends too early\)"),
        (lambda path: path.write_bytes(b"version https://git-lfs"), r"1_02_0\.wav is damaged or not a wav file"),
        (lambda path: write_wav(path, tone(300), n_channels=2), r"1_02_0\.wav has 2 channels of 16 bits"),
        (lambda path: write_wav(path, tone(300), n_bytes=1), r"1_02_0\.wav has 1 channels of 8 bits"),
        (lambda path: write_wav(path, tone(300), rate=8000), r"1_02_0\.wav has 8,000 samples per second"),
        (lambda path: write_wav(path, tone(300), rate=2_000_000_000), r"1_02_0\.wav has 2,000,000,000 samples per"),
        (lambda path: path.unlink() or path.symlink_to("nowhere"), r"cannot read .*1_02_0\.wav: No such file"),
        (lambda path: write_wav(path, tone(300)[:0]), r"1_02_0\.wav is truncated: 0 of 0 samples"),
        (lambda path: path.rename(path.with_name("one_02_0.wav")), r"one_02_0\.wav is not named DIGIT_02_NUMBER\.wav"),
        (lambda path: path.rename(path.with_name("1_03_0.wav")), r"1_03_0\.wav is not named DIGIT_02_NUMBER\.wav"),
    ],
)
def test_a_faulty_recording_is_named(tmp_path, damage, message):
    place = build_audiomnist(tmp_path)
    damage(place / "02" / "1_02_0.wav")
    for cache in (None, tmp_path / "cache"):
        with pytest.raises(InputError, match=message):
            DATA.read(place, cache)


def test_a_damaged_header_is_a_fault_and_nothing_else(tmp_path):
    write_wav(tmp_path / "0_01_0.wav", tone(300))
    path, content = tmp_path / "0_01_0.wav", (tmp_path / "0_01_0.wav").read_bytes()
    rng = np.random.default_rng(0)
    for n_bytes in range(44):
        path.write_bytes(content[:n_bytes])
        with pytest.raises(InputError, match=r"0_01_0\.wav is (damaged|truncated)"):
            read_recording(path)
    for _ in range(300):
        damaged = np.frombuffer(content, np.uint8).copy()
        damaged[rng.integers(0, 44, 3)] = rng.integers(0, 256, 3)
        path.write_bytes(damaged.tobytes())
        with suppress(InputError):
            assert read_recording(path).shape == (32, 32)


def test_recordings_that_a_smaller_copy_lacks_are_listed(tmp_path):
    missing = DATA.examine(build_audiomnist(tmp_path)).missing
    assert len(missing) == 2 * (500 - 6)
    assert "01/9_01_49.wav" in missing
    assert "01/0_01_0.wav" not in missing
