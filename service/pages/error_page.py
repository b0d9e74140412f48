"""What a browser gets instead of the page it asked for."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from service.pages.render import page
from service.requests import request_id

_NOT_PAGES = ("/api/", "/static/", "/healthz", "/readyz", "/metrics", "/version")
_NEXT = {
    401: "Sign in again.",
    403: "Ask somebody with a wider token, or sign in with one.",
    404: "It may have been deleted, or belong to somebody else.",
    429: "Wait a little, then load the page again.",
    503: "The database does not answer; try again in a moment.",
}


def wants_page(request: Request) -> bool:
    """Does a browser ask for one of the pages, not a program for the API?"""
    path = request.url.path
    return not path.startswith(_NOT_PAGES) and "text/html" in request.headers.get("accept", "")


def refusal_page(request: Request, status: int, title: str, detail: str, headers: dict[str, str]) -> Response:
    """What a person sees instead of the page: why, and what to do next."""
    if status == 401 and request.method == "GET":
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"/?next={quote(request.url.path + query, safe='')}", 303)
    shown: HTMLResponse = page(
        request,
        "problem.html",
        status=status,
        visitor=None,
        title=title,
        detail=detail,
        code=status,
        advice=_NEXT.get(status, "Go back, or start from the list of studies."),
        request_id=request_id(request),
    )
    shown.headers.update(headers)
    return shown
