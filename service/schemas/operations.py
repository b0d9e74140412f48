"""Models of health, readiness and version."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class Health(BaseModel):
    """The process responds."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Whether studies are accepted and run."""

    ready: bool
    schema_revision: str | None
    workers: int
    detail: str


class Version(BaseModel):
    """Versions of the service."""

    bln_search: str
    api: Literal["v1"] = "v1"
    schema_revision: str
