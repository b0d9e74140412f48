"""Write a folder atomically."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bln_search.core.errors import ExportError, StorageFullError
from bln_search.core.files.atomic import DISK_FULL_ERRNOS


def check_export_folder_replaceable(folder: Path, *, overwrite: bool, is_export: Callable[[Path], bool]) -> None:
    """Raise ExportError unless an export may be written to `folder`: it is absent, empty, or an export to replace.

    Args:
        folder: The target.
        overwrite: Whether an export may be replaced.
        is_export: Whether a folder with files is an export.
    """
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir():
        raise ExportError(f"{folder} is not a folder: use another path")
    if not any(folder.iterdir()):
        return
    if not is_export(folder):
        raise ExportError(f"{folder} contains something other than an export: use an empty or a new folder")
    if not overwrite:
        raise ExportError(
            f"{folder} has an export already: give another folder, or replace it with overwrite (--overwrite)"
        )


@contextmanager
def atomic_folder(folder: Path, check: Callable[[], None]) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder` when the block ends without an error.

    Args:
        folder: The target.
        check: Raises ExportError unless the target may be written; called at the end, because another process may have
            written there meanwhile.

    Raises:
        StorageFullError: The disk is full.
        ExportError: The folder cannot be written.
    """
    target = folder.absolute()
    parent_folder = next(parent for parent in target.parents if parent.exists())
    try:
        with tempfile.TemporaryDirectory(
            dir=parent_folder, prefix=f".{target.name}-", ignore_cleanup_errors=True
        ) as temporary_folder:
            staging = Path(temporary_folder) / "staging"
            staging.mkdir()
            yield staging
            check()
            _replace_folder_or_restore(staging, target, Path(temporary_folder) / "previous")
    except OSError as error:
        if error.errno in DISK_FULL_ERRNOS:
            raise StorageFullError(
                f"no disk space left to write {folder}: free some space and run the command again; nothing was written"
            ) from None
        raise ExportError(
            f"{folder} cannot be written ({error.strerror or error}): give another folder; nothing was written"
        ) from None


def _replace_folder_or_restore(staging: Path, target: Path, previous: Path) -> None:
    """Move `staging` to the target. An existing target moves to `previous`, and back if the move fails."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target_exists = target.exists()
    if target_exists:
        shutil.move(target, previous)
    try:
        staging.rename(target)
    except BaseException:
        if target_exists:
            shutil.move(previous, target)
        raise
