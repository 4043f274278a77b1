import numpy as np
import pytest

from domaincover.paper.real.released_images import BANDS, log_mel_image
from tests.paper.real.released_folders import tone


def centres():
    """Return the centre of each band in hertz, from the definition of mel."""
    mel = np.linspace(*(2595 * np.log10(1 + np.array([50.0, 8000.0]) / 700)), BANDS + 2)
    return 700 * (10 ** (mel[1:-1] / 2595) - 1)


@pytest.mark.parametrize("rate", [16_000, 48_000])
@pytest.mark.parametrize("band", [2, 12, 25])
def test_a_tone_is_brightest_in_its_band_at_all_times(rate, band):
    image = log_mel_image(tone(centres()[band], 0.3, rate), rate)
    assert image.shape == (BANDS, BANDS)
    assert image.dtype == np.uint8
    assert (image.argmax(axis=0) == band).all()
    assert image.max() == 255


def test_the_image_equals_the_definition_written_out():
    rng = np.random.default_rng(0)
    rate, sound = 16_000, (tone(700, 0.05, 16_000) + rng.normal(0, 300, 800)).astype(np.int16)
    n = 640  # 40 ms
    edges = np.concatenate([[50.0], centres(), [8000.0]])
    energy = np.zeros((BANDS, BANDS))
    for column, start in enumerate(np.linspace(0, len(sound) - n, BANDS).astype(int)):
        window = sound[start : start + n] * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / (n - 1)))
        turns = np.exp(-2j * np.pi * np.outer(np.arange(n // 2 + 1), np.arange(n)) / n)
        power = np.abs(turns @ window) ** 2
        for band in range(BANDS):
            weight = np.interp(np.arange(n // 2 + 1) * rate / n, edges[band : band + 3], [0, 1, 0])
            energy[band, column] = weight @ power
    decibels = np.clip(10 * np.log10(energy / energy.max()), -80, 0)
    difference = log_mel_image(sound, rate) - (decibels + 80) / 80 * 255
    assert np.abs(difference).max() < 0.5 + 1e-6  # rounding to whole numbers


def test_volume_does_not_matter():
    sound = tone(500, volume=1000)
    np.testing.assert_array_equal(log_mel_image(sound, 48_000), log_mel_image(4 * sound, 48_000))


def test_silence_is_black_and_a_click_has_an_image():
    assert log_mel_image(np.zeros(5000, np.int16), 48_000).max() == 0
    assert log_mel_image(np.array([0, 900, 0], np.int16), 48_000).max() == 255
