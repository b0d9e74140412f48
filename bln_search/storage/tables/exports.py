"""Table of the exports that workers build on request."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from bln_search.storage.tables.base import NEVER_REUSE_IDS, ReasonText, Table


class ExportRow(Table):
    """An export of a trained network under a row of the leaderboard. The same request is the same row.

    Attributes:
        estimate: Population estimate; empty where no population value is read.
        format: Forms of the network in the archive.
        step: What the worker is doing.
        account: Account that requested it last.
        attempt: Number of attempts; the fencing token of the running one.
        tries: Attempts since the last request that ended without a report, or by a fault of a machine.
        worker: Process that builds it.
        lease_until: When the lease of `worker` expires.
        file: Name of the archive in the checkpoint store.
        size: Bytes of the archive.
        sha256: SHA-256 of the archive.
    """

    __tablename__ = "export"
    __table_args__ = (
        UniqueConstraint("trial_id", "configuration", "estimate", "batch_size", "format"),
        NEVER_REUSE_IDS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("study.id", ondelete="CASCADE"), index=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("trial.id", ondelete="CASCADE"))
    configuration: Mapped[str] = mapped_column(String(4))
    estimate: Mapped[str] = mapped_column(String(64))
    batch_size: Mapped[int]
    format: Mapped[str] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16), index=True)
    step: Mapped[str | None] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(ReasonText)
    account: Mapped[str] = mapped_column(String(64))
    attempt: Mapped[int] = mapped_column(default=0)
    tries: Mapped[int] = mapped_column(default=0)
    worker: Mapped[str | None] = mapped_column(String(200))
    lease_until: Mapped[datetime | None]
    requested_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    expires_at: Mapped[datetime | None]
    file: Mapped[str | None] = mapped_column(String(200))
    size: Mapped[int | None] = mapped_column(BigInteger)
    sha256: Mapped[str | None] = mapped_column(String(64))
