"""The signed-in user as templates see it."""

from __future__ import annotations

from typing import Any

from bln_search.core.enums import Scope
from bln_search.storage.tokens import Bearer, TokenKind


def make_viewer_variables(bearer: Bearer) -> dict[str, Any]:
    """Return the template variable `viewer`."""
    shared = bearer.kind is TokenKind.SHARE
    return {
        "account": "shared link" if shared else bearer.account,
        "scope": bearer.scope.value,
        "writes": not shared and bearer.scope.allows(Scope.WRITE),
        "admin": bearer.scope is Scope.ADMIN,
        "shared": shared,
        "home": f"/studies/{bearer.study_id}" if shared else "/studies",
    }
