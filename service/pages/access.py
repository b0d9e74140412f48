"""Pages of sign-in, tokens and settings."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Cookie, Request
from fastapi.responses import HTMLResponse

from bln_search.core.enums import Scope
from bln_search.core.urls import redact_password
from bln_search.settings import SECRETS
from bln_search.storage.tokens import TokenKind
from service.context import ContextDep, find_bearer
from service.http.pagination import Cursor
from service.pages.rendering.templates import make_viewer_variables, render_page_response
from service.routes.tokens import read_token_page
from service.security import COOKIE, Admin, Reader, count_failed_login, visible_owner_or_none_for_admin

router = APIRouter(include_in_schema=False)
_PAGE_SIZE = 25


@router.get("/")
async def sign_in_page(request: Request) -> HTMLResponse:
    """The target of the link of the first start: a script exchanges its token for a cookie and redirects."""
    return render_page_response(request, "sign_in.html", viewer=None)


@router.get("/signed-in")
def has_valid_session(
    request: Request, context: ContextDep, secret: Annotated[str | None, Cookie(alias=COOKIE, max_length=200)] = None
) -> bool:
    """Whether this browser has a valid session."""
    bearer = None if secret is None else find_bearer(context, secret)
    is_valid = bearer is not None and bearer.kind is TokenKind.SESSION
    if secret is not None and not is_valid:
        count_failed_login(request, context)
    return is_valid


@router.get("/tokens")
def tokens_page(request: Request, context: ContextDep, reader: Reader, cursor: Cursor = None) -> HTMLResponse:
    """A page of your tokens; for an admin, of all accounts. Newest first."""
    now = datetime.now(UTC)
    tokens, next_cursor = read_token_page(context.ledger, visible_owner_or_none_for_admin(reader), _PAGE_SIZE, cursor)
    return render_page_response(
        request,
        "tokens.html",
        viewer=make_viewer_variables(reader),
        tokens=[
            (token, token.revoked_at is None and (token.expires_at is None or token.expires_at > now))
            for token in tokens
        ],
        can_create_tokens=reader.scope is Scope.ADMIN
        or (reader.kind is TokenKind.ACCESS and reader.scope.allows(Scope.WRITE)),
        scopes=[scope.value for scope in Scope if reader.scope.allows(scope)],
        is_first_page=cursor is None,
        next_cursor=next_cursor,
    )


def _format_as_environment_value(value: object) -> str:
    """Return a value as the environment variable would hold it."""
    if value is None:
        return "not set"
    if isinstance(value, str):
        return redact_password(value)
    if isinstance(value, tuple | list | dict | bool):
        return json.dumps(value)
    return str(value)


@router.get("/settings")
def settings_page(request: Request, context: ContextDep, admin: Admin) -> HTMLResponse:
    """The settings of this service and its workers. For admins."""
    rows = []
    for name, field in type(context.settings).model_fields.items():
        value = getattr(context.settings, name)
        is_secret = name in SECRETS and value is not None
        text = "set, not shown" if is_secret else _format_as_environment_value(value)
        rows.append((f"BLN_SEARCH_{name.upper()}", text, field.description))
    return render_page_response(
        request,
        "settings.html",
        viewer=make_viewer_variables(admin),
        settings=rows,
        workers=context.ledger.workers.list_live_workers(),
        revision=context.ledger.find_schema_revision(),
    )
