"""Builds the archive of an export with the code of `bln-search export`, in a process without a database."""

from __future__ import annotations

import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from bln_search.api import TrainedRow, export_trained_row
from bln_search.core.enums import ArchiveContents, ExportStep
from bln_search.core.errors import ExportError
from bln_search.core.exports import ARCHIVE_SUFFIX, StoredArchive
from bln_search.core.files.atomic import compute_file_sha256
from bln_search.core.files.private import make_private_folder
from bln_search.data import load_data_set
from bln_search.execution.environment import ExecutionEnvironment

_TEMPORARY_PREFIX = ".export-"
_ABANDONED_SECONDS = 86_400
"""Age from which temporary folders are removed: no export takes so long, so their processes were killed."""

_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""The same time for every file, so that equal contents are equal archives."""


@dataclass(frozen=True)
class ArchiveTask:
    """What a process builds.

    Attributes:
        row: The network with its row.
        format: Forms of the network in the archive.
        environment: Folders and checkpoint store.
        folder: Name of the folder in the archive.
        scratch: Empty folder for temporary files.
        max_bytes: Largest size of an archive.
    """

    row: TrainedRow
    format: ArchiveContents
    environment: ExecutionEnvironment
    folder: str
    scratch: Path
    max_bytes: int


def build_archive(task: ArchiveTask, on_step: Callable[[ExportStep], None]) -> StoredArchive:
    """Export the network, compare its forms with it, and store the archive under a name of its content.

    Args:
        task: What is built.
        on_step: Called before each step.

    Raises:
        BlnSearchError: as `export_trained_row` does; ExportError also for an archive that is too large.
        CheckpointStoreError: The checkpoint store cannot be written to.
    """
    torch.set_num_threads(task.environment.threads)
    on_step(ExportStep.DATA)
    data = load_data_set(task.row.trial.data.name, task.environment.data, task.environment.cache)
    folder, archive = task.scratch / "network", task.scratch / "archive.zip"
    export_trained_row(
        task.row, task.environment.checkpoints, data, folder, forms=task.format.export_formats, on_step=on_step
    )
    on_step(ExportStep.ARCHIVE)
    _write_zip_archive(folder, archive, task.folder)
    return _store_archive(archive, task)


@contextmanager
def scratch_folder(cache: Path) -> Iterator[Path]:
    """Yield a temporary folder in the folder of decoded data sets: `/tmp` of a container may be small."""
    make_private_folder(cache)
    with tempfile.TemporaryDirectory(dir=cache, prefix=_TEMPORARY_PREFIX, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def remove_abandoned_folders(cache: Path) -> None:
    """Remove temporary folders that killed processes left behind. cache: folder of decoded data sets."""
    for folder in cache.glob(f"{_TEMPORARY_PREFIX}*"):
        with suppress(OSError):
            if folder.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                shutil.rmtree(folder)


def _write_zip_archive(folder: Path, archive: Path, name: str) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for path in sorted(folder.iterdir()):
            entry = zipfile.ZipInfo(f"{name}/{path.name}", _ZIP_TIME)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            with path.open("rb") as source, target.open(entry, "w") as written:
                shutil.copyfileobj(source, written, 1024 * 1024)


def _store_archive(archive: Path, task: ArchiveTask) -> StoredArchive:
    size, sha256 = archive.stat().st_size, compute_file_sha256(archive)
    if size > task.max_bytes:
        raise ExportError(
            f"the archive has {size / 1e6:,.1f} MB, and archives of this service may have {task.max_bytes / 1e6:,.1f} "
            "MB together (BLN_SEARCH_EXPORT_BYTES)"
        )
    store = task.environment.checkpoints
    stored = StoredArchive(f"{sha256[:32]}{ARCHIVE_SUFFIX}", size, sha256)
    store.upload_file(stored.file, archive)
    return stored
