"""An installation to back up, and a ledger to restore into."""

from __future__ import annotations

import pytest

from tests.contracts.backups.installation import Installation


@pytest.fixture
def installation(ledger, tmp_path):
    return Installation(ledger, tmp_path)


@pytest.fixture
def target_ledger(create_ledger, kind):
    """An empty database of the same kind."""
    return create_ledger(kind)
