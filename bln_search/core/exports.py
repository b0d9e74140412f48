"""Exports of trained networks that workers build on request."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from bln_search.core.enums import ArchiveContents, ExportStep
from bln_search.core.records import RowKey
from bln_search.core.states import ExportState


@dataclass(frozen=True)
class ExportKey:
    """What determines an export: a network under a row of its study's leaderboard, and the format.

    Attributes:
        trial_id: The trial that trained the network.
        row: The row; its arm and point are those of the trial.
        format: Forms of the network in the archive.
    """

    trial_id: int
    row: RowKey
    format: ArchiveContents


@dataclass(frozen=True)
class ExportAttemptKey:
    """A worker's right to report on an export, until another attempt at it begins."""

    export_id: int
    attempt: int


ARCHIVE_SUFFIX = ".zip"
"""End of the names of archives, in the checkpoint store and of downloads."""


@dataclass(frozen=True)
class StoredArchive:
    """The archive of an export in the checkpoint store: name of the file, size in bytes, SHA-256."""

    file: str
    size: int
    sha256: str


@dataclass(frozen=True)
class ExportRecord:
    """An export.

    Attributes:
        key: What is exported.
        seed: Seed of the network.
        step: What the worker is doing; None unless it runs.
        reason: Why it failed, or why the last attempt did; None if none did.
        account: Account that requested it last.
        attempt: Number of attempts so far; the fencing token of the running one.
        requested_at: Time of the last request.
        started_at: Start of the last attempt.
        ended_at: End of the last attempt; None while it runs.
        expires_at: When the archive is deleted; None unless it is ready.
        archive: The archive; None unless it is ready.
    """

    id: int
    study_id: int
    key: ExportKey
    seed: int
    state: ExportState
    step: ExportStep | None
    reason: str | None
    account: str
    attempt: int
    requested_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime | None
    archive: StoredArchive | None

    @property
    def is_waiting_or_running(self) -> bool:
        """Whether it waits for a worker, or has one."""
        return self.state in OPEN_EXPORTS

    @property
    def running_attempt_key(self) -> ExportAttemptKey:
        """The token of the running attempt."""
        return ExportAttemptKey(self.id, self.attempt)


OPEN_EXPORTS = (ExportState.REQUESTED, ExportState.RUNNING)
"""States of an export that waits for a worker, or has one."""


def export_archive_base_name(study: str, record: ExportRecord) -> str:
    """Name of the folder in the archive, and of the archive without `.zip`; its letters are safe in a file name."""
    row, seed = record.key.row, record.seed
    estimate = "" if row.estimate is None else f"-{row.estimate.replace('@', '-')}"
    form = "" if record.key.format is ArchiveContents.ALL else f"-{record.key.format}"
    return f"{study}-{row.arm}-{row.configuration}{estimate}-b{row.batch_size}-seed{seed}{form}"
