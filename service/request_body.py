"""The body of a request, parsed and validated; large ones one at a time, in a thread."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers

from bln_search.specs.problems import MAX_PROBLEMS, Problem, problems_from_pydantic_errors
from bln_search.specs.spec_section import MAX_VALUES
from bln_search.specs.study import StudySpec
from bln_search.specs.yaml_document import parse_yaml_nodes_and_values
from service.http.heavy_work import HEAVY_WORK
from service.http.problems import ProblemException, make_invalid_body_problem

LARGE_BODY = 16_000
"""Bytes above which parsing delays other requests noticeably."""

_JSON = "application/json"


class RejectedBody:
    """Stands for a body with problems, which are reported after the token was checked."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problem = make_invalid_body_problem(problems)


class RequestWithParsedBody(Request):
    """A request whose body has been parsed; FastAPI reads it as JSON."""

    def __init__(self, request: Request, body: bytes, value: object) -> None:
        headers = Headers({**request.headers, "content-type": _JSON})
        super().__init__({**request.scope, "headers": headers.raw}, request.receive)
        self._bytes, self._value = body, value

    async def body(self) -> bytes:
        """Return the bytes of the body."""
        return self._bytes

    async def json(self) -> Any:
        """Return the parsed body."""
        return self._value


async def parse_request_body(
    request: Request, body: bytes, model: type[BaseModel], *, is_yaml: bool
) -> RequestWithParsedBody:
    """Return the request with its parsed body; of a large one with a validated one.

    Raises:
        ProblemException: 400 for invalid JSON, 503 if too many large bodies wait.
        SpecError: The YAML cannot be read.
    """
    if len(body) > LARGE_BODY:
        value = await run_in_threadpool(_parse_and_validate_in_turn, body, model, is_yaml=is_yaml)
    elif is_yaml:
        value = await run_in_threadpool(_parse_yaml, body)
    else:
        value = _parse_json(body)
    return RequestWithParsedBody(request, body, value)


def _parse_and_validate_in_turn(body: bytes, model: type[BaseModel], *, is_yaml: bool) -> object:
    with HEAVY_WORK.wait_for_turn():
        if not is_yaml and model is StudySpec and sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:
            problem = f"there are more than {MAX_VALUES:,} keys and values in it: a study needs far fewer"
            return RejectedBody([Problem((), problem)])
        value = _parse_yaml(body) if is_yaml else _parse_json(body)
        if isinstance(value, RejectedBody):
            return value
        try:
            return model.model_validate(value)
        except ValidationError as error:
            problems = problems_from_pydantic_errors(error.errors(include_url=False), value, model)
            return RejectedBody(problems[:MAX_PROBLEMS])


def _parse_yaml(body: bytes) -> object:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise make_invalid_body_problem(
            [Problem((), f"the body is not UTF-8 text: {error.reason} at byte {error.start}")]
        ) from None
    return parse_yaml_nodes_and_values(text)[1]


class _RepeatedKeyError(Exception):
    """An object has a key twice."""


def _parse_json(body: bytes) -> object:
    """Return the value of JSON.

    Raises:
        ProblemException: 400 if it is none.
    """
    try:
        return json.loads(body, object_pairs_hook=_make_object)
    except _RepeatedKeyError as error:
        return RejectedBody([Problem((), f"the key `{str(error)[:60]}` is repeated; remove one")])
    except json.JSONDecodeError as error:
        detail = f"{error.msg} at character {error.pos}"
    except RecursionError:
        detail = "it is nested too deeply"
    except ValueError as error:  # encoding, or a number of thousands of digits
        detail = str(error)[:200]
    raise ProblemException(400, "not-json", f"the body is not JSON: {detail}")


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedKeyError(max(values, key=names.count) if len(names) < 100 else "")
    return values
