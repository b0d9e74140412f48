"""Links that show one study to people without an account until they expire; digests of their secrets are stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, func, select

from bln_search.core.enums import Scope
from bln_search.core.errors import ShareLinkLimitError, TokenManagementError
from bln_search.storage.database import Database
from bln_search.storage.tables import TokenRow
from bln_search.storage.tokens import (
    TokenKind,
    find_access_token_id,
    generate_secret,
    hash_secret,
    valid_token_conditions,
)

MAX_DAYS = 90
"""Longest lifetime of a link."""

MAX_LINKS = 50
"""Valid links of one study."""

_KEPT_AFTER_END = timedelta(days=30)
"""How long a link that ended is listed."""


@dataclass(frozen=True)
class ShareLink:
    """A link to a study without its secret. account: the account that created it."""

    id: int
    account: str
    label: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None


class ShareLinkRepository:
    """Creates, lists and revokes the links of a study."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def create_link(
        self, study_id: int, account: str, label: str, expires_at: datetime, creator: int | None = None
    ) -> tuple[str, ShareLink]:
        """Create a link.

        Args:
            study_id: The study that it shows.
            account: An account that exists.
            label: Text by which people recognize the link.
            expires_at: When it ends.
            creator: The access token, or a session of it, with which the link ends; None for a command.

        Returns:
            The secret, which cannot be read again, and the record.

        Raises:
            ShareLinkLimitError: The study has too many valid links.
        """
        secret, now = generate_secret(), datetime.now(UTC)
        of_study = (TokenRow.study_id == study_id, TokenRow.kind == TokenKind.SHARE)
        with self.database.write_session() as session:
            ended = func.coalesce(TokenRow.revoked_at, TokenRow.expires_at) < now - _KEPT_AFTER_END
            session.execute(delete(TokenRow).where(*of_study, ended))
            valid = select(func.count()).select_from(TokenRow).where(*of_study, *valid_token_conditions(now))
            if (session.scalar(valid) or 0) >= MAX_LINKS:
                raise ShareLinkLimitError(f"study {study_id} has {MAX_LINKS} valid links: revoke one that nobody needs")
            row = TokenRow(
                account=account,
                kind=TokenKind.SHARE,
                label=label,
                sha256=hash_secret(secret),
                scope=Scope.READ,
                study_id=study_id,
                parent_id=None if creator is None else find_access_token_id(session, creator),
                created_at=now,
                expires_at=expires_at,
            )
            session.add(row)
            session.flush()
            return secret, _make_share_link(row)

    def list_links(self, study_id: int) -> list[ShareLink]:
        """The links of a study, newest first, with those that ended lately."""
        rows = select(TokenRow).where(TokenRow.study_id == study_id, TokenRow.kind == TokenKind.SHARE)
        with self.database.read_session() as session:
            return [_make_share_link(row) for row in session.scalars(rows.order_by(TokenRow.id.desc()))]

    def revoke(self, study_id: int, link_id: int) -> None:
        """End a link at once. Raises TokenManagementError if the study has no such link."""
        with self.database.write_session() as session:
            row = session.get(TokenRow, link_id)
            if row is None or row.study_id != study_id or row.kind != TokenKind.SHARE:
                raise TokenManagementError(f"study {study_id} has no link {link_id}")
            row.revoked_at = row.revoked_at or datetime.now(UTC)


def _make_share_link(row: TokenRow) -> ShareLink:
    assert row.expires_at is not None
    return ShareLink(row.id, row.account, row.label, row.created_at, row.expires_at, row.revoked_at)
