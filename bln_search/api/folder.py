"""A folder that is written whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bln_search.api.exported import read_description
from bln_search.core.errors import DataError, ExportError, StorageFullError
from bln_search.core.files import NO_ROOM


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Raise ExportError unless an export may be written to `folder`: it is absent, empty, or an export to replace."""
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir():
        raise ExportError(f"{folder} is not a folder: give another one")
    if not any(folder.iterdir()):
        return
    try:
        read_description(folder)
    except DataError:
        raise ExportError(f"{folder} holds something else than an export: give an empty or a new folder") from None
    if not overwrite:
        raise ExportError(f"{folder} holds an export already: give another folder, or --overwrite to replace it")


@contextmanager
def unfinished(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """A folder to write into, beside `folder`, which it becomes when the block ends; when it fails, nothing is left.

    Raises StorageFullError where the disk is full, ExportError where the folder cannot be written.
    """
    target = folder.absolute()
    beside = next(parent for parent in target.parents if parent.exists())
    try:
        with tempfile.TemporaryDirectory(dir=beside, prefix=f".{target.name}-", ignore_cleanup_errors=True) as holder:
            part = Path(holder) / "part"
            part.mkdir()
            yield part
            check_target(folder, overwrite=overwrite)  # meanwhile somebody may have written there
            _put(part, target, Path(holder) / "before")
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StorageFullError(
                f"no room left to write {folder}: free some space and run the same command again; nothing was written"
            ) from None
        raise ExportError(
            f"{folder} cannot be written ({error.strerror or error}): give another folder; nothing was written"
        ) from None


def _put(part: Path, target: Path, before: Path) -> None:
    """Make `part` the target; what stood there goes to `before`, and comes back where that fails."""
    target.parent.mkdir(parents=True, exist_ok=True)
    replaced = target.exists()
    if replaced:
        shutil.move(target, before)
    try:
        part.rename(target)
    except BaseException:
        if replaced:
            shutil.move(before, target)
        raise
