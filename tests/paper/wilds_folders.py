"""Small folders in the layout of the four WILDS releases, with the traps of the real ones and a known answer.

Each builder makes `<folder>/<name>_v<version>` with `per_cell` examples of every (domain, label) cell, one number or an
array of domains by labels, and some rows that must be left out. Images and texts can be learned from: a channel is
bright by label, all channels shift by domain; a review's words tell its stars.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from PIL import Image

FMOW_USED = ("crop_field", "place_of_worship", "recreational_facility")
FMOW_OTHER = ("airport", "zoo", "multi-unit_residential")
COUNTRIES = (  # name, alpha-2, alpha-3, region: as in ISO 3166, with its commas, its "NA" and its empty region
    ("Korea, Republic of", "KR", "KOR", "Asia"),
    ("India", "IN", "IND", "Asia"),
    ("Namibia", "NA", "NAM", "Africa"),
    ("Kenya", "KE", "KEN", "Africa"),
    ("Bolivia (Plurinational State of)", "BO", "BOL", "Americas"),
    ("France", "FR", "FRA", "Europe"),
    ("Fiji", "FJ", "FJI", "Oceania"),
    ("Antarctica", "AQ", "ATA", ""),
)
FMOW_COUNTRIES = {"Asia": ("KOR", "IND"), "Africa": ("NAM", "KEN"), "Europe": ("FRA",), "Other": ("XKX",)}
FMOW_YEARS = (2016, 2002, 2017, *range(2003, 2016))
IWILDCAM_USED = (0, 146, 147)
IWILDCAM_SIZES = ((48, 32), (32, 48), (40, 40), (64, 30))
TRAP_TEXTS = (
    "NA",
    "",
    "nan",
    "null",
    'said "great", then\nbroke.\r\nTwice',
    ' "quoted" ',
    "a,b;c\td",
    "1.5",
    "naïve 🙂",
    "\n\nlate start",
    "old\rmac",
)
WORDS = (
    ("awful", "broken", "refund", "waste"),
    ("poor", "weak", "disappointed", "cheap"),
    ("okay", "average", "mixed", "fair"),
    ("good", "solid", "nice", "useful"),
    ("excellent", "love", "perfect", "best"),
)
COMMON_WORDS = ("the", "this", "product", "it", "book", "bought", "was", "and")


class Built(NamedTuple):
    """The released folder, and what a reader must find there: rows that are used, in the order of the file."""

    folder: Path
    sources: list[str]
    labels: list[str]
    domains: list[Any]
    n_rows: int
    left_out: dict[str, int]


def build_camelyon17(folder: Path, rng: Any, *, n_domains: int = 3, per_cell: Any = 4, size: int = 96) -> Built:
    """Patients have numbers with leading zeros, and two nodes each; every other patch is RGBA."""
    root = _released(folder, "camelyon17", "1.0")
    domain, label = _cells(n_domains, 2, per_cell, rng)
    patients = np.array([f"{4 + 5 * k:03d}" for k in range(n_domains)])
    rows = np.arange(len(domain))
    table = pd.DataFrame(
        {
            "patient": patients[domain],
            "node": rows % 2,
            "x_coord": 3328 + 32 * rows,
            "y_coord": 21792 - rows,
            "tumor": label,
            "slide": 2 * domain + rows % 2,
            "center": domain % 5,
            "split": rows % 2,
        }
    )
    table.to_csv(root / "metadata.csv")
    scan = "patient_" + table["patient"] + "_node_" + table["node"].astype(str)
    names = scan + "/patch_" + scan + "_x_" + table["x_coord"].astype(str) + "_y_" + table["y_coord"].astype(str)
    files = [root / "patches" / f"{name}.png" for name in names]
    shifts = _shifts(n_domains, rng)
    for row, file in enumerate(files):
        image = _image(label[row], shifts[domain[row]], (size, size), rng)
        _save(image.convert("RGBA") if row % 2 else image, file)
    names_of_labels = [("normal", "tumor")[k] for k in label]
    return Built(root, [*map(str, files)], names_of_labels, patients[domain].tolist(), len(rows), {})


def build_fmow(
    folder: Path,
    rng: Any,
    *,
    n_domains: int = 4,
    per_cell: Any = 4,
    size: int = 224,
    n_sequestered: int = 5,
    n_other: int = 6,
) -> Built:
    """Sequestered rows and rows of other labels are strewn in; times come with and without milliseconds."""
    root = _released(folder, "fmow", "1.1")
    domain, label = _cells(n_domains, 3, per_cell, rng)
    regions, n_regions = list(FMOW_COUNTRIES), len(FMOW_COUNTRIES)
    pair_of = [(regions[k % n_regions], FMOW_YEARS[(k % n_regions + k // n_regions) % 16]) for k in range(n_domains)]
    domain, label = _strewn_in(domain, label, n_sequestered + n_other, rng)
    unused = np.flatnonzero(label < 0)
    sequestered = unused[:n_sequestered]
    rows = np.arange(len(domain))
    pairs = [pair_of[k] for k in np.where(label < 0, rows % n_domains, domain)]
    categories = [FMOW_USED[k] if k >= 0 else FMOW_OTHER[row % 3] for row, k in enumerate(label)]
    split = np.array(["train", "val", "test"], dtype=object)[rows % 3]
    split[sequestered] = "seq"
    for row in sequestered:  # a label that is used elsewhere: it is the split that counts
        categories[row] = FMOW_USED[row % 3]
    pd.DataFrame(
        {
            "split": split,
            "img_filename": [f"{name}_{row}_rgb.jpg" for row, name in enumerate(categories)],
            "gsd": 0.5,
            "cloud_cover": rows % 7,
            "category": categories,
            "country_code": [
                FMOW_COUNTRIES[region][row % len(FMOW_COUNTRIES[region])] for row, (region, _) in enumerate(pairs)
            ],
            "timestamp": [_time(year, row) for row, (_, year) in enumerate(pairs)],
            "polygon": [f"POLYGON ((1 2, {row} 3))" for row in rows],
            "region": 0,
        }
    ).to_csv(root / "rgb_metadata.csv", index=False)
    pd.DataFrame(COUNTRIES, columns=["name", "alpha-2", "alpha-3", "region"]).assign(sub="x").to_csv(
        root / "country_code_mapping.csv", index=False
    )
    files = [root / "images" / f"rgb_img_{row}.png" for row in rows]
    shifts = _shifts(n_domains, rng)
    for row, file in enumerate(files):
        _save(_image(label[row], shifts[domain[row]], (size, size), rng), file)
    used = np.flatnonzero(label >= 0)
    return Built(
        root,
        [str(files[row]) for row in used],
        [categories[row] for row in used],
        [f"{pairs[row][0]} {pairs[row][1]}" for row in used],
        len(rows),
        {"sequestered (split seq)": n_sequestered, "other labels": n_other},
    )


def build_iwildcam(
    folder: Path,
    rng: Any,
    *,
    n_domains: int = 3,
    per_cell: Any = 4,
    scale: int = 1,
    other_labels: tuple[int, ...] = (1, 5, 181),
    names: bool = False,
) -> Built:
    """JPEGs of several shapes, every third of them grey, in a frame that gives the camera away; all are in train."""
    root = _released(folder, "iwildcam", "2.0")
    domain, label = _strewn_in(*_cells(n_domains, 3, per_cell, rng), len(other_labels), rng)
    rows, unused = np.arange(len(domain)), np.flatnonzero(label < 0)
    y = np.array(IWILDCAM_USED)[label]
    y[unused] = other_labels
    file_names = [f"{rng.bytes(4).hex()}-21bc-11ea-a13a-{row:012d}.jpg" for row in rows]
    pd.DataFrame(
        {
            "split": np.array(["train", "val", "test", "id_val", "id_test"])[rows % 5],
            "location_remapped": domain,
            "location": 500 - domain,
            "sequence_remapped": rows,
            "sequence": rows + 9,
            "y": y,
            "category_id": y + 1,
            "datetime": "2013-08-02 18:19:38.000",
            "filename": file_names,
            "image_id": [name.removesuffix(".jpg") for name in file_names],
        }
    ).to_csv(root / "metadata.csv", index=False)
    if names:
        pd.DataFrame({"y": [0, 146, 147], "category_id": [0, 1, 2], "name": ["empty", "tayassu pecari", "NA"]}).to_csv(
            root / "categories.csv", index=False
        )
    shifts = _shifts(n_domains, rng)
    for row, name in enumerate(file_names):
        width, height = (scale * side for side in IWILDCAM_SIZES[row % len(IWILDCAM_SIZES)])
        image = _image(label[row], shifts[domain[row]], (width, height), rng)
        framed = Image.new("RGB", image.size, (int(domain[row] * 37 % 256),) * 3)
        framed.paste(
            image.crop((0, 0, width - 2 * (width // 25), height - 2 * (height // 25))), (width // 25, height // 25)
        )
        _save(framed.convert("L") if row % 3 == 2 else framed, root / "train" / name)
    label_names = ("empty", "tayassu pecari", "NA") if names else ("empty", "146", "147")
    used = np.flatnonzero(label >= 0)
    return Built(
        root,
        [str(root / "train" / file_names[row]) for row in used],
        [label_names[label[row]] for row in used],
        domain[used].tolist(),
        len(rows),
        {"other labels": len(unused)},
    )


def build_amazon(
    folder: Path, rng: Any, *, n_domains: int = 3, per_cell: Any = 4, n_unused: int = 7, traps: bool = True
) -> Built:
    """Reviews of several lines, with quotes, empty or "NA"; rows in no split are strewn in."""
    root = _released(folder, "amazon", "2.1")
    domain, label = _strewn_in(*_cells(n_domains, 5, per_cell, rng), n_unused, rng)
    rows, used = np.arange(len(domain)), np.flatnonzero(label >= 0)
    stars = np.where(label >= 0, label, rows % 5) + 1
    texts = [_review(star - 1, rng) for star in stars]
    if traps:
        for row, text in zip(rng.permutation(used), TRAP_TEXTS, strict=False):
            texts[row] = text
    reviewers = np.array([f"A{(7919 * k + 13) % 100003:05d}" for k in range(n_domains)], dtype=object)[domain]
    pd.DataFrame(
        {
            "reviewerID": reviewers,
            "asin": [f"B{row:09d}" for row in rows],
            "overall": stars.astype(float),
            "reviewTime": "01 2, 2015",
            "unixReviewTime": 1_420_156_800 + rows,
            "reviewText": texts,
            "summary": 'so "so"',
            "verified": rows % 2 == 0,
            "category": "Books",
            "reviewYear": 2015,
        }
    ).to_csv(root / "reviews.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)
    (root / "splits").mkdir()
    split = np.where(label >= 0, rows % 5, -1)
    pd.DataFrame({"split": split, "clean": rows % 2 == 0}).to_csv(root / "splits" / "user.csv", index=False)
    label_names = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
    return Built(
        root,
        [texts[row] for row in used],
        [label_names[label[row]] for row in used],
        reviewers[used].tolist(),
        len(rows),
        {"in no split (split -1)": n_unused},
    )


BUILDERS = {
    "camelyon17": build_camelyon17,
    "fmow": build_fmow,
    "iwildcam": build_iwildcam,
    "amazon": build_amazon,
}


def _released(folder: Path, name: str, version: str) -> Path:
    root = Path(folder) / f"{name}_v{version}"
    root.mkdir(parents=True)
    (root / f"RELEASE_v{version}.txt").touch()
    return root


def _cells(n_domains: int, n_labels: int, per_cell: Any, rng: Any) -> tuple[Any, Any]:
    """Return domains and labels of the examples, in random order."""
    counts = np.broadcast_to(per_cell, (n_domains, n_labels)).ravel()
    cell = rng.permutation(np.repeat(np.arange(n_domains * n_labels), counts))
    return cell // n_labels, cell % n_labels


def _strewn_in(domain: Any, label: Any, n_unused: int, rng: Any) -> tuple[Any, Any]:
    """Put rows without a label, of domain 0, at random places among the others."""
    places = rng.integers(0, len(domain) + 1, n_unused)
    return np.insert(domain, places, 0), np.insert(label, places, -1)


def _shifts(n_domains: int, rng: Any) -> Any:
    return rng.normal(0, 12, (n_domains, 3))


def _image(label: int, shift: Any, size: tuple[int, int], rng: Any) -> Image.Image:
    """Return blocks of noise around a colour that is the label's, shifted by domain; few blocks compress fast."""
    colour = np.full(3, 90.0) + shift
    if label >= 0:
        colour[label % 3] += 90
    blocks = colour + rng.normal(0, 20, (8, 8, 3))
    return Image.fromarray(np.clip(blocks, 0, 255).astype(np.uint8)).resize(size, Image.Resampling.NEAREST)


def _save(image: Image.Image, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    options: dict[str, Any] = {"compress_level": 1} if file.suffix == ".png" else {"quality": 90}
    image.save(content, "PNG" if file.suffix == ".png" else "JPEG", **options)
    file.write_bytes(content.getvalue())


def _time(year: int, row: int) -> str:
    """Return the first or last moment of a year, or one in between."""
    return (f"{year}-01-01T00:00:00Z", f"{year}-12-31T23:59:59.999Z", f"{year}-06-17T08:05:11.{row % 1000:03d}Z")[
        row % 3
    ]


def _review(label: int, rng: Any) -> str:
    words = [*rng.choice(WORDS[label], 4), *rng.choice(COMMON_WORDS, 6)]
    return " ".join(rng.permutation(words))
