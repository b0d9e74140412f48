"""An archive of backups, in which equal checkpoints are stored once; a backup without a manifest is not finished."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from bln_search.core.checkpoints import CheckpointStore, FolderStore, open_checkpoint_store
from bln_search.core.errors import BackupError

FORMAT = 1
"""Version of the files of a backup; later versions are rejected."""

_MANIFEST = re.compile(r"backup-(\d{8}T\d{6}\.\d{3}Z)\.json")
_DATABASE = re.compile(r"ledger-(\d{8}T\d{6}\.\d{3}Z)\.sqlite3")
_ABANDONED_AFTER = timedelta(days=1)
"""Age from which files that belong to no finished backup are removed: no backup takes so long."""


class BackedUpFile(BaseModel):
    """A file of a backup: its name, size in bytes and SHA-256."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]{0,199}$")
    size: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class BackupManifest(BaseModel):
    """A finished backup.

    Attributes:
        format: Version of the files.
        bln_search: Version of bln-search that created the backup.
        schema_revision: Schema revision of the database.
        made_at: Time of the backup.
        source: Kind of the database that was copied, `sqlite` or `postgresql`.
        database: File of the database.
        rows: Number of rows by table.
        checkpoints: Files of the checkpoints.
        absent: Checkpoints that the database names but that were missing or damaged.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: int = Field(ge=1, strict=True)
    bln_search: str
    schema_revision: str
    made_at: datetime
    source: str
    database: BackedUpFile
    rows: dict[str, NonNegativeInt]
    checkpoints: tuple[BackedUpFile, ...]
    absent: tuple[str, ...]


class BackupStore:
    """A folder or URL with backups.

    `backup-MOMENT.json` is the manifest of a backup and `ledger-MOMENT.sqlite3` its database. `checkpoints/` has the
    checkpoints of all backups.
    """

    def __init__(self, location: Path | str) -> None:
        self.top = open_checkpoint_store(location)
        self.files: CheckpointStore = open_checkpoint_store(f"{str(location).rstrip('/')}/checkpoints")

    def __str__(self) -> str:
        return str(self.top)

    def list_finished_timestamps(self) -> list[str]:
        """The moments of the finished backups, oldest first."""
        return sorted(match[1] for file in self.top.iter_files() if (match := _MANIFEST.fullmatch(file.name)))

    def read_manifest(self, moment: str | None = None) -> BackupManifest:
        """Read the manifest of a moment; by default the newest one.

        Raises:
            BackupError: There is no such backup, or a newer version of bln-search created it.
        """
        moments = self.list_finished_timestamps()
        if not moments:
            unfinished = " (one is unfinished)" if self._has_unfinished_backup() else ""
            raise BackupError(f"{self} has no backup{unfinished}; `bln-search backup {self}` creates one")
        if moment is not None and moment not in moments:
            raise BackupError(f"{self} has no backup of {moment}; choose one of {', '.join(moments)}")
        name = f"backup-{moment or moments[-1]}.json"
        try:
            content = json.loads(self.top.read(name))
            content_format = content.get("format") if isinstance(content, dict) else None
            if isinstance(content_format, int) and content_format > FORMAT:
                raise BackupError(f"{self}/{name} was created by a newer version of bln-search: upgrade bln-search")
            return BackupManifest.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise BackupError(f"{self}/{name} is not a manifest of a backup: {field}: {first['msg']}") from None
        except (OSError, ValueError) as error:
            raise BackupError(f"{self}/{name} cannot be read: {str(error).splitlines()[0]}") from None

    def _has_unfinished_backup(self) -> bool:
        return any(_DATABASE.fullmatch(file.name) for file in self.top.iter_files())

    def remove_all_but_newest(self, keep: int, now: datetime, on_progress: Callable[[str], None]) -> None:
        """Remove all finished backups except the newest `keep`, and the files that none of these needs."""
        manifests = [self.read_manifest(moment) for moment in self.list_finished_timestamps()[-keep:]]
        for moment in self.list_finished_timestamps()[:-keep]:
            self.top.delete(f"backup-{moment}.json")  # first, so that no manifest names removed files
            on_progress(f"removed the backup of {moment}")
        databases = {manifest.database.name for manifest in manifests}
        needed = {file.name for manifest in manifests for file in manifest.checkpoints}
        cutoff = now - _ABANDONED_AFTER
        for file in list(self.top.iter_files()):
            if _DATABASE.fullmatch(file.name) and file.name not in databases and file.written_at < cutoff:
                self.top.delete(file.name)
        for file in list(self.files.iter_files()):
            if file.name not in needed and file.written_at < cutoff:
                self.files.delete(file.name)

    def overlaps_checkpoint_store(self, checkpoints: CheckpointStore) -> bool:
        """Whether the archive would write its files among the checkpoints that it copies."""
        if isinstance(self.files, FolderStore) and isinstance(checkpoints, FolderStore):
            live = checkpoints.path.resolve()
            return live in (self.files.path.resolve(), self.files.path.parent.resolve())
        return checkpoints in (self.files, self.top)


def format_timestamp(moment: datetime) -> str:
    """A moment as part of a file name; names sort in the order of time."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y%m%dT%H%M%S}.{utc.microsecond // 1000:03}Z"
