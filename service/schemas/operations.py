"""Models of health, readiness and version."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Health(BaseModel):
    """The process responds."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Whether studies are accepted and run."""

    ready: bool
    schema_revision: str | None
    workers: int
    detail: str


class WorkerOut(BaseModel):
    """A worker process."""

    model_config = ConfigDict(from_attributes=True)

    name: str = Field(description="machine, process and start")
    device: str
    version: str
    started_at: datetime
    heartbeat_at: datetime


class WorkerList(BaseModel):
    """Worker processes."""

    items: list[WorkerOut]


class Version(BaseModel):
    """Versions of the service."""

    bln_search: str
    api: Literal["v1"] = "v1"
    schema_revision: str
