"""How every error is answered: with a problem document, or to a browser that asks for a page with one."""

from __future__ import annotations

import logging
import re
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from bln_search.core.errors import (
    AccessError,
    BlnSearchError,
    CheckpointStoreError,
    KeyReusedError,
    LedgerError,
    SchemaChangedError,
    SpecError,
    StorageFullError,
    StudyBusyError,
    StudyChangedError,
    TransitionError,
    UnknownStudyError,
)
from service.pages.error_page import refusal_page, wants_page
from service.problems import MEDIA_TYPE, ProblemDocument, ProblemError, RefusedError, invalid_request
from service.requests import request_id

_log = logging.getLogger(__name__)


_KINDS: tuple[tuple[type[BlnSearchError], int, str], ...] = (
    (UnknownStudyError, 404, "not-found"),
    (AccessError, 404, "not-found"),
    (StudyBusyError, 409, "busy"),
    (StudyChangedError, 412, "changed"),
    (TransitionError, 409, "not-now"),
    (KeyReusedError, 422, "key-reused"),
    (SpecError, 422, "invalid"),
    (StorageFullError, 507, "storage-full"),
    (SchemaChangedError, 503, "upgraded"),
    (LedgerError, 503, "database"),
    (CheckpointStoreError, 503, "checkpoints"),
    (BlnSearchError, 500, "error"),
)


_NOT_SHOWN = {
    "database": "the database cannot be used at the moment; try again",
    "upgraded": "the database was upgraded under this service: nothing can be changed before it is restarted with that "
    "version of bln-search",
    "storage-full": "no room is left here: nothing was written; try again when whoever runs this service has made some",
    "checkpoints": "the checkpoints cannot be reached at the moment; try again",
}
"""What is said instead of a message that tells of the inside; the log has that."""


def install_handlers(app: FastAPI) -> None:
    """Make every error of the application a problem document."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)
        return problem_response(request, error)

    async def ours(request: Request, error: Exception) -> Response:
        status, kind = next((status, kind) for known, status, kind in _KINDS if isinstance(error, known))
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.error("%s", error, extra={"request_id": request_id(request)})
        detail = _NOT_SHOWN.get(kind, str(error))
        headers = {"Retry-After": "5"} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}
        return problem_response(request, RefusedError(status, kind, detail, headers=headers))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problem_response(request, invalid_request(error))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
        headers = dict(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(methods_of(app, request.url.path))
        details = {404: "there is nothing at this address", 405: "this address does not take that method"}
        detail = details.get(error.status_code, str(error.detail))
        return problem_response(request, RefusedError(error.status_code, kind, detail, headers=headers))

    app.add_exception_handler(RefusedError, refused)
    app.add_exception_handler(BlnSearchError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


def methods_of(app: FastAPI, path: str) -> list[str]:
    """The methods an address takes, by the description of the API."""
    for template, operations in app.openapi()["paths"].items():
        if re.fullmatch(re.sub(r"\\{.*?\\}", "[0-9]+", re.escape(template)), path):
            return sorted(method.upper() for method in operations)
    return []


def problem_response(request: Request, refusal: RefusedError) -> Response:
    """The refusal as a document; to a browser that asks for a page, as a page."""
    if wants_page(request):
        title = HTTPStatus(refusal.status).phrase
        return refusal_page(request, refusal.status, title, _plain(refusal.detail), refusal.headers)
    document = ProblemDocument(
        type=f"urn:bln-search:problem:{refusal.kind}",
        title=HTTPStatus(refusal.status).phrase,
        status=refusal.status,
        detail=_plain(refusal.detail),
        instance=_plain(request.url.path),
        request_id=request_id(request),
        errors=[ProblemError(pointer=_plain(one.pointer), detail=_plain(one.message)) for one in refusal.errors],
    )
    return JSONResponse(document.model_dump(), refusal.status, headers=refusal.headers, media_type=MEDIA_TYPE)


def _plain(text: str) -> str:
    """Without halves of characters, which no UTF-8 text may hold."""
    return text.encode(errors="replace").decode()


def crashed(request: Request, error: BaseException) -> Any:
    """The answer to an error nobody foresaw: it says nothing of the inside; the log does."""
    _log.error("unforeseen error", exc_info=error, extra={"request_id": request_id(request)})
    detail = "something went wrong here; the request id leads to it in the log"
    return problem_response(request, RefusedError(500, "error", detail))
