"""Errors of databases that cannot be used."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text

from bln_search.core.errors import LedgerError, StorageFullError
from bln_search.storage.engine import make_engine, write_session
from bln_search.storage.ledger import open_and_upgrade_ledger


@pytest.mark.parametrize(
    ("make_url", "message"),
    [
        (lambda folder: "no url", "is not a database URL; write sqlite:///"),
        (lambda folder: "foo://x", "is not a database URL; write sqlite:///"),
        (lambda folder: "mysql://x/y", "the database mysql needs a driver that .*; write sqlite:///"),
        (lambda folder: f"sqlite:///{folder}", "cannot be used: unable to open database file"),
        (lambda folder: f"sqlite:///{folder}/file/db.sqlite3", "folder .* cannot be created"),
        (lambda folder: f"sqlite:///{folder}/file", "is not a database of bln-search"),
    ],
)
def test_invalid_url_raises_ledger_error(tmp_path, make_url, message):
    (tmp_path / "file").write_text("this is not a database, but it is longer than a header " * 10)
    with pytest.raises(LedgerError, match=message):
        open_and_upgrade_ledger(make_url(tmp_path))


def test_postgres_has_timeouts_that_the_url_overrides(monkeypatch):
    engine_options = []
    monkeypatch.setattr(
        "bln_search.storage.engine.create_engine",
        lambda _url, **options: engine_options.append(options) or create_engine(_url),
    )
    make_engine("postgresql+psycopg://host/name")
    make_engine("postgresql+psycopg://host/name?connect_timeout=99")
    assert engine_options[0]["connect_args"] == {
        "connect_timeout": 10,
        "tcp_user_timeout": 30_000,
        "client_encoding": "utf8",
        "prepare_threshold": None,
    }
    assert engine_options[1]["connect_args"] == {
        "tcp_user_timeout": 30_000,
        "client_encoding": "utf8",
        "prepare_threshold": None,
    }


def test_full_database_rolls_back_the_transaction(tmp_path):
    engine = make_engine(f"sqlite:///{tmp_path / 'small.sqlite3'}")
    with write_session(engine) as session:
        session.execute(text("CREATE TABLE t (x BLOB)"))
        session.execute(text("INSERT INTO t VALUES (1)"))
    with pytest.raises(StorageFullError, match="no disk space left"), write_session(engine) as session:
        session.execute(text("PRAGMA max_page_count = 10"))
        session.execute(text("INSERT INTO t VALUES (zeroblob(1000000))"))
    with write_session(engine) as session:
        assert session.execute(text("SELECT count(*) FROM t")).scalar() == 1
    engine.dispose()
