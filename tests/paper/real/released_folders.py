"""Tiny folders in the layouts of the released data sets."""

import wave
from pathlib import Path

import numpy as np
from PIL import Image

SHARED = Path(__file__).parents[3].parent / "shared" / "data"
RATE = 48_000
WISDM_FEATURES = ["X0", "X1", "XAVG", "RESULTANT"]
PATIENTS = {"Parasitized": ["C33P1thinF", "C100P61ThinF"], "Uninfected": ["C33P1thinF", "C1_thinF"]}


def write_wav(path, sound, rate=RATE, n_channels=1, n_bytes=2):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(n_channels)
        file.setsampwidth(n_bytes)
        file.setframerate(rate)
        file.writeframes(sound.tobytes())


def tone(hertz, seconds=0.2, rate=RATE, volume=8000):
    times = np.arange(round(seconds * rate)) / rate
    return np.rint(volume * np.sin(2 * np.pi * hertz * times)).astype("<i2")


def build_audiomnist(root, speakers=("01", "02"), n_digits=3, n_recordings=2):
    """A digit is a tone, each speaker's a little higher."""
    for number, speaker in enumerate(speakers):
        for digit in range(n_digits):
            for i in range(n_recordings):
                path = root / "data" / speaker / f"{digit}_{speaker}_{i}.wav"
                write_wav(path, tone(300 * (digit + 1) + 20 * number, 0.1 + 0.02 * i))
    (root / "data" / "audioMNIST_meta.txt").write_text("{}")
    return root / "data"


def build_malaria(root, n_cells=2):
    """Parasitized cells are dark, uninfected ones light."""
    for label, starts in PATIENTS.items():
        folder = root / "cell_images" / label
        folder.mkdir(parents=True)
        for number, start in enumerate(starts):
            for i in range(n_cells):
                shade = (60 if label == "Parasitized" else 200) + number
                image = Image.new("RGB", (50 + 10 * i, 44), (shade, shade, shade))
                image.save(folder / f"{start}_IMG_20150619_114756a_cell_{i}.png")
        (folder / "Thumbs.db").write_bytes(b"\xd0\xcf\x11\xe0")
    return root / "cell_images"


def arff_text(person, rows, features=WISDM_FEATURES):
    """The file of a person: rows are an activity and a number per feature."""
    head = [f"@relation person_{person}_accel_watch", "", '@attribute "ACTIVITY" { A,B,C,D,E,F,G,H }']
    head += [f'@attribute "{name}" numeric' for name in features]
    head += [f'@attribute "class" {{ {person} }}', "", "@data", ""]
    return "\n".join([*head, *(",".join(map(str, (*row, f'"{person}"'))) for row in rows)]) + "\n"


def build_wisdm(root, persons=("1600", "1601")):
    folder = root / "wisdm-dataset" / "arff_files" / "watch" / "accel"
    folder.mkdir(parents=True)
    for number, person in enumerate(persons):
        rows = [(activity, 0.5 * number, i, -1e-3, 9.81) for i, activity in enumerate("ADFHMQ")]
        (folder / f"data_{person}_accel_watch.arff").write_text(arff_text(person, rows))
    return folder


def build_reviews(root, products=("books", "dvd")):
    for product in products:
        for part, number in (("train", 2), ("test", 1)):
            lines = [f"1\tgood {product} {i}\n0\tbad {product} {i}\n" for i in range(number)]
            (root / f"{product}.task.{part}").write_text("".join(lines))
        (root / f"{product}.task.unlabel").write_text("who knows\n")
    return root
