"""Builds the archive of an export with the code of `bln-search export`, in a process without a database."""

from __future__ import annotations

import logging
import os
import pickle
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import torch

from bln_search.api.export.study_export import TrainedRow, export_trained_row
from bln_search.core.enums import ArchiveContents, ExportStep
from bln_search.core.errors import (
    BlnSearchError,
    CheckpointStoreError,
    DataUnavailableOnMachineError,
    ExportError,
    MissingPackageError,
    StorageFullError,
)
from bln_search.core.exports import ARCHIVE_SUFFIX, StoredArchive
from bln_search.core.files.atomic import compute_file_sha256
from bln_search.core.files.private import make_private_folder
from bln_search.core.reasons import describe_exception
from bln_search.core.stop_signals import ignore_signals_to_process_group
from bln_search.data import load_data_set
from bln_search.execution.environment import ExecutionEnvironment

_log = logging.getLogger(__name__)

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
    spec = task.row.trial.data
    data = load_data_set(spec.name, task.environment.data, task.environment.cache, spec.own_options)
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


_PROGRAM = "from bln_search.worker.exports.archive import main; main()"
_MACHINE_FAULTS = (
    *(DataUnavailableOnMachineError, CheckpointStoreError, StorageFullError, MissingPackageError),
    *(OSError, MemoryError),
)
"""Errors that another machine, or a later attempt, may not have."""


@dataclass(frozen=True)
class BuildFailure:
    """Why an archive cannot be built. is_machine_fault: another attempt may succeed."""

    reason: str
    is_machine_fault: bool


BuildMessage = ExportStep | StoredArchive | BuildFailure
"""What a process reports: steps, then an archive or a failure."""


class ArchiveProcess:
    """A process that builds an archive. A context manager that kills it.

    It is not a process of `multiprocessing`, whose bookkeeping of trial processes does not support several threads. It
    ends with this process, for whatever reason, because then its standard input is closed.
    """

    def __init__(self, task: ArchiveTask) -> None:
        self._task = pickle.dumps(task)
        self._messages: queue.SimpleQueue[BuildMessage | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},  # networks are exported on the CPU
        )
        self._thread = threading.Thread(target=self._send_task_and_queue_messages, daemon=True, name="archive")

    def __enter__(self) -> Self:
        """Send the task."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._thread.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # what was not sent cannot be sent any more
                pipe.close()

    def receive_message(self, timeout: float) -> BuildMessage | None:
        """Return the next message; None if none arrives in this time, in seconds.

        The end of the process without a result is a BuildFailure by a fault of the machine.
        """
        try:
            message = self._messages.get(timeout=timeout)
        except queue.Empty:
            return None
        if message is None:
            return BuildFailure(f"its process ended with exit code {self._process.wait()}", is_machine_fault=True)
        return message

    def _send_task_and_queue_messages(self) -> None:
        """Send the task, and put messages into the queue; None at the end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(self._task)
            self._process.stdin.flush()
            while True:
                self._messages.put(pickle.load(self._process.stdout))  # noqa: S301 - from this program itself
        except (EOFError, OSError, pickle.UnpicklingError):
            self._messages.put(None)


def main() -> None:
    """Build the archive of the task on standard input."""
    ignore_signals_to_process_group()  # the worker handles them
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries print to it
    task = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the worker that started this process
    threading.Thread(target=_exit_when_parent_ends, args=(sys.stdin.fileno(),), daemon=True).start()

    def send(message: BuildMessage) -> None:
        _send(channel, message)

    try:
        send(build_archive(task, send))
    except Exception as error:  # noqa: BLE001 - every failure becomes a message
        send(_make_build_failure(error))


def _send(channel: BinaryIO, message: BuildMessage) -> None:
    pickle.dump(message, channel)
    channel.flush()


def _make_build_failure(error: Exception) -> BuildFailure:
    if isinstance(error, BlnSearchError):
        return BuildFailure(str(error), isinstance(error, _MACHINE_FAULTS))
    logging.basicConfig()
    _log.error("unexpected error in an export", exc_info=error)
    return BuildFailure(describe_exception(error), isinstance(error, _MACHINE_FAULTS))


def _exit_when_parent_ends(descriptor: int) -> None:
    """Wait for the end of standard input, whose other end the worker holds, then end at once."""
    while os.read(descriptor, 1024):
        pass
    os._exit(1)
