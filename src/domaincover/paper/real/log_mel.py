"""Sounds as small images: the logarithm of the energy in mel bands over time.

The recording is cut into 32 windows of 40 ms (Hann), whose starts are evenly spaced from its beginning to its end, so
that words of any length fill the image. Their power spectra are summed in 32 triangular bands, evenly spaced in mel
(2595 log10(1 + f / 700)) from 50 Hz to 8 kHz, and expressed in decibels below the loudest value of the recording, which
removes the volume. 0 is 80 dB or more below it, 255 the loudest. Rows are bands, the lowest first; columns are time.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import fft

SIZE = 32  # bands, and windows
WINDOW_SECONDS = 0.04
LOWEST_HZ, HIGHEST_HZ = 50.0, 8000.0
RANGE_DB = 80.0


def log_mel_image(sound: NDArray[np.int16], rate: int) -> NDArray[np.uint8]:
    """Return a recording as an image of bytes (32, 32): mel bands by time."""
    n_samples = round(WINDOW_SECONDS * rate)
    waves = np.zeros(max(len(sound), n_samples))
    waves[: len(sound)] = sound
    starts = np.linspace(0, len(waves) - n_samples, SIZE).astype(int)
    windows = waves[starts[:, None] + np.arange(n_samples)] * np.hanning(n_samples)
    power = np.abs(fft.rfft(windows, axis=1)) ** 2
    energy = mel_bands(n_samples, rate) @ power.T
    loudest = energy.max()
    if loudest == 0:
        return np.zeros((SIZE, SIZE), dtype=np.uint8)
    decibels = 10 * np.log10(np.maximum(energy / loudest, 10 ** (-RANGE_DB / 10)))
    return np.rint((decibels / RANGE_DB + 1) * 255).astype(np.uint8)


@lru_cache(maxsize=4)
def mel_bands(n_samples: int, rate: int) -> NDArray[np.float64]:
    """Return the weight of each frequency of a window's spectrum in each band, (bands, frequencies)."""
    edges = _hertz(np.linspace(_mel(LOWEST_HZ), _mel(HIGHEST_HZ), SIZE + 2))
    low, centre, high = (edges[first : first + SIZE, None] for first in range(3))
    frequency = fft.rfftfreq(n_samples, 1 / rate)
    return np.clip(np.minimum((frequency - low) / (centre - low), (high - frequency) / (high - centre)), 0, None)


def _mel(hertz: float) -> float:
    return float(2595 * np.log10(1 + hertz / 700))


def _hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return 700 * (10 ** (mel / 2595) - 1)
