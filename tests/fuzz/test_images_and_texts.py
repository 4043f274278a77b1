"""Images and texts of any content: read, or not readable, or refused in one line."""

import io
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from domaincover.data.readers import ImageReader, check_texts
from domaincover.data.tables.table import image_folder
from tests.fuzz.answers import answer, is_refused
from tests.fuzz.damage import few, flipped, positions

SIZE = (4, 4)
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")


def encoded(kind, mode="RGB", **options):
    pixels = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(8, 6, 3)
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, kind, **options)
    return file.getvalue()


def is_unread(block):
    return block.readable is not None and not block.readable.any()


def read(path):
    return ImageReader(image_size=SIZE)([str(path)])


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_images_are_read_or_marked(tmp_path, kind, door):
    content, path = encoded(kind), tmp_path / "x.png"  # whatever its name says
    for position in positions(content, 10):
        for damaged in (flipped(content, position, position % 8), content[:position], content[position:]):
            door("images")
            path.write_bytes(damaged)
            found = answer(read, path)
            assert is_refused(found) or found.values.shape == (1, 3, *SIZE)


@few(30)
@given(content=st.binary(max_size=80))
def test_bytes_that_are_no_image_are_not_readable(tmp_path, content, door):
    door("images")
    (tmp_path / "x.png").write_bytes(content)
    assert is_unread(read(tmp_path / "x.png"))


@pytest.mark.parametrize(
    "content",
    [
        encoded("PNG", "P"),
        encoded("PNG", "1"),
        encoded("PNG", "LA"),
        encoded("PNG", "RGBA"),
        encoded("PNG", "I;16"),
        encoded("JPEG", "CMYK"),
        encoded("JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"),
        encoded("JPEG", exif=b"Exif\0\0" + b"\xff" * 40),
        encoded("GIF", "P", save_all=True, append_images=[Image.new("P", (6, 8), 3)]),
    ],
    ids=range(9),
)
def test_images_of_every_mode_are_read(tmp_path, content, door):
    door("images")
    (tmp_path / "x.jpg").write_bytes(content)
    assert read(tmp_path / "x.jpg").readable is None  # all are


@pytest.mark.parametrize("source", [None, "", 7, float("nan"), "absent.png", "\0", b"x.png", ["x.png"]])
def test_what_is_no_path_is_not_readable_or_refused(source, door):
    door("images")
    found = answer(ImageReader(image_size=SIZE), np.array([source, "absent.png"], dtype=object))
    assert is_refused(found) or is_unread(found)


@pytest.mark.parametrize("size", [(0, 4), (-1, 4), (4,), (4.5, 4), "44", (10**9, 10**9)])
def test_sizes_that_are_none_are_refused(tmp_path, size, door):
    door("images")
    (tmp_path / "x.png").write_bytes(encoded("PNG"))

    def work():
        try:
            return ImageReader(image_size=size)([str(tmp_path / "x.png")])
        except MemoryError:  # which the command line tells in one line
            return answer(ImageReader, image_size=(0, 0))

    assert is_refused(answer(work))


@few(30)
@given(st.lists(st.text() | st.none() | st.floats() | st.integers() | st.binary(max_size=3), max_size=4))
def test_texts_come_back_as_they_are_or_are_refused(door, values):
    door("texts")
    found = answer(check_texts, values)
    is_text = all(isinstance(value, str) and "\ud800" not in value for value in values)
    assert is_refused(found) or found.tolist() == values
    assert is_text or is_refused(found)


def test_folders_that_are_no_images_are_refused(tmp_path, door):
    door("images")
    assert is_refused(answer(image_folder, tmp_path))
    (tmp_path / "domain" / "label").mkdir(parents=True)
    assert is_refused(answer(image_folder, tmp_path))
    (tmp_path / "domain" / "label" / "x.txt").write_bytes(struct.pack("<Q", 3))
    assert is_refused(answer(image_folder, tmp_path))
