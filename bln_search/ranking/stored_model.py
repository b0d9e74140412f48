"""Base class of the parts of a stored analysis."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StoredModel(BaseModel):
    """Immutable part of an analysis that is stored as JSON and read by other processes.

    Where an attribute has an alias, the alias is its name in JSON: in the database and in the REST API. Aliases keep
    stored analyses readable when an attribute is renamed.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )
