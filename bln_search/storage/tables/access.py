"""Tables of accounts, their tokens, and worker processes."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from bln_search.storage.tables.base import NEVER_REUSE_IDS, Table


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
    """A process that claims studies from the queue."""

    __tablename__ = "worker"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    started_at: Mapped[datetime]
    heartbeat_at: Mapped[datetime]
    device: Mapped[str] = mapped_column(String(64))
    version: Mapped[str] = mapped_column(String(32))
