"""The error page: what a browser gets instead of a problem document."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from service.http.request_ids import get_request_id
from service.pages.rendering.templates import make_viewer_variables, render_page_response

_NOT_PAGES = ("/api/", "/static/", "/healthz", "/readyz", "/metrics", "/version")
_ADVICE = {
    401: "Sign in again.",
    403: "Ask somebody with a wider token, or sign in with one.",
    410: "Ask the person who sent it for a new one.",
    404: "It may have been deleted, or belong to somebody else.",
    422: "Correct the address, or start from the list of studies.",
    429: "Wait a little, then load the page again.",
    503: "The database does not answer; try again in a moment.",
}
_TITLES = {410: "This link has ended", 422: "This address cannot be used"}


def requests_html_page(request: Request) -> bool:
    """Does a browser request a page, in contrast to a program that uses the API?"""
    path = request.url.path
    return not path.startswith(_NOT_PAGES) and "text/html" in request.headers.get("accept", "")


def make_error_page_response(
    request: Request, status: int, title: str, detail: str, headers: dict[str, str]
) -> Response:
    """Return a page that says what is wrong and what to do; 401 redirects to the sign-in page."""
    if status == 401 and request.method == "GET":
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"/?next={quote(request.url.path + query, safe='')}", 303)
    bearer = getattr(request.state, "bearer", None)
    response: HTMLResponse = render_page_response(
        request,
        "problem.html",
        status=status,
        viewer=None if bearer is None else make_viewer_variables(bearer),
        title=_TITLES.get(status, title),
        detail=detail,
        code=status,
        advice=_ADVICE.get(status, "Go back, or start from the list of studies."),
        request_id=get_request_id(request),
    )
    response.headers.update(headers)
    return response
