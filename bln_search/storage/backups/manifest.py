"""What a backup consists of. It is written last: a backup without a manifest is not finished."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

FORMAT = 1
"""Of the files of a backup; a later one is refused."""


class BackedFile(BaseModel):
    """A file of a backup: its name, size in bytes and SHA-256."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]{0,199}$")
    size: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """A finished backup.

    bln_search: the version that made it. schema_revision: of its database. source: the kind of database it was made of.
    rows: by table. absent: checkpoints that the database names and that were gone, or not what they were.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: int = Field(ge=1, strict=True)
    bln_search: str
    schema_revision: str
    made_at: datetime
    source: str
    database: BackedFile
    rows: dict[str, NonNegativeInt]
    checkpoints: tuple[BackedFile, ...]
    absent: tuple[str, ...]
