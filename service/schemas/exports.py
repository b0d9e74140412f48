"""Models of exports that workers build."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from bln_search.core.blend import ESTIMATE_PATTERN
from bln_search.core.configuration import CODE_LETTERS
from bln_search.core.enums import ArchiveContents, ExportStep
from bln_search.core.states import ExportState
from bln_search.ranking.row_choice import RECOMMENDED
from service.schemas.base import whole_float_to_int


class ExportRequest(BaseModel):
    """The row of the leaderboard whose trained network is exported."""

    model_config = ConfigDict(extra="forbid")

    configuration: Annotated[str, StringConstraints(pattern=f"^(recommended|best|[{CODE_LETTERS}]{{4}})$")] = Field(
        default=RECOMMENDED,
        description="`recommended`, `best` (the first row with the other values), or four letters like TTFF",
    )
    estimate: Annotated[str, StringConstraints(max_length=64, pattern=ESTIMATE_PATTERN)] | None = Field(
        default=None, description="population estimate of the row"
    )
    arm: Annotated[str, StringConstraints(max_length=32, pattern="^[a-z0-9_-]*$")] | None = Field(
        default=None, description="label of the arm of the row"
    )
    batch_size: Annotated[int, Field(ge=1, le=1_000_000, strict=True), BeforeValidator(whole_float_to_int)] | None = (
        Field(default=None, description="mini-batch size at inference of the row")
    )
    parameters: Annotated[str, StringConstraints(max_length=5000)] | None = Field(
        default=None, description="parameters of the row, as the leaderboard prints them or as JSON"
    )
    seed: Annotated[int, Field(ge=0, lt=2**32, strict=True), BeforeValidator(whole_float_to_int)] | None = Field(
        default=None, description="seed of the network; by default the one with the lowest validation loss"
    )
    format: ArchiveContents = Field(default=ArchiveContents.ALL, description="forms of the network in the archive")


class Export(BaseModel):
    """An export. name: name of the archive without `.zip`."""

    id: int
    study_id: int
    name: str
    arm: str
    parameters: str = Field(description="parameters of the row; empty without a search space")
    configuration: str
    estimate: str | None
    batch_size: int
    seed: int
    format: ArchiveContents
    state: ExportState
    step: ExportStep | None = Field(description="what the worker is doing; null unless the state is running")
    reason: str | None = Field(description="why it failed, or why the last attempt did")
    account: str = Field(description="account that requested it last")
    requested_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime | None = Field(description="when the archive is deleted; null unless the state is ready")
    size: int | None = Field(description="bytes of the archive; null unless the state is ready")
    sha256: str | None = Field(description="SHA-256 of the archive; null unless the state is ready")
    waiting_before: int = Field(description="exports that are built before this one; 0 unless it is requested")
    has_worker: bool = Field(description="whether a worker sent a heartbeat within 30 s")
