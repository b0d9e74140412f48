"""Accounts and their tokens. Only a digest of a token is kept: what is read here lets nobody in."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Engine, bindparam, delete, or_, select, update
from sqlalchemy.orm import Session

from bln_search.core.enums import NAME, Scope
from bln_search.core.errors import AccessError
from bln_search.storage.browse import Page
from bln_search.storage.engine import glancing, reading, writing
from bln_search.storage.tables import AccountRow, TokenRow

_PREFIX = "bln_"


class TokenKind(StrEnum):
    """access: for programs and people. session: what a browser gets for one."""

    ACCESS = "access"
    SESSION = "session"


@dataclass(frozen=True)
class TokenInfo:
    """A token without its secret."""

    id: int
    account: str
    label: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True)
class Bearer:
    """Who a credential stands for, and what they may do."""

    token_id: int
    account: str
    scope: Scope
    kind: TokenKind


def create_token(
    engine: Engine,
    account: str,
    scope: Scope,
    label: str = "",
    *,
    expires_at: datetime | None = None,
    parent: Bearer | None = None,
) -> tuple[str, TokenInfo]:
    """A new token and what is known of it; the account is made where there is none. The secret is shown only here.

    parent: the token that a browser's session stands for; the session ends with it. Raises AccessError where the
    account cannot have that name.
    """
    if not re.fullmatch(NAME, account):  # an empty one stands for the studies of commands
        raise AccessError(
            f"{account!r} is no name of an account: at most 64 small letters, digits, - and _, the first no sign"
        )
    secret = _PREFIX + secrets.token_urlsafe(32)
    now = datetime.now(UTC)
    with writing(engine) as session:
        if session.get(AccountRow, account) is None:
            session.add(AccountRow(name=account, created_at=now))
            session.flush()
        row = TokenRow(
            account=account,
            kind=TokenKind.ACCESS if parent is None else TokenKind.SESSION,
            label=label,
            sha256=_digest(secret),
            scope=scope,
            parent_id=None if parent is None else parent.token_id,
            created_at=now,
            expires_at=expires_at,
        )
        session.add(row)
        session.flush()
        return secret, _info(row)


def create_first_token(engine: Engine, account: str) -> str | None:
    """The secret of a first token for everything; None where there ever was a token."""
    with reading(engine) as session:
        if session.scalar(select(TokenRow.id).limit(1)) is not None:
            return None
    return create_token(engine, account, Scope.ADMIN, "first start")[0]


def start_session(engine: Engine, bearer: Bearer, lasting: timedelta) -> str:
    """The secret of a session that stands for `bearer`, and ends after a while or with it."""
    expires = datetime.now(UTC) + lasting
    ends = expiry(engine, bearer.token_id)
    expires = expires if ends is None else min(ends, expires)
    with writing(engine) as session:
        over = TokenRow.expires_at < datetime.now(UTC)
        session.execute(delete(TokenRow).where(TokenRow.kind == TokenKind.SESSION, over))
    return create_token(engine, bearer.account, bearer.scope, "", expires_at=expires, parent=bearer)[0]


def find_bearer(engine: Engine, secret: str) -> Bearer | None:
    """Who the secret stands for; None where it is unknown, revoked or expired."""
    with glancing(engine) as connection:
        row = connection.execute(_BEARER, {"sha256": _digest(secret), "now": datetime.now(UTC)}).first()
    return None if row is None else Bearer(row.id, row.account, Scope(row.scope), TokenKind(row.kind))


def tokens(engine: Engine, account: str | None, page: Page | None = None) -> list[TokenInfo]:
    """The access tokens of an account, or of all, newest first.

    page: which of them, and one more, which tells whether there are more; None for all. Its sort is not looked at.
    """
    rows = select(TokenRow).where(TokenRow.kind == TokenKind.ACCESS).order_by(TokenRow.id.desc())
    if account is not None:
        rows = rows.where(TokenRow.account == account)
    if page is not None:
        rows = rows.limit(page.limit + 1)
        rows = rows if page.after is None else rows.where(TokenRow.id < page.after[0])
    with reading(engine) as session:
        return [_info(row) for row in session.scalars(rows)]


def valid_tokens(engine: Engine, token_ids: Iterable[int]) -> set[int]:
    """Those of the tokens, accepted before, that still hold."""
    held = select(TokenRow.id).where(TokenRow.id.in_(list(token_ids)), *_valid(datetime.now(UTC)))
    with glancing(engine) as connection:
        return set(connection.scalars(held))


def expiry(engine: Engine, token_id: int) -> datetime | None:
    """When a token ends by itself; a session, the token that it stands for."""
    with reading(engine) as session:
        row = session.get(TokenRow, token_id)
        if row is not None and row.parent_id is not None:
            row = session.get(TokenRow, row.parent_id)
        return None if row is None else row.expires_at


def revoke_token(engine: Engine, token_id: int, account: str | None = None, scope: Scope = Scope.ADMIN) -> None:
    """End a token and its sessions at once. Raises AccessError where the account has none of that number.

    account: whose it must be. scope: of who revokes; a wider one is out of reach.
    """
    with writing(engine) as session:
        row = session.get(TokenRow, token_id)
        if row is None or (account is not None and row.account != account) or not scope.allows(Scope(row.scope)):
            raise AccessError(f"there is no token {token_id} that you may revoke")
        _revoke(session, TokenRow.id == token_id)
        _revoke(session, TokenRow.parent_id == token_id)


def _revoke(session: Session, which: ColumnElement[bool]) -> None:
    session.execute(update(TokenRow).where(which, TokenRow.revoked_at.is_(None)).values(revoked_at=datetime.now(UTC)))


def _valid(now: Any) -> tuple[ColumnElement[bool], ...]:
    return TokenRow.revoked_at.is_(None), or_(TokenRow.expires_at.is_(None), TokenRow.expires_at > now)


_BEARER = select(TokenRow.id, TokenRow.account, TokenRow.scope, TokenRow.kind).where(
    TokenRow.sha256 == bindparam("sha256"),
    TokenRow.account != "",
    *_valid(bindparam("now", type_=TokenRow.expires_at.type)),
)
"""Written once: this is asked with every request."""


def _digest(secret: str) -> str:
    """Secrets have 256 random bits: a plain digest cannot be turned back."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _info(row: TokenRow) -> TokenInfo:
    return TokenInfo(row.id, row.account, row.label, Scope(row.scope), row.created_at, row.expires_at, row.revoked_at)
