"""Authentication and authorization of requests."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Path, Request
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from bln_search.core.enums import Scope
from bln_search.core.states import StudyState
from bln_search.storage.tokens import Bearer, TokenKind
from service.context import Context, ContextDep
from service.http.problems import ProblemException

COOKIE = "bln_search_session"
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_FAILED_LOGIN_WEIGHT = 60
"""Number of requests that a wrong token counts as, so that guessing is slow."""

_bearer_token = HTTPBearer(
    auto_error=False, scheme_name="token", description="an access token: `bln-search token create`"
)
_session = APIKeyCookie(name=COOKIE, auto_error=False, scheme_name="session", description="a browser that signed in")


def get_bearer(
    request: Request,
    context: ContextDep,
    header: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer_token)],
    cookie: Annotated[str | None, Depends(_session)],
) -> Bearer:
    """Return the bearer of the request's token or session.

    Raises:
        ProblemException: 401 without a valid token, 403 if a page of another site made the browser send the request.
    """
    known = getattr(request.state, "bearer", None)
    if isinstance(known, Bearer):
        return known
    secret = header.credentials if header is not None else cookie
    if not secret:
        raise _unauthorized_problem("this needs an access token: `Authorization: Bearer ...`")
    bearer = context.ledger.tokens.find_bearer(secret)
    if bearer is None or (bearer.kind is TokenKind.SESSION) != (header is None):
        count_failed_login(request, context)
        raise _unauthorized_problem("this token is unknown, revoked or expired")
    context.rate_limiter.count(f"account {bearer.account}")
    if header is None and request.method not in _SAFE_METHODS:
        check_same_site(request)
    request.state.bearer = bearer
    return bearer


async def authenticate(request: Request) -> None:
    """Check the token before the dependencies of a route do. Raises the problems of `get_bearer`."""
    header, cookie = await _bearer_token(request), await _session(request)
    await run_in_threadpool(get_bearer, request, request.app.state.context, header, cookie)


def count_failed_login(request: Request, context: Context) -> None:
    """Count a wrong token. Raises ProblemException (429) after a few, so that guessing is slow."""
    client = request.client.host if request.client else "unknown"
    context.rate_limiter.count(f"wrong {client}", _FAILED_LOGIN_WEIGHT)


def _unauthorized_problem(detail: str) -> ProblemException:
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


Reader = Annotated[Bearer, Depends(get_bearer)]


def _require_scope(scope: Scope) -> object:
    async def check(bearer: Reader) -> Bearer:
        if not bearer.scope.allows(scope):
            raise ProblemException(403, "scope", f"this needs a token with the scope {scope}, yours has {bearer.scope}")
        return bearer

    return Depends(check)


Writer = Annotated[Bearer, _require_scope(Scope.WRITE)]
Admin = Annotated[Bearer, _require_scope(Scope.ADMIN)]


def visible_owner(bearer: Bearer) -> str | None:
    """Return the account whose studies the bearer may see; None for an admin, who sees all."""
    return None if bearer.scope is Scope.ADMIN else bearer.account


class StudyAccess:
    """A study that the bearer may read: id, name, owner, revision, state, and number of trials with a result."""

    def __init__(
        self, study_id: Annotated[int, Path(description="`id` of a study")], context: ContextDep, bearer: Reader
    ) -> None:
        header = context.ledger.studies.find_header(study_id) if 0 < study_id < 2**31 else None
        owner = visible_owner(bearer)
        if header is None or (owner is not None and header.owner != owner):
            raise ProblemException(404, "not-found", f"there is no study {study_id}")
        self.id = study_id
        self.bearer = bearer
        self.owner, self.revision, self.results = header.owner, header.revision, header.results
        self.state, self.name = header.state, header.name

    @property
    def is_active(self) -> bool:
        """Does the study wait or run, so that it may have new results soon?"""
        return self.state in (StudyState.ACCEPTED, StudyState.RUNNING)


def missing_analysis(study: StudyAccess) -> ProblemException:
    """Return the problem of a study without an analysis: `Retry-After` if there will be one without a request."""
    if study.state == StudyState.COMPLETE:
        detail = "a worker computes the analysis of a complete study: try again in a second"
        return ProblemException(404, "not-analysed", detail, headers={"Retry-After": "1"})
    detail = f"the study is {study.state}, and only a complete study is analyzed"
    if study.is_active:
        return ProblemException(404, "not-analysed", f"{detail}: try again later", headers={"Retry-After": "10"})
    return ProblemException(404, "no-analysis", f"{detail}: it continues after POST /api/v1/studies/{study.id}/resume")


async def _writable_study(study: Annotated[StudyAccess, Depends()], _writer: Writer) -> StudyAccess:
    return study


ReadableStudy = Annotated[StudyAccess, Depends()]
WritableStudy = Annotated[StudyAccess, Depends(_writable_study)]
