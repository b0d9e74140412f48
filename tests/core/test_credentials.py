"""Tokens as people paste them, and texts from which secrets are removed."""

from __future__ import annotations

import pytest

from bln_search.core.credentials import clean_token, redact_secrets
from bln_search.storage.tokens import generate_secret

TOKEN = "bln_AbCdEf-0123456789_xyzABC"


@pytest.mark.parametrize(
    "around", ["{}\n", "{}\r\n", "\t{} ", "\ufeff{}", "{}\x0b", "\xa0{}\u200b", "\u2028{}\x85", "  {}  \n\n"]
)
def test_white_space_around_a_token_is_removed(around):
    assert clean_token(around.format(TOKEN)) == TOKEN


@pytest.mark.parametrize(
    "text", ["", "\n", f"{TOKEN}\n{TOKEN}", f'"{TOKEN}"', f"'{TOKEN}'", f"Bearer {TOKEN}", f"{TOKEN}é", f"{TOKEN}\x00x"]
)
def test_another_character_is_refused_without_showing_the_token(text):
    with pytest.raises(ValueError, match=r"empty|character") as error:
        clean_token(text)
    assert TOKEN not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql+psycopg://ada:hush@host/name cannot be used",
        "http://ada:hu/sh@host:3128 and http://bob:hush@other",
        "https://hush@host/x",
        "postgresql+psycopg://host/name?user=ada&password=hush&sslmode=off",
        "s3://bucket/x?secret_key=hush",
        "Illegal header value b'Bearer hushhushhushhush'",
        "basic aHVzaDpodXNo+hushhush/hush==",
        "authorization: Basic hush",
        "authorization: Basic ...hush",
        "authorization: Bearer ...`hush`",
        "authorization: Bearer ....hush",
        "{'Authorization': 'Bearer hush'}",
        'proxy-authorization="basic hush"',
        f"got bln_{'hush' * 11} of ada",
    ],
)
def test_secrets_are_removed_from_a_text(text):
    assert "hush" not in redact_secrets(text)
    assert "hu/sh" not in redact_secrets(text)


def test_every_generated_secret_is_removed_from_a_text():
    for _ in range(100):
        assert redact_secrets(f"({generate_secret()})") == "(bln_(secret))"


@pytest.mark.parametrize("part", ["://a:", "?key", "#token", "bearer ", "https://", "authorization:", "@"])
@pytest.mark.timeout(20)
def test_time_grows_with_the_length_of_a_text(part):
    """A quadratic pattern would need minutes for the text of a client."""
    assert redact_secrets(part * 100_000) == part * 100_000


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:////srv/a/ledger.sqlite3",
        "http://127.0.0.1:8000 cannot be reached",
        "bln_search is a package",
        "the database bln_search_production does not exist",
        "/srv/bln_search_own_networks_of_ada/net.py has changed",
        "a basic word, and Basic networks",
        "the bearer token is missing",
        "this needs a token: `Authorization: Bearer ...`; give one with --token",
        "write 'Authorization: Bearer ...', or (authorization: basic …).",
        "Authorization: Bearer ...",
    ],
)
def test_a_text_without_a_secret_is_unchanged(text):
    assert redact_secrets(text) == text
