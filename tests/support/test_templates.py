"""Ledgers of tests are copies of one that was migrated."""

from __future__ import annotations

import pytest

from bln_search.storage import migration
from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.support.templates import migrated_file


@pytest.mark.parametrize("make_file", [lambda path: None, lambda path: path.touch(0o600)])
def test_a_new_ledger_is_not_migrated(make_file, tmp_path, monkeypatch):
    migrated_file()
    monkeypatch.setattr(migration, "run_alembic_migrations", None)
    make_file(tmp_path / "ledger.sqlite3")
    ledger = open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    ledger.close()
    assert (tmp_path / "ledger.sqlite3").stat().st_mode & 0o777 == 0o600
