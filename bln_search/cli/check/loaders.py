"""Data of a check by reference: a function, an image folder, `.npz`, `.parquet` or `.csv`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from bln_search.api.inputs.loaders import Loader
from bln_search.cli.check.references import call_reference, is_python_reference
from bln_search.core.errors import DataError, MissingPackageError

FORMS = "FILE.py:NAME, package.module:NAME, a folder of images, or a file .npz, .parquet or .csv"
"""Forms of a reference, for messages."""

_IMAGES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff"})
_INPUT_KEYS, _TARGET_KEYS = ("inputs", "x", "images"), ("targets", "y", "labels")


@dataclass(frozen=True)
class DataOptions:
    """How data of files are read.

    Attributes:
        batch_size: Mini-batch size.
        image_size: Height and width of images: the shorter side is resized, and the centre cropped.
        mean: Mean of each channel that is subtracted from images in 0–1.
        deviation: Deviation of each channel by which they are divided.
        target_column: Column of the targets in a table.
    """

    batch_size: int
    image_size: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    target_column: str


def load_data(reference: str, option: str, options: DataOptions) -> Loader:
    """A loader of mini-batches with targets, in a fixed order.

    Raises:
        DataError: The reference names no data, or they cannot be read.
    """
    path = Path(reference)
    if is_python_reference(reference):
        loader: Loader = call_reference(reference, option)
        return loader
    if path.is_dir():
        return DataLoader(_ImageFolder(path, option, options), options.batch_size)
    read = {".npz": _read_arrays, ".parquet": _read_table, ".csv": _read_table}.get(path.suffix)
    if read is None:
        raise DataError(f"{option}: {reference!r} names no data: give {FORMS}")
    if not path.is_file():
        raise DataError(f"{option}: there is no file {path}")
    inputs, targets = read(path, option, options)
    if len(inputs) != len(targets) or not len(inputs):
        raise DataError(f"{option}: {path} has {len(inputs)} inputs and {len(targets)} targets")
    return DataLoader(TensorDataset(inputs, targets), options.batch_size)


class _ImageFolder(Dataset[tuple[Tensor, int]]):
    """Images in one folder for each class; classes are numbered in the order of their names."""

    def __init__(self, folder: Path, option: str, options: DataOptions) -> None:
        classes = sorted(path for path in folder.iterdir() if path.is_dir())
        self._files = [
            (path, number)
            for number, each in enumerate(classes)
            for path in sorted(each.rglob("*"))
            if path.suffix.lower() in _IMAGES
        ]
        if not self._files:
            raise DataError(f"{option}: {folder} has no images in folders of classes, as {folder}/cat/1.jpg")
        self._options, self._option = options, option

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        path, number = self._files[index]
        return self._read(path), number

    def _read(self, path: Path) -> Tensor:
        try:
            images: Any = import_module("PIL.Image")
        except ModuleNotFoundError as error:
            raise MissingPackageError(error.name, extra=None) from None
        size = self._options.image_size
        try:
            with images.open(path) as file:
                image = file.convert("RGB")
                scale = size / min(image.size)
                image = image.resize([max(size, round(side * scale)) for side in image.size], images.BILINEAR)
        except OSError as error:
            raise DataError(f"{self._option}: {path} is no image that can be read ({error})") from error
        left, top = ((side - size) // 2 for side in image.size)
        pixels = torch.from_numpy(np.array(image.crop((left, top, left + size, top + size)))).permute(2, 0, 1)
        mean, deviation = (
            torch.tensor(values).reshape(-1, 1, 1) for values in (self._options.mean, self._options.deviation)
        )
        return (pixels.float() / 255 - mean) / deviation


def _read_arrays(path: Path, option: str, options: DataOptions) -> tuple[Tensor, Tensor]:  # noqa: ARG001 - one signature
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return _as_inputs(_take(arrays, _INPUT_KEYS, path, option)), _as_targets(
                _take(arrays, _TARGET_KEYS, path, option)
            )
    except (OSError, ValueError) as error:
        raise DataError(f"{option}: {path} cannot be read ({error})") from error


def _read_table(path: Path, option: str, options: DataOptions) -> tuple[Tensor, Tensor]:
    module = "pyarrow.parquet" if path.suffix == ".parquet" else "pyarrow.csv"
    try:
        reader = import_module(module)
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name, extra=None) from None
    read: Callable[[Path], Any] = reader.read_table if path.suffix == ".parquet" else reader.read_csv
    try:
        table = read(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{option}: {path} cannot be read ({error})") from error
    if options.target_column not in table.column_names:
        raise DataError(
            f"{option}: {path} has no column {options.target_column!r}: name the column of the targets with "
            f"--target-column; it has {', '.join(table.column_names[:10])}"
        )
    columns: list[np.ndarray[Any, Any]] = []
    for name in table.column_names:
        values = np.array(table[name])  # a copy that can be written
        if values.dtype.kind not in "biuf":
            raise DataError(f"{option}: the column {name!r} of {path} holds no numbers: leave it out, or encode it")
        if name == options.target_column:
            targets = values
        else:
            columns.append(values)
    if not columns:
        raise DataError(f"{option}: {path} has no column beside {options.target_column!r}")
    return _as_inputs(np.stack(columns, axis=1)), _as_targets(targets)


def _take(arrays: Any, keys: Sequence[str], path: Path, option: str) -> np.ndarray[Any, Any]:
    key = next((key for key in keys if key in arrays), None)
    if key is None:
        raise DataError(f"{option}: {path} has the arrays {', '.join(arrays)}, and needs {' or '.join(keys)}")
    values: np.ndarray[Any, Any] = arrays[key]
    return values


def _as_inputs(values: np.ndarray[Any, Any]) -> Tensor:
    scaled = values / np.float32(255) if values.dtype == np.uint8 else values
    return torch.from_numpy(np.array(scaled, np.float32))


def _as_targets(values: np.ndarray[Any, Any]) -> Tensor:
    return torch.from_numpy(np.array(values, np.int64 if values.dtype.kind in "biu" else np.float32))
