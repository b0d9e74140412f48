"""Why a request is not answered as asked: a problem document (RFC 9457), and what is raised to answer with one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field

from bln_search.specs.problems import MOST_PROBLEMS, Problem, problems_of

MEDIA_TYPE = "application/problem+json"


class ProblemError(BaseModel):
    """One mistake in what was sent."""

    pointer: str = Field(description="JSON pointer into the body, or the name of a parameter")
    detail: str = Field(description="what is wrong, and what to do")


class ProblemDocument(BaseModel):
    """Why a request was not answered as asked."""

    type: str = Field(description="stable name of this kind of problem")
    title: str = Field(description="the same for every problem of this kind")
    status: int = Field(description="the HTTP status")
    detail: str = Field(description="what was wrong this time, and what to do")
    instance: str = Field(description="the path that was asked for")
    request_id: str = Field(description="stands in the logs, too")
    errors: list[ProblemError] = Field(default_factory=list, description="every mistake, where there are several")


class RefusedError(Exception):
    """Raised to answer with a problem document."""

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


def invalid_request(error: RequestValidationError) -> RefusedError:
    """What is wrong with the body or the parameters."""
    found: list[Problem] = []
    malformed = False
    for details in islice(error.errors(), MOST_PROBLEMS):
        where, *place = details["loc"]
        malformed = malformed or details["type"] == "json_invalid"
        if where == "body" and not malformed:
            found += problems_of([{**details, "loc": tuple(place)}], error.body)  # type: ignore[typeddict-item]
        else:
            name = "" if malformed else ".".join(str(part) for part in place)
            found.append(Problem((name,) if name else (), str(details["msg"])))
    if malformed:
        return RefusedError(400, "not-json", "the body is not JSON", found)
    return RefusedError(422, "invalid", _summary(found), found)


def invalid_body(problems: Sequence[Problem]) -> RefusedError:
    """Mistakes in a body that are found after its form was checked."""
    return RefusedError(422, "invalid", _summary(problems), problems)


def _summary(problems: Sequence[Problem]) -> str:
    if not problems:
        return "this request cannot be used"
    first = problems[0]
    text = f"{first.pointer.lstrip('/')}: {first.message}" if first.place and not first.whole else first.message
    return text if len(problems) == 1 else f"{text} (and {len(problems) - 1} more)"
