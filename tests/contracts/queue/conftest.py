"""A ledger whose queue serves three accounts."""

from __future__ import annotations

import pytest

from bln_search.core.enums import Scope


@pytest.fixture
def ledger(ledger):
    for account in ("ada", "bob", "cyd"):
        ledger.tokens.create_token(account, Scope.WRITE)
    return ledger
