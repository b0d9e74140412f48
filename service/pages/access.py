"""Sign-in, tokens, settings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Cookie, Request
from fastapi.responses import HTMLResponse

from bln_search.core.enums import Scope
from bln_search.core.urls import without_password
from bln_search.settings import SECRETS
from bln_search.storage.access import TokenKind, find_bearer
from bln_search.storage.browse import workers_seen
from bln_search.storage.migration import present_revision
from service.context import Here
from service.pages.render import page
from service.pages.viewer import visitor_of
from service.paging import Cursor
from service.routes.tokens import token_page
from service.security import COOKIE, Admin, Reader, count_wrong, visible_owner

router = APIRouter(include_in_schema=False)
_ROWS = 25


@router.get("/")
async def front(request: Request) -> HTMLResponse:
    """Where the link of the first start leads: a script exchanges its token for a cookie, and goes on."""
    return page(request, "sign_in.html", visitor=None)


@router.get("/signed-in")
def signed_in(
    request: Request, context: Here, secret: Annotated[str | None, Cookie(alias=COOKIE, max_length=200)] = None
) -> bool:
    """Whether this browser has a session that holds."""
    known = secret is not None and find_bearer(context.engine, secret) is not None
    if secret is not None and not known:
        count_wrong(request, context)
    return known


@router.get("/tokens")
def token_list(request: Request, context: Here, reader: Reader, cursor: Cursor = None) -> HTMLResponse:
    """Your tokens, or, for an admin, everybody's: a page of them, newest first."""
    now = datetime.now(UTC)
    found, following = token_page(context.engine, visible_owner(reader), _ROWS, cursor)
    return page(
        request,
        "tokens.html",
        visitor=visitor_of(reader),
        tokens=[(one, one.revoked_at is None and (one.expires_at is None or one.expires_at > now)) for one in found],
        makes=reader.scope is Scope.ADMIN or (reader.kind is TokenKind.ACCESS and reader.scope.allows(Scope.WRITE)),
        scopes=[one.value for one in Scope if reader.scope.allows(one)],
        first=cursor is None,
        following=following,
    )


@router.get("/settings")
def settings(request: Request, context: Here, admin: Admin) -> HTMLResponse:
    """How this service is set up, and who works for it. For admins."""
    shown = []
    for name, field in type(context.settings).model_fields.items():
        value = getattr(context.settings, name)
        secret = name in SECRETS and value is not None
        word = "set, not shown" if secret else without_password(value) if isinstance(value, str) else value
        shown.append((f"BLN_SEARCH_{name.upper()}", word, field.description))
    return page(
        request,
        "settings.html",
        visitor=visitor_of(admin),
        settings=shown,
        workers=workers_seen(context.engine, context.ledger.clock()),
        revision=present_revision(context.engine),
    )
