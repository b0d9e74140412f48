"""Exception handlers: every error becomes a problem document, or an error page for a browser."""

from __future__ import annotations

import logging
import re
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from bln_search.core.credentials import redact_secrets
from bln_search.core.errors import (
    BlnSearchError,
    CheckpointStoreError,
    ExportError,
    ExportLimitError,
    IdempotencyConflictError,
    LedgerError,
    SchemaChangedError,
    ShareLinkLimitError,
    SpecError,
    StaleRevisionError,
    StateTransitionError,
    StorageFullError,
    StudyBusyError,
    TagError,
    TokenManagementError,
    UnknownStudyError,
    WrongCheckpointStoreError,
)
from service.http.problems import (
    MEDIA_TYPE,
    ProblemException,
    make_invalid_request_problem,
)
from service.http.request_ids import get_request_id
from service.pages.rendering.error_page import make_error_page_response, requests_html_page
from service.request_body import RejectedBody

_log = logging.getLogger(__name__)


_PROBLEM_BY_ERROR: tuple[tuple[type[BlnSearchError], int, str], ...] = (
    (UnknownStudyError, 404, "not-found"),
    (TokenManagementError, 404, "not-found"),
    (StudyBusyError, 409, "busy"),
    (ShareLinkLimitError, 409, "busy"),
    (ExportLimitError, 409, "busy"),
    (StaleRevisionError, 412, "changed"),
    (StateTransitionError, 409, "not-now"),
    (IdempotencyConflictError, 422, "key-reused"),
    (SpecError, 422, "invalid"),
    (TagError, 422, "invalid"),
    (ExportError, 422, "not-exportable"),
    (StorageFullError, 507, "storage-full"),
    (SchemaChangedError, 503, "upgraded"),
    (LedgerError, 503, "database"),
    (WrongCheckpointStoreError, 503, "wrong-store"),
    (CheckpointStoreError, 503, "checkpoints"),
    (BlnSearchError, 500, "error"),
)
"""HTTP status and kind of problem by exception; the first match counts."""

_STUDY_BY_NAME = re.compile(r"/api/v1/studies/(?P<name>(?!\d+(/|$))[a-z0-9][a-z0-9_-]{0,63})(/|$)")
"""Path of a study with a name in the place of its number."""

_PUBLIC_DETAILS = {
    "database": "the database cannot be used at the moment; try again",
    "upgraded": "the database was upgraded while this service runs: nothing can be changed until it is "
    "restarted with the matching version of bln-search",
    "storage-full": "the disk is full: nothing was written; the operator of this service must free disk space",
    "wrong-store": "this service does not see the checkpoint store of its database, so nothing can be downloaded: its "
    "operator must mount that store",
    "checkpoints": "the checkpoints cannot be reached at the moment; try again",
}
"""Details of the response instead of messages that reveal internals; the log has the message."""


def add_exception_handlers(app: FastAPI) -> None:
    """Answer every exception of the application with a problem document."""

    async def handle_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, ProblemException)
        return make_problem_response(request, error)

    async def handle_bln_search_error(request: Request, error: Exception) -> Response:
        status, kind = next(
            (status, kind) for error_type, status, kind in _PROBLEM_BY_ERROR if isinstance(error, error_type)
        )
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.error("%s", error, extra={"request_id": get_request_id(request)})
        detail = _PUBLIC_DETAILS.get(kind, str(error))
        headers = {"Retry-After": "5"} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}
        return make_problem_response(request, ProblemException(status, kind, detail, headers=headers))

    async def handle_validation_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        if isinstance(error.body, RejectedBody):
            return make_problem_response(request, error.body.problem)
        return make_problem_response(request, make_invalid_request_problem(error, _find_body_model(request)))

    async def handle_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
        headers = dict(error.headers or {})
        detail = str(error.detail)
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(list_allowed_http_methods(app, request.url.path))
            detail = f"this address does not take {request.method}; it takes {headers['Allow'] or 'another method'}"
        elif error.status_code == HTTPStatus.NOT_FOUND:
            detail = _unknown_path_hint(request.url.path)
        return make_problem_response(request, ProblemException(error.status_code, kind, detail, headers=headers))

    app.add_exception_handler(ProblemException, handle_problem)
    app.add_exception_handler(BlnSearchError, handle_bln_search_error)
    app.add_exception_handler(RequestValidationError, handle_validation_error)
    app.add_exception_handler(HTTPException, handle_http_exception)


def _find_body_model(request: Request) -> type[BaseModel] | None:
    """Return the model of the body of the request's route; None without one."""
    field = getattr(request.scope.get("route"), "body_field", None)
    annotation = None if field is None else field.field_info.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _unknown_path_hint(path: str) -> str:
    """Return what to do about a path that does not exist."""
    name = _STUDY_BY_NAME.match(path)
    if name is None:
        return "there is nothing at this address"
    return f"the id of a study is a number: find it with /api/v1/studies?name={name['name']}"


def list_allowed_http_methods(app: FastAPI, path: str) -> list[str]:
    """Return the methods of a path according to the OpenAPI document."""
    for template, operations in app.openapi()["paths"].items():
        if re.fullmatch(re.sub(r"\\{.*?\\}", "[0-9]+", re.escape(template)), path):
            return sorted(method.upper() for method in operations)
    return []


def make_problem_response(request: Request, problem: ProblemException) -> Response:
    """Return the response: a problem document, or an error page if a browser requests a page."""
    document = problem.make_document(_redact_share_secret(request.url.path), get_request_id(request))
    if requests_html_page(request):
        return make_error_page_response(request, problem.status, document.title, document.detail, problem.headers)
    return JSONResponse(document.model_dump(), problem.status, headers=problem.headers, media_type=MEDIA_TYPE)


def _redact_share_secret(path: str) -> str:
    """Replace the secret in the address of a share link, also an incomplete one."""
    return re.sub(r"^(/+shared/+).+", r"\1***", redact_secrets(path), flags=re.IGNORECASE)


def log_and_make_internal_error_response(request: Request, error: BaseException) -> Any:
    """Log an unexpected exception and return a response that reveals nothing of it."""
    _log.error("unexpected error", exc_info=error, extra={"request_id": get_request_id(request)})
    detail = "an unexpected error occurred; the log has its reason under the request id"
    return make_problem_response(request, ProblemException(500, "error", detail))
