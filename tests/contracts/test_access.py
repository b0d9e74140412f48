"""What tokens promise, over every database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from bln_search.core.enums import Scope
from bln_search.core.errors import AccessError
from bln_search.storage.access import (
    TokenKind,
    create_first_token,
    create_token,
    find_bearer,
    revoke_token,
    start_session,
    tokens,
)
from bln_search.storage.browse import Page
from bln_search.storage.engine import reading, writing
from bln_search.storage.tables import AccountRow, TokenRow


def test_tokens_are_listed_newest_first_a_page_at_a_time(ledger):
    made = [create_token(ledger.engine, "ada" if number % 3 else "bob", Scope.READ)[1] for number in range(9)]
    start_session(
        ledger.engine, find_bearer(ledger.engine, create_token(ledger.engine, "cyd", Scope.READ)[0]), timedelta(hours=1)
    )
    ada = [one.id for one in made if one.account == "ada"][::-1]
    assert [one.id for one in tokens(ledger.engine, "ada")] == ada
    first = [one.id for one in tokens(ledger.engine, "ada", Page(4, "-created"))]
    assert first == ada[:5]  # one more tells that there are more
    assert [one.id for one in tokens(ledger.engine, "ada", Page(4, "-created", (first[3],)))] == ada[4:]
    assert [one.account for one in tokens(ledger.engine, None, Page(2, "-created"))] == ["cyd", "ada", "ada"]


def test_a_token_lets_its_owner_in_and_is_not_kept(ledger):
    secret, info = create_token(ledger.engine, "ada", Scope.WRITE, "laptop")
    bearer = find_bearer(ledger.engine, secret)
    assert (bearer.account, bearer.scope, bearer.kind) == ("ada", Scope.WRITE, TokenKind.ACCESS)
    assert info.label == "laptop"
    with reading(ledger.engine) as session:
        row = session.scalars(select(TokenRow)).one()
        kept = [str(getattr(row, column.name)) for column in TokenRow.__table__.columns]
    assert not any(secret in one or secret.removeprefix("bln_") in one for one in kept)


@pytest.mark.parametrize("secret", ["", "bln_", "x", "\x00", "\ud800", "' OR 1=1 --", "a" * 10_000])
def test_what_is_no_token_lets_nobody_in(ledger, secret):
    create_token(ledger.engine, "ada", Scope.ADMIN)
    assert find_bearer(ledger.engine, secret) is None


def test_a_revoked_token_and_its_sessions_end_at_once(ledger):
    secret, info = create_token(ledger.engine, "ada", Scope.WRITE)
    session = start_session(ledger.engine, find_bearer(ledger.engine, secret), timedelta(hours=1))
    assert find_bearer(ledger.engine, session).kind is TokenKind.SESSION
    with pytest.raises(AccessError):
        revoke_token(ledger.engine, info.id, "bob")
    revoke_token(ledger.engine, info.id, "ada")
    assert find_bearer(ledger.engine, secret) is None
    assert find_bearer(ledger.engine, session) is None
    (listed,) = tokens(ledger.engine, "ada")
    assert listed.revoked_at is not None


def test_an_expired_token_ends_and_no_session_outlives_it(ledger):
    soon = datetime.now(UTC) + timedelta(seconds=30)
    secret, _ = create_token(ledger.engine, "ada", Scope.READ, expires_at=soon)
    session = start_session(ledger.engine, find_bearer(ledger.engine, secret), timedelta(hours=1))
    with reading(ledger.engine) as reader:
        ends = reader.scalars(select(TokenRow.expires_at)).all()
    assert max(ends) == soon
    assert find_bearer(ledger.engine, session) is not None
    past, _ = create_token(ledger.engine, "ada", Scope.READ, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert find_bearer(ledger.engine, past) is None


def test_the_first_token_is_made_once(ledger):
    secret = create_first_token(ledger.engine, "admin")
    assert find_bearer(ledger.engine, secret).scope is Scope.ADMIN
    assert create_first_token(ledger.engine, "admin") is None
    revoke_token(ledger.engine, 1)
    assert create_first_token(ledger.engine, "admin") is None  # a revoked one is no reason to let somebody in


@pytest.mark.parametrize("account", ["", " ", "Ada Lovelace", "-ada", "a" * 65, "ada\n"])
def test_nobody_has_the_name_of_the_studies_of_commands_nor_one_the_service_refuses(ledger, account):
    with pytest.raises(AccessError, match="is no name of an account"):
        create_token(ledger.engine, account, Scope.WRITE)
    assert tokens(ledger.engine, None) == []


def test_a_token_without_an_account_that_was_made_before_opens_nothing(ledger):
    secret, _ = create_token(ledger.engine, "ada", Scope.WRITE)
    with writing(ledger.engine) as session:
        session.add(AccountRow(name="", created_at=datetime.now(UTC)))
        session.flush()
        session.execute(update(TokenRow).values(account=""))
    assert find_bearer(ledger.engine, secret) is None
