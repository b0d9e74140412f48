"""A version of the list of studies, for cache validation."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, func, select

from bln_search.storage.tables import StudyRow

_VERSION = select(func.count(), func.max(StudyRow.id), func.sum(StudyRow.last_event), func.sum(StudyRow.revision))
_VERSION_OF_OWNER = _VERSION.where(StudyRow.owner == bindparam("owner"))


def read_version(connection: Connection, owner: str | None = None) -> tuple[int, ...]:
    """Changes with every event of a study of the owner, and when one is added or deleted; None for all owners."""
    result = connection.execute(_VERSION) if owner is None else connection.execute(_VERSION_OF_OWNER, {"owner": owner})
    return tuple(int(value or 0) for value in result.one())
