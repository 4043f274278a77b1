"""The folders that stand for the releases have the traps, and something to learn."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.paper.wilds_folders import TRAP_TEXTS, WORDS, build_amazon, build_camelyon17, build_fmow, build_iwildcam


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def opened(built):
    images = []
    for source in built.sources:
        with Image.open(source) as image:
            image.load()
            images.append(image)
    return images


def test_patches_have_the_release_s_size_with_and_without_transparency(tmp_path, rng):
    images = opened(build_camelyon17(tmp_path, rng))
    assert {image.size for image in images} == {(96, 96)}
    assert {image.mode for image in images} == {"RGB", "RGBA"}


def test_camera_traps_have_colour_and_grey_images_of_several_shapes(tmp_path, rng):
    images = opened(build_iwildcam(tmp_path, rng))
    assert {image.mode for image in images} == {"RGB", "L"}
    assert len({image.width / image.height for image in images}) > 2


def test_sequestered_rows_come_before_rows_that_are_used(tmp_path, rng):
    built = build_fmow(tmp_path, rng, size=8)
    numbers = [int(Path(source).stem.rpartition("_")[2]) for source in built.sources]
    assert numbers != list(range(len(numbers)))


@pytest.mark.parametrize("build", [build_camelyon17, build_fmow])
def test_the_brightest_channel_tells_the_label_of_most_images(tmp_path, rng, build):
    built = build(tmp_path, rng, n_domains=6, per_cell=10, size=16)
    brightest = [int(np.asarray(image.convert("RGB")).mean(axis=(0, 1)).argmax()) for image in opened(built)]
    label_names = sorted(set(built.labels))
    told = np.array([label_names.index(label) for label in built.labels]) == brightest
    assert told.mean() > 0.9


def test_the_words_of_a_review_tell_its_stars(tmp_path, rng):
    built = build_amazon(tmp_path, rng, traps=False)
    for text, label in zip(built.sources, built.labels, strict=True):
        assert set(text.split()) & set(WORDS[int(label[0]) - 1])


def test_few_examples_take_no_more_traps_than_there_are(tmp_path, rng):
    built = build_amazon(tmp_path, rng, n_domains=1, per_cell=1)
    assert set(built.sources) <= set(TRAP_TEXTS)
