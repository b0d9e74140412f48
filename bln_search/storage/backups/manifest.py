"""The manifest of a backup. It is written last: a backup without a manifest is not finished."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

FORMAT = 1
"""Version of the files of a backup; later versions are rejected."""


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
