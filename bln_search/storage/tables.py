"""The tables. One class a record of DESIGN: study, trial, attempt, checkpoint, evaluation, outcomes, event."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    LargeBinary,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC, with its zone on every database."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """SQLite keeps no zone: store UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """What comes back is UTC."""
        return None if value is None else (value if value.tzinfo else value.replace(tzinfo=UTC))


class Table(DeclarativeBase):
    """Base of every table, with constraint names that migrations can rely on."""

    type_annotation_map = {datetime: UtcDateTime, dict[str, Any]: JSON}  # noqa: RUF012 - SQLAlchemy's own idiom


Table.metadata.naming_convention = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


_NEVER_AGAIN = {"sqlite_autoincrement": True}
"""A number stands for one thing for ever: for an address, a fencing token, a token to revoke."""


class StudyRow(Table):
    """An accepted study. `spec` is its canonical JSON, `digest` the SHA-256 of that.

    `runner` is the process that runs it, or works the results of a complete one out, until `runner_until` unless it
    says again that it lives; `request` is what a person wants of it. `owner` is the account it belongs to; one without
    belongs to the command that runs it, and is in no queue. `planned` counts the trials it has in the end, `results`
    grows with every trial that ends, `losses` counts workers that died on it since then. `last_event` is the number of
    its newest event: it grows with whatever happens.
    """

    __tablename__ = "study"
    __table_args__ = (UniqueConstraint("owner", "name", "digest"), _NEVER_AGAIN)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(64))
    digest: Mapped[str] = mapped_column(String(64))
    spec: Mapped[str] = mapped_column(Text)
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
    reason: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    runner: Mapped[str | None] = mapped_column(String(200))
    runner_until: Mapped[datetime | None]


class TrialRow(Table):
    """One training run of a study. `position` is its place in the study.

    `parameters` is its point of the study's space.
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
    reason: Mapped[str | None] = mapped_column(Text)
    parameters: Mapped[dict[str, Any] | None]


class AttemptRow(Table):
    """One try at a trial. Its id is the fencing token: only the trial's running attempt may report."""

    __tablename__ = "attempt"
    __table_args__ = (UniqueConstraint("trial_id", "number"), _NEVER_AGAIN)

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
    reason: Mapped[str | None] = mapped_column(Text)


class CheckpointRow(Table):
    """A trained network on disk."""

    __tablename__ = "checkpoint"

    id: Mapped[int] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("trial.id", ondelete="CASCADE"), unique=True)
    file: Mapped[str] = mapped_column(String(200))
    sha256: Mapped[str] = mapped_column(String(64))
    epoch: Mapped[int]
    judged_under: Mapped[str] = mapped_column(String(4))
    validation_loss: Mapped[float]
    provenance: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    snapshots: Mapped[list[SnapshotRow]] = relationship(lazy="selectin", order_by="SnapshotRow.epoch", viewonly=True)


class EvaluationRow(Table):
    """A checkpoint under one configuration. `estimate` is empty where no population value is read."""

    __tablename__ = "evaluation"
    __table_args__ = (UniqueConstraint("checkpoint_id", "configuration", "estimate", "batch_size", "split"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoint.id", ondelete="CASCADE"))
    configuration: Mapped[str] = mapped_column(String(4))
    estimate: Mapped[str] = mapped_column(String(8))
    batch_size: Mapped[int]
    split: Mapped[str] = mapped_column(String(10))
    state: Mapped[str] = mapped_column(String(10))
    reason: Mapped[str | None] = mapped_column(Text)
    n: Mapped[int]
    loss: Mapped[float | None]
    accuracy: Mapped[float | None]


class OutcomesRow(Table):
    """Per-example results of an evaluation, packed: little-endian losses (deflated), one bit a correctness."""

    __tablename__ = "outcomes"

    evaluation_id: Mapped[int] = mapped_column(ForeignKey("evaluation.id", ondelete="CASCADE"), primary_key=True)
    losses: Mapped[bytes] = mapped_column(LargeBinary)
    correct: Mapped[bytes] = mapped_column(LargeBinary)


class AnalysisRow(Table):
    """What a comparison of a study's rows found when the study had so many results; `body` is its JSON in `format`."""

    __tablename__ = "analysis"

    study_id: Mapped[int] = mapped_column(ForeignKey("study.id", ondelete="CASCADE"), primary_key=True)
    results: Mapped[int]
    format: Mapped[int]
    made_at: Mapped[datetime]
    body: Mapped[str] = mapped_column(Text)


class SnapshotRow(Table):
    """A network as it was after an epoch on the way to the checkpoint."""

    __tablename__ = "snapshot"
    __table_args__ = (UniqueConstraint("checkpoint_id", "epoch"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoint.id", ondelete="CASCADE"))
    epoch: Mapped[int]
    file: Mapped[str] = mapped_column(String(200))
    sha256: Mapped[str] = mapped_column(String(64))


class ProbeRow(Table):
    """A network measured beside the leaderboard: mini-batches of other sizes or other company, other epochs.

    `epoch` is 0 for the checkpoint itself. `estimate` is empty where no population is read.
    """

    __tablename__ = "probe"
    __table_args__ = (
        UniqueConstraint("checkpoint_id", "kind", "epoch", "configuration", "estimate", "batch_size", "split"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoint.id", ondelete="CASCADE"))
    kind: Mapped[str] = mapped_column(String(12))
    epoch: Mapped[int]
    configuration: Mapped[str] = mapped_column(String(4))
    estimate: Mapped[str] = mapped_column(String(8))
    batch_size: Mapped[int]
    split: Mapped[str] = mapped_column(String(10))
    n: Mapped[int]
    loss: Mapped[float]
    accuracy: Mapped[float]
    deviation: Mapped[float | None]
    flips: Mapped[float | None]


class LayerSearchRow(Table):
    """Per-layer configurations of a checkpoint, searched as `asked` (a digest) says.

    `done` mini-batches are in `sums` (deflated arrays) while `body` is not there; a finished search has its record as
    JSON in `body`, and outcomes of single examples in `outcomes`.
    """

    __tablename__ = "layer_search"

    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoint.id", ondelete="CASCADE"), primary_key=True)
    asked: Mapped[str] = mapped_column(String(64))
    spec: Mapped[str] = mapped_column(Text)
    done: Mapped[int]
    body: Mapped[str | None] = mapped_column(Text)
    sums: Mapped[bytes | None]
    outcomes: Mapped[bytes | None]
    made_at: Mapped[datetime]


class EventRow(Table):
    """Something that happened in a study; numbered without gaps from 1."""

    __tablename__ = "event"
    __table_args__ = (UniqueConstraint("study_id", "number"), Index("ix_event_trial_id", "trial_id"))

    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("study.id", ondelete="CASCADE"))
    number: Mapped[int]
    at: Mapped[datetime]
    kind: Mapped[str] = mapped_column(String(32))
    trial_id: Mapped[int | None] = mapped_column(ForeignKey("trial.id", ondelete="CASCADE"))
    data: Mapped[dict[str, Any]]


class AccountRow(Table):
    """Who owns studies. `claimed_at`: when a worker last took one of theirs, so that owners take turns."""

    __tablename__ = "account"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    created_at: Mapped[datetime]
    claimed_at: Mapped[datetime | None]


class TokenRow(Table):
    """A credential of an account: an access token, or the session of a browser. Only the SHA-256 of it is kept."""

    __tablename__ = "token"
    __table_args__ = _NEVER_AGAIN

    id: Mapped[int] = mapped_column(primary_key=True)
    account: Mapped[str] = mapped_column(ForeignKey("account.name", ondelete="CASCADE"), index=True)
    kind: Mapped[str] = mapped_column(String(8))
    label: Mapped[str] = mapped_column(String(64))
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    scope: Mapped[str] = mapped_column(String(8))
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("token.id", ondelete="CASCADE"))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class SubmissionRow(Table):
    """An idempotency key, and the study it stands for."""

    __tablename__ = "submission"

    account: Mapped[str] = mapped_column(String(64), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    study_id: Mapped[int] = mapped_column(ForeignKey("study.id", ondelete="CASCADE"), index=True)


class WorkerRow(Table):
    """A process that takes studies from the queue."""

    __tablename__ = "worker"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    started_at: Mapped[datetime]
    heartbeat_at: Mapped[datetime]
    device: Mapped[str] = mapped_column(String(64))
    version: Mapped[str] = mapped_column(String(32))
