"""Finding and verifying the files of a data set: plain, compressed, or in the official archive."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import (
    BlnSearchError,
    ChecksumError,
    DataError,
    DataReadError,
    DataUnavailableOnMachineError,
    StorageFullError,
)
from bln_search.core.files.atomic import DISK_FULL_ERRNOS


class ByteStream(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes."""


@dataclass(frozen=True)
class PublishedFile:
    """A published file.

    Attributes:
        name: without the suffix of a compression.
        md5: MD5 of the uncompressed content.
        size: bytes of the uncompressed content.
    """

    name: str
    md5: str
    size: int


@dataclass(frozen=True)
class Archive:
    """The official archive of a data set.

    Attributes:
        name: file name of the archive.
        folder: the folder in the archive that holds the files.
    """

    name: str
    folder: str


_OPENERS: dict[str, Callable[[Path], AbstractContextManager[ByteStream]]] = {
    "": lambda path: path.open("rb"),
    ".gz": lambda path: gzip.open(path, "rb"),  # noqa: SIM115 - the caller's `with` closes it
    ".xz": lambda path: lzma.open(path, "rb"),  # noqa: SIM115
}


def find_file(file: PublishedFile, folders: list[Path]) -> Path | None:
    """Return the path of the file (plain, `.gz` or `.xz`) in the first of `folders` that has it; None if none has."""
    return next(_iter_unarchived_paths(file, folders), None)


def _iter_unarchived_paths(file: PublishedFile, folders: list[Path]) -> Iterator[Path]:
    paths = (folder / (file.name + suffix) for folder in folders for suffix in _OPENERS)
    return (path for path in paths if path.is_file())


def read_verified_file(file: PublishedFile, folders: list[Path], archive: Archive | None) -> bytes:
    """Return the content of `file` from the first path at which it has the published checksum.

    Args:
        file: the file.
        folders: the folders that are searched.
        archive: the archive that may hold the file; None where there is none.

    Raises:
        DataUnavailableOnMachineError: no folder holds the file.
        DataReadError: the system cannot read it at present.
        DataError: the file is damaged. Where several paths fail, the error is that of the first.
        ChecksumError: the file differs from the published one.
    """
    first_error: DataError | None = None
    for path, read in _iter_candidate_files(file, folders, archive):
        try:
            return _require_published_checksum(file, path, read())
        except DataError as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error
    searched = ", ".join(str(folder) for folder in folders)
    or_archive = f" or the archive {archive.name}" if archive else ""
    raise DataUnavailableOnMachineError(
        f"{file.name} (or {file.name}.gz, .xz{or_archive}) is not in {searched}: name the folder that holds it with "
        "--data or BLN_SEARCH_DATA (of `run`, or of the worker), or download it on that machine with "
        "`bln-search data fetch NAME`"
    )


def _iter_candidate_files(
    file: PublishedFile, folders: list[Path], archive: Archive | None
) -> Iterator[tuple[Path, Callable[[], bytes]]]:
    """Yield every path that may hold the file, with a function that reads it: plain, compressed, then archives."""
    for path in _iter_unarchived_paths(file, folders):
        yield path, partial(_read_unarchived, file, path)
    if archive is not None:
        for path in (folder / archive.name for folder in folders):
            if path.is_file():
                yield path, partial(_read_from_archive, file, archive, path)


def split_fixed_length_records(content: bytes, record_bytes: int, name: str) -> NDArray[np.uint8]:
    """Return the records of a file of records of one length, (n, record_bytes).

    Raises:
        DataError: the content is not a sequence of records.
    """
    if not content or len(content) % record_bytes:
        raise DataError(
            f"{name}: {len(content)} bytes are not a whole number of records of {record_bytes} bytes: "
            "download the file again"
        )
    return np.frombuffer(content, np.uint8).reshape(-1, record_bytes)


def find_system_error(source: object, error: Exception) -> BlnSearchError | None:
    """Return the error where the system refused to read `source`; None where its content is wrong."""
    if not isinstance(error, OSError) or error.errno is None:
        return None
    if error.errno in DISK_FULL_ERRNOS:
        return StorageFullError(f"{source} cannot be decoded: {error}")
    kind = DataUnavailableOnMachineError if isinstance(error, FileNotFoundError) else DataReadError
    return kind(f"{source} cannot be read on this machine: {error}")


def _make_read_error(path: Path, error: Exception) -> BlnSearchError:
    """Return the error for a file that cannot be read."""
    damaged = DataError(f"{path} cannot be unpacked ({error}): the file is damaged, download it again")
    return find_system_error(path, error) or damaged


def _read_unarchived(file: PublishedFile, path: Path) -> bytes:
    suffix = path.name.removeprefix(file.name)
    try:
        with _OPENERS[suffix](path) as stream:
            return stream.read(file.size + 1)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise _make_read_error(path, error) from None


def _read_from_archive(file: PublishedFile, archive: Archive, path: Path) -> bytes:
    member = f"{archive.folder}/{file.name}"
    try:
        with tarfile.open(path) as tar:
            stream = tar.extractfile(member)
            content = None if stream is None else stream.read(file.size + 1)
    except KeyError:
        content = None
    except (OSError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError) as error:
        raise _make_read_error(path, error) from None
    if content is None:
        raise DataError(f"{path} has no file {member}: it is not the official archive, download it again")
    return content


def _require_published_checksum(file: PublishedFile, path: Path, content: bytes) -> bytes:
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if md5 != file.md5:
        size = f"{len(content)} bytes" if len(content) <= file.size else f"more than {file.size} bytes"
        raise ChecksumError(
            f"{path} is not the published {file.name}: the MD5 of its content is {md5} ({size}), "
            f"published is {file.md5} ({file.size} bytes); download the file again"
        )
    return content
