"""Where backups lie: one or several of them, which share the checkpoints that they have in common."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from bln_search.core.checkpoints import CheckpointStore, Folder, checkpoint_store
from bln_search.core.errors import BackupError
from bln_search.storage.backups.manifest import FORMAT, Manifest

_MANIFEST = re.compile(r"backup-(\d{8}T\d{6}\.\d{3}Z)\.json")
_DATABASE = re.compile(r"ledger-(\d{8}T\d{6}\.\d{3}Z)\.sqlite3")
_GIVEN_UP = timedelta(days=1)
"""Nobody is still at work on a backup that was begun so long ago."""


class Archive:
    """A folder or URL with backups.

    `backup-MOMENT.json` is the manifest of the one of that moment, `ledger-MOMENT.sqlite3` its database, `checkpoints/`
    holds the checkpoints of all of them.
    """

    def __init__(self, place: Path | str) -> None:
        self.top = checkpoint_store(place)
        self.files: CheckpointStore = checkpoint_store(f"{str(place).rstrip('/')}/checkpoints")

    def __str__(self) -> str:
        return str(self.top)

    def moments(self) -> list[str]:
        """The finished backups, oldest first."""
        return sorted(found[1] for one in self.top.files() if (found := _MANIFEST.fullmatch(one.name)))

    def manifest(self, moment: str | None = None) -> Manifest:
        """That of a moment, or the newest. Raises BackupError where there is none, or one of a newer version."""
        moments = self.moments()
        if not moments:
            begun = " (one was begun and not finished)" if self._begun() else ""
            raise BackupError(f"{self} holds no backup{begun}; `bln-search backup {self}` makes one")
        if moment is not None and moment not in moments:
            raise BackupError(f"{self} holds no backup of {moment}; there are: {', '.join(moments)}")
        name = f"backup-{moment or moments[-1]}.json"
        try:
            given = json.loads(self.top.read(name))
            made_as = given.get("format") if isinstance(given, dict) else None
            if isinstance(made_as, int) and made_as > FORMAT:
                raise BackupError(f"{self}/{name} was made by a newer version of bln-search: upgrade it")
            return Manifest.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise BackupError(f"{self}/{name} is no manifest of a backup: {place}: {first['msg']}") from None
        except (OSError, ValueError) as error:
            raise BackupError(f"{self}/{name} cannot be read: {str(error).splitlines()[0]}") from None

    def _begun(self) -> bool:
        return any(_DATABASE.fullmatch(one.name) for one in self.top.files())

    def keep(self, most: int, now: datetime, say: Callable[[str], None]) -> None:
        """Remove all finished backups but the newest `most`, and the files that none of these needs."""
        kept = [self.manifest(moment) for moment in self.moments()[-most:]]
        for moment in self.moments()[:-most]:
            self.top.delete(f"backup-{moment}.json")  # first: what is left of it is no backup
            say(f"removed the backup of {moment}")
        databases = {one.database.name for one in kept}
        needed = {file.name for one in kept for file in one.checkpoints}
        for one in list(self.top.files()):
            if _DATABASE.fullmatch(one.name) and one.name not in databases and one.written_at < now - _GIVEN_UP:
                self.top.delete(one.name)
        for file in list(self.files.files()):
            if file.name not in needed and file.written_at < now - _GIVEN_UP:
                self.files.delete(file.name)

    def overlaps(self, checkpoints: CheckpointStore) -> bool:
        """Would its files lie among those that it is to be a copy of?"""
        if isinstance(self.files, Folder) and isinstance(checkpoints, Folder):
            live = checkpoints.path.resolve()
            return live in (self.files.path.resolve(), self.files.path.parent.resolve())
        return checkpoints in (self.files, self.top)


def moment_of(now: datetime) -> str:
    """A moment as part of a name: sorted by name, moments are in order."""
    written = now.astimezone(UTC)
    return f"{written:%Y%m%dT%H%M%S}.{written.microsecond // 1000:03}Z"
