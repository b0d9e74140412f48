"""The folder of an export."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from bln_search.api.export.exported import read_export_description
from bln_search.core.errors import DataError
from bln_search.core.files import atomic_folder as folders


def check_export_target_replaceable(folder: Path, *, overwrite: bool) -> None:
    """Raise ExportError unless an export may be written to `folder`: it is absent, empty, or an export to replace."""
    folders.check_export_folder_replaceable(folder, overwrite=overwrite, is_export=_is_export_folder)


def open_atomic_export_folder(folder: Path, *, overwrite: bool) -> AbstractContextManager[Path]:
    """Yield a temporary folder that becomes `folder` when the block ends without an error.

    Raises:
        StorageFullError: The disk is full.
        ExportError: The folder cannot be written.
    """
    return folders.atomic_folder(folder, partial(check_export_target_replaceable, folder, overwrite=overwrite))


def _is_export_folder(folder: Path) -> bool:
    try:
        read_export_description(folder)
    except DataError:
        return False
    return True
