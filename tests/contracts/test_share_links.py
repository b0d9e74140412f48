"""Contract of share links, over every database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from bln_search.core.enums import Scope
from bln_search.core.errors import ShareLinkLimitError, TokenManagementError
from bln_search.storage.engine import read_session, write_session
from bln_search.storage.share_links import MAX_LINKS
from bln_search.storage.tables import TokenRow
from bln_search.storage.tokens import TokenKind
from tests.contracts.queued_studies import study


@pytest.fixture
def studies(ledger):
    ledger.tokens.create_token("ada", Scope.WRITE)
    return [ledger.queue.submit_study(study(name), "ada").study_id for name in ("one", "two")]


def in_days(days):
    return datetime.now(UTC) + timedelta(days=days)


def test_link_reads_one_study_until_it_is_revoked(ledger, studies):
    secret, link = ledger.share_links.create_link(studies[0], "ada", "for bob", in_days(3))
    bearer = ledger.tokens.find_bearer(secret)
    assert (bearer.kind, bearer.scope, bearer.study_id) == (TokenKind.SHARE, Scope.READ, studies[0])
    assert (
        bearer.rate_limit_key
        != ledger.tokens.find_bearer(ledger.tokens.create_token("ada", Scope.READ)[0]).rate_limit_key
    )
    with pytest.raises(TokenManagementError):
        ledger.share_links.revoke(studies[1], link.id)
    ledger.share_links.revoke(studies[0], link.id)
    assert ledger.tokens.find_bearer(secret) is None
    assert ledger.tokens.filter_valid_token_ids([link.id]) == set()
    (listed,) = ledger.share_links.list_links(studies[0])
    assert listed.revoked_at is not None
    assert ledger.share_links.list_links(studies[1]) == []


def test_secret_of_a_link_is_not_stored(ledger, studies):
    secret, _ = ledger.share_links.create_link(studies[0], "ada", "", in_days(3))
    with read_session(ledger.database.engine) as session:
        rows = session.scalars(select(TokenRow)).all()
        values = [str(getattr(row, column.name)) for row in rows for column in TokenRow.__table__.columns]
    assert not any(secret.removeprefix("bln_") in value for value in values)


def test_expired_link_shows_nothing(ledger, studies):
    secret, _ = ledger.share_links.create_link(studies[0], "ada", "", in_days(-1))
    assert ledger.tokens.find_bearer(secret) is None


def test_links_are_not_listed_as_tokens_and_end_with_their_study(ledger, studies):
    secret, link = ledger.share_links.create_link(studies[0], "ada", "", in_days(3))
    assert link.id not in [token.id for token in ledger.tokens.list_tokens("ada")]
    ledger.studies.delete_and_list_unneeded_files(studies[0])
    assert ledger.tokens.find_bearer(secret) is None


def test_revoking_an_account_revokes_its_links(ledger, studies):
    secret, _ = ledger.share_links.create_link(studies[0], "ada", "", in_days(3))
    assert ledger.tokens.revoke_account_credentials("ada") == 1  # access tokens alone are counted
    assert ledger.tokens.find_bearer(secret) is None


def test_number_of_valid_links_is_limited(ledger, studies):
    links = [ledger.share_links.create_link(studies[0], "ada", "", in_days(3))[1] for _ in range(MAX_LINKS)]
    with pytest.raises(ShareLinkLimitError, match="revoke one"):
        ledger.share_links.create_link(studies[0], "ada", "", in_days(3))
    ledger.share_links.revoke(studies[0], links[0].id)
    ledger.share_links.create_link(studies[0], "ada", "", in_days(3))


def test_links_that_ended_long_ago_are_forgotten(ledger, studies):
    _, old = ledger.share_links.create_link(studies[0], "ada", "old", in_days(3))
    with write_session(ledger.database.engine) as session:
        session.execute(update(TokenRow).where(TokenRow.id == old.id).values(expires_at=in_days(-31)))
    ledger.share_links.create_link(studies[0], "ada", "new", in_days(3))
    assert [link.label for link in ledger.share_links.list_links(studies[0])] == ["new"]
