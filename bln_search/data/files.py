"""Finding the files of a data set, plain, packed or in the official archive, and checking what is in them."""

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

from bln_search.core.errors import ChecksumError, DataError, DataUnavailableError


class Readable(Protocol):
    """Bytes to read."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes."""


@dataclass(frozen=True)
class SourceFile:
    """One file as it was published: its name, the MD5 and the size in bytes of its unpacked content."""

    name: str
    md5: str
    size: int


@dataclass(frozen=True)
class Archive:
    """The official archive that holds the files, and the folder they lie in there."""

    name: str
    folder: str


_OPENERS: dict[str, Callable[[Path], AbstractContextManager[Readable]]] = {
    "": lambda path: path.open("rb"),
    ".gz": lambda path: gzip.open(path, "rb"),  # noqa: SIM115 - the caller's `with` closes it
    ".xz": lambda path: lzma.open(path, "rb"),  # noqa: SIM115
}


def find_file(file: SourceFile, folders: list[Path]) -> Path | None:
    """The first of `folders` that holds the file, plain, `.gz` or `.xz`."""
    return next(_loose(file, folders), None)


def _loose(file: SourceFile, folders: list[Path]) -> Iterator[Path]:
    paths = (folder / (file.name + suffix) for folder in folders for suffix in _OPENERS)
    return (path for path in paths if path.is_file())


def read_file(file: SourceFile, folders: list[Path], archive: Archive | None) -> bytes:
    """The verified content of `file`, from the first place where it is as published.

    Raises DataUnavailableError where it is in none or cannot be read, else what is wrong with it where it was found
    first: DataError where it is damaged, ChecksumError where it is another.
    """
    first: DataError | None = None
    for path, content in _found(file, folders, archive):
        try:
            return _verified(file, path, content())
        except DataError as error:
            first = first or error
    if first is not None:
        raise first
    looked = ", ".join(str(folder) for folder in folders)
    also = f" or the archive {archive.name}" if archive else ""
    raise DataUnavailableError(
        f"{file.name} (or {file.name}.gz, .xz{also}) is not in {looked}: give the folder that holds it with --data or "
        "BLN_SEARCH_DATA, or get it with `bln-search data fetch NAME`"
    )


def _found(
    file: SourceFile, folders: list[Path], archive: Archive | None
) -> Iterator[tuple[Path, Callable[[], bytes]]]:
    """Every path that may hold the file, with what reads it: plain, packed, in the archive."""
    for path in _loose(file, folders):
        yield path, partial(_unpack, file, path)
    if archive is not None:
        for path in (folder / archive.name for folder in folders):
            if path.is_file():
                yield path, partial(_from_archive, file, archive, path)


def _unreadable(path: Path, error: Exception) -> DataError:
    """What to say of a file that could not be unpacked; what the system refuses is not the file's fault."""
    if isinstance(error, OSError) and error.errno is not None:
        return DataUnavailableError(f"{path} cannot be read on this machine ({error.strerror})")
    return DataError(f"{path} cannot be unpacked ({error}): the file is damaged, get it again")


def _unpack(file: SourceFile, path: Path) -> bytes:
    suffix = path.name.removeprefix(file.name)
    try:
        with _OPENERS[suffix](path) as stream:
            return stream.read(file.size + 1)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise _unreadable(path, error) from None


def _from_archive(file: SourceFile, archive: Archive, path: Path) -> bytes:
    member = f"{archive.folder}/{file.name}"
    try:
        with tarfile.open(path) as opened:
            stream = opened.extractfile(member)
            content = None if stream is None else stream.read(file.size + 1)
    except KeyError:
        content = None
    except (OSError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError) as error:
        raise _unreadable(path, error) from None
    if content is None:
        raise DataError(f"{path} has no file {member}: it is not the official archive, get it again")
    return content


def _verified(file: SourceFile, path: Path, content: bytes) -> bytes:
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != file.md5:
        size = f"{len(content)} bytes" if len(content) <= file.size else f"more than {file.size} bytes"
        raise ChecksumError(
            f"{path} is not the published {file.name}: the MD5 of its content is {found} ({size}), "
            f"published is {file.md5} ({file.size} bytes); get the file again"
        )
    return content
