"""Who asks, and whether they may."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Path, Request
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer

from bln_search.core.enums import Scope
from bln_search.core.states import StudyState
from bln_search.storage.access import Bearer, TokenKind, find_bearer
from bln_search.storage.browse import study_standing
from service.context import Context, Here
from service.problems import RefusedError

COOKIE = "bln_search_session"
_SAFE = ("GET", "HEAD", "OPTIONS")
_FAILURE = 60
"""What a wrong token weighs among the requests of a caller: guessing is slow."""

_header = HTTPBearer(auto_error=False, scheme_name="token", description="an access token: `bln-search token create`")
_cookie = APIKeyCookie(name=COOKIE, auto_error=False, scheme_name="session", description="a browser that signed in")


def get_bearer(
    request: Request,
    context: Here,
    header: Annotated[HTTPAuthorizationCredentials | None, Depends(_header)],
    cookie: Annotated[str | None, Depends(_cookie)],
) -> Bearer:
    """Who asks. Raises RefusedError (401) where that is not known, (403) where another site made the browser ask."""
    secret = header.credentials if header is not None else cookie
    if not secret:
        raise _unknown("this needs an access token: `Authorization: Bearer ...`")
    bearer = find_bearer(context.engine, secret)
    if bearer is None or (bearer.kind is TokenKind.SESSION) != (header is None):
        count_wrong(request, context)
        raise _unknown("this token is unknown, revoked or expired")
    context.rates.count(f"account {bearer.account}")
    if header is None and request.method not in _SAFE:
        check_same_site(request)
    return bearer


def count_wrong(request: Request, context: Context) -> None:
    """Somebody tried a secret that is none. Raises RefusedError (429) after a few: guessing is slow."""
    caller = request.client.host if request.client else "unknown"
    context.rates.count(f"wrong {caller}", _FAILURE)


def _unknown(detail: str) -> RefusedError:
    return RefusedError(401, "no-token", detail, headers={"WWW-Authenticate": "Bearer"})


def check_same_site(request: Request) -> None:
    """Raise RefusedError (403) where the request comes from a page of another site."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        same = site in ("same-origin", "none")
    else:
        same = origin is not None and urlsplit(origin).netloc == request.headers.get("host")
    if not same:
        raise RefusedError(403, "other-site", "a page of another site asked for this; nothing was done")


Reader = Annotated[Bearer, Depends(get_bearer)]


def _needing(scope: Scope) -> object:
    async def check(bearer: Reader) -> Bearer:
        if not bearer.scope.allows(scope):
            raise RefusedError(403, "scope", f"this needs a token with the scope {scope}, yours has {bearer.scope}")
        return bearer

    return Depends(check)


Writer = Annotated[Bearer, _needing(Scope.WRITE)]
Admin = Annotated[Bearer, _needing(Scope.ADMIN)]


def visible_owner(bearer: Bearer) -> str | None:
    """Whose studies somebody sees: their own, an admin everybody's (None)."""
    return None if bearer.scope is Scope.ADMIN else bearer.account


class OwnStudy:
    """A study that the caller may see: its number, name, revision, results, state."""

    def __init__(
        self, study_id: Annotated[int, Path(description="`id` of a study")], context: Here, bearer: Reader
    ) -> None:
        found = study_standing(context.engine, study_id) if 0 < study_id < 2**31 else None
        owner = visible_owner(bearer)
        if found is None or (owner is not None and found[0] != owner):
            raise RefusedError(404, "not-found", f"there is no study {study_id}")
        self.id = study_id
        self.bearer = bearer
        self.owner, self.revision, self.results, self.state, self.name = found

    @property
    def goes_on(self) -> bool:
        """May it have more results in a moment?"""
        return self.state in (StudyState.ACCEPTED, StudyState.RUNNING)


async def _changeable(study: Annotated[OwnStudy, Depends()], _writer: Writer) -> OwnStudy:
    return study


Seen = Annotated[OwnStudy, Depends()]
Changed = Annotated[OwnStudy, Depends(_changeable)]
