"""Accounts and their access tokens. Only the digest of a secret is stored, which does not authenticate anybody."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, func, or_, select, update
from sqlalchemy.orm import Session

from bln_search.core.enums import Scope
from bln_search.core.errors import TokenManagementError
from bln_search.core.names import NAME_PATTERN
from bln_search.storage.database import Database
from bln_search.storage.pagination import PageRequest
from bln_search.storage.tables import AccountRow, TokenRow

_PREFIX = "bln_"


class TokenKind(StrEnum):
    """Kind of a credential.

    Members:
        ACCESS: Token of a person or a program.
        SESSION: Of a browser that signed in with an access token.
        SHARE: Of a link that shows one study.
    """

    ACCESS = "access"
    SESSION = "session"
    SHARE = "share"


@dataclass(frozen=True)
class TokenInfo:
    """A token or a share link without its secret. account: that of its owner, or of the creator of the link."""

    id: int
    account: str
    label: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    def is_valid(self, now: datetime) -> bool:
        """Return whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


@dataclass(frozen=True)
class Bearer:
    """The account that a credential authenticates, and its scope.

    Attributes:
        account: For a share link, the account that created it; the bearer has none of its rights.
        study_id: The only study that a share link shows; None for other credentials.
    """

    token_id: int
    account: str
    scope: Scope
    kind: TokenKind
    study_id: int | None = None

    @property
    def rate_limit_key(self) -> str:
        """Name under which requests and streams are limited: those of a share link do not count for its account."""
        return f"share link {self.token_id}" if self.kind is TokenKind.SHARE else f"account {self.account}"


class TokenRepository:
    """Creates, verifies and revokes tokens."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def create_token(
        self,
        account: str,
        scope: Scope,
        label: str = "",
        *,
        expires_at: datetime | None = None,
        parent: Bearer | None = None,
    ) -> tuple[str, TokenInfo]:
        """Create a token, and its account where there is none.

        Args:
            account: Account that the token authenticates.
            scope: Scope of the token.
            label: Text by which people recognize the token.
            expires_at: When the token expires; None for a token that does not expire.
            parent: The token that a browser session was started with; the session ends with it.

        Returns:
            The secret, which cannot be read again, and the record.

        Raises:
            TokenManagementError: the account cannot have that name.
        """
        if not re.fullmatch(NAME_PATTERN, account):  # the empty name owns the studies of commands
            raise TokenManagementError(
                f"{account!r} is not a valid account name: use at most 64 of a-z, 0-9, - and _, and start with a "
                "letter or digit"
            )
        now = datetime.now(UTC)
        with self.database.write_session() as session:
            if session.get(AccountRow, account) is None:
                session.add(AccountRow(name=account, created_at=now))
                session.flush()
            row = TokenRow(account=account, kind=TokenKind.ACCESS, label=label, scope=scope, expires_at=expires_at)
            if parent is not None:
                row.kind, row.parent_id = TokenKind.SESSION, parent.token_id
            return store_token(session, row, now)

    def create_first_token(self, account: str) -> str | None:
        """Create an admin token where no token was ever created; returns its secret, None otherwise."""
        with self.database.read_session() as session:
            if session.scalar(select(TokenRow.id).limit(1)) is not None:
                return None
        return self.create_token(account, Scope.ADMIN, "first start")[0]

    def create_sign_in_session(self, bearer: Bearer, duration: timedelta) -> str:
        """Create a session of `bearer` that expires after `duration` or with its token; returns its secret."""
        expires_at = datetime.now(UTC) + duration
        token_expires_at = self.find_token_expiry(bearer.token_id)
        expires_at = expires_at if token_expires_at is None else min(token_expires_at, expires_at)
        with self.database.write_session() as session:
            expired = TokenRow.expires_at < datetime.now(UTC)
            session.execute(delete(TokenRow).where(TokenRow.kind == TokenKind.SESSION, expired))
        return self.create_token(bearer.account, bearer.scope, "", expires_at=expires_at, parent=bearer)[0]

    def find_bearer(self, secret: str) -> Bearer | None:
        """The bearer of a secret; None where the secret is unknown, revoked or expired."""
        with self.database.open_core_connection() as connection:
            row = connection.execute(_BEARER, {"sha256": hash_secret(secret), "now": datetime.now(UTC)}).first()
        if row is None:
            return None
        return Bearer(row.id, row.account, Scope(row.scope), TokenKind(row.kind), row.study_id)

    def list_tokens(self, account: str | None, page: PageRequest | None = None) -> list[TokenInfo]:
        """The access tokens of an account, newest first.

        Args:
            account: None for the tokens of all accounts.
            page: Page of the list, with one more token that shows whether another page follows; None for all
                tokens. Its sort is ignored.
        """
        rows = select(TokenRow).where(TokenRow.kind == TokenKind.ACCESS).order_by(TokenRow.id.desc())
        if account is not None:
            rows = rows.where(TokenRow.account == account)
        if page is not None:
            rows = rows.limit(page.limit + 1)
            rows = rows if page.after is None else rows.where(TokenRow.id < page.after[0])
        with self.database.read_session() as session:
            return [make_token_info(row) for row in session.scalars(rows)]

    def filter_valid_token_ids(self, token_ids: Iterable[int]) -> set[int]:
        """The tokens among `token_ids` that are neither revoked nor expired."""
        valid = select(TokenRow.id).where(TokenRow.id.in_(list(token_ids)), *valid_token_conditions(datetime.now(UTC)))
        with self.database.open_core_connection() as connection:
            return set(connection.scalars(valid))

    def find_token_expiry(self, token_id: int) -> datetime | None:
        """When a token expires; for a session, when the token that it was started with expires."""
        with self.database.read_session() as session:
            row = session.get(TokenRow, token_id)
            if row is not None and row.parent_id is not None:
                row = session.get(TokenRow, row.parent_id)
            return None if row is None else row.expires_at

    def revoke(self, token_id: int, account: str | None = None, scope: Scope = Scope.ADMIN) -> None:
        """Revoke a token, its sessions, and the share links that were created with it.

        Args:
            token_id: The token.
            account: Its account; None for any.
            scope: Scope of the caller, who cannot revoke a token with a wider scope.

        Raises:
            TokenManagementError: the account has no such token.
        """
        with self.database.write_session() as session:
            row = session.get(TokenRow, token_id)
            if row is None or (account is not None and row.account != account) or not scope.allows(Scope(row.scope)):
                raise TokenManagementError(f"there is no token {token_id} that you may revoke")
            _revoke_tokens(session, TokenRow.id == token_id)
            _revoke_tokens(session, TokenRow.parent_id == token_id)

    def revoke_account_credentials(self, account: str, scope: Scope = Scope.ADMIN) -> int:
        """Revoke all tokens, sessions and share links of an account, but no token with a wider scope than `scope`.

        Args:
            account: The account.
            scope: Scope of the caller.

        Returns:
            Number of access tokens that were valid and are revoked now.

        Raises:
            TokenManagementError: there is no such account.
        """
        scopes = [other.value for other in Scope if scope.allows(other)]
        of_account = (TokenRow.account == account, TokenRow.scope.in_(scopes))
        with self.database.write_session() as session:
            if session.get(AccountRow, account) is None:
                raise TokenManagementError(f"there is no account {account!r}")
            valid = (*of_account, TokenRow.kind == TokenKind.ACCESS, *valid_token_conditions(datetime.now(UTC)))
            count = session.scalar(select(func.count()).select_from(TokenRow).where(*valid)) or 0
            _revoke_tokens(session, *of_account)
            return count


def find_access_token_id(session: Session, token_id: int) -> int:
    """The access token that a session was started with; any other token itself."""
    parent: int | None = session.scalar(select(TokenRow.parent_id).where(TokenRow.id == token_id))
    return token_id if parent is None else parent


def _revoke_tokens(session: Session, *conditions: ColumnElement[bool]) -> None:
    now = datetime.now(UTC)
    session.execute(update(TokenRow).where(*conditions, TokenRow.revoked_at.is_(None)).values(revoked_at=now))


def valid_token_conditions(now: Any) -> tuple[ColumnElement[bool], ...]:
    """Conditions of a token that is neither revoked nor expired."""
    return TokenRow.revoked_at.is_(None), or_(TokenRow.expires_at.is_(None), TokenRow.expires_at > now)


_BEARER = select(TokenRow.id, TokenRow.account, TokenRow.scope, TokenRow.kind, TokenRow.study_id).where(
    TokenRow.sha256 == bindparam("sha256"),
    TokenRow.account != "",
    *valid_token_conditions(bindparam("now", type_=TokenRow.expires_at.type)),
)
"""Built only once, because it is executed with every request."""


def store_token(session: Session, row: TokenRow, now: datetime) -> tuple[str, TokenInfo]:
    """Store a token with a new secret; returns the secret and the record."""
    secret = generate_secret()
    row.sha256, row.created_at = hash_secret(secret), now
    session.add(row)
    session.flush()
    return secret, make_token_info(row)


def generate_secret() -> str:
    """A secret of 256 random bits, with the prefix by which logs recognize secrets."""
    return _PREFIX + secrets.token_urlsafe(32)


def hash_secret(secret: str) -> str:
    """SHA-256 without a salt: a secret has 256 random bits, so its digest cannot be inverted."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def make_token_info(row: TokenRow) -> TokenInfo:
    """The record of a token or a share link."""
    return TokenInfo(row.id, row.account, row.label, Scope(row.scope), row.created_at, row.expires_at, row.revoked_at)
