"""Images that are decoded when they are read, for data sets that do not fit into memory."""

from __future__ import annotations

import math
import struct
import warnings
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bln_search.core.errors import DataError, MissingPackageError
from bln_search.data.inputs import Inputs, copy_to_device

if TYPE_CHECKING:
    from PIL.Image import Image

Box = tuple[float, float, float, float]
"""Left, top, right and bottom of a part of an image, in pixels."""

_SHORTER_SIDE = 256
SIZE = 224
_AREA = (0.08, 1.0)
_LOG_RATIO = (math.log(3 / 4), math.log(4 / 3))
_MAX_ATTEMPTS = 10
_DECODING_ERRORS = (OSError, ValueError, SyntaxError, EOFError, struct.error, zlib.error)


@dataclass(frozen=True, eq=False)
class LazyImages:
    """Image files in the place of a tensor (n, 3, 224, 224). Reading a slice decodes its images; nothing is kept.

    Args:
        folder: Folder of the files.
        paths: Files, relative to the folder, (n,).
        mean: Mean of each channel that is subtracted, of values from 0 to 1.
        deviation: Standard deviation of each channel, by which is divided.
        device: Device of the decoded images.
    """

    folder: Path
    paths: NDArray[np.str_]
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    device: torch.device

    def __len__(self) -> int:
        return len(self.paths)

    def select_lazily(self, index: slice | Tensor) -> LazyImages:
        """Some of the images, still not decoded."""
        return replace(self, paths=self.paths[_as_numpy(index)])

    def __getitem__(self, index: slice | Tensor) -> Tensor:
        """Return images (k, 3, 224, 224): the shorter side resized to 256, then the central crop.

        Raises:
            DataError: a file is not an image, or cannot be read.
        """
        return self._read_images(self.paths[_as_numpy(index)], None)

    def read_random_crops(self, index: slice | Tensor, generator: torch.Generator, *, flip: bool) -> Tensor:
        """Return random parts of images, resized to (k, 3, 224, 224) (Szegedy et al. 2015, section 6).

        A part has 8 to 100 % of the area and an aspect ratio of 3/4 to 4/3.

        Args:
            index: The images.
            generator: Of the random numbers, on the CPU.
            flip: Flip half of the images horizontally.

        Raises:
            DataError: a file is not an image, or cannot be read.
        """
        images = self._read_images(self.paths[_as_numpy(index)], generator)
        if flip:
            is_flipped = copy_to_device(torch.rand((len(images), 1, 1, 1), generator=generator), self.device) < 0.5
            images = torch.where(is_flipped, images.flip(3), images)
        return images

    def _read_images(self, paths: Sequence[str] | NDArray[np.str_], generator: torch.Generator | None) -> Tensor:
        """Decode, crop, resize and standardize images; random parts with a generator, else the central crop."""
        pixels = np.empty((len(paths), SIZE, SIZE, 3), np.uint8)
        for position, path in enumerate(paths):
            pixels[position] = _decode_image_part(self.folder / path, generator)
        values = copy_to_device(torch.from_numpy(pixels), self.device).permute(0, 3, 1, 2).float() / 255
        mean, deviation = (values.new_tensor(value).view(1, 3, 1, 1) for value in (self.mean, self.deviation))
        return ((values - mean) / deviation).contiguous()


Examples = Inputs | LazyImages
"""Inputs of a split: in memory, or decoded when they are read."""


def select_examples(inputs: Examples, index: slice | Tensor) -> Examples:
    """Some of the inputs in the given order; lazy images stay lazy."""
    return inputs.select_lazily(index) if isinstance(inputs, LazyImages) else inputs[index]


def _as_numpy(index: slice | Tensor) -> slice | NDArray[np.int64]:
    return index if isinstance(index, slice) else index.cpu().numpy()


def _decode_image_part(path: Path, generator: torch.Generator | None) -> NDArray[np.uint8]:
    """Return the pixels (224, 224, 3) of a part of an image.

    Raises:
        DataError: the file is not an image, or cannot be read.
        MissingPackageError: Pillow is not installed.
    """
    try:
        from PIL import Image  # noqa: PLC0415 - only this data set needs it
    except ModuleNotFoundError as error:
        raise MissingPackageError("pillow", "images") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            warnings.filterwarnings("ignore", "Corrupt EXIF data")  # the pixels are whole
            with Image.open(path) as file:
                image = _convert_to_rgb(file)
    except (*_DECODING_ERRORS, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"{path} cannot be decoded ({error}): replace the file, or remove it") from None
    box = central_crop_box(*image.size) if generator is None else draw_crop_box(*image.size, generator)
    return _resize_box(image, box)


def _convert_to_rgb(file: Image) -> Image:
    """Return the pixels, upright as Exif says; 16-bit grey values are scaled to 8 bits.

    Raises:
        ValueError: the pixels have no unique value in RGB.
    """
    from PIL.Image import fromarray  # noqa: PLC0415

    if getattr(file, "n_frames", 1) > 1:
        raise ValueError("it has several frames")
    _turn_upright(file)
    if file.mode.startswith("I;16"):
        values = np.asarray(file).astype(np.uint32)
        return fromarray(_to_bytes(values)).convert("RGB")
    if file.mode in ("I", "F"):
        raise ValueError(f"its pixels have the type {file.mode}, whose largest value is not known")
    if file.has_transparency_data and file.convert("RGBA").getchannel("A").getextrema()[0] != 255:
        raise ValueError("it has transparent pixels, whose color is not known")
    return file.convert("RGB")


def _turn_upright(file: Image) -> None:
    """Transpose the pixels as Exif says; where its data are damaged, leave them as they are, as viewers do."""
    from PIL.ImageOps import exif_transpose  # noqa: PLC0415

    with warnings.catch_warnings(), suppress(*_DECODING_ERRORS):
        warnings.simplefilter("ignore")
        exif_transpose(file, in_place=True)


def _to_bytes(values: NDArray[np.uint32]) -> NDArray[np.uint8]:
    return ((values + 128) // 257).astype(np.uint8)


def _resize_box(image: Image, box: Box) -> NDArray[np.uint8]:
    from PIL.Image import Resampling  # noqa: PLC0415

    return np.asarray(image.resize((SIZE, SIZE), Resampling.BILINEAR, box=box))


def central_crop_box(width: int, height: int) -> Box:
    """The central part that is 224×224 after the shorter side was resized to 256."""
    side = min(width, height) * SIZE / _SHORTER_SIDE
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def draw_crop_box(width: int, height: int, generator: torch.Generator) -> Box:
    """A random part of an image; the largest central square if no drawn part fits into it."""
    for _ in range(_MAX_ATTEMPTS):
        area, log_ratio, x, y = torch.rand(4, generator=generator, dtype=torch.float64).tolist()
        size = width * height * (_AREA[0] + (_AREA[1] - _AREA[0]) * area)
        ratio = math.exp(_LOG_RATIO[0] + (_LOG_RATIO[1] - _LOG_RATIO[0]) * log_ratio)
        part_width, part_height = math.sqrt(size * ratio), math.sqrt(size / ratio)
        if part_width <= width and part_height <= height:
            left, top = x * (width - part_width), y * (height - part_height)
            return left, top, left + part_width, top + part_height
    side = min(width, height)
    return (width - side) / 2, (height - side) / 2, (width + side) / 2, (height + side) / 2
