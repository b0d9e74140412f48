"""The OpenAPI document, committed as openapi.json and tested for backward compatibility."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.http.problems import MEDIA_TYPE, ProblemDocument

_METHODS = ("get", "post", "patch", "delete", "put")
_PROBLEMS = {
    400: "the request is malformed",
    401: "a token is missing or wrong",
    403: "the token does not allow this",
    404: "it does not exist, or belongs to another account",
    405: "the path does not support that method",
    408: "the request was not complete in time",
    409: "not possible in its present state",
    412: "it was changed after it was read",
    413: "the body is too large",
    414: "the URL is too long",
    415: "the body has another type than those of this operation",
    422: "the request is invalid; `errors` says where and why",
    429: "too many requests; `Retry-After` is the time to wait",
    431: "the headers are too large, or too many",
    500: "an error of the service; its log has the reason under the request id",
    503: "the database cannot be used at the moment, or the service is overloaded; `Retry-After` is the time to wait",
    507: "the disk is nearly full",
}


_TAGS = {
    "studies": "Studies: submit, list, change, stop.",
    "results": "Results of a study: trials, leaderboard, evaluations, curves, analysis, checkpoints, exports.",
    "events": "Events of a study, live.",
    "configurations": "The inference configurations, explained.",
    "workers": "Worker processes.",
    "access": "Tokens and browser sessions.",
    "operation": "Health, readiness, metrics and version; without a token.",
}
_SECURITY: tuple[dict[str, list[str]], ...] = ({"token": []}, {"session": []})


def get_openapi_document(app: FastAPI, root_path: str = "") -> dict[str, Any]:
    """Return the OpenAPI document, with every problem that an operation may return.

    Args:
        app: The application.
        root_path: Path under which a reverse proxy serves it.
    """
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            routes=app.routes,
            description=app.description,
            servers=[
                {"url": root_path or "/", "description": "the service that returns this document"},
                {"url": "http://127.0.0.1:8000", "description": "`bln-search serve` on this machine"},
            ],
            tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
        )
        document["security"] = list(_SECURITY)
        schemas = document["components"]["schemas"]
        schemas.update(_make_problem_schemas())
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        for path in document["paths"].values():
            for method, operation in path.items():
                if method in _METHODS:
                    _add_problem_responses(operation)
                    operation["summary"] = operation["operationId"].replace("_", " ").capitalize()
                    operation.setdefault("security", [])
        _move_object_defaults_to_descriptions(schemas)
        app.openapi_schema = document
    return app.openapi_schema


def _move_object_defaults_to_descriptions(schemas: dict[str, Any]) -> None:
    """Move defaults that are objects into the description: code generators cannot use them for unions of models."""
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            if isinstance(field.get("default"), dict):
                text = f"by default {json.dumps(field.pop('default'), sort_keys=True)}"
                field["description"] = "; ".join(filter(None, (field.get("description"), text)))


def _make_problem_schemas() -> dict[str, Any]:
    schema = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
    definitions = schema.pop("$defs")
    return {"ProblemDocument": schema, **definitions}


def _add_problem_responses(operation: dict[str, Any]) -> None:
    for status, description in _PROBLEMS.items():
        existing = operation["responses"].get(str(status))
        if existing is not None and status != 422:
            continue
        operation["responses"][str(status)] = {
            "description": description,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
        }
