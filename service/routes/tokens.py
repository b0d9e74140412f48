"""Routes of access tokens and browser sessions."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Cookie, Path, Request, Response

from bln_search.core.enums import Scope
from bln_search.core.errors import StorageFullError
from bln_search.storage.ledger import Ledger
from bln_search.storage.tokens import Bearer, TokenInfo, TokenKind
from service.api_route import ApiRoute
from service.context import AppContext, ContextDep
from service.http.pagination import Cursor, Limit, cut_page, decode_cursor_to_page_request
from service.http.problems import ProblemException
from service.schemas.access import RevokedTokens, Session, SignIn, TokenCreate, TokenCreated, TokenOut, TokenRevocation
from service.schemas.base import ListPage
from service.security import (
    COOKIE,
    Reader,
    Writer,
    check_same_site,
    count_failed_login,
    is_sent_over_tls,
    make_unauthorized_problem,
    visible_owner_or_none_for_admin,
)

_log = logging.getLogger(__name__)
router = APIRouter(tags=["access"], route_class=ApiRoute)
_SORT = "-created"


@router.get("/tokens", operation_id="list_tokens")
def list_tokens(context: ContextDep, reader: Reader, limit: Limit = 50, cursor: Cursor = None) -> ListPage[TokenOut]:
    """Your tokens; for an admin, those of all accounts. Newest first, without their secrets."""
    page, following = read_token_page(context.ledger, visible_owner_or_none_for_admin(reader), limit, cursor)
    return ListPage(items=[TokenOut.model_validate(token) for token in page], next_cursor=following)


def read_token_page(
    ledger: Ledger, owner: str | None, limit: int, cursor: str | None
) -> tuple[list[TokenInfo], str | None]:
    """Return a page of tokens and the cursor of the next page; None on the last page."""
    list_query = {"list": "tokens", "owner": owner}
    page = decode_cursor_to_page_request(cursor, limit, _SORT, list_query)
    return cut_page(ledger.tokens.list_tokens(owner, page), page, list_query, lambda token: (token.id,))


@router.post("/tokens", status_code=201, operation_id="create_token")
def create_token(body: TokenCreate, context: ContextDep, writer: Writer) -> TokenCreated:
    """Create a token whose scope does not exceed yours. Only this response contains its secret."""
    if writer.kind is TokenKind.SESSION and writer.scope is not Scope.ADMIN:
        raise ProblemException(403, "scope", "a browser session cannot create tokens; use an access token")
    if not writer.scope.allows(body.scope):
        raise ProblemException(403, "scope", f"your token has the scope {writer.scope}, it cannot grant {body.scope}")
    account = body.account or writer.account
    if account != writer.account and writer.scope is not Scope.ADMIN:
        raise ProblemException(403, "scope", "only an admin can create tokens for other accounts")
    requested_expiry = None if body.days is None else datetime.now(UTC) + timedelta(days=body.days)
    creator_expiry = context.ledger.tokens.find_token_expiry(
        writer.token_id
    )  # a token does not outlive the one that created it
    expiry = min((limit for limit in (requested_expiry, creator_expiry) if limit is not None), default=None)
    secret, info = context.ledger.tokens.create_token(account, body.scope, body.label, expires_at=expiry)
    _log.info("token %d of %s with the scope %s is created by %s", info.id, account, body.scope, writer.account)
    return TokenCreated(**TokenOut.model_validate(info).model_dump(), secret=secret)


@router.delete("/tokens/{token_id:number}", status_code=204, operation_id="revoke_token")
def revoke_token(
    token_id: Annotated[int, Path(description="`id` of a token")], context: ContextDep, writer: Writer
) -> None:
    """Revoke a token and the browser sessions that were started with it."""
    if not 0 < token_id < 2**31:
        raise ProblemException(404, "not-found", f"there is no token {token_id}")
    context.ledger.tokens.revoke(token_id, visible_owner_or_none_for_admin(writer), writer.scope)
    _log.info("token %d is revoked by %s", token_id, writer.account)


@router.post("/tokens/revoke", operation_id="revoke_tokens")
def revoke_tokens(body: TokenRevocation, context: ContextDep, writer: Writer) -> RevokedTokens:
    """Revoke all tokens of an account and its browser sessions, the token of this request included.

    Tokens whose scope exceeds yours stay valid.
    """
    if body.account != writer.account and writer.scope is not Scope.ADMIN:
        raise ProblemException(403, "scope", "only an admin can revoke tokens of other accounts")
    revoked = context.ledger.tokens.revoke_account_credentials(body.account, writer.scope)
    _log.info("%d tokens of %s are revoked by %s", revoked, body.account, writer.account)
    return RevokedTokens(account=body.account, revoked=revoked)


@router.post("/session", operation_id="sign_in")
def sign_in(request: Request, body: SignIn, context: ContextDep, response: Response) -> Session:
    """Start a browser session. The response sets a cookie that scripts cannot read."""
    if "sec-fetch-site" in request.headers or "origin" in request.headers:
        check_same_site(request)
    bearer = context.ledger.tokens.find_bearer(body.token)
    if bearer is None or bearer.kind is not TokenKind.ACCESS:
        count_failed_login(request, context)
        raise make_unauthorized_problem("this token is unknown, revoked or expired")
    context.rate_limiter.count_request_and_check_limit(bearer.rate_limit_key)
    request.state.bearer = bearer
    lifetime = timedelta(hours=context.settings.session_hours)
    response.set_cookie(
        COOKIE,
        _create_session(context, bearer, lifetime),
        max_age=int(lifetime.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=is_sent_over_tls(request),
    )
    return Session(account=bearer.account, scope=bearer.scope)


def _create_session(context: AppContext, bearer: Bearer, lifetime: timedelta) -> str:
    """Return the secret of a new session. A full disk prevents writing, but pages can still be read."""
    try:
        return context.ledger.tokens.create_sign_in_session(bearer, lifetime)
    except StorageFullError:
        return context.sessions_in_memory.create(bearer, lifetime)


@router.get("/session", operation_id="get_session")
def get_session(reader: Reader) -> Session:
    """Your account and scope."""
    return Session(account=reader.account, scope=reader.scope)


@router.delete("/session", status_code=204, operation_id="sign_out")
def sign_out(
    context: ContextDep,
    reader: Reader,
    response: Response,
    secret: Annotated[str | None, Cookie(alias=COOKIE, max_length=200, include_in_schema=False)] = None,
) -> None:
    """End the browser session."""
    if reader.kind is TokenKind.SESSION and secret is not None and not context.sessions_in_memory.end(secret):
        stored = context.ledger.tokens.find_bearer(secret)  # the reader of a session in memory has the id of its token
        if stored is not None and stored.kind is TokenKind.SESSION:
            context.ledger.tokens.revoke(stored.token_id)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
