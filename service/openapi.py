"""The description of the API: committed as openapi.json, and checked for changes that break callers."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.problems import MEDIA_TYPE, ProblemDocument

_METHODS = ("get", "post", "patch", "delete", "put")
_PROBLEMS = {
    400: "the request is malformed",
    401: "a token is missing or wrong",
    403: "the token does not allow this",
    404: "there is no such thing, or it is somebody else's",
    405: "the address does not take that method",
    408: "the request did not arrive in time",
    409: "not in its present state",
    412: "it was changed since it was read",
    413: "the body is too large",
    414: "the address is too long",
    422: "what was sent cannot be used; `errors` says where and why",
    429: "too many requests; `Retry-After` says how long to wait",
    431: "the headers are too large, or too many",
    500: "an error of the service; the request id leads to it in the log",
    503: "the database cannot be used at the moment, or too many ask; `Retry-After` says when to try again",
    507: "the disk is nearly full",
}


_TAGS = {
    "studies": "Studies: sent in, listed, changed, stopped.",
    "results": "What came of a study: trials, ranked table, evaluations, curves, analysis, checkpoints.",
    "events": "What happens in a study, as it happens.",
    "configurations": "The inference configurations, explained.",
    "access": "Tokens and browser sessions.",
    "operation": "How the service is doing; without a token.",
}
_SERVERS = (
    {"url": "/", "description": "the service that this description comes from"},
    {"url": "http://127.0.0.1:8000", "description": "`bln-search serve` on this machine"},
)
_SECURITY: tuple[dict[str, list[str]], ...] = ({"token": []}, {"session": []})


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with every problem each operation may answer."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            routes=app.routes,
            description=app.description,
            servers=list(_SERVERS),
            tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
        )
        document["security"] = list(_SECURITY)
        schemas = document["components"]["schemas"]
        schemas.update(_own_schemas())
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        for path in document["paths"].values():
            for method, operation in path.items():
                if method in _METHODS:
                    _add_problems(operation)
                    operation["summary"] = operation["operationId"].replace("_", " ").capitalize()
                    operation.setdefault("security", [])
        _move_defaults(schemas)
        app.openapi_schema = document
    return app.openapi_schema


def _move_defaults(schemas: dict[str, Any]) -> None:
    """Defaults that are objects stand in the text: generators of code take none for a choice of models."""
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            if isinstance(field.get("default"), dict):
                text = f"by default {json.dumps(field.pop('default'), sort_keys=True)}"
                field["description"] = "; ".join(filter(None, (field.get("description"), text)))


def _own_schemas() -> dict[str, Any]:
    schema = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
    inner = schema.pop("$defs")
    return {"ProblemDocument": schema, **inner}


def _add_problems(operation: dict[str, Any]) -> None:
    for status, description in _PROBLEMS.items():
        present = operation["responses"].get(str(status))
        if present is not None and status != 422:
            continue
        operation["responses"][str(status)] = {
            "description": description,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
        }
