"""An installation to back up, and a ledger to restore into."""

from __future__ import annotations

import pytest

from tests.contracts.backups.installation import Installation


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def kind(request):
    """Which database; the queries of a backup are those of the ledger, whose contracts run over both in `make test`."""
    return request.param


@pytest.fixture
def installation(ledger, tmp_path):
    return Installation(ledger, tmp_path)


@pytest.fixture
def target_ledger(create_ledger, kind):
    """An empty database of the same kind."""
    return create_ledger(kind)
