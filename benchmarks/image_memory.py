"""Peak memory of fitting and predicting on images, by their number: 10,000 and 100,000 references to 200 small files.

    python -m benchmarks.image_memory

Each in a process of its own, Linux only. Pixels are kept by no fit here, as those of large images are not. Counted ten
times a second over the process and its workers: what they have written (anonymous and shared memory; pages that workers
still share with the process count once), not the code of libraries, of which the system keeps one copy for all.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from torch import nn

from benchmarks.measure import Row

FEW, MANY, N_FILES, SIZE, N_DOMAINS, N_LABELS, WORKERS = 10_000, 100_000, 200, 16, 10, 2, 2


def rows() -> Iterator[Row]:
    """Yield the table's lines."""
    with tempfile.TemporaryDirectory() as folder:
        _write_images(Path(folder))
        for what in ("fit", "predict"):
            few, many = (_peak(what, folder, n_images) for n_images in (FEW, MANY))
            yield Row(f"peak memory of image {what}: {FEW:,} references", f"{few:.0f} MB", "")
            yield Row(f"peak memory of image {what}: {MANY:,} references", f"{many:.0f} MB", f"~ {few:.0f} MB")


def _write_images(folder: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    for k in range(N_FILES):
        Image.fromarray(rng.integers(256, size=(SIZE, SIZE, 3), dtype=np.uint8)).save(folder / f"{k}.png")


def _peak(what: str, folder: str, n_images: int) -> float:
    """Return the peak in MB of a process that does the work, with its workers."""
    work = [sys.executable, "-m", "benchmarks.image_memory", what, folder, str(n_images)]
    peak = before = 0
    with subprocess.Popen(work) as process:
        while process.poll() is None:
            now = sum(map(_own_memory, _family(process.pid)))
            peak, before = max(peak, min(before, now)), now  # twice: one look may count a worker that is just ending
            time.sleep(0.1)
    if process.returncode:
        raise RuntimeError(f"{' '.join(work)} failed.")
    return peak * 1024 / 1e6


def _family(pid: int) -> Iterator[int]:
    """Yield a process and those that it started, and these in turn."""
    yield pid
    children = ""
    with suppress(OSError):
        children = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    for child in children.split():
        yield from _family(int(child))


def _own_memory(pid: int) -> int:
    """Return the KiB of a process, its part of what it shares with its workers."""
    lines: list[str] = []
    with suppress(OSError):  # it has ended
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))


def tiny(n_labels: int) -> nn.Module:
    """Return a network that costs next to nothing."""
    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 4 * 4, n_labels))


def _work(what: str, folder: str, n_images: int) -> None:
    """Fit on so many images; or on few, and predict sets of so many."""
    from domaincover import ImageNetwork, SetCoverClassifier
    from domaincover.data import examples

    examples.KEPT_BYTES = 0  # of all images together, which a fit would keep
    paths = np.array([f"{folder}/{k % N_FILES}.png" for k in range(n_images)], dtype=object)
    labels, domains = np.arange(n_images) % N_LABELS, np.arange(n_images) // 7 % N_DOMAINS
    n_fit = n_images if what == "fit" else 2_000
    model = SetCoverClassifier(network=ImageNetwork(module=tiny, workers=WORKERS), epochs=1, random_state=0)
    model.fit(paths[:n_fit], labels[:n_fit], domains=domains[:n_fit])
    if what == "predict":
        model.predict_set(paths)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    else:
        for row in rows():
            print(f"{row.what:<90} {row.measured:>10} {row.wanted:>10}", flush=True)
