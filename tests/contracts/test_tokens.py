"""Contract of access tokens, over every database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from bln_search.core.enums import Scope
from bln_search.core.errors import TokenManagementError
from bln_search.storage.engine import read_session, write_session
from bln_search.storage.pagination import PageRequest
from bln_search.storage.tables import AccountRow, TokenRow
from bln_search.storage.tokens import TokenKind


def test_tokens_are_paged_newest_first(ledger):
    tokens = [ledger.tokens.create_token("ada" if number % 3 else "bob", Scope.READ)[1] for number in range(9)]
    ledger.tokens.create_sign_in_session(
        ledger.tokens.find_bearer(ledger.tokens.create_token("cyd", Scope.READ)[0]), timedelta(hours=1)
    )
    ada = [token.id for token in tokens if token.account == "ada"][::-1]
    assert [token.id for token in ledger.tokens.list_tokens("ada")] == ada
    first = [token.id for token in ledger.tokens.list_tokens("ada", PageRequest(4, "-created"))]
    assert first == ada[:5]  # one more tells that there are more
    assert [token.id for token in ledger.tokens.list_tokens("ada", PageRequest(4, "-created", (first[3],)))] == ada[4:]
    assert [token.account for token in ledger.tokens.list_tokens(None, PageRequest(2, "-created"))] == [
        "cyd",
        "ada",
        "ada",
    ]


def test_token_authenticates_and_is_not_stored(ledger):
    secret, info = ledger.tokens.create_token("ada", Scope.WRITE, "laptop")
    bearer = ledger.tokens.find_bearer(secret)
    assert (bearer.account, bearer.scope, bearer.kind) == ("ada", Scope.WRITE, TokenKind.ACCESS)
    assert info.label == "laptop"
    with read_session(ledger.database.engine) as session:
        row = session.scalars(select(TokenRow)).one()
        values = [str(getattr(row, column.name)) for column in TokenRow.__table__.columns]
    assert not any(secret in value or secret.removeprefix("bln_") in value for value in values)


@pytest.mark.parametrize("secret", ["", "bln_", "x", "\x00", "\ud800", "' OR 1=1 --", "a" * 10_000])
def test_invalid_secret_authenticates_nobody(ledger, secret):
    ledger.tokens.create_token("ada", Scope.ADMIN)
    assert ledger.tokens.find_bearer(secret) is None


def test_revoking_a_token_ends_its_sessions(ledger):
    secret, info = ledger.tokens.create_token("ada", Scope.WRITE)
    session = ledger.tokens.create_sign_in_session(ledger.tokens.find_bearer(secret), timedelta(hours=1))
    assert ledger.tokens.find_bearer(session).kind is TokenKind.SESSION
    with pytest.raises(TokenManagementError):
        ledger.tokens.revoke(info.id, "bob")
    ledger.tokens.revoke(info.id, "ada")
    assert ledger.tokens.find_bearer(secret) is None
    assert ledger.tokens.find_bearer(session) is None
    (token,) = ledger.tokens.list_tokens("ada")
    assert token.revoked_at is not None


def test_expired_token_and_its_sessions_are_invalid(ledger):
    expiry = datetime.now(UTC) + timedelta(seconds=30)
    secret, _ = ledger.tokens.create_token("ada", Scope.READ, expires_at=expiry)
    session = ledger.tokens.create_sign_in_session(ledger.tokens.find_bearer(secret), timedelta(hours=1))
    with read_session(ledger.database.engine) as reader:
        ends = reader.scalars(select(TokenRow.expires_at)).all()
    assert max(ends) == expiry
    assert ledger.tokens.find_bearer(session) is not None
    past, _ = ledger.tokens.create_token("ada", Scope.READ, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert ledger.tokens.find_bearer(past) is None


def test_first_token_is_created_once(ledger):
    secret = ledger.tokens.create_first_token("admin")
    assert ledger.tokens.find_bearer(secret).scope is Scope.ADMIN
    assert ledger.tokens.create_first_token("admin") is None
    ledger.tokens.revoke(1)
    assert ledger.tokens.create_first_token("admin") is None  # a revoked one is no reason to let somebody in


@pytest.mark.parametrize("account", ["", " ", "Ada Lovelace", "-ada", "a" * 65, "ada\n"])
def test_invalid_account_names_are_rejected(ledger, account):
    """Also the empty name, which owns the studies of commands."""
    with pytest.raises(TokenManagementError, match="is not a valid account name"):
        ledger.tokens.create_token(account, Scope.WRITE)
    assert ledger.tokens.list_tokens(None) == []


def test_earlier_token_without_account_is_invalid(ledger):
    secret, _ = ledger.tokens.create_token("ada", Scope.WRITE)
    with write_session(ledger.database.engine) as session:
        session.add(AccountRow(name="", created_at=datetime.now(UTC)))
        session.flush()
        session.execute(update(TokenRow).values(account=""))
    assert ledger.tokens.find_bearer(secret) is None
