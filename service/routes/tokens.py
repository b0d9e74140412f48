"""Tokens and browser sessions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from sqlalchemy import Engine

from bln_search.core.enums import Scope
from bln_search.storage.access import (
    TokenInfo,
    TokenKind,
    create_token,
    expiry,
    find_bearer,
    revoke_token,
    start_session,
    tokens,
)
from service.context import Here
from service.paging import Cursor, Limit, cursor_after, read_page
from service.problems import RefusedError
from service.schemas import ListPage, NewToken, Session, SignIn, TokenOut, TokenWish
from service.security import COOKIE, Reader, Writer, check_same_site, visible_owner

router = APIRouter(tags=["access"])
_SORT = "-created"


@router.get("/tokens", operation_id="list_tokens")
def listed(context: Here, reader: Reader, limit: Limit = 50, cursor: Cursor = None) -> ListPage[TokenOut]:
    """Your tokens, or, for an admin, everybody's, newest first; never their secrets."""
    found, following = token_page(context.engine, visible_owner(reader), limit, cursor)
    return ListPage(items=[TokenOut.model_validate(one) for one in found], next_cursor=following)


def token_page(engine: Engine, owner: str | None, limit: int, cursor: str | None) -> tuple[list[TokenInfo], str | None]:
    """A page of tokens, and the cursor of the next one; None where there is none."""
    about = {"list": "tokens", "owner": owner}
    found = tokens(engine, owner, read_page(cursor, limit, _SORT, about))
    more = len(found) > limit
    return found[:limit], cursor_after((found[limit - 1].id,), _SORT, about) if more else None


@router.post("/tokens", status_code=201, operation_id="create_token")
def create(wish: TokenWish, context: Here, writer: Writer) -> NewToken:
    """A new token, with no wider a scope than yours. Its secret is in this answer and nowhere else."""
    if writer.kind is TokenKind.SESSION and writer.scope is not Scope.ADMIN:
        raise RefusedError(403, "scope", "a browser session makes no tokens, use an access token")
    if not writer.scope.allows(wish.scope):
        raise RefusedError(403, "scope", f"your token has the scope {writer.scope}, it cannot give {wish.scope}")
    account = wish.account or writer.account
    if account != writer.account and writer.scope is not Scope.ADMIN:
        raise RefusedError(403, "scope", "only an admin makes tokens for others")
    ends = None if wish.days is None else datetime.now(UTC) + timedelta(days=wish.days)
    own = expiry(context.engine, writer.token_id)  # none outlives the one that made it
    expires = min((one for one in (ends, own) if one is not None), default=None)
    secret, info = create_token(context.engine, account, wish.scope, wish.label, expires_at=expires)
    return NewToken(**TokenOut.model_validate(info).model_dump(), secret=secret)


@router.delete("/tokens/{token_id:number}", status_code=204, operation_id="revoke_token")
def revoke(token_id: Annotated[int, Path(description="`id` of a token")], context: Here, writer: Writer) -> None:
    """End a token, and the browser sessions that came from it, at once."""
    if not 0 < token_id < 2**31:
        raise RefusedError(404, "not-found", f"there is no token {token_id}")
    revoke_token(context.engine, token_id, visible_owner(writer), writer.scope)


@router.post("/session", operation_id="sign_in")
def sign_in(request: Request, wish: SignIn, context: Here, response: Response) -> Session:
    """Sign a browser in: it gets a cookie that no script can read."""
    caller = request.client.host if request.client else "unknown"
    if "sec-fetch-site" in request.headers or "origin" in request.headers:
        check_same_site(request)
    bearer = find_bearer(context.engine, wish.token)
    if bearer is None or bearer.kind is not TokenKind.ACCESS:
        context.rates.count(f"wrong {caller}", 60)
        raise RefusedError(
            401, "no-token", "this token is unknown, revoked or expired", headers={"WWW-Authenticate": "Bearer"}
        )
    context.rates.count(f"account {bearer.account}")
    lasting = timedelta(hours=context.settings.session_hours)
    response.set_cookie(
        COOKIE,
        start_session(context.engine, bearer, lasting),
        max_age=int(lasting.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://"),
    )
    return Session(account=bearer.account, scope=bearer.scope)


@router.get("/session", operation_id="get_session")
def who(reader: Reader) -> Session:
    """Who you are, and what you may do."""
    return Session(account=reader.account, scope=reader.scope)


@router.delete("/session", status_code=204, operation_id="sign_out")
def sign_out(context: Here, reader: Reader, response: Response) -> None:
    """End the session of this browser."""
    if reader.kind is TokenKind.SESSION:
        revoke_token(context.engine, reader.token_id)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
