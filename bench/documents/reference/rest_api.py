"""The reference of the REST API, from `openapi.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from bench.documents.reference.schema import (
    NO_DEFAULT,
    REQUIRED,
    Property,
    Schema,
    default_text,
    members,
    properties,
    sentence,
    split_docstring,
    table,
    type_text,
)

_SUCCESS = {"200": "success", "201": "created", "204": "success, without content"}

DOCUMENT = Path(__file__).parents[3] / "openapi.json"


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document."""
    content: dict[str, Any] = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    return content


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of every operation."""
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def rest_section() -> str:
    """Every operation by its tag, the problems that all of them share, and every schema."""
    parts = []
    for tag in document()["tags"]:
        parts += [f"## {tag['name'].capitalize()}\n", f"{tag['description']}\n"]
        parts += [
            _operation_section(method, path, operation)
            for method, path, operation in operations()
            if tag["name"] in operation["tags"]
        ]
    return "\n".join([*parts, _problems_section(), _schemas_section()])


def _operation_section(method: str, path: str, operation: dict[str, Any]) -> str:
    access = "Needs a token." if operation["security"] else "Open: needs no token."
    parts = [
        f"### {operation['summary']}\n",
        f"`{method} {path}`\n",
        f"{sentence(operation['description'])} {access}\n",
    ]
    if operation.get("parameters"):
        rows = [_parameter_row(parameter) for parameter in operation["parameters"]]
        parts.append(table(("parameter", "in", "type", "default", "meaning"), rows))
    if "requestBody" in operation:
        parts.append(f"Body: {_content(operation['requestBody']['content'])}.\n")
    rows = [
        (status, _content(response.get("content", {})), sentence(_status_meaning(status, response)))
        for status, response in sorted(operation["responses"].items())
        if response != common_problems().get(status)
    ]
    return "\n".join([*parts, table(("status", "content", "meaning"), rows)])


def _parameter_row(parameter: dict[str, Any]) -> tuple[str, ...]:
    schema = parameter["schema"]
    default = REQUIRED if parameter.get("required") else default_text(schema)
    return (
        f"`{parameter['name']}`",
        parameter["in"],
        type_text(schema, _link),
        default,
        sentence(parameter["description"]),
    )


def _status_meaning(status: str, response: Schema) -> str:
    described = str(response["description"])
    return _SUCCESS.get(status, described) if described in ("Successful Response", "OK") else described


def _content(content: dict[str, Any]) -> str:
    """Media types, each with its schema."""
    texts = [
        f"`{media_type}`" + (f": {type_text(body['schema'], _link)}" if body.get("schema") else "")
        for media_type, body in content.items()
    ]
    return ", or ".join(texts) or NO_DEFAULT


@cache
def common_problems() -> dict[str, Schema]:
    """The problems that operations share: of every error status the most frequent response."""
    responses: dict[str, list[Schema]] = {}
    for _, _, operation in operations():
        for status, response in operation["responses"].items():
            responses.setdefault(status, []).append(response)
    count = len(list(operations()))
    return {
        status: max(given, key=given.count)
        for status, given in sorted(responses.items())
        if status >= "400" and len(given) == count
    }


def _problems_section() -> str:
    rows = [(status, sentence(response["description"])) for status, response in common_problems().items()]
    return "\n".join(
        [
            "## Problems\n",
            f"Every operation may answer with these statuses and a {_link('ProblemDocument')} (RFC 9457).\n",
            table(("status", "meaning"), rows),
        ]
    )


def _schemas_section() -> str:
    schemas = document()["components"]["schemas"]
    parts = ["## Schemas\n", "Required properties are always present in an answer; – means that there is no default.\n"]
    return "\n".join([*parts, *(_schema_section(name, schema) for name, schema in schemas.items() if schema)])


def _schema_section(name: str, schema: Schema) -> str:
    summary, _ = split_docstring(schema.get("description", ""))
    parts = [f"### {name}\n", *([f"{summary}\n"] if summary else [])]
    if "enum" in schema:
        values = [(f"`{value}`", meaning or NO_DEFAULT) for value, meaning in members(schema).items()]
        parts.append(table(("value", "meaning"), values))
    elif schema.get("properties"):
        rows = [_property_row(key) for key in properties(schema, _link)]
        parts.append(table(("property", "type", "default", "meaning"), rows))
    else:
        parts.append(f"{sentence(type_text(schema, _link))}\n")
    return "\n".join(parts)


def _property_row(key: Property) -> tuple[str, ...]:
    kind = f"{key.type}, or null" if key.nullable else key.type
    return f"`{key.name}`", kind, key.default, key.meaning or NO_DEFAULT


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})" if document()["components"]["schemas"].get(name) else "any value"
