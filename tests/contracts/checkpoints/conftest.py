"""A checkpoint store, and a ledger whose clock is two days ahead of it."""

from __future__ import annotations

import secrets

import pytest

from bln_search.core.checkpoints import FolderStore, open_checkpoint_store
from bln_search.storage.ledger import Ledger
from tests.contracts.checkpoints.stored_networks import DAY, ClockAhead


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.slow)])
def store(request, tmp_path):
    if request.param == "s3":
        request.getfixturevalue("buckets")
        return open_checkpoint_store(f"s3://kept/{secrets.token_hex(8)}")
    return FolderStore(tmp_path / "kept")


@pytest.fixture
def later_ledger(ledger):
    """The ledger two days later."""
    return Ledger(ledger.database.engine, ClockAhead(2 * DAY))
