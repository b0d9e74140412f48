"""Tables of trials, their attempts and their checkpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from bln_search.storage.tables.base import NEVER_REUSE_IDS, ReasonText, Table


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


NO_FILE = ""
"""In place of the name of a checkpoint file: there is none."""


class CheckpointRow(Table):
    """A trained network whose weights are in the checkpoint store.

    Attributes:
        file: Name of the file; `NO_FILE` for a network of external results, whose weights were not submitted.
    """

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
    snapshots: Mapped[list[EpochWeightsRow]] = relationship(
        lazy="selectin", order_by="EpochWeightsRow.epoch", viewonly=True
    )


class EpochWeightsRow(Table):
    """The weights of an earlier epoch of the training that led to a checkpoint."""

    __tablename__ = "snapshot"
    __table_args__ = (UniqueConstraint("checkpoint_id", "epoch"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoint.id", ondelete="CASCADE"))
    epoch: Mapped[int]
    file: Mapped[str] = mapped_column(String(200))
    sha256: Mapped[str] = mapped_column(String(64))
