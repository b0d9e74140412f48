"""Tables of the service: accounts, their tokens, worker processes, the checkpoint store, and requested exports."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from bln_search.storage.tables.base import NEVER_REUSE_IDS, ReasonText, Table


class AccountRow(Table):
    """An account, which owns studies.

    Attributes:
        claimed_at: When a worker last claimed a study of the account, so that accounts take turns.
    """

    __tablename__ = "account"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    created_at: Mapped[datetime]
    claimed_at: Mapped[datetime | None]


class TokenRow(Table):
    """A credential of an account: an access token, the session of a browser, or a link that shows one study.

    Attributes:
        sha256: SHA-256 of the secret, which itself is not stored.
        parent_id: The access token that a session was started with, or a share link created with; they end with it.
        study_id: The study that a share link shows.
    """

    __tablename__ = "token"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    account: Mapped[str] = mapped_column(ForeignKey("account.name", ondelete="CASCADE"), index=True)
    kind: Mapped[str] = mapped_column(String(8))
    label: Mapped[str] = mapped_column(String(64))
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    scope: Mapped[str] = mapped_column(String(8))
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("token.id", ondelete="CASCADE"))
    study_id: Mapped[int | None] = mapped_column(ForeignKey("study.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class WorkerRow(Table):
    """A process that claims studies from the queue.

    Attributes:
        name: Name of the process.
        started_at: Time of its first heartbeat.
        heartbeat_at: Time of its last heartbeat.
        device: Device that it trains on.
        version: Its version of bln-search.
    """

    __tablename__ = "worker"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    started_at: Mapped[datetime]
    heartbeat_at: Mapped[datetime]
    device: Mapped[str] = mapped_column(String(64))
    version: Mapped[str] = mapped_column(String(32))


class CheckpointStoreRow(Table):
    """The checkpoint store of this database; no row until they are used together.

    Attributes:
        number: 1, because there is one store.
        marker: Name of a file that only this store has.
        location: Where the store was then: a URL, or a folder and its machine.
    """

    __tablename__ = "checkpoint_store"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    marker: Mapped[str] = mapped_column(String(64))
    location: Mapped[str] = mapped_column(Text)


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
