"""Problem documents (RFC 9457), and the exception that is answered with one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field

from bln_search.specs.problems import MAX_PROBLEMS, Problem, problems_from_pydantic_errors
from bln_search.specs.pydantic_messages import translate_pydantic_error

MEDIA_TYPE = "application/problem+json"


class ProblemError(BaseModel):
    """One error in the request."""

    pointer: str = Field(description="JSON pointer into the body, or the name of a parameter")
    detail: str = Field(description="what is wrong, and what to do")


class ProblemDocument(BaseModel):
    """An error response."""

    type: str = Field(description="stable name of the kind of problem")
    title: str = Field(description="the same for every problem of this kind")
    status: int = Field(description="the HTTP status")
    detail: str = Field(description="what was wrong this time, and what to do")
    instance: str = Field(description="path of the request")
    request_id: str = Field(description="id of the request in the logs")
    errors: list[ProblemError] = Field(default_factory=list, description="every error, if there are several")


class ProblemException(Exception):  # noqa: N818 - named as Starlette's HTTPException
    """An error that is answered with a problem document, as Starlette's `HTTPException` is with plain text.

    Args:
        status: HTTP status.
        kind: Stable name of the kind of problem; the last part of the document's `type`.
        detail: What is wrong, and what to do.
        errors: Every error, if there are several.
        headers: Further headers of the response.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        errors: Sequence[Problem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.errors = errors
        self.headers = dict(headers or {})

    def make_document(self, instance: str, request_id: str) -> ProblemDocument:
        """Return the document. Lone surrogates are replaced, because UTF-8 cannot encode them."""
        errors = [
            ProblemError(pointer=_replace_surrogates(error.json_pointer), detail=_replace_surrogates(error.message))
            for error in self.errors
        ]
        return ProblemDocument(
            type=f"urn:bln-search:problem:{self.kind}",
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=_replace_surrogates(self.detail),
            instance=_replace_surrogates(instance),
            request_id=request_id,
            errors=errors,
        )


def _replace_surrogates(text: str) -> str:
    return text.encode(errors="replace").decode()


def make_invalid_request_problem(error: RequestValidationError, schema: type[BaseModel] | None) -> ProblemException:
    """Return the problem of a request whose body or parameters FastAPI rejected.

    Args:
        error: What FastAPI rejected.
        schema: Model of the body; None for a request without one.
    """
    problems: list[Problem] = []
    for details in islice(error.errors(), MAX_PROBLEMS):
        source, *path = details["loc"]
        if details["type"] == "json_invalid":
            return ProblemException(400, "not-json", f"the body is not JSON: {_format_json_error_position(details)}")
        if source == "body" and not path and details["type"] == "missing":
            problems.append(Problem((), "the body is empty; send a JSON object"))
        elif source == "body" and schema is not None:
            problems += problems_from_pydantic_errors([{**details, "loc": tuple(path)}], error.body, schema)  # type: ignore[typeddict-item]
        else:
            problems.append(Problem(tuple(path), translate_pydantic_error(details)))
    return make_invalid_body_problem(problems)


def _format_json_error_position(details: Mapping[str, Any]) -> str:
    return f"{details.get('ctx', {}).get('error', 'it cannot be read')} at character {details['loc'][-1]}"


def make_invalid_body_problem(problems: Sequence[Problem]) -> ProblemException:
    """Return the problem of a body that fails a check after its validation against the schema."""
    return ProblemException(422, "invalid", _summarize_problems(problems), problems)


def _summarize_problems(problems: Sequence[Problem]) -> str:
    if not problems:
        return "this request cannot be used"
    first = problems[0]
    text = first.message
    if first.location and not first.names_location:
        text = f"{first.json_pointer.lstrip('/')}{' ' if text.startswith('must ') else ': '}{text}"
    return text if len(problems) == 1 else f"{text} (and {len(problems) - 1} more)"
