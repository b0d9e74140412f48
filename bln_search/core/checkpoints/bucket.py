"""Checkpoints in a bucket, or whatever else fsspec reaches by a URL."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bln_search.core.checkpoints.store import StoredFile, plain
from bln_search.core.errors import CheckpointStoreError
from bln_search.core.urls import without_password

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_GREETING = b"bln-search was here"


@dataclass(frozen=True)
class Bucket:
    """A URL such as `s3://bucket/folder`.

    What the place wants to know besides (keys, an endpoint) comes from where its own tools look: AWS_ACCESS_KEY_ID and
    the like, or fsspec's variables FSSPEC_S3_KEY, FSSPEC_S3_ENDPOINT_URL and so on.
    """

    url: str = field(repr=False)

    def __str__(self) -> str:
        return without_password(self.url)

    def read(self, name: str) -> bytes:
        """The content of a file. Raises FileNotFoundError or CheckpointStoreError."""
        plain(name)
        with self._doing("read"):
            system, root = _open(self.url)
            content: bytes = system.cat_file(f"{root}/{name}")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file in one upload, which a bucket takes whole or not at all. Raises CheckpointStoreError.

        Where a place would keep a part of it, the hash in the ledger tells when it is read.
        """
        plain(name)
        try:
            with self._doing("written to"):
                system, root = _made(self.url)
                system.pipe_file(f"{root}/{name}", content)
        except FileNotFoundError:
            raise CheckpointStoreError(f"{self} cannot be written to: there is no such place") from None

    def delete(self, name: str) -> None:
        """Remove a file, if it is there. Raises CheckpointStoreError."""
        plain(name)
        try:
            with self._doing("deleted from"):
                system, root = _open(self.url)
                system.rm_file(f"{root}/{name}")
        except FileNotFoundError:
            pass

    def has(self, name: str) -> bool:
        """Is there a file of that name? Raises CheckpointStoreError."""
        plain(name)
        with self._doing("read"):
            system, root = _open(self.url)
            found: bool = system.isfile(f"{root}/{name}")
        return found

    def find(self, name: str) -> StoredFile | None:
        """The file of that name as it is now; None where there is none. Raises CheckpointStoreError."""
        plain(name)
        try:
            with self._doing("read"):
                system, root = _open(self.url)
                found: dict[str, Any] = system.info(f"{root}/{name}")
        except FileNotFoundError:
            return None
        return _stored(found) if found["type"] == "file" else None

    def take(self, name: str, source: Path) -> None:
        """Write a file that lies at `source`, in parts that a bucket puts together at the end, or not at all."""
        plain(name)
        try:
            with self._doing("written to"):
                system, root = _made(self.url)
                system.put_file(str(source), f"{root}/{name}")
        except FileNotFoundError:
            raise CheckpointStoreError(f"{self} cannot be written to: there is no such place") from None

    def give(self, name: str, target: Path) -> None:
        """Write the content of a file to `target`. Raises FileNotFoundError or CheckpointStoreError."""
        plain(name)
        with self._doing("read"):
            system, root = _open(self.url)
            system.get_file(f"{root}/{name}", str(target))

    def files(self) -> Iterator[StoredFile]:
        """Every file, by name. Raises CheckpointStoreError."""
        found: list[dict[str, Any]] = []
        try:
            with self._doing("listed"):
                system, root = _open(self.url)
                found = system.ls(root, detail=True)
        except FileNotFoundError:  # nothing was ever written
            pass
        for one in sorted(found, key=lambda entry: str(entry["name"])):
            if one["type"] == "file":
                yield _stored(one)

    def free_bytes(self) -> None:
        """Nobody can tell."""

    def check(self) -> None:
        """Raise CheckpointStoreError unless it takes a file, gives it back and lets it go again."""
        name = f".check-{secrets.token_hex(8)}"
        self.write(name, _GREETING)
        try:
            found = self.read(name)
        except FileNotFoundError:
            found = b""
        self.delete(name)
        if found != _GREETING:
            raise CheckpointStoreError(f"{self} does not give back what was written to it")

    @contextmanager
    def _doing(self, done: str) -> Iterator[None]:
        """Every kind of place has errors of its own: one of ours for all, but for a file that is not there."""
        try:
            yield
        except (FileNotFoundError, CheckpointStoreError):
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
            raise CheckpointStoreError(
                f"{self} cannot be {done} ({reason}): see that it is there, and that the environment holds the "
                "keys and the endpoint it wants"
            ) from error


def _stored(entry: dict[str, Any]) -> StoredFile:
    return StoredFile(entry["name"].rpartition("/")[2], int(entry["size"]), _moment(entry))


def _moment(entry: dict[str, Any]) -> datetime:
    """When a file was written; where the place does not say, now: nobody takes it for old then."""
    given = next((entry[key] for key in ("LastModified", "last_modified", "mtime", "created") if entry.get(key)), None)
    if isinstance(given, int | float):
        return datetime.fromtimestamp(given, UTC)
    if isinstance(given, datetime):
        return given if given.tzinfo else given.replace(tzinfo=UTC)
    return datetime.now(UTC)


@lru_cache(maxsize=8)
def _open(url: str) -> tuple[AbstractFileSystem, str]:
    """The file system of a URL, and the folder in it."""
    from fsspec.core import url_to_fs  # noqa: PLC0415 - most have a folder, and start faster without it

    try:
        system, root = url_to_fs(url)
    except ImportError as error:
        raise CheckpointStoreError(
            f"{without_password(url)} needs a package that is not here ({error}); what s3:// needs: "
            "pip install 'bln-search[s3]'"
        ) from None
    except ValueError as error:
        raise CheckpointStoreError(f"{without_password(url)} is no place that fsspec knows: {error}") from None
    system.dircache.use_listings_cache = False  # others write here, too; as an option it would be refused by some
    system.invalidate_cache()
    return system, str(root).rstrip("/")


@lru_cache(maxsize=8)
def _made(url: str) -> tuple[AbstractFileSystem, str]:
    """The same with the folder in it, made below what is there: a bucket that is not there is a mistake, not a wish."""
    system, root = _open(url)
    top = root[: len(root) - len(root.lstrip("/"))] + root.strip("/").partition("/")[0]
    if system.exists(top):
        system.makedirs(root, exist_ok=True)
    return system, root
