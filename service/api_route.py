"""The routes of the REST API: they reject unknown query parameters, and bodies of another type than JSON or YAML."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from difflib import get_close_matches
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers

from bln_search.specs.problems import Problem
from bln_search.specs.study import StudySpec
from bln_search.specs.yaml_document import parse_yaml_nodes_and_values
from service.http.problems import ProblemException, make_invalid_body_problem
from service.security import check_request_token

JSON = "application/json"
YAML_TYPES = ("application/yaml", "text/yaml", "application/x-yaml", "text/x-yaml")
"""Media types of a study as YAML. The OpenAPI description leaves them out: generators of clients know JSON only."""


class ApiRoute(APIRoute):
    """A route of the REST API."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, which checks query parameters and the type of the body first."""
        handle = super().get_route_handler()
        known_parameters = set(_iter_query_parameter_names(self.dependant))
        body_model = None if self.body_field is None else self.body_field.field_info.annotation

        async def handle_checked(request: Request) -> Response:
            _check_query_parameters_known(request, known_parameters)
            if body_model is not None:
                request = await _make_request_with_json_body(request, takes_yaml=body_model is StudySpec)
            return await handle(request)

        return handle_checked


def _iter_query_parameter_names(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the query parameters of a route and its dependencies."""
    yield from (parameter.alias for parameter in dependant.query_params)
    for dependency in dependant.dependencies:
        yield from _iter_query_parameter_names(dependency)


def _check_query_parameters_known(request: Request, known: set[str]) -> None:
    """Raise ProblemException (422) for a query parameter that the route does not have."""
    problems = [
        Problem((name,), f"unknown parameter{_format_parameter_suggestion(name, known)}")
        for name in dict.fromkeys(request.query_params)
        if name not in known
    ]
    if problems:
        raise make_invalid_body_problem(problems)


def _format_parameter_suggestion(name: str, known: set[str]) -> str:
    similar = get_close_matches(name, known, n=1)
    if similar:
        return f"; did you mean `{similar[0]}`?"
    return f"; known here: {', '.join(sorted(known))}" if known else "; remove it, this path has none"


async def _make_request_with_json_body(request: Request, *, takes_yaml: bool) -> Request:
    """Return the request with a body that FastAPI reads as JSON.

    Raises:
        ProblemException: 415 for a body of another type; 401 without a valid token, because parsing YAML takes long.
        SpecError: The YAML cannot be read.
    """
    body = await request.body()
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not body or media_type == JSON or (media_type.startswith("application/") and media_type.endswith("+json")):
        return request
    if takes_yaml and media_type in YAML_TYPES:
        await check_request_token(request)
        return _RequestWithParsedBody(request, body, await run_in_threadpool(_parse_yaml_study_body, body))
    accepted = f"{JSON} or {YAML_TYPES[0]}" if takes_yaml else JSON
    raise ProblemException(
        415,
        "media-type",
        f"this path does not read {media_type or 'a body without a type'}: send the header Content-Type: {accepted}",
    )


def _parse_yaml_study_body(body: bytes) -> dict[Any, Any]:
    """Return the values of a study in YAML. Raises SpecError if they cannot be read."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise make_invalid_body_problem(
            [Problem((), f"the body is not UTF-8 text: {error.reason} at byte {error.start}")]
        ) from None
    return parse_yaml_nodes_and_values(text)[1]


class _RequestWithParsedBody(Request):
    """A request whose body has been parsed; FastAPI reads it as JSON."""

    def __init__(self, request: Request, body: bytes, value: object) -> None:
        headers = Headers({**request.headers, "content-type": JSON})
        super().__init__({**request.scope, "headers": headers.raw}, request.receive)
        self._bytes, self._value = body, value

    async def body(self) -> bytes:
        """Return the bytes of the body."""
        return self._bytes

    async def json(self) -> Any:
        """Return the parsed body."""
        return self._value
