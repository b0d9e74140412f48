"""Base class of the parts of a stored analysis."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StoredAnalysisModel(BaseModel):
    """Immutable part of an analysis that is stored as JSON and read by other processes.

    A validation alias is the former name of an attribute. It keeps analyses readable that were stored under that name.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_name=True,
        validate_by_alias=True,
    )
