"""Small files that unfold without end are refused, within bounds of memory."""

import gzip
import io
import json
import resource
import struct
import subprocess
import sys
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fuzz.answers import answer, is_refused
from tests.processes import LIMIT

GIGABYTE = 2**30
MEMORY = 4 * GIGABYTE


def within_bounds(code, *arguments):
    """Run code in a process of its own, with little memory; return what it printed."""

    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        timeout=LIMIT,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


READ = """
import sys
from pathlib import Path
from domaincover.data.tables import open_table
from domaincover.errors import InputError
try:
    table = open_table(Path(sys.argv[1]))
    for block, _ in table.blocks(1000):
        pass
except (InputError, MemoryError) as error:
    print(type(error).__name__, error)
"""


def packed(head, piece, n_pieces):
    """Return gzip data of a head and many pieces, made without holding them."""
    out = io.BytesIO()
    with gzip.GzipFile("", "wb", 1, out, 0) as file:
        file.write(head)
        for _ in range(n_pieces):
            file.write(piece)
    return out.getvalue()


@pytest.mark.deep  # takes most of a minute
def test_a_line_that_never_ends_is_refused(tmp_path, door):
    door("bombs")
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(packed(b"x,y,d\n1,a,", b"a" * 2**20, 3 * 2**10))
    code, told, fault = within_bounds(READ, path)
    assert (code, fault) == (0, "")
    assert "cannot be read as CSV" in told


def test_a_parquet_file_that_claims_more_than_it_has_is_refused(tmp_path, door):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": np.arange(100), "y": ["a"] * 100}), path)
    content = path.read_bytes()
    from domaincover.data.tables import open_table

    for position in range(4, len(content) - 4, max(1, len(content) // 60)):
        door("bombs")
        path.write_bytes(content[:position] + b"\xff\xff\xff\x7f" + content[position + 4 :])
        table = answer(open_table, path)
        if not is_refused(table):
            answer(table.read)


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, content):
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(content)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(100_000, 100_000), (2**31 - 1, 1), (1, 2**31 - 1), (20_000, 20_000)])
def test_a_picture_of_absurd_size_is_not_read(tmp_path, size, door):
    door("bombs")
    from domaincover.data.readers import ImageReader

    (tmp_path / "x.png").write_bytes(png(*size, b"\0" * 1000))
    read = ImageReader(image_size=(4, 4))([str(tmp_path / "x.png")])
    assert not read.readable.any()


def test_weights_that_claim_terabytes_are_refused(tmp_path, door):
    from domaincover import ERMClassifier, load, save
    from tests.saving.test_forgeries import forge

    rng = np.random.default_rng(0)
    save(ERMClassifier(hidden=2, epochs=1).fit(rng.normal(size=(20, 2)), np.arange(20) % 2), tmp_path / "model")
    claims = [
        struct.pack("<Q", 2**60) + b"{}",
        (lambda head: struct.pack("<Q", len(head)) + head)(
            json.dumps({"0.weight": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
        ),
    ]
    for claim in claims:
        door("bombs")
        (weights,) = (tmp_path / "model").glob("*.safetensors")
        forge(tmp_path / "model", **{weights.stem.replace("-", "_"): claim})
        assert is_refused(answer(load, tmp_path / "model"))
