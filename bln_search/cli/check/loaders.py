"""Data of a check by reference: a function, an image folder, `.npz`, `.parquet` or `.csv`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from bln_search.api.inputs.loaders import Loader
from bln_search.cli.check.references import call_reference, is_python_reference
from bln_search.core.corruption import Corruption
from bln_search.core.errors import DataError, MissingPackageError
from bln_search.data.corruptions import corrupt_images

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
        classes: Names of the classes of image folders, which are numbered in this order; empty without such folders.
        corruption: Corruption of images of folders; None for none.
    """

    batch_size: int
    image_size: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    target_column: str
    classes: tuple[str, ...] = ()
    corruption: Corruption | None = None

    def __post_init__(self) -> None:
        """Raise DataError for means and deviations that fit no image."""
        if len(self.mean) != len(self.deviation) or len(self.mean) not in (1, 3):
            raise DataError("--mean and --deviation have one value for grey images, or three for colour images")
        if not all(value > 0 for value in self.deviation):
            raise DataError("--deviation: each value is above 0")


def find_classes(references: Sequence[str | None]) -> tuple[str, ...]:
    """Names of the classes of the first folder that has some."""
    folders = [Path(reference) for reference in references if reference is not None and Path(reference).is_dir()]
    names = (tuple(sorted(path.name for path in folder.iterdir() if path.is_dir())) for folder in folders)
    return next(filter(None, names), ())


def load_data(reference: str, option: str, options: DataOptions, *, needs_targets: bool = True) -> Loader:
    """A loader of mini-batches with targets, of files in one random order.

    Args:
        reference: See `FORMS`.
        option: The option that gave it, for messages.
        options: How files are read.
        needs_targets: Whether data without targets are refused; otherwise mini-batches may be inputs alone.

    Raises:
        DataError: The reference names no data, or they cannot be read.
    """
    path = Path(reference)
    if options.corruption is not None and not path.is_dir():
        raise DataError(f"{option}: corruptions are for a folder of images, and {reference} is none")
    if is_python_reference(reference):
        loader: Loader = call_reference(reference, option)
        return loader
    if path.is_dir():
        return _make_loader(_ImageFolder(path, option, options, needs_targets=needs_targets), options)
    read = {".npz": _read_arrays, ".parquet": _read_table, ".csv": _read_table}.get(path.suffix)
    if read is None:
        raise DataError(f"{option}: {reference!r} names no data: give {FORMS}")
    if not path.is_file():
        raise DataError(f"{option}: there is no file {path}")
    inputs, targets = read(path, option, options, needs_targets)
    if not len(inputs) or (targets is not None and len(inputs) != len(targets)):
        raise DataError(
            f"{option}: {path} has {len(inputs)} inputs and {0 if targets is None else len(targets)} targets"
        )
    return _make_loader(TensorDataset(inputs, *([] if targets is None else [targets])), options)


def _make_loader(examples: Dataset[Any], options: DataOptions) -> Loader:
    """Mini-batches in one random order: those of sorted data would have statistics of one class each."""
    order = np.random.default_rng(0).permutation(len(examples)).tolist()  # type: ignore[arg-type]
    return DataLoader(Subset(examples, order), options.batch_size)


class _ImageFolder(Dataset[Any]):
    """Images in one folder for each class; or images alone, where no targets are needed."""

    def __init__(self, folder: Path, option: str, options: DataOptions, *, needs_targets: bool) -> None:
        folders = sorted(path for path in folder.iterdir() if path.is_dir())
        unknown = next((path.name for path in folders if path.name not in options.classes), None)
        if unknown is not None and needs_targets:
            raise DataError(
                f"{option}: the folder {unknown} of {folder} is no class of the training data, which has "
                f"{', '.join(options.classes[:10])}"
            )
        self._files = [
            (path, -1 if unknown is not None else options.classes.index(each.name))
            for each in folders
            for path in _list_images(each.rglob("*"))
        ]
        self._has_targets = bool(folders) and unknown is None
        if not folders and not needs_targets:
            self._files = [(path, -1) for path in _list_images(folder.iterdir())]
        if not self._files:
            raise DataError(f"{option}: {folder} has no images in folders of classes, as {folder}/cat/1.jpg")
        self._options, self._option = options, option

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Tensor | tuple[Tensor, int]:
        path, number = self._files[index]
        image = self._read(path, index)
        return (image, number) if self._has_targets else image

    def _read(self, path: Path, index: int) -> Tensor:
        try:
            images: Any = import_module("PIL.Image")
        except ModuleNotFoundError as error:
            raise MissingPackageError(error.name, extra=None) from None
        size, channels = self._options.image_size, len(self._options.mean)
        try:
            with images.open(path) as file:
                image = file.convert("RGB" if channels == 3 else "L")
                scale = size / min(image.size)
                image = image.resize([max(size, round(side * scale)) for side in image.size], images.BILINEAR)
        except OSError as error:
            raise DataError(f"{self._option}: {path} is no image that can be read ({error})") from error
        left, top = ((side - size) // 2 for side in image.size)
        pixels = np.array(image.crop((left, top, left + size, top + size))).reshape(size, size, channels)
        mean, deviation = (np.array(values, np.float32) for values in (self._options.mean, self._options.deviation))
        scaled = pixels.astype(np.float32) / 255
        if self._options.corruption is not None:
            shown = corrupt_images(scaled.transpose(2, 0, 1)[None], self._options.corruption, seed=0, indices=[index])
            scaled = shown[0].transpose(1, 2, 0)
        return torch.from_numpy(np.ascontiguousarray(((scaled - mean) / deviation).transpose(2, 0, 1)))


def _list_images(paths: Iterable[Path]) -> list[Path]:
    return sorted(path for path in paths if path.suffix.lower() in _IMAGES)


def _read_arrays(
    path: Path,
    option: str,
    options: DataOptions,  # noqa: ARG001 - one signature
    needs_targets: bool,  # noqa: FBT001
) -> tuple[Tensor, Tensor | None]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            inputs = _as_inputs(_take(arrays, _INPUT_KEYS, path, option))
            if not needs_targets and not any(key in arrays for key in _TARGET_KEYS):
                return inputs, None
            return inputs, _as_targets(_take(arrays, _TARGET_KEYS, path, option))
    except (OSError, ValueError) as error:
        raise DataError(f"{option}: {path} cannot be read ({error})") from error


def _read_table(
    path: Path,
    option: str,
    options: DataOptions,
    needs_targets: bool,  # noqa: FBT001 - one signature
) -> tuple[Tensor, Tensor | None]:
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
    if needs_targets and options.target_column not in table.column_names:
        raise DataError(
            f"{option}: {path} has no column {options.target_column!r}: name the column of the targets with "
            f"--target-column; it has {', '.join(table.column_names[:5])}, … {', '.join(table.column_names[-5:])}"
        )
    if not table.num_rows:
        raise DataError(f"{option}: {path} has no rows")
    columns: list[np.ndarray[Any, Any]] = []
    targets: np.ndarray[Any, Any] | None = None
    for name in table.column_names:
        values = np.array(table[name])  # a copy that can be written
        if values.dtype.kind not in "biuf":
            raise DataError(
                f"{option}: the column {name!r} of {path} holds no numbers: leave it out, or encode it as numbers "
                "(classes from 0)"
            )
        if name == options.target_column:
            targets = values
        else:
            columns.append(values)
    if not columns:
        raise DataError(f"{option}: {path} has no column beside {options.target_column!r}")
    return _as_inputs(np.stack(columns, axis=1)), None if targets is None else _as_targets(targets)


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
