"""The routes of the REST API: they reject unknown query parameters, and bodies of another type than JSON or YAML."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from difflib import get_close_matches
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from bln_search.specs.problems import MAX_PROBLEMS, Problem
from bln_search.specs.study import StudySpec
from service.http.problems import ProblemException, make_invalid_body_problem
from service.request_body import LARGE_BODY, parse_request_body
from service.security import authenticate_account, check_request_token

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

        checks_token = _has_dependency(self.dependant, authenticate_account)

        async def handle_checked(request: Request) -> Response:
            _check_query_parameters_known(request, known_parameters)
            if isinstance(body_model, type) and issubclass(body_model, BaseModel):
                request = await _make_request_with_json_body(request, body_model, checks_token=checks_token)
            return await handle(request)

        return handle_checked


def _iter_query_parameter_names(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the query parameters of a route and its dependencies."""
    yield from (parameter.alias for parameter in dependant.query_params)
    for dependency in dependant.dependencies:
        yield from _iter_query_parameter_names(dependency)


def _has_dependency(dependant: Dependant, call: Callable[..., Any]) -> bool:
    """Return whether a route depends on a function."""
    return dependant.call is call or any(_has_dependency(inner, call) for inner in dependant.dependencies)


def _check_query_parameters_known(request: Request, known: set[str]) -> None:
    """Raise ProblemException (422) for a query parameter that the route does not have."""
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise make_invalid_body_problem(
            [
                Problem((name,), f"unknown parameter{_format_parameter_suggestion(name, known)}")
                for name in unknown[:MAX_PROBLEMS]
            ]
        )


def _format_parameter_suggestion(name: str, known: set[str]) -> str:
    similar = get_close_matches(name, known, n=1)
    if similar:
        return f"; did you mean `{similar[0]}`?"
    return f"; known here: {', '.join(sorted(known))}" if known else "; remove it, this path has none"


async def _make_request_with_json_body(request: Request, body_model: type[BaseModel], *, checks_token: bool) -> Request:
    """Return the request with a body that FastAPI reads as JSON.

    Raises:
        ProblemException: 415 for a body of another type; 400 for invalid JSON; 401 for a body that takes long without a
            valid token; 503 if too many large bodies wait.
        SpecError: The YAML cannot be read.
    """
    body = await request.body()
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = media_type == JSON or (media_type.startswith("application/") and media_type.endswith("+json"))
    is_yaml = body_model is StudySpec and media_type in YAML_TYPES
    if not body:
        return request
    if is_json or is_yaml:
        if checks_token and (is_yaml or len(body) > LARGE_BODY):
            await check_request_token(request)
        return await parse_request_body(request, body, body_model, is_yaml=is_yaml)
    accepted = f"{JSON} or {YAML_TYPES[0]}" if body_model is StudySpec else JSON
    raise ProblemException(
        415,
        "media-type",
        f"this path does not read {media_type or 'a body without a type'}: send the header Content-Type: {accepted}",
    )
