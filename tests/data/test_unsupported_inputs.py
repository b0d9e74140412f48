"""Inputs are decoded to their right values or refused; nothing is left out silently."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from bln_search.core.errors import DataError
from bln_search.core.tasks import TaskName
from bln_search.data.dataset import DataSet
from bln_search.data.imagenet import ImageFolders
from bln_search.data.label_checks import find_label_problem
from bln_search.data.lazy_images import _decode_image_part
from bln_search.data.standardizer import Standardizer
from bln_search.specs.sections.data import Standardization

RAMP = np.linspace(0, 1, 64 * 64).reshape(64, 64)
BYTES = (RAMP * 255).astype(np.uint8)


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_sixteen_bits_have_the_values_of_eight(tmp_path, suffix):
    Image.fromarray(BYTES).save(tmp_path / "8.png")
    Image.fromarray(BYTES.astype(np.uint16) * 257).save(tmp_path / f"16{suffix}")
    expected = _decode_image_part(tmp_path / "8.png", None)
    assert (_decode_image_part(tmp_path / f"16{suffix}", None) == expected).all()


def test_palette_and_opaque_alpha_have_the_values_of_rgb(tmp_path):
    image = Image.fromarray(np.stack([BYTES // 128 * 255] * 3, 2))
    for name, changed in (("rgb", image), ("p", image.quantize(2)), ("rgba", image.convert("RGBA"))):
        changed.save(tmp_path / f"{name}.png")
    expected = _decode_image_part(tmp_path / "rgb.png", None)
    for name in ("p", "rgba"):
        assert (_decode_image_part(tmp_path / f"{name}.png", None) == expected).all()


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
            _decode_image_part(tmp_path / name, None)


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


@pytest.mark.parametrize(
    ("labels", "remedy"),
    [
        (np.array(["a"] * 4), "np.unique"),
        (np.array([None] * 4), "np.unique"),
        (np.zeros(3, np.int64), "4 inputs need 4 labels"),
        (np.zeros((4, 1), np.int64), "reshape"),
        (np.zeros(4, np.int32), "astype('int64')"),
        ([0, 1, 2, 3], "np.asarray"),
    ],
)
def test_labels_have_their_own_remedy(labels, remedy):
    assert remedy in find_label_problem(labels, np.zeros((4, 2), np.uint8), TaskName.CLASSIFICATION, 4)


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


def test_values_that_overflow_are_a_data_error():
    inputs = np.array([[1e300], [2e300]])
    with pytest.raises(DataError, match="overflow"):
        Standardizer(inputs, 1.0, Standardization.PIXEL)
    with pytest.raises(DataError, match="overflow"):
        Standardizer(inputs, 1.0, Standardization.NONE)(inputs)
