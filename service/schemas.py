"""What answers look like."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, field_validator

from bln_search.core.enums import NAME, PopulationEstimate, Scope, Split
from bln_search.core.states import EvaluationState, Request, StudyState, TrialState
from bln_search.specs.base import writable

Item = TypeVar("Item")


def _whole(value: object) -> object:
    """JSON knows no difference between 8 and 8.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Name = Annotated[str, StringConstraints(pattern=NAME)]


_PLAIN = Field(json_schema_extra={"pattern": "^[^\\u0000]*$"})
"""What `writable` refuses, as far as a schema can say it."""


class ListPage(BaseModel, Generic[Item]):
    """A page of a list."""

    items: list[Item]
    next_cursor: str | None = Field(description="send it as `cursor` for the next page; null on the last one")


class Progress(BaseModel):
    """Trials of a study. `fraction` counts those that have their result, and never goes back."""

    trials: int
    ended: int
    running: int
    failed: int
    fraction: float = Field(ge=0, le=1)


class Study(BaseModel):
    """A study as it stands."""

    id: int
    name: str
    title: str
    state: StudyState
    request: Request | None = Field(description="what was asked of it and is not done yet")
    reason: str | None = Field(description="why it cannot go on")
    owner: str
    priority: int
    notes: str
    revision: int
    digest: str = Field(description="SHA-256 of the canonical specification")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    progress: Progress
    eta_seconds: float | None = Field(description="seconds until it is complete, by what its trials take")


class StudyDetail(Study):
    """A study with its specification, every default written out."""

    spec: dict[str, Any]


class Accepted(StudyDetail):
    """A study that was sent in. new: false where the same study of the same owner was there already."""

    new: bool


class StudyChange(BaseModel):
    """What may be changed of a study. Priorities above 0 are for admins."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Name | None = None
    notes: Annotated[str, StringConstraints(max_length=10_000), _PLAIN] | None = None
    priority: Annotated[int, Field(ge=-10, le=10, strict=True), BeforeValidator(_whole)] | None = None

    @field_validator("notes")
    @classmethod
    def _writable(cls, value: str | None) -> str | None:
        return None if value is None else writable(value)


class UndefinedEvaluation(BaseModel):
    """An evaluation that will have no value."""

    model_config = ConfigDict(from_attributes=True)

    arm: str
    configuration: str
    estimate: str | None
    batch_size: int
    reason: str


class PlanOut(BaseModel):
    """What a study stands for, before anything is trained."""

    trials: int = Field(description="networks to train; at most so many where points are sampled")
    sampled: bool
    evaluations: int = Field(description="on each of validation and test")
    epochs: int = Field(description="of all trials together, if none ends early")
    undefined: list[UndefinedEvaluation]
    seconds: float | None = Field(
        description="of training on one worker process; null where nothing alike ever ran here"
    )
    seconds_from: int = Field(description="how many epochs of networks alike that rests on")
    bytes: int | None = Field(description="of per-example results; null for data sets whose size is not known here")
    digest: str
    study: dict[str, Any] = Field(description="the specification with every default written out")


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


class EvaluationOut(BaseModel):
    """A trained network under one configuration; loss in nats, accuracy a fraction."""

    id: int
    trial_id: int
    arm: str
    seed: int
    configuration: str
    estimate: PopulationEstimate | None
    batch_size: int
    split: Split
    state: EvaluationState
    n: int
    loss: float | None
    accuracy: float | None
    reason: str | None


class Epoch(BaseModel):
    """One epoch of training."""

    epoch: int
    training_loss: float | None
    training_accuracy: float | None
    validation_loss: float | None
    validation_accuracy: float | None
    seconds: float


class Curve(BaseModel):
    """The epochs of a trial."""

    trial_id: int
    arm: str
    seed: int
    parameters: dict[str, Any] | None
    epochs: list[Epoch]


class LeaderboardPage(BaseModel):
    """Rows of the ranked table, as `bln-search leaderboard --format json` prints them."""

    study: str
    id: int
    state: StudyState
    ranked_on: Split
    warning: str | None
    rows: list[dict[str, Any]]
    next_cursor: str | None


class EventOut(BaseModel):
    """Something that happened in a study; numbers have no gaps."""

    number: int
    at: datetime
    kind: str
    trial_id: int | None
    data: dict[str, Any]


class EventList(BaseModel):
    """Events after a number; last: the number to ask from next time."""

    events: list[EventOut]
    last: int


class ConfigurationOut(BaseModel):
    """One of the inference configurations."""

    word: str
    method: str
    sources: dict[str, str]
    deterministic: bool = Field(description="whether the answer to an example is free of the others in its mini-batch")
    meaning: str


Days = Annotated[int, Field(ge=1, le=3650, strict=True), BeforeValidator(_whole)] | None


class TokenWish(BaseModel):
    """A token to make. account: admins may make tokens for others."""

    model_config = ConfigDict(extra="forbid")

    label: Annotated[str, StringConstraints(max_length=64), _PLAIN] = ""
    scope: Scope = Scope.READ
    account: Name | None = None
    days: Days = Field(default=None, description="after which it ends")

    @field_validator("label")
    @classmethod
    def _writable(cls, value: str) -> str:
        return writable(value)


class TokenOut(BaseModel):
    """A token without its secret."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    account: str
    label: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class NewToken(TokenOut):
    """A token just made; the secret is shown only now."""

    secret: str


class SignIn(BaseModel):
    """A browser signs in with an access token."""

    model_config = ConfigDict(extra="forbid")

    token: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Session(BaseModel):
    """Who is signed in."""

    account: str
    scope: Scope


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Whether studies can be taken and run."""

    ready: bool
    schema_revision: str | None
    workers: int
    detail: str


class Version(BaseModel):
    """What is running here."""

    bln_search: str
    api: Literal["v1"] = "v1"
    schema_revision: str
