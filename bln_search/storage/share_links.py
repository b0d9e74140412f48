"""Links that show one study to people without an account until they expire; digests of their secrets are stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, func, select

from bln_search.core.enums import Scope
from bln_search.core.errors import ShareLinkLimitError, TokenManagementError
from bln_search.storage.database import Database
from bln_search.storage.tables import TokenRow
from bln_search.storage.tokens import (
    TokenInfo,
    TokenKind,
    find_access_token_id,
    make_token_info,
    store_token,
    valid_token_conditions,
)

MAX_DAYS = 90
"""Longest lifetime of a link."""

MAX_LINKS = 50
"""Valid links of one study."""

_KEPT_AFTER_END = timedelta(days=30)
"""How long a link that ended is listed."""


class ShareLinkRepository:
    """Creates, lists and revokes the links of a study."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def create_link(
        self, study_id: int, account: str, label: str, expires_at: datetime, creator: int | None = None
    ) -> tuple[str, TokenInfo]:
        """Create a link.

        Args:
            study_id: The study that it shows.
            account: An account that exists.
            label: Text by which people recognize the link.
            expires_at: When it ends.
            creator: The access token, or a session of it, with which the link ends; None for a command.

        Returns:
            The secret, which cannot be read again, and the record of the link.

        Raises:
            ShareLinkLimitError: The study has too many valid links.
        """
        now = datetime.now(UTC)
        of_study = (TokenRow.study_id == study_id, TokenRow.kind == TokenKind.SHARE)
        with self.database.write_session() as session:
            ended = func.coalesce(TokenRow.revoked_at, TokenRow.expires_at) < now - _KEPT_AFTER_END
            session.execute(delete(TokenRow).where(*of_study, ended))
            valid = select(func.count()).select_from(TokenRow).where(*of_study, *valid_token_conditions(now))
            if (session.scalar(valid) or 0) >= MAX_LINKS:
                raise ShareLinkLimitError(f"study {study_id} has {MAX_LINKS} valid links: revoke one that nobody needs")
            parent_id = None if creator is None else find_access_token_id(session, creator)
            row = TokenRow(account=account, kind=TokenKind.SHARE, label=label, scope=Scope.READ, study_id=study_id)
            row.parent_id, row.expires_at = parent_id, expires_at
            return store_token(session, row, now)

    def list_links(self, study_id: int) -> list[TokenInfo]:
        """The links of a study, newest first, with those that ended lately."""
        rows = select(TokenRow).where(TokenRow.study_id == study_id, TokenRow.kind == TokenKind.SHARE)
        with self.database.read_session() as session:
            return [make_token_info(row) for row in session.scalars(rows.order_by(TokenRow.id.desc()))]

    def revoke(self, study_id: int, link_id: int) -> None:
        """End a link at once. Raises TokenManagementError if the study has no such link."""
        with self.database.write_session() as session:
            row = session.get(TokenRow, link_id)
            if row is None or row.study_id != study_id or row.kind != TokenKind.SHARE:
                raise TokenManagementError(f"study {study_id} has no link {link_id}")
            row.revoked_at = row.revoked_at or datetime.now(UTC)
