import gc
import io
import struct
import warnings
import zlib
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
from PIL import Image

from domaincover.data.readers import ImageReader, load_or_reason, unreadable_images
from domaincover.data.tables.table import image_folder
from domaincover.errors import InputError


def noise(height, width, channels=3, seed=0):
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def smooth(height, width):
    """Colours that change little from pixel to pixel."""
    down, right = np.mgrid[:height, :width]
    return np.stack([255 * down / height, 255 * right / width, 128 + 0 * down], axis=2).astype(np.uint8)


@pytest.fixture
def save(tmp_path):
    def save_as(pixels, name="image.png", **options):
        image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
        image.save(tmp_path / name, **options)
        return str(tmp_path / name)

    return save_as


def read(reader, *sources):
    return reader(np.array(sources, dtype=object))


def png_bytes(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def bilinear(pixels, height, width):
    """Triangle weights over the output pixel's footprint, worked out for each axis: what Pillow documents."""

    def weights(n_in, n_out):
        scale = n_in / n_out
        support = max(scale, 1)
        centres = (np.arange(n_out) + 0.5) * scale
        triangle = np.clip(1 - np.abs(np.arange(n_in) + 0.5 - centres[:, None]) / support, 0, None)
        return triangle / triangle.sum(axis=1, keepdims=True)

    return np.einsum("yi,xj,ijc->yxc", weights(len(pixels), height), weights(pixels.shape[1], width), pixels)


class TestPixels:
    def test_a_png_comes_back_as_it_was_with_channels_first(self, save):
        pixels = noise(5, 7)
        block = read(ImageReader(), save(pixels))
        assert block.values.dtype == np.uint8
        assert np.array_equal(block.values, pixels.transpose(2, 0, 1)[None])

    def test_all_readable_is_said_by_none(self, save):
        assert read(ImageReader(), save(noise(5, 7))).readable is None

    def test_grey_has_three_equal_channels(self, save):
        pixels = noise(5, 7, channels=1)
        assert np.array_equal(read(ImageReader(), save(pixels)).values[0], [pixels] * 3)

    def test_a_transparent_image_keeps_the_colours_below(self, save):
        pixels = noise(5, 7, channels=4)
        assert np.array_equal(read(ImageReader(), save(pixels)).values[0], pixels[..., :3].transpose(2, 0, 1))

    @pytest.mark.parametrize("transparency", [None, 0, bytes([0, 128])])
    def test_a_palette_is_looked_up(self, save, transparency):
        indexed = Image.fromarray(np.array([[0, 1], [1, 0]], dtype=np.uint8), "P")
        indexed.putpalette([10, 20, 30, 40, 50, 60])
        path = save(indexed, **({} if transparency is None else {"transparency": transparency}))
        values = read(ImageReader(), path).values[0]
        assert np.array_equal(values.transpose(1, 2, 0)[0], [[10, 20, 30], [40, 50, 60]])

    @pytest.mark.parametrize("name", ["image.png", "image.tif", "image.pgm"])
    def test_sixteen_bit_grey_is_scaled_and_not_clipped(self, save, name):
        pixels = noise(5, 7, channels=1)
        widened = pixels.astype(np.uint16) * 257
        assert np.array_equal(read(ImageReader(), save(widened, name)).values[0], [pixels] * 3)

    def test_a_dark_image_of_sixteen_bits_stays_dark(self, save):
        """The format says that it has 16 bits: nothing is guessed from its values."""
        dark = np.full((2, 3), 200, dtype=np.uint16)
        for name in ("image.png", "image.tif", "image.pgm"):
            assert read(ImageReader(), save(dark, name)).values.max() == 0, name

    @pytest.mark.parametrize("dtype", [np.int32, np.float32])
    def test_grey_of_32_bits_has_no_range_and_is_unreadable_with_the_reason(self, save, dtype):
        reason = load_or_reason(save(np.array([[0, 1]], dtype=dtype), "image.tif"))
        assert reason == "32-bit greyscale, which has no fixed range; save it with 8 or 16 bits"

    def test_black_and_white_is_0_and_255(self, save):
        path = save(Image.fromarray(np.array([[True, False]])))
        assert read(ImageReader(), path).values[0, :, 0].tolist() == [[255, 0]] * 3

    def test_only_the_first_picture_of_an_animation_is_taken(self, save):
        first, second = Image.new("RGB", (4, 4), (255, 0, 0)), Image.new("RGB", (4, 4), (0, 0, 255))
        path = save(first, "image.gif", save_all=True, append_images=[second])
        assert read(ImageReader(), path).values[0, :, 0, 0].tolist() == [255, 0, 0]

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_a_photograph_is_turned_upright(self, save, orientation):
        from PIL import ImageOps

        exif = Image.Exif()
        exif[0x0112] = orientation
        path = save(smooth(16, 24), "image.jpg", exif=exif)
        with Image.open(path) as image:
            upright = np.asarray(ImageOps.exif_transpose(image))
        assert np.array_equal(read(ImageReader(), path).values[0], upright.transpose(2, 0, 1))

    def test_a_damaged_tag_does_not_spoil_the_image(self, save, monkeypatch):
        def damaged(_):
            raise SyntaxError("not a TIFF file")

        pixels = noise(5, 7)
        path = save(pixels)
        monkeypatch.setattr(Image.Image, "getexif", damaged)
        monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.getexif", damaged)
        assert np.array_equal(read(ImageReader(), path).values[0], pixels.transpose(2, 0, 1))

    def test_images_keep_their_order(self, save):
        paths = [save(np.full((2, 2, 3), grey, dtype=np.uint8), f"{grey}.png") for grey in (3, 1, 2)]
        assert read(ImageReader(), *paths).values[:, 0, 0, 0].tolist() == [3, 1, 2]

    def test_files_are_closed(self, save):
        paths = [save(noise(5, 7)), save(noise(5, 7), "image.gif"), save(noise(5, 7), "image.tif")]
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            read(ImageReader(), *paths, save(noise(5, 7), "image.jpg"))
            gc.collect()


class TestSize:
    @pytest.mark.parametrize("size", [(6, 5), (3, 40), (40, 3)])
    def test_stretching_is_bilinear_with_a_footprint(self, save, size):
        pixels = noise(12, 20)
        values = read(ImageReader(size), save(pixels)).values[0]
        # Pillow rounds to bytes after each of the two axes: half a level and half a level more
        assert np.abs(values.transpose(1, 2, 0) - bilinear(pixels, *size)).max() <= 1.01

    def test_jpegs_of_different_sizes_become_one_size(self, save):
        paths = [save(smooth(h, w), f"{h}.jpg") for h, w in ((30, 20), (64, 48), (7, 90))]
        assert read(ImageReader((16, 16)), *paths).values.shape == (3, 3, 16, 16)

    def test_the_crop_is_a_share_of_each_images_own_size_rounded_down(self, save):
        paths = [save(noise(59, 40), "a.png"), save(noise(20, 39), "b.png")]
        first, second = (read(ImageReader(crop=0.05), path).values[0] for path in paths)
        assert np.array_equal(first, noise(59, 40)[2:-2, 2:-2].transpose(2, 0, 1))
        assert np.array_equal(second, noise(20, 39)[1:-1, 1:-1].transpose(2, 0, 1))

    def test_the_crop_comes_before_the_resize(self, save):
        pixels = noise(40, 60)
        cropped_by_hand = read(ImageReader((8, 8)), save(pixels[4:-4, 6:-6], "cropped.png")).values
        assert np.array_equal(read(ImageReader((8, 8), crop=0.1), save(pixels)).values, cropped_by_hand)

    @pytest.mark.parametrize(("height", "width"), [(45, 97), (97, 45), (50, 50)])
    def test_fit_crop_resizes_the_short_side_and_takes_the_centre(self, save, height, width):
        pixels = noise(height, width)
        short = min(height, width)
        resized = Image.fromarray(pixels).resize((32 * width // short, 32 * height // short), Image.BILINEAR)
        top, left = round((resized.height - 32) / 2), round((resized.width - 32) / 2)
        expected = np.asarray(resized)[top : top + 32, left : left + 32]
        values = read(ImageReader((32, 32), resize="crop"), save(pixels)).values[0]
        assert np.array_equal(values.transpose(1, 2, 0), expected)

    @pytest.mark.parametrize("size", [(7, 31), (31, 7), (13, 13), (1, 1)])
    @pytest.mark.parametrize("own", [(11, 23), (23, 11), (1, 50), (3, 3)])
    def test_fit_crop_gives_the_size_exactly(self, save, own, size):
        assert read(ImageReader(size, resize="crop"), save(noise(*own))).values.shape == (1, 3, *size)

    @pytest.mark.parametrize(("height", "width"), [(2, 90), (90, 2), (3, 250), (600, 7)])
    def test_fit_crop_of_a_long_strip_differs_from_resize_and_crop_by_rounding_only(self, save, height, width):
        pixels, short = noise(height, width), min(height, width)
        resized = Image.fromarray(pixels).resize((16 * width // short, 16 * height // short), Image.BILINEAR)
        top, left = round((resized.height - 16) / 2), round((resized.width - 16) / 2)
        expected = np.asarray(resized)[top : top + 16, left : left + 16].transpose(2, 0, 1)
        values = read(ImageReader((16, 16), resize="crop"), save(pixels)).values[0]
        assert np.abs(values.astype(int) - expected).max() <= 1

    def test_fit_crop_never_holds_what_a_long_strip_would_cover(self, save, monkeypatch):
        sizes, resize = [], Image.Image.resize

        def noted(image, size, *options):
            sizes.append(size)
            return resize(image, size, *options)

        monkeypatch.setattr(Image.Image, "resize", noted)
        read(ImageReader((224, 224), resize="crop"), save(noise(1, 4000), "wide.png"), save(noise(4000, 1), "high.png"))
        assert sizes == [(224, 224)] * 2

    def test_fit_crop_does_not_distort(self, save):
        """A gradient from left to right in a wide image: the centre's own slope, not all of it squeezed."""
        ramp = np.repeat(np.repeat(np.arange(0, 200, dtype=np.uint8)[None, :, None], 50, 0), 3, 2)
        values = read(ImageReader((50, 50), resize="crop"), save(ramp)).values[0, 0, 0]
        assert np.array_equal(values, np.arange(75, 125))

    @pytest.mark.parametrize(("height", "width"), [(96, 96), (224, 224), (300, 431), (500, 260)])
    def test_imagenet_resizes_the_short_side_to_256_and_keeps_the_central_224(self, save, height, width):
        pixels, short = noise(height, width), min(height, width)
        resized = Image.fromarray(pixels).resize((256 * width // short, 256 * height // short), Image.BILINEAR)
        top, left = round((resized.height - 224) / 2), round((resized.width - 224) / 2)
        expected = np.asarray(resized)[top : top + 224, left : left + 224].transpose(2, 0, 1)
        reader = ImageReader((224, 224), resize="imagenet")
        assert np.array_equal(read(reader, save(pixels)).values[0], expected)
        assert np.array_equal(reader(pixels[None]).values[0], expected)

    def test_own_sizes_that_differ_are_refused_with_both_names(self, save):
        with pytest.raises(InputError, match=r"a\.png is 5 × 7 .*b\.png is 6 × 7; give image_size"):
            read(ImageReader(), save(noise(5, 7), "a.png"), save(noise(6, 7), "b.png"))

    def test_a_reader_can_be_sent_to_a_worker(self):
        reader = ImageReader((4, 5), crop=0.1, resize="crop")
        assert ForkingPickler.loads(ForkingPickler.dumps(reader)) == reader

    def test_a_size_from_json_is_a_size(self):
        assert ImageReader([4, 5]) == ImageReader((4, 5))

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"image_size": (0, 5)}, "image_size must be"),
            ({"image_size": (5,)}, "image_size must be"),
            ({"image_size": (5.5, 5)}, "image_size must be"),
            ({"crop": 0.5}, "crop is the share"),
            ({"crop": -0.1}, "crop is the share"),
            ({"resize": "pad"}, "resize must be one of 'stretch', 'crop'"),
        ],
    )
    def test_a_reader_that_makes_no_sense_is_refused(self, options, says):
        with pytest.raises(InputError, match=says):
            ImageReader(**options)


class TestArrays:
    @pytest.mark.parametrize("channels", [1, 3, 4])
    @pytest.mark.parametrize(
        "reader",
        [ImageReader(), ImageReader(crop=0.1), ImageReader((8, 9), crop=0.1), ImageReader((8, 9), resize="crop")],
    )
    def test_an_array_is_read_as_the_same_images_on_disk(self, save, reader, channels):
        images = np.stack([noise(21, 30, channels, seed) for seed in range(3)])
        paths = [save(image, f"{number}.png") for number, image in enumerate(images)]
        assert np.array_equal(reader(images).values, read(reader, *paths).values)

    def test_one_channel_may_have_an_axis(self):
        grey = noise(5, 7, 1)[None]
        assert np.array_equal(ImageReader()(grey).values, ImageReader()(grey[..., None]).values)

    @pytest.mark.parametrize(
        "array", [np.zeros((2, 4, 4)), np.zeros((2, 3, 4, 7), dtype=np.uint8), np.zeros((2, 4), dtype=np.uint8)]
    )
    def test_an_array_that_is_no_images_is_refused(self, array):
        with pytest.raises(InputError, match="must be uint8 of shape"):
            ImageReader()(array)


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def bomb(side):
    """A PNG of a few bytes that says it is side × side."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


BROKEN = {
    "empty": (b"", "empty"),
    "truncated": (png_bytes(noise(40, 40))[:2000], "truncated or corrupt"),
    "text": (b"this is no image", "not an image"),
    "only a signature": (b"\x89PNG\r\n\x1a\n", "not an image"),
    "bomb with an error": (bomb(60_000), "Pillow's limit of"),
    "bomb with a warning": (bomb(10_000), "Pillow's limit of"),
    "program": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n", "not an image"),
}


@pytest.fixture
def broken(tmp_path):
    for name, (content, _) in BROKEN.items():
        (tmp_path / f"{name}.png").write_bytes(content)
    (tmp_path / "folder.png").mkdir()
    return tmp_path


class TestUnreadable:
    @pytest.mark.parametrize("kind", BROKEN)
    def test_the_reason_is_given(self, broken, kind):
        assert BROKEN[kind][1] in load_or_reason(str(broken / f"{kind}.png"))

    @pytest.mark.parametrize(
        ("source", "reason"),
        [("nowhere.png", "no such file"), ("folder.png", "is a directory"), ("nul\0.png", "corrupt")],
    )
    def test_what_is_no_file_has_a_reason(self, broken, source, reason):
        assert reason in load_or_reason(str(broken / source))

    @pytest.mark.parametrize("source", [None, float("nan"), "", 3])
    def test_what_is_no_path_has_a_reason(self, source):
        assert load_or_reason(source) == "no path was given"

    def test_a_good_image_has_none(self, save):
        assert not isinstance(load_or_reason(save(noise(5, 7))), str)

    def test_a_lower_limit_of_pillow_stands(self, save, monkeypatch):
        path = save(noise(20, 20))
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 300)
        assert load_or_reason(path) == "too large to be safe: more pixels than Pillow's limit of 300"

    @pytest.mark.parametrize("size", [None, (4, 4)])
    def test_unreadable_images_are_black_and_marked(self, broken, save, size):
        good = save(np.full((4, 4, 3), 9, dtype=np.uint8))
        block = read(ImageReader(size), str(broken / "text.png"), good, str(broken / "truncated.png"))
        assert block.readable.tolist() == [False, True, False]
        assert block.values.max(axis=(1, 2, 3)).tolist() == [0, 9, 0]

    @pytest.mark.parametrize(("size", "shape"), [(None, (1, 3, 1, 1)), ((4, 5), (1, 3, 4, 5))])
    def test_a_block_may_be_unreadable_altogether(self, broken, size, shape):
        block = read(ImageReader(size), str(broken / "text.png"))
        assert block.readable.tolist() == [False]
        assert block.values.shape == shape

    def test_what_cannot_be_resized_is_unreadable(self, save, monkeypatch):
        def resize(*_):
            raise ValueError("bad box")

        path = save(noise(5, 7))
        monkeypatch.setattr(Image.Image, "resize", resize)
        assert read(ImageReader((4, 4)), path).readable.tolist() == [False]

    def test_running_out_of_memory_is_no_fault_of_the_image(self, save, monkeypatch):
        def load(_):
            raise MemoryError

        path = save(noise(5, 7))
        monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", load)
        with pytest.raises(MemoryError):
            load_or_reason(path)

    def test_without_pillow_the_extra_is_named(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "PIL", None)
        with pytest.raises(InputError, match=r"pip install 'domaincover\[images\]'"):
            ImageReader()(np.array(["a.png"]))


class TestCheck:
    def test_each_file_is_named_once_and_its_rows_are_counted(self, broken, save):
        good, text, empty = save(noise(5, 7)), str(broken / "text.png"), str(broken / "empty.png")
        paths = np.array([text, good, empty, text, good], dtype=object)
        rows, line = unreadable_images(paths, ImageReader(), 0.6)
        assert rows.tolist() == [True, False, True, True, False]
        assert line.startswith("3 of 5 images (60.00%) cannot be read and are left out: ")
        assert line.endswith(f"{empty} (the file is empty (0 bytes)).")
        assert line.count(f"{text} (not an image") == 1

    def test_missing_paths_are_rows_like_others(self, save):
        paths = np.array([None, save(noise(5, 7)), float("nan")], dtype=object)
        assert unreadable_images(paths, ImageReader(), 1)[0].tolist() == [True, False, True]

    def test_many_files_are_checked_in_blocks(self, tmp_path, save):
        good = [save(noise(2, 2), f"{number}.png") for number in range(70)]
        rows, _ = unreadable_images(np.array([*good, str(tmp_path / "gone.png")]), ImageReader(), 1)
        assert rows.tolist() == [False] * 70 + [True]

    def test_own_sizes_that_differ_are_refused_after_the_crop(self, save):
        sizes = {"a": 20, "b": 20, "c": 30, "d": 40}
        paths = np.array([save(noise(height, 7), f"{name}.png") for name, height in sizes.items()])
        with pytest.raises(InputError, match=r"a\.png is 16 × 7 .*c\.png is 24 × 7"):
            unreadable_images(paths, ImageReader(crop=0.1), 0)

    def test_sizes_may_differ_where_they_are_resized(self, save):
        paths = np.array([save(noise(20, 7), "a.png"), save(noise(30, 7), "c.png")])
        assert not unreadable_images(paths, ImageReader((5, 5)), 0)[1]

    def test_images_in_an_array_are_all_readable(self):
        rows, _ = unreadable_images(np.zeros((3, 4, 4), dtype=np.uint8), ImageReader(), 0)
        assert rows.tolist() == [False] * 3

    def test_no_images_are_all_readable(self):
        rows, line = unreadable_images(np.array([], dtype=object), ImageReader(), 0)
        assert (len(rows), line) == (0, "")

    def test_a_share_above_the_limit_stops_with_the_first_names(self, broken, save):
        paths = [*(str(broken / f"{kind}.png") for kind in BROKEN), *[save(noise(5, 7))] * 693]
        says = r"7 of 700 images \(1\.00%\) .* the 0\.50% .*empty.*; and 4 others;"
        with pytest.raises(InputError, match=says) as error:
            unreadable_images(np.array(paths, dtype=object), ImageReader(), 0.005)
        assert "\n" not in str(error.value)
        assert unreadable_images(np.array(paths, dtype=object), ImageReader(), 0.01)[0].sum() == 7


class TestFolder:
    @pytest.fixture
    def root(self, tmp_path):
        for name in ("b/cat/2.PNG", "b/cat/1.jpeg", "a/dog/x.tif", "a/dog/notes.txt", "a/dog/.hidden.png", "README"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        (tmp_path / ".git").mkdir()
        return tmp_path

    def test_domain_and_label_are_the_folders(self, root):
        table = image_folder(root)
        assert table[["label", "domain"]].to_numpy().tolist() == [["dog", "a"], ["cat", "b"], ["cat", "b"]]

    def test_paths_are_absolute_and_sorted(self, root, monkeypatch):
        monkeypatch.chdir(root.parent)
        expected = [str(root / name) for name in ("a/dog/x.tif", "b/cat/1.jpeg", "b/cat/2.PNG")]
        assert image_folder(root.name)["path"].tolist() == expected

    @pytest.mark.parametrize(
        ("path", "says"),
        [
            ("a/empty/", r"empty contains no images \(\.png"),
            ("c/", "c contains no label folders"),
            ("stray.png", r"stray\.png is not inside a label folder"),
            ("a/stray.png", r"stray\.png is not inside a label folder"),
            ("a/dog/deep/x.png", "deep is a folder inside a label folder"),
        ],
    )
    def test_what_lies_at_the_wrong_depth_is_named(self, root, path, says):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).mkdir() if path.endswith("/") else (root / path).touch()
        with pytest.raises(InputError, match=says):
            image_folder(root)

    def test_a_folder_without_images_is_refused(self, tmp_path):
        with pytest.raises(InputError, match="contains no images; images belong in folders domain/label"):
            image_folder(tmp_path)

    def test_what_is_no_folder_is_refused(self, tmp_path):
        with pytest.raises(InputError, match="is not a folder"):
            image_folder(tmp_path / "gone")
