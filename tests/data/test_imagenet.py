"""Images in the folders of ImageNet: decoded when they are read, cropped in the middle or at random."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from PIL import Image

from bln_search.core.enums import Split
from bln_search.core.errors import DataError, DataUnavailableOnMachineError, MissingPackageError
from bln_search.data import load_data_set
from bln_search.data.imagenet import get_image_folders, prepare_image_folders
from bln_search.data.lazy_images import LazyImages, central_crop_box, draw_crop_box, select_examples
from bln_search.specs.sections.data import DataSpec

WNIDS = ("n01440764", "n01443537")
SPEC = DataSpec(name="imagenet", standardization="none", validation=2)
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def colour(split, label, index):
    return 10 * (split == "val") + 100 * label + index, 50, 200


@pytest.fixture
def root(tmp_path):
    """Images of one colour, 40×60, four of each class for training and two for the test."""
    for split, count in (("train", 4), ("val", 2)):
        for label, name in enumerate(WNIDS):
            folder = tmp_path / "imagenet" / split / name
            folder.mkdir(parents=True)
            for index in range(count):
                Image.new("RGB", (40, 60), colour(split, label, index)).save(folder / f"{index}.PNG", "PNG")
    return tmp_path / "imagenet"


def prepare(root, **changes):
    return prepare_image_folders(get_image_folders([root]), DataSpec(**{**SPEC.model_dump(), **changes}))


def reds(inputs):
    return (inputs[:, 0, 0, 0] * 255).round().int().tolist()


def test_splits_have_the_images_and_classes_of_their_folders(root):
    data = prepare(root)
    assert (data.input_shape, data.num_outputs, data.vocabulary) == ((3, 224, 224), 2, None)
    sizes = {split: len(inputs) for split, (inputs, _) in data.splits.items()}
    assert sizes == {Split.TRAIN: 6, Split.VALIDATION: 2, Split.TEST: 4}
    seen = []
    for split, (inputs, targets) in data.splits.items():
        images = inputs[0 : len(inputs)]
        assert images.shape == (len(inputs), 3, 224, 224)
        assert images.dtype == torch.float32
        folder = "val" if split is Split.TEST else "train"
        for red, target in zip(reds(images), targets.tolist(), strict=True):
            assert red in [colour(folder, target, index)[0] for index in range(4)]
        seen += reds(images)
    assert len(set(seen)) == 12


def test_channels_are_standardized_by_the_published_values(root):
    plain, scaled = (prepare(root, standardization=name).splits[Split.TEST][0][:1] for name in ("none", "channel"))
    expected = (plain - torch.tensor(MEAN).view(1, 3, 1, 1)) / torch.tensor(DEVIATION).view(1, 3, 1, 1)
    torch.testing.assert_close(scaled, expected)


def test_evaluation_takes_the_centre_after_resizing_to_256(tmp_path):
    pixels = np.zeros((300, 500, 3), np.uint8)
    pixels[..., 0] = np.linspace(0, 255, 500)[None, :]
    pixels[..., 1] = np.linspace(0, 255, 300)[:, None]
    Image.fromarray(pixels).save(tmp_path / "0.png")
    images = LazyImages(tmp_path, np.array(["0.png"]), (0, 0, 0), (1, 1, 1), torch.device("cpu"))
    resized = Image.fromarray(pixels).resize((round(500 * 256 / 300), 256), Image.Resampling.BILINEAR)
    left, top = (resized.width - 224) / 2, (256 - 224) / 2
    expected = np.asarray(resized.crop((round(left), top, round(left) + 224, top + 224)), np.float32)
    assert np.abs(images[0:1][0].permute(1, 2, 0).numpy() * 255 - expected).max() < 2
    assert central_crop_box(256, 256) == (16, 16, 240, 240)


def test_images_are_decoded_when_they_are_read(root, monkeypatch):
    opened = []
    real = Image.open
    monkeypatch.setattr(Image, "open", lambda path: opened.append(path) or real(path))
    inputs, _ = prepare(root).splits[Split.TRAIN]
    chosen = select_examples(inputs, torch.tensor([4, 1, 0]))
    assert (len(chosen), opened) == (3, [])
    assert reds(chosen[1:3]) == reds(inputs[torch.tensor([1, 0])])
    assert len(opened) == 4


def test_random_parts_lie_in_the_image_and_have_the_documented_sizes():
    generator = torch.Generator().manual_seed(0)
    areas = []
    for _ in range(500):
        left, top, right, bottom = draw_crop_box(300, 200, generator)
        assert 0 <= left < right <= 300
        assert 0 <= top < bottom <= 200
        ratio = (right - left) / (bottom - top)
        assert 3 / 4 - 1e-9 <= ratio <= 4 / 3 + 1e-9
        areas.append((right - left) * (bottom - top) / 60_000)
    assert 0.08 <= min(areas) < 0.12
    assert 0.7 < max(areas) <= 1
    assert draw_crop_box(1000, 10, generator) == (495, 0, 505, 10)


def test_random_parts_depend_on_the_generator_only(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "0.png")
    images = LazyImages(tmp_path, np.array(["0.png"] * 8), (0, 0, 0), (1, 1, 1), torch.device("cpu"))
    first, second, other, flipped = (
        images.read_random_crops(slice(8), torch.Generator().manual_seed(seed), flip=flip)
        for seed, flip in ((1, False), (1, False), (2, False), (1, True))
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    mirrored = [torch.equal(a, b.flip(2)) for a, b in zip(first, flipped, strict=True)]
    same = [torch.equal(a, b) for a, b in zip(first, flipped, strict=True)]
    assert [a or b for a, b in zip(mirrored, same, strict=True)] == [True] * 8
    assert 0 < sum(mirrored) < 8


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_file_that_is_no_image_is_an_error_that_names_it(root, content):
    path = root / "val" / WNIDS[1] / "0.PNG"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"n01443537/0\.PNG cannot be decoded"):
        prepare(root).splits[Split.TEST][0][:4]


def test_missing_pillow_is_an_error_that_names_the_extra(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingPackageError, match=r"bln-search\[images\]"):
        prepare(root).splits[Split.TEST][0][:1]


def test_image_of_too_many_pixels_is_an_error(root, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2000)
    with pytest.raises(DataError, match="cannot be decoded"):
        prepare(root).splits[Split.TEST][0][:1]


def test_folders_without_classes_or_images_are_an_error(root, tmp_path):
    with pytest.raises(DataUnavailableOnMachineError, match="train and val"):
        get_image_folders([tmp_path / "nothing", tmp_path])
    for path in (root / "val" / WNIDS[0]).iterdir():
        path.unlink()
    with pytest.raises(DataError, match="n01440764 has no image"):
        prepare(root)
    (root / "val" / WNIDS[0]).rmdir()
    with pytest.raises(DataError, match="only one of them has n01440764"):
        prepare(root)


def test_standardization_of_each_pixel_and_arrays_are_refused(root, tmp_path):
    with pytest.raises(DataError, match="use `channel` or `none`"):
        prepare(root, standardization="pixel")
    with pytest.raises(DataError, match="one mini-batch at a time"):
        load_data_set("imagenet", tmp_path)


def test_digest_changes_with_the_files(root):
    before = get_image_folders([root]).sha256_of_names_and_sizes
    assert before == get_image_folders([root]).sha256_of_names_and_sizes == prepare(root).sha256
    (root / "val" / WNIDS[0] / "9.png").write_bytes(b"1")
    assert get_image_folders([root]).sha256_of_names_and_sizes != before
