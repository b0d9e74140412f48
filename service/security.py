"""Authentication and authorization of requests."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Cookie, Depends, Path, Request
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from bln_search.core.enums import Scope
from bln_search.core.states import StudyState
from bln_search.storage.studies.lookup import StudyHeader
from bln_search.storage.tokens import Bearer, TokenKind
from service.context import AppContext, ContextDep, find_bearer
from service.http.problems import ProblemException

COOKIE = "bln_search_session"
SHARE_COOKIE = "bln_search_share"
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_FAILED_LOGIN_WEIGHT = 60
"""Number of requests that a wrong token counts as, so that guessing is slow."""

StudyId = Annotated[int, Path(description="`id` of a study")]
_bearer_token = HTTPBearer(
    auto_error=False, scheme_name="token", description="an access token: `bln-search token create`"
)
_session = APIKeyCookie(name=COOKIE, auto_error=False, scheme_name="session", description="a browser that signed in")


def authenticate_account(
    request: Request,
    context: ContextDep,
    header: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer_token)],
    cookie: Annotated[str | None, Depends(_session)],
) -> Bearer:
    """Return the bearer of the request's token or session.

    Raises:
        ProblemException: 401 without a valid token, 403 if a page of another site made the browser send the request or
            for a share link.
    """
    bearer = _get_bearer(request, context, header, cookie)
    if bearer.kind is TokenKind.SHARE:
        raise ProblemException(403, "scope", "this link shows one study and nothing else")
    return bearer


def _get_bearer(
    request: Request, context: AppContext, header: HTTPAuthorizationCredentials | None, cookie: str | None
) -> Bearer:
    """Return the bearer of the request's token or session; a token may be that of a share link."""
    known = getattr(request.state, "bearer", None)
    if isinstance(known, Bearer):
        return known
    secret = header.credentials if header is not None else cookie
    if not secret:
        raise make_unauthorized_problem("this needs an access token: `Authorization: Bearer ...`")
    bearer = find_bearer(context, secret)
    if bearer is None or (bearer.kind is TokenKind.SESSION) != (header is None):
        count_failed_login(request, context)
        raise make_unauthorized_problem("this token is unknown, revoked or expired")
    context.rate_limiter.count_request_and_check_limit(bearer.rate_limit_key)
    if header is None and request.method not in _SAFE_METHODS:
        check_same_site(request)
    request.state.bearer = bearer
    return bearer


def authenticate_study_reader(
    request: Request,
    study_id: StudyId,
    context: ContextDep,
    header: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer_token)],
    cookie: Annotated[str | None, Depends(_session)],
    share: Annotated[str | None, Cookie(alias=SHARE_COOKIE, max_length=200, include_in_schema=False)] = None,
) -> Bearer:
    """Return the bearer who reads a study: an account, or a share link where no account may read the study.

    Raises:
        ProblemException: The problems of `authenticate_account`; 410 if the share link has ended.
    """
    if share is None:
        return _get_bearer(request, context, header, cookie)
    if header is not None or cookie is not None:
        try:
            bearer = _get_bearer(request, context, header, cookie)
        except ProblemException as problem:
            if problem.status != 401:
                raise
        else:
            if _find_readable_study_header(context, study_id, bearer) is not None:
                return bearer
    bearer = authenticate_share_link(request, context, share)
    request.state.bearer = bearer
    return bearer


def authenticate_share_link(request: Request, context: AppContext, secret: str) -> Bearer:
    """Return the bearer of a share link. Raises ProblemException: 410 if it has ended."""
    bearer = context.ledger.tokens.find_bearer(secret)
    if bearer is None or bearer.kind is not TokenKind.SHARE:
        count_failed_login(request, context)
        raise ProblemException(410, "share-ended", "this link has expired, was revoked, or is incomplete")
    context.rate_limiter.count_request_and_check_limit(bearer.rate_limit_key)
    return bearer


def _find_readable_study_header(context: AppContext, study_id: int, bearer: Bearer) -> StudyHeader | None:
    """Return the header of a study that the bearer may read; None if there is no such study."""
    header = context.ledger.studies.find_header(study_id) if 0 < study_id < 2**31 else None
    if header is None or bearer.kind is TokenKind.SHARE:
        return header if bearer.study_id == study_id else None
    owner = visible_owner_or_none_for_admin(bearer)
    return header if owner is None or header.owner == owner else None


async def check_request_token(request: Request) -> None:
    """Check the token before the dependencies of a route do. Raises the problems of `authenticate_account`."""
    header, cookie = await _bearer_token(request), await _session(request)
    await run_in_threadpool(authenticate_account, request, request.app.state.context, header, cookie)


def count_failed_login(request: Request, context: AppContext) -> None:
    """Count a wrong token. Raises ProblemException (429) after a few, so that guessing is slow."""
    client = request.client.host if request.client else "unknown"
    context.rate_limiter.count_request_and_check_limit(f"wrong {client}", _FAILED_LOGIN_WEIGHT)


def make_unauthorized_problem(detail: str) -> ProblemException:
    """Return the problem (401) of a request without a valid token."""
    return ProblemException(401, "no-token", detail, headers={"WWW-Authenticate": "Bearer"})


def check_same_site(request: Request) -> None:
    """Raise ProblemException (403) if a page of another site sent the request."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        is_same_site = site in ("same-origin", "none")
    else:
        is_same_site = origin is not None and urlsplit(origin).netloc == request.headers.get("host")
    if not is_same_site:
        raise ProblemException(403, "other-site", "a page of another site sent this request; nothing was done")


def is_sent_over_tls(request: Request) -> bool:
    """Whether a browser sent the request over TLS, to this service or to a proxy; its cookies need TLS, too.

    A sender who claims it without TLS only loses its own cookie.
    """
    proxied = request.headers.get("x-forwarded-proto", "").split(",")[0].strip().lower()
    is_from_secure_page = request.headers.get("origin", "").startswith("https://")
    return "https" in (request.url.scheme, proxied) or is_from_secure_page


Reader = Annotated[Bearer, Depends(authenticate_account)]


def _make_scope_dependency(scope: Scope) -> object:
    async def check(bearer: Reader) -> Bearer:
        if not bearer.scope.allows(scope):
            raise ProblemException(403, "scope", f"this needs a token with the scope {scope}, yours has {bearer.scope}")
        return bearer

    return Depends(check)


Writer = Annotated[Bearer, _make_scope_dependency(Scope.WRITE)]
Admin = Annotated[Bearer, _make_scope_dependency(Scope.ADMIN)]


def visible_owner_or_none_for_admin(bearer: Bearer) -> str | None:
    """Return the account whose studies the bearer may see; None for an admin, who sees all."""
    return None if bearer.scope is Scope.ADMIN else bearer.account


class StudyAccess:
    """A study that the bearer may read: id, name, owner, revision, state, and number of trials with a result."""

    def __init__(
        self, study_id: StudyId, context: ContextDep, bearer: Annotated[Bearer, Depends(authenticate_study_reader)]
    ) -> None:
        header = _find_readable_study_header(context, study_id, bearer)
        if header is None:
            raise ProblemException(404, "not-found", f"there is no study {study_id}")
        self.id = study_id
        self.bearer = bearer
        self.owner, self.revision, self.results = header.owner, header.revision, header.results
        self.state, self.name = header.state, header.name

    @property
    def is_queued_or_running(self) -> bool:
        """Does the study wait or run, so that it may have new results soon?"""
        return self.state in (StudyState.ACCEPTED, StudyState.RUNNING)


def make_missing_analysis_problem(study: StudyAccess) -> ProblemException:
    """Return the problem of a study without an analysis: `Retry-After` if there will be one without a request."""
    if study.state == StudyState.COMPLETE:
        detail = "a worker computes the analysis of a complete study: try again in a second"
        return ProblemException(404, "not-analysed", detail, headers={"Retry-After": "1"})
    detail = f"the study is {study.state}, and only a complete study is analyzed"
    if study.is_queued_or_running:
        return ProblemException(404, "not-analysed", f"{detail}: try again later", headers={"Retry-After": "10"})
    return ProblemException(404, "no-analysis", f"{detail}: it continues after POST /api/v1/studies/{study.id}/resume")


async def _get_writable_study(study: Annotated[StudyAccess, Depends()], _writer: Writer) -> StudyAccess:
    if study.bearer.kind is TokenKind.SHARE:  # of a browser that is signed in to another account
        raise ProblemException(403, "scope", "this link lets you read the study, not change it")
    return study


ReadableStudy = Annotated[StudyAccess, Depends()]
WritableStudy = Annotated[StudyAccess, Depends(_get_writable_study)]
