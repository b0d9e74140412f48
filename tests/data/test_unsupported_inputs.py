"""Inputs are decoded to their right values or refused; nothing is left out silently."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageOps

from bln_search.core.errors import DataError
from bln_search.data.dataset import DataSet
from bln_search.data.imagenet import ImageFolders
from bln_search.data.lazy_images import _decode_image_part

RAMP = np.linspace(0, 1, 64 * 64).reshape(64, 64)
BYTES = (RAMP * 255).astype(np.uint8)


def decoded(path):
    return _decode_image_part(path, None)


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_sixteen_bits_have_the_values_of_eight(tmp_path, suffix):
    Image.fromarray(BYTES).save(tmp_path / "8.png")
    Image.fromarray(BYTES.astype(np.uint16) * 257).save(tmp_path / f"16{suffix}")
    expected = decoded(tmp_path / "8.png")
    assert (decoded(tmp_path / f"16{suffix}") == expected).all()


def test_palette_and_opaque_alpha_have_the_values_of_rgb(tmp_path):
    image = Image.fromarray(np.stack([BYTES // 128 * 255] * 3, 2))
    for name, changed in (("rgb", image), ("p", image.quantize(2)), ("rgba", image.convert("RGBA"))):
        changed.save(tmp_path / f"{name}.png")
    expected = decoded(tmp_path / "rgb.png")
    for name in ("p", "rgba"):
        assert (decoded(tmp_path / f"{name}.png") == expected).all()


def test_images_without_one_value_in_rgb_are_refused_by_name(tmp_path):
    Image.fromarray(RAMP.astype(np.float32)).save(tmp_path / "float.tif")
    Image.fromarray(np.stack([BYTES] * 4, 2)).save(tmp_path / "alpha.png")
    frames = [Image.fromarray(BYTES + shift) for shift in (0, 1)]
    frames[0].save(tmp_path / "frames.gif", save_all=True, append_images=frames[1:])
    (tmp_path / "empty.png").touch()
    Image.fromarray(BYTES).save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:70])
    for name in ("float.tif", "alpha.png", "frames.gif", "empty.png", "cut.png"):
        with pytest.raises(DataError, match=name):
            decoded(tmp_path / name)


def test_files_of_a_class_are_read_or_named(tmp_path):
    for split in ("train", "val"):
        (tmp_path / split / "a" / "inner").mkdir(parents=True)
        for suffix in (".PNG", ".webp", ".bmp", ".tif", ".gif"):
            Image.fromarray(BYTES).save(tmp_path / split / "a" / f"0{suffix}")
        for name in ("notes.txt", ".hidden.png", "x.avif"):
            (tmp_path / split / "a" / name).touch()
    train, _, left_out, _ = ImageFolders(tmp_path).verify()
    assert "5 images" in train
    assert "4 files" in left_out
    assert all(name in left_out for name in (".txt", ".avif", "inner", ".png"))


def make_data(train, test):
    labels = np.zeros(2, np.int64)
    return DataSet("own", ("a", "b"), train, labels, test, labels)


def test_splits_of_other_types_or_ranges_are_refused():
    inputs = np.full((2, 3), 200, np.uint8)
    for test in (inputs.astype(np.float32), inputs.astype(np.uint16)):
        with pytest.raises(DataError, match="test_inputs"):
            make_data(inputs, test).check()
    with pytest.raises(DataError, match="divided by 255"):
        make_data(inputs / 255, inputs.astype(float)).check()
    make_data(inputs / 255, inputs / 400).check()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_image_is_upright_as_its_exif_says(tmp_path, orientation):
    image = Image.fromarray(np.stack([BYTES, BYTES.T, BYTES // 2], 2)).crop((0, 0, 64, 40))
    exif = Image.Exif()
    exif[274] = orientation
    image.save(tmp_path / "turned.png", exif=exif)
    with Image.open(tmp_path / "turned.png") as file:
        ImageOps.exif_transpose(file).save(tmp_path / "upright.png")
    assert (decoded(tmp_path / "turned.png") == decoded(tmp_path / "upright.png")).all()


def test_damaged_exif_data_are_ignored(tmp_path):
    Image.fromarray(BYTES).save(tmp_path / "damaged.jpg", exif=b"Exif\0\0II*\0\xff\xff\xff\x7f")
    Image.fromarray(BYTES).save(tmp_path / "whole.jpg")
    assert (decoded(tmp_path / "damaged.jpg") == decoded(tmp_path / "whole.jpg")).all()


@pytest.mark.parametrize(
    ("mode", "suffix"), [("CMYK", "jpg"), ("CMYK", "tif"), ("1", "png"), ("L", "bmp"), ("YCbCr", "jpg")]
)
def test_modes_have_the_pixels_that_pillow_gives_them(tmp_path, mode, suffix):
    image = Image.fromarray(np.stack([BYTES, BYTES.T, BYTES // 2], 2)).convert(mode)
    image.save(tmp_path / f"image.{suffix}")
    with Image.open(tmp_path / f"image.{suffix}") as file:
        file.convert("RGB").save(tmp_path / "rgb.png")
    assert (decoded(tmp_path / f"image.{suffix}") == decoded(tmp_path / "rgb.png")).all()


@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_transparent_pixels_are_refused_and_opaque_ones_are_not(tmp_path, mode):
    for name, alpha in (("opaque", 255), ("transparent", 0)):
        image = Image.fromarray(np.dstack([BYTES, np.full_like(BYTES, alpha)]), "LA").convert(mode)
        image.save(tmp_path / f"{name}.tif")
    Image.fromarray(BYTES).save(tmp_path / "grey.png")
    assert (decoded(tmp_path / "opaque.tif") == decoded(tmp_path / "grey.png")).all()
    with pytest.raises(DataError, match="transparent"):
        decoded(tmp_path / "transparent.tif")


def test_a_palette_with_a_transparent_color_in_use_is_refused(tmp_path):
    image = Image.fromarray(BYTES // 128).convert("P")
    image.save(tmp_path / "used.png", transparency=0)
    image.save(tmp_path / "unused.png", transparency=200)
    image.save(tmp_path / "none.png")
    with pytest.raises(DataError, match=r"used\.png"):
        decoded(tmp_path / "used.png")
    assert (decoded(tmp_path / "unused.png") == decoded(tmp_path / "none.png")).all()


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "bmp", "tif", "webp"])
def test_truncated_files_are_refused_by_name(tmp_path, suffix):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / f"whole.{suffix}")
    content = (tmp_path / f"whole.{suffix}").read_bytes()
    for length in (len(content) // 10, len(content) // 2):
        (tmp_path / f"cut.{suffix}").write_bytes(content[:length])
        with pytest.raises(DataError, match="cut"):
            decoded(tmp_path / f"cut.{suffix}")


@pytest.mark.parametrize("side", [10_000, 20_000])
def test_a_decompression_bomb_is_refused_by_name(tmp_path, side):
    """More pixels than Pillow warns of, and more than it refuses itself."""
    Image.new("1", (side, side)).save(tmp_path / "bomb.png")
    with pytest.raises(DataError, match=r"bomb\.png"):
        decoded(tmp_path / "bomb.png")
