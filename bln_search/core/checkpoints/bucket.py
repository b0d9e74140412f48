"""A checkpoint store in a bucket, or at any other URL that fsspec supports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bln_search.core.checkpoints.store import StoredFileInfo, check_read_and_write_access, validated_file_name
from bln_search.core.errors import CheckpointStoreError
from bln_search.core.urls import redact_password

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


@dataclass(frozen=True)
class BucketStore:
    """A URL such as `s3://bucket/folder`.

    Credentials and endpoint come from the usual environment variables: AWS_ACCESS_KEY_ID and others, or fsspec's
    variables FSSPEC_S3_KEY, FSSPEC_S3_ENDPOINT_URL and so on.
    """

    url: str = field(repr=False)

    def __str__(self) -> str:
        return redact_password(self.url)

    def read(self, name: str) -> bytes:
        """The content of a file. Raises FileNotFoundError or CheckpointStoreError."""
        validated_file_name(name)
        with self._raise_as_store_errors("read"):
            system, root = _open_file_system_and_folder(self.url)
            content: bytes = system.cat_file(f"{root}/{name}")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file in one upload, which is atomic in a bucket. Raises CheckpointStoreError.

        On file systems without atomic uploads the hash in the ledger reveals an incomplete file when it is read.
        """
        validated_file_name(name)
        try:
            with self._raise_as_store_errors("written to"):
                system, root = _open_and_create_folder(self.url)
                system.pipe_file(f"{root}/{name}", content)
        except FileNotFoundError:
            raise CheckpointStoreError(f"{self} cannot be written to: it does not exist") from None

    def delete(self, name: str) -> None:
        """Delete a file if it exists. Raises CheckpointStoreError."""
        validated_file_name(name)
        try:
            with self._raise_as_store_errors("deleted from"):
                system, root = _open_file_system_and_folder(self.url)
                system.rm_file(f"{root}/{name}")
        except FileNotFoundError:
            pass

    def has_file(self, name: str) -> bool:
        """Is there a file of that name? Raises CheckpointStoreError."""
        return self.find_file_info(name) is not None  # isfile of fsspec is false during an outage

    def find_file_info(self, name: str) -> StoredFileInfo | None:
        """Size and time of a file; None if it does not exist. Raises CheckpointStoreError."""
        validated_file_name(name)
        try:
            with self._raise_as_store_errors("read"):
                system, root = _open_file_system_and_folder(self.url)
                entry: dict[str, Any] = system.info(f"{root}/{name}")
        except FileNotFoundError:
            return None
        return _info_from_directory_entry(entry) if entry["type"] == "file" else None

    def upload_file(self, name: str, source: Path) -> None:
        """Copy the file `source` into the bucket by an atomic multipart upload. Raises CheckpointStoreError."""
        validated_file_name(name)
        try:
            with self._raise_as_store_errors("written to"):
                system, root = _open_and_create_folder(self.url)
                system.put_file(str(source), f"{root}/{name}")
        except FileNotFoundError:
            raise CheckpointStoreError(f"{self} cannot be written to: it does not exist") from None

    def download_file(self, name: str, target: Path) -> None:
        """Copy a file to `target`. Raises FileNotFoundError or CheckpointStoreError."""
        validated_file_name(name)
        with self._raise_as_store_errors("read"):
            system, root = _open_file_system_and_folder(self.url)
            system.get_file(f"{root}/{name}", str(target))

    def iter_files(self) -> Iterator[StoredFileInfo]:
        """Every file in the order of names. Raises CheckpointStoreError."""
        entries: list[dict[str, Any]] = []
        try:
            with self._raise_as_store_errors("listed"):
                system, root = _open_file_system_and_folder(self.url)
                entries = system.ls(root, detail=True)
        except FileNotFoundError:  # nothing was written yet
            pass
        for entry in sorted(entries, key=lambda entry: str(entry["name"])):
            if entry["type"] == "file":
                yield _info_from_directory_entry(entry)

    def find_free_bytes(self) -> None:
        """None: fsspec does not report it."""

    def exists(self) -> bool:
        """True: the first write creates the folder in the bucket."""
        return True

    def check_read_and_write_access(self) -> None:
        """Raise CheckpointStoreError unless a file can be written, read and deleted."""
        check_read_and_write_access(self, self.read)

    @contextmanager
    def _raise_as_store_errors(self, action: str) -> Iterator[None]:
        """Translate the errors of every file system into CheckpointStoreError, except FileNotFoundError."""
        try:
            yield
        except (FileNotFoundError, CheckpointStoreError):
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
            raise CheckpointStoreError(
                f"{self} cannot be {action} ({reason}): check that it exists, and that the environment has its "
                "credentials and endpoint"
            ) from error


def _info_from_directory_entry(entry: dict[str, Any]) -> StoredFileInfo:
    return StoredFileInfo(entry["name"].rpartition("/")[2], int(entry["size"]), _write_time_or_now(entry))


def _write_time_or_now(entry: dict[str, Any]) -> datetime:
    """The time of the last write; the present time if it is unknown, so that the file counts as recent."""
    timestamp = next(
        (entry[key] for key in ("LastModified", "last_modified", "mtime", "created") if entry.get(key)), None
    )
    if isinstance(timestamp, int | float):
        return datetime.fromtimestamp(timestamp, UTC)
    if isinstance(timestamp, datetime):
        return timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    return datetime.now(UTC)


@lru_cache(maxsize=8)
def _open_file_system_and_folder(url: str) -> tuple[AbstractFileSystem, str]:
    """The file system of a URL, and the folder in it."""
    from fsspec.core import url_to_fs  # noqa: PLC0415 - most have a folder, and start faster without it

    try:
        system, root = url_to_fs(url)
    except ImportError as error:
        raise CheckpointStoreError(
            f"{redact_password(url)} needs a package that is not installed ({error}); for s3://: "
            "pip install 'bln-search[s3]'"
        ) from None
    except ValueError as error:
        raise CheckpointStoreError(f"{redact_password(url)} is not a URL that fsspec supports: {error}") from None
    system.dircache.use_listings_cache = False  # other processes write too; some file systems reject this as an option
    system.invalidate_cache()
    return system, str(root).rstrip("/")


@lru_cache(maxsize=8)
def _open_and_create_folder(url: str) -> tuple[AbstractFileSystem, str]:
    """The same with the folder created. The bucket itself must exist, so that a misspelled one is an error."""
    system, root = _open_file_system_and_folder(url)
    top = root[: len(root) - len(root.lstrip("/"))] + root.strip("/").partition("/")[0]
    if system.exists(top):
        system.makedirs(root, exist_ok=True)
    return system, root
