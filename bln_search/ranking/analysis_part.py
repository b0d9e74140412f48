"""Base class of the parts of a stored analysis."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StoredAnalysisModel(BaseModel):
    """Immutable part of an analysis that is stored as JSON and read by other processes."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
    )
