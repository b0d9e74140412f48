"""What an analysis consists of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Kept(BaseModel):
    """A part of what is kept of a study: written as JSON, read by another process, never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")
