"""Who looks at a page."""

from __future__ import annotations

from typing import Any

from bln_search.core.enums import Scope
from bln_search.storage.access import Bearer


def visitor_of(bearer: Bearer) -> dict[str, Any]:
    """What templates know of who looks."""
    return {
        "account": bearer.account,
        "scope": bearer.scope.value,
        "writes": bearer.scope.allows(Scope.WRITE),
        "admin": bearer.scope is Scope.ADMIN,
    }
