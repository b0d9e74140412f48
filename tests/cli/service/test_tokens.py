"""`bln-search token list` prints tokens without their secrets, of the database as of a service."""

from __future__ import annotations

from datetime import UTC

import pytest


@pytest.mark.parametrize("from_service", [False, True], ids=["database", "service"])
def test_tokens_are_records(from_service, world, in_every_format, service):
    printed = in_every_format("token", "list", *(service if from_service else ()))
    stored = world.ledger.tokens.list_tokens("ada" if from_service else None)
    assert [(record["id"], record["account"], record["scope"]) for record in printed.json] == [
        (token.id, token.account, token.scope) for token in stored
    ]
    assert printed.jsonl == printed.json
    assert [int(row["id"]) for row in printed.csv] == [token.id for token in stored]
    assert not any(secret in str(printed.json) for secret in world.secrets.values())


def test_expiry_and_revocation_are_told(world, invoke, records):
    created = invoke("token", "create", "--account", "ada", "--days", "3", "--label", "short")
    assert created.exit_code == 0
    newest = records("token", "list")[0]
    assert newest["label"] == "short"
    assert newest["expires_at"] is not None
    assert invoke("token", "revoke", newest["id"]).exit_code == 0
    assert records("token", "list")[0]["revoked_at"] is not None
    assert "revoked" in invoke("token", "list").stdout


@pytest.mark.parametrize("from_service", [False, True], ids=["database", "service"])
def test_all_tokens_of_an_account_are_revoked(from_service, world, invoke, service):
    revoked = invoke("token", "revoke", "--account", "ada", *(service if from_service else ()))
    assert revoked.exit_code == 0
    assert all(token.revoked_at for token in world.ledger.tokens.list_tokens("ada"))
    assert not any(token.revoked_at for token in world.ledger.tokens.list_tokens("bob"))


@pytest.mark.parametrize("words", [(), ("1", "--account", "ada")])
def test_revocation_needs_a_number_or_an_account(words, world, invoke):
    assert invoke("token", "revoke", *words).exit_code == 2
    assert not any(token.revoked_at for token in world.ledger.tokens.list_tokens(None))


def test_new_token_names_its_database_and_warns_if_it_is_new(home, invoke):
    first, second = (invoke("token", "create") for _ in range(2))
    assert [str(home) in created.stderr for created in (first, second)] == [True, True]
    assert ["warning: " in created.stderr for created in (first, second)] == [True, False]
    assert all(created.stdout.startswith("bln_") for created in (first, second))


@pytest.mark.parametrize("from_service", [False, True], ids=["database", "service"])
def test_times_of_the_table_are_utc_and_say_so(from_service, world, invoke, service):
    listed = invoke("token", "list", *(service if from_service else ()))
    assert "created_at (UTC)" in listed.stdout.splitlines()[0]
    newest = world.ledger.tokens.list_tokens("ada" if from_service else None)[0]
    assert f"{newest.created_at.astimezone(UTC):%Y-%m-%d %H:%M}" in listed.stdout
