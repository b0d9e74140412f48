"""The base class of all tables, and the column type of times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase

from bln_search.core.reasons import limit_reason


class UtcDateTime(TypeDecorator[datetime]):
    """A point in time in UTC. It is aware of its time zone on every database."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Convert to UTC, because SQLite stores no time zone."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Add the time zone that SQLite does not store."""
        return None if value is None else (value if value.tzinfo else value.replace(tzinfo=UTC))


class ReasonText(TypeDecorator[str]):
    """A reason, which may contain texts of user code: of limited length, and of characters that can be stored."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Shorten the text and replace characters that cannot be stored."""
        return None if value is None else limit_reason(value)


class Table(DeclarativeBase):
    """Base of every table, with constraint names that migrations can rely on."""

    type_annotation_map = {datetime: UtcDateTime, dict[str, Any]: JSON}  # noqa: RUF012 - SQLAlchemy's own idiom


Table.metadata.naming_convention = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

NEVER_REUSE_IDS = {"sqlite_autoincrement": True}
"""For ids that must not be assigned again after a deletion: they are in URLs, or identify an attempt or a token."""
