"""Tables of studies, their events, their trials, and attempts at these."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from bln_search.storage.tables.base import NEVER_REUSE_IDS, ReasonText, Table


class StudyRow(Table):
    """An accepted study.

    Attributes:
        digest: SHA-256 of `spec`.
        spec: The specification as canonical JSON.
        kind: `external` if its results were submitted, otherwise `trained`.
        revision: Grows with every change of the study.
        owner: The account that the study belongs to. A study without an owner belongs to the command that runs it, and
            is not in the queue.
        planned: Trials that the study has in the end.
        results: Trials that have a result.
        losses: Workers that died on the study since the last trial ended.
        last_event: Number of the newest event.
        request: Whether a person requested to pause or cancel the study.
        reason: Why the study failed.
        runner: The process that runs the study, or analyses it when it is complete.
        runner_until: When the lease of `runner` expires.
        code: Versions of the code of its results, as JSON; None where none was recorded.
    """

    __tablename__ = "study"
    __table_args__ = (UniqueConstraint("owner", "name", "digest"), NEVER_REUSE_IDS)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(64))
    digest: Mapped[str] = mapped_column(String(64))
    spec: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(String(8), server_default="trained")
    state: Mapped[str] = mapped_column(String(16), index=True)
    revision: Mapped[int]
    owner: Mapped[str] = mapped_column(String(64), default="")
    priority: Mapped[int]
    title: Mapped[str] = mapped_column(String(300), default="")
    notes: Mapped[str] = mapped_column(Text, default="")
    planned: Mapped[int] = mapped_column(default=0)
    results: Mapped[int] = mapped_column(default=0)
    losses: Mapped[int] = mapped_column(default=0)
    last_event: Mapped[int] = mapped_column(default=0)
    request: Mapped[str | None] = mapped_column(String(8))
    reason: Mapped[str | None] = mapped_column(ReasonText)
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    runner: Mapped[str | None] = mapped_column(String(200))
    runner_until: Mapped[datetime | None]
    code: Mapped[str | None] = mapped_column(Text)
    tag_rows: Mapped[list[StudyTagRow]] = relationship(order_by="StudyTagRow.tag", viewonly=True)


class StudyTagRow(Table):
    """A tag of a study."""

    __tablename__ = "study_tag"

    study_id: Mapped[int] = mapped_column(ForeignKey("study.id", ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(String(32), primary_key=True, index=True)


class IdempotencyKeyRow(Table):
    """An idempotency key of an account, and the study that was submitted with it."""

    __tablename__ = "submission"

    account: Mapped[str] = mapped_column(String(64), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    study_id: Mapped[int] = mapped_column(ForeignKey("study.id", ondelete="CASCADE"), index=True)


class EventRow(Table):
    """An event of a study. Events are numbered without gaps from 1."""

    __tablename__ = "event"
    __table_args__ = (UniqueConstraint("study_id", "number"), Index("ix_event_trial_id", "trial_id"))

    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("study.id", ondelete="CASCADE"))
    number: Mapped[int]
    at: Mapped[datetime]
    kind: Mapped[str] = mapped_column(String(32))
    trial_id: Mapped[int | None] = mapped_column(ForeignKey("trial.id", ondelete="CASCADE"))
    data: Mapped[dict[str, Any]]


class TrialRow(Table):
    """A training run of a study.

    Attributes:
        key: Digest of everything that determines the outcome.
        position: Position in the study's order.
        spec: The specification as JSON.
        parameters: The point of the study's space; None without a space.
    """

    __tablename__ = "trial"
    __table_args__ = (UniqueConstraint("study_id", "key"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("study.id", ondelete="CASCADE"))
    key: Mapped[str] = mapped_column(String(32))
    position: Mapped[int]
    arm: Mapped[str] = mapped_column(String(32))
    method: Mapped[str] = mapped_column(String(8))
    seed: Mapped[int] = mapped_column(BigInteger)
    spec: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(ReasonText)
    parameters: Mapped[dict[str, Any] | None]


class AttemptRow(Table):
    """An attempt at a trial. Its id is the fencing token: only the trial's running attempt may report.

    Attributes:
        number: Position among the attempts at the trial, from 1.
        failure: Class of the failure.
        reason: Why the attempt failed.
    """

    __tablename__ = "attempt"
    __table_args__ = (UniqueConstraint("trial_id", "number"), NEVER_REUSE_IDS)

    id: Mapped[int] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("trial.id", ondelete="CASCADE"))
    number: Mapped[int]
    worker: Mapped[str] = mapped_column(String(200))
    state: Mapped[str] = mapped_column(String(16), index=True)
    heartbeat_at: Mapped[datetime]
    lease_until: Mapped[datetime]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    failure: Mapped[str | None] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(ReasonText)
