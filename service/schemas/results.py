"""Models of trials, evaluations, leaderboards, events and configurations."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from bln_search.core.enums import Split
from bln_search.core.states import AttemptState, EvaluationState, FailureClass, StudyState, TrialState


class Checkpoint(BaseModel):
    """A trained network."""

    id: int
    file: str
    sha256: str
    epoch: int
    judged_under: str
    validation_loss: float
    provenance: dict[str, Any] = Field(description="seed, hardware and versions it was trained with")
    created_at: datetime


class Attempt(BaseModel):
    """One attempt at a trial. number: counts from 1."""

    model_config = ConfigDict(from_attributes=True)

    number: int
    worker: str
    state: AttemptState
    started_at: datetime
    ended_at: datetime | None
    failure: FailureClass | None = Field(description="class of the failure; null unless it failed")
    reason: str | None = Field(description="why it ended without a trained network")


class Trial(BaseModel):
    """One training run."""

    id: int
    position: int
    arm: str
    method: str
    seed: int
    parameters: dict[str, Any] | None
    state: TrialState
    reason: str | None
    checkpoint: Checkpoint | None
    attempts: list[Attempt]
    epoch: int = Field(description="last epoch that was reported; 0 before the first")
    planned_epochs: int = Field(description="epochs of the whole training")
    seconds: float | None = Field(description="duration of all attempts together; null before the first")


class EvaluationOut(BaseModel):
    """A trained network under one configuration. loss: in nats if it is cross-entropy; accuracy: a fraction."""

    id: int
    trial_id: int
    arm: str
    seed: int
    configuration: str
    estimate: str | None = Field(description="population estimate, with the weight of a blend as in frozen@0.1")
    batch_size: int
    split: Split
    condition: str = Field(
        "",
        description="name of the study's condition; empty for clean images, or the one that ranks submitted results",
    )
    state: EvaluationState
    n: int
    loss: float | None
    accuracy: float | None
    metrics: dict[str, float] = Field(
        default_factory=dict, description="metrics of the task over all examples of the split"
    )
    reason: str | None


class Epoch(BaseModel):
    """One epoch of training."""

    epoch: int
    training_loss: float | None
    training_accuracy: float | None
    validation_loss: float | None
    validation_accuracy: float | None
    seconds: float
    test_loss: float | None = Field(None, description="null if the study does not evaluate epochs on test")
    test_accuracy: float | None = Field(None, description="null if the study does not evaluate epochs on test")


class Curve(BaseModel):
    """The epochs of a trial's training."""

    trial_id: int
    arm: str
    seed: int
    parameters: dict[str, Any] | None
    epochs: list[Epoch]


class LossDescriptionOut(BaseModel):
    """The loss that ranks the rows. unit: empty for a loss without one."""

    name: str
    unit: str


class MetricDescriptionOut(BaseModel):
    """A metric of the task, in rows as `validation_NAME_mean` and `validation_NAME_deviation`; it ranks no rows."""

    name: str
    label: str = Field(description="name in headings")
    meaning: str
    higher_is_better: bool
    unit: str = Field(description="empty for a number without a unit")


class LeaderboardPage(BaseModel):
    """A page of the leaderboard; rows as `bln-search leaderboard --format json` prints them, without the analysis."""

    study: str
    id: int
    state: StudyState
    ranked_on: Split
    conditions: list[str] = Field([], description="conditions of the study; rows have metrics for each")
    warning: str | None
    loss: LossDescriptionOut
    metrics: list[MetricDescriptionOut] = Field([], description="metrics of the task that rows have")
    rows: list[dict[str, Any]]
    next_cursor: str | None


class EventOut(BaseModel):
    """An event of a study. number: counts from 1 without gaps."""

    number: int
    at: datetime
    kind: str
    trial_id: int | None
    data: dict[str, Any]


class EventList(BaseModel):
    """Events after a number. last: the number to send as `after` next time."""

    events: list[EventOut]
    last: int


class ConfigurationOut(BaseModel):
    """An inference configuration, explained."""

    code: str
    method: str
    sources: dict[str, str]
    deterministic: bool = Field(description="whether the output for an example is independent of the mini-batch")
    meaning: str
    explanation: str = Field(description="what it does, in a sentence without the letters of its code")
