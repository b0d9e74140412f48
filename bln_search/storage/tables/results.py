"""Tables of checkpoints and what is computed from them: evaluations, probes, per-layer searches, streams, analyses."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, LargeBinary, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from bln_search.storage.tables.base import ReasonText, Table

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


class EvaluationRow(Table):
    """A checkpoint under one configuration.

    Attributes:
        estimate: Population estimate, as `frozen` or `target@N16`; empty where no population value is read.
        condition: Name of the study's condition; empty for clean images.
        metrics: Metrics of the task as a JSON object; None without any.
    """

    __tablename__ = "evaluation"
    __table_args__ = (
        UniqueConstraint("checkpoint_id", "configuration", "estimate", "batch_size", "split", "condition"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoint.id", ondelete="CASCADE"))
    configuration: Mapped[str] = mapped_column(String(4))
    estimate: Mapped[str] = mapped_column(String(64))
    batch_size: Mapped[int]
    split: Mapped[str] = mapped_column(String(10))
    condition: Mapped[str] = mapped_column(String(64), server_default="")
    state: Mapped[str] = mapped_column(String(10))
    reason: Mapped[str | None] = mapped_column(ReasonText)
    n: Mapped[int]
    loss: Mapped[float | None]
    accuracy: Mapped[float | None]
    metrics: Mapped[str | None] = mapped_column(Text)


class OutcomesRow(Table):
    """Per-example outcomes of an evaluation, encoded by `outcome_codec`.

    Attributes:
        losses: Deflated little-endian float32, nats.
        correct: One bit for each example.
    """

    __tablename__ = "outcomes"

    evaluation_id: Mapped[int] = mapped_column(ForeignKey("evaluation.id", ondelete="CASCADE"), primary_key=True)
    losses: Mapped[bytes] = mapped_column(LargeBinary)
    correct: Mapped[bytes] = mapped_column(LargeBinary)


class ProbeRow(Table):
    """A measurement beside the leaderboard, at another batch size, batch composition or epoch.

    Attributes:
        epoch: Epoch of the weights; 0 for the checkpoint itself.
        estimate: Population estimate; empty where no population value is read.
        condition: Name of the study's condition; empty for clean images.
        accuracy: None for a task without accuracy.
    """

    __tablename__ = "probe"
    __table_args__ = (
        UniqueConstraint(
            "checkpoint_id", "kind", "epoch", "configuration", "estimate", "batch_size", "split", "condition"
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoint.id", ondelete="CASCADE"))
    kind: Mapped[str] = mapped_column(String(12))
    epoch: Mapped[int]
    configuration: Mapped[str] = mapped_column(String(4))
    estimate: Mapped[str] = mapped_column(String(64))
    batch_size: Mapped[int]
    split: Mapped[str] = mapped_column(String(10))
    condition: Mapped[str] = mapped_column(String(64), server_default="")
    n: Mapped[int]
    loss: Mapped[float]
    accuracy: Mapped[float | None]
    deviation: Mapped[float | None]
    flips: Mapped[float | None]


class LayerSearchRow(Table):
    """The search of per-layer configurations of a checkpoint.

    Attributes:
        spec_digest: Digest of `spec`, by which a search is found again.
        spec: How to search, as JSON.
        done: Mini-batches in `sums` of an enumeration that is not finished; 0 for a finished search.
        body: The record as JSON; None for a search that is not finished.
        sums: Sums over examples, as deflated arrays.
        outcomes: Per-example outcomes, as deflated arrays; None for a search that is not finished.
    """

    __tablename__ = "layer_search"

    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoint.id", ondelete="CASCADE"), primary_key=True)
    spec_digest: Mapped[str] = mapped_column("asked", String(64))
    spec: Mapped[str] = mapped_column(Text)
    done: Mapped[int]
    body: Mapped[str | None] = mapped_column(Text)
    sums: Mapped[bytes | None]
    outcomes: Mapped[bytes | None]
    made_at: Mapped[datetime]


class StreamRow(Table):
    """A stream of mini-batches over which a checkpoint adapted.

    Attributes:
        number: Of the random order.
        classes: Number of classes of the data.
        layout: Which example of which condition arrived when, as deflated arrays.
    """

    __tablename__ = "stream"

    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoint.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    classes: Mapped[int]
    layout: Mapped[bytes] = mapped_column(LargeBinary)


class StreamOutcomesRow(Table):
    """An arm of adaptation on a stream.

    Attributes:
        arm: Label of the arm of adaptation.
        position: Of the arm in the study.
        n: Number of examples.
        error: Share of wrong predictions.
        loss: Mean loss (nats); None where it is not finite, as after the end of the arm.
        reason: Why the arm ended before the stream; empty if it did not.
        batches: Number of mini-batches that it predicted.
        seconds: Time of its predictions and updates.
        selected_on: Data by which the options were selected.
        options: Of the method, where they are not its defaults.
        outcomes: Of single examples, in the order of the stream, as deflated arrays.
    """

    __tablename__ = "stream_outcomes"
    __table_args__ = (
        ForeignKeyConstraint(
            ["checkpoint_id", "number"], ["stream.checkpoint_id", "stream.number"], ondelete="CASCADE"
        ),
    )

    checkpoint_id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    arm: Mapped[str] = mapped_column(String(200), primary_key=True)
    position: Mapped[int]
    n: Mapped[int]
    error: Mapped[float]
    loss: Mapped[float | None]
    reason: Mapped[str] = mapped_column(ReasonText)
    batches: Mapped[int]
    seconds: Mapped[float]
    selected_on: Mapped[str] = mapped_column(String(10))
    options: Mapped[dict[str, Any]]
    outcomes: Mapped[bytes] = mapped_column(LargeBinary)


class AnalysisRow(Table):
    """The analysis of a study.

    Attributes:
        results: Number of results of the study that the analysis is based on.
        format: Version of the JSON.
        body: The analysis as JSON.
    """

    __tablename__ = "analysis"

    study_id: Mapped[int] = mapped_column(ForeignKey("study.id", ondelete="CASCADE"), primary_key=True)
    results: Mapped[int]
    format: Mapped[int]
    made_at: Mapped[datetime]
    body: Mapped[str] = mapped_column(Text)
