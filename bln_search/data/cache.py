"""Cache of decoded data sets as `.npy` arrays, so that files are decoded once. Arrays are loaded without pickle."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bln_search.core.files.private import PRIVATE_FILE, PRIVATE_FOLDER, make_private_folder
from bln_search.data.dataset import DataSet

_ARRAYS = ("train_inputs", "train_labels", "test_inputs", "test_labels")
_METADATA_FILE = "facts.json"
_log = logging.getLogger(__name__)


def has_cached_data_set(folder: Path, name: str, version: str) -> bool:
    """Whether the cache has a copy of a data set, whose arrays are not read; arguments as `find_cached_data_set`."""
    return (folder / f"{name}-{version}").is_dir()


def find_cached_data_set(folder: Path, name: str, version: str, classes: tuple[str, ...]) -> DataSet | None:
    """Return the cached data set; None where it is missing, damaged or cannot be read. A damaged copy is deleted.

    Args:
        folder: the cache.
        name: of the data set.
        version: of the files from which it was decoded.
        classes: names of the classes.
    """
    copy_folder = folder / f"{name}-{version}"
    try:
        if not copy_folder.is_dir():
            return None
        arrays = {array: np.load(copy_folder / f"{array}.npy", allow_pickle=False) for array in _ARRAYS}
        metadata = _read_metadata(copy_folder / _METADATA_FILE)
    except (FileNotFoundError, ValueError, EOFError) as error:
        _log.warning("the decoded copy in %s is damaged (%s); decoding again", copy_folder, error)
        shutil.rmtree(copy_folder, ignore_errors=True)
        return None
    except OSError as error:
        _warn_without_cache(folder, name, error)
        return None
    return DataSet(name=name, classes=classes, **arrays, **metadata)


def _read_metadata(path: Path) -> dict[str, Any]:
    """Return the fields of a data set other than its arrays.

    Raises:
        ValueError: `try_write_cached_data_set` did not write this content.
    """
    metadata = json.loads(path.read_text("utf-8"))
    if not isinstance(metadata, dict):
        raise ValueError(f"{path.name} holds no JSON object")  # noqa: TRY004 - the error of any damaged copy
    scale, vocabulary = metadata.get("scale", 255.0), metadata.get("vocabulary", "")
    remarks = metadata.get("remarks")
    if (
        type(scale) is not float
        or not (vocabulary is None or type(vocabulary) is int)
        or not isinstance(remarks, list)
        or not all(isinstance(remark, str) for remark in remarks)
    ):
        raise ValueError(f"{path.name} holds fields of other types")
    return {"scale": scale, "vocabulary": vocabulary, "remarks": tuple(remarks)}


def try_write_cached_data_set(folder: Path, version: str, data: DataSet) -> None:
    """Write `data` into the cache atomically; log a warning where the disk is full or read-only.

    Args:
        folder: the cache.
        version: of the files from which the data set was decoded.
        data: the data set.
    """
    copy_folder = folder / f"{data.name}-{version}"
    try:
        make_private_folder(folder)
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{data.name}-") as temporary:
            new_copy = Path(temporary) / "part"
            new_copy.mkdir(mode=PRIVATE_FOLDER)
            for array in _ARRAYS:
                np.save(new_copy / f"{array}.npy", getattr(data, array), allow_pickle=False)
            metadata = {"scale": float(data.scale), "vocabulary": data.vocabulary, "remarks": data.remarks}
            (new_copy / _METADATA_FILE).write_text(json.dumps(metadata), "utf-8")
            for file in new_copy.iterdir():
                file.chmod(PRIVATE_FILE)
            if not copy_folder.exists():
                new_copy.rename(copy_folder)
    except OSError as error:
        _warn_without_cache(folder, data.name, error)


def _warn_without_cache(folder: Path, name: str, error: OSError) -> None:
    hint = ""
    if isinstance(error, PermissionError):
        hint = ": it belongs to another account; set BLN_SEARCH_CACHE to a folder of yours"
    _log.warning("the decoded %s in the cache %s cannot be used (%s); it is decoded again%s", name, folder, error, hint)
