"""The signed-in user as templates see it."""

from __future__ import annotations

from typing import Any

from bln_search.core.enums import Scope
from bln_search.storage.tokens import Bearer


def viewer_context(bearer: Bearer) -> dict[str, Any]:
    """Return the template variable `viewer`."""
    return {
        "account": bearer.account,
        "scope": bearer.scope.value,
        "writes": bearer.scope.allows(Scope.WRITE),
        "admin": bearer.scope is Scope.ADMIN,
        "shared": False,
    }
