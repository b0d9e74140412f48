"""Models of studies and their plans."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, field_validator

from bln_search.core.enums import StudyKind
from bln_search.core.states import StopRequest, StudyState
from bln_search.core.tags import MAX_TAGS, TAG_PATTERN
from bln_search.specs.spec_section import require_storable_text
from service.schemas.base import NO_NUL, Name, whole_float_to_int

Tag = Annotated[str, StringConstraints(pattern=TAG_PATTERN)]
Tags = Annotated[list[Tag], Field(max_length=MAX_TAGS)]


class Progress(BaseModel):
    """Trials of a study."""

    trials: int
    ended: int
    running: int
    failed: int
    fraction: float = Field(
        ge=0,
        le=1,
        description="finished part: trials with a result, and of the others the epochs of their furthest attempt",
    )


class Study(BaseModel):
    """A study and its present state."""

    id: int
    name: str
    title: str
    kind: StudyKind = Field(
        default=StudyKind.TRAINED, description="trained here, or external: only results were submitted"
    )
    state: StudyState
    request: StopRequest | None = Field(description="pause or cancel that was requested and is not done yet")
    reason: str | None = Field(description="why the study cannot continue")
    owner: str
    priority: int
    notes: str
    revision: int
    digest: str = Field(description="SHA-256 of the canonical specification")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    progress: Progress
    eta_seconds: float | None = Field(
        description="estimated seconds until it is complete, known from the first epoch on"
    )
    tags: tuple[str, ...] = Field(default=(), description="in alphabetical order")


class StudyDetail(Study):
    """A study with its specification and all default values."""

    spec: dict[str, Any]
    code_changes: tuple[str, ...] = Field(
        default=(), description="how the code that made its results changed, in sentences; empty if it did not"
    )


class SubmittedStudy(StudyDetail):
    """A submitted study. new: false if the owner had submitted the same study before."""

    new: bool


class StudyUpdate(BaseModel):
    """Changes of a study. Priorities above 0 are for admins."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Name | None = None
    notes: Annotated[str, StringConstraints(max_length=10_000), NO_NUL] | None = None
    title: Annotated[str, StringConstraints(max_length=300), NO_NUL] | None = None
    tags: Tags | None = Field(default=None, description="replace all tags of the study")
    add_tags: Tags | None = Field(default=None, description="add these tags, keep the others")
    remove_tags: Tags | None = Field(default=None, description="remove these tags, keep the others")
    priority: Annotated[int, Field(ge=-10, le=10, strict=True), BeforeValidator(whole_float_to_int)] | None = None

    @field_validator("notes", "title")
    @classmethod
    def _check_storable_text(cls, value: str | None) -> str | None:
        return None if value is None else require_storable_text(value)


class UndefinedEvaluation(BaseModel):
    """An evaluation whose value is undefined."""

    model_config = ConfigDict(from_attributes=True)

    arm: str
    configuration: str
    estimate: str | None
    batch_size: int
    reason: str


class PlanOut(BaseModel):
    """The plan of a study, before anything is trained."""

    trials: int = Field(description="networks to train; the maximum if points are sampled")
    sampled: bool
    evaluations: int = Field(
        description="on each of validation and test; on clean images also on train if it is evaluated"
    )
    epochs: int = Field(description="of all trials together, without early stopping")
    undefined: list[UndefinedEvaluation]
    seconds: float | None = Field(
        description="of training on one worker process; null if no similar network was trained here"
    )
    sample_epochs: int = Field(
        serialization_alias="seconds_from",
        description="number of epochs of similar networks that the estimate of the time is based on",
    )
    bytes: int | None = Field(description="of per-example results; null if the size of the data set is unknown")
    digest: str
    study: dict[str, Any] = Field(description="the specification with all default values")
