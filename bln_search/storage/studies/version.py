"""A version of the list of studies, for cache validation."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, func, select

from bln_search.storage.tables import StudyRow

_VERSION = select(func.count(), func.max(StudyRow.id), func.sum(StudyRow.last_event), func.sum(StudyRow.revision))
_VERSION_OF_OWNER = _VERSION.where(StudyRow.owner == bindparam("owner"))


def read_study_list_version(connection: Connection, owner: str | None = None) -> tuple[int, ...]:
    """A version that changes with every event of the owner's studies, and when a study is added or deleted.

    Args:
        connection: An open connection.
        owner: The account; None for all accounts.
    """
    result = connection.execute(_VERSION) if owner is None else connection.execute(_VERSION_OF_OWNER, {"owner": owner})
    return tuple(int(value or 0) for value in result.one())
