"""The committed API description is current and compatible with the released one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from service.export_openapi import openapi_document_as_json
from service.openapi import get_openapi_document

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.promise


def test_committed_description_is_current():
    committed = (ROOT / "openapi.json").read_text()
    assert committed == openapi_document_as_json(), "run `make openapi`, and say in the CHANGELOG what is new"


def test_every_operation_has_an_id_and_error_responses(world):
    names = []
    for path, methods in get_openapi_document(world.app)["paths"].items():
        for operation in methods.values():
            names.append(operation["operationId"])
            assert operation["description"], path
            assert {"401", "404", "422", "429", "500"} <= set(operation["responses"])
            for status, answer in operation["responses"].items():
                if status >= "400" and not (status == "503" and operation["operationId"] == "get_readiness"):
                    assert list(answer["content"]) == ["application/problem+json"]
    assert len(names) == len(set(names))


def test_every_operation_has_a_description_and_its_security(world):
    document = get_openapi_document(world.app)
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert {"token": []} in document["security"]
    assert document["servers"]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert re.fullmatch("[a-z]+(_[a-z]+)+", operation["operationId"])
            assert operation["summary"] == operation["operationId"].replace("_", " ").capitalize()
            assert all(tags[tag] for tag in operation["tags"])
            assert all(parameter["description"] for parameter in operation.get("parameters", [])), path
            is_open = path in ("/healthz", "/readyz", "/metrics", "/version") or operation["operationId"] == "sign_in"
            assert (operation["security"] == []) is is_open


def test_schemas_suit_code_generators(world):
    """Names without modules, each title once, no default that is an object."""
    schemas = get_openapi_document(world.app)["components"]["schemas"]
    titles = [schema["title"] for schema in schemas.values() if "title" in schema]
    assert len(titles) == len(set(titles))
    for name, schema in schemas.items():
        assert "__" not in name
        for field in schema.get("properties", {}).values():
            assert not isinstance(field.get("default"), dict), name
            assert ("oneOf" in field) <= ("discriminator" in field), name


def test_object_defaults_are_moved_to_the_description(world):
    training = get_openapi_document(world.app)["components"]["schemas"]["TrainingSpec"]["properties"]
    assert training["schedule"]["description"] == 'by default {"kind": "constant"}'
    assert training["epochs"]["default"] == 15


def test_description_is_compatible_with_the_released_one():
    """Against the first description that was released: addresses, parameters, fields of answers only grow."""
    released = json.loads((ROOT / "tests" / "service" / "released_openapi.json").read_text())
    present = json.loads(openapi_document_as_json())
    for path, methods in released["paths"].items():
        for method, operation in methods.items():
            current = present["paths"][path][method]
            assert current["operationId"] == operation["operationId"]
            released_parameters = {
                (parameter["name"], parameter["in"]): parameter.get("required", False)
                for parameter in operation.get("parameters", [])
            }
            current_parameters = {
                (parameter["name"], parameter["in"]): parameter.get("required", False)
                for parameter in current.get("parameters", [])
            }
            assert set(released_parameters) <= set(current_parameters)
            assert not {
                name
                for name, required in current_parameters.items()
                if required and not released_parameters.get(name, False)
            }
            assert {status for status in operation["responses"] if status < "300"} <= set(current["responses"])
    sent_schemas = request_schemas(released)
    for name, schema in released["components"]["schemas"].items():
        current = present["components"]["schemas"][name]
        assert set(schema.get("properties", {})) <= set(current.get("properties", {})), name
        if name in sent_schemas:
            assert set(current.get("required", [])) <= set(schema.get("required", [])), name


def request_schemas(document):
    """Schemas that callers send."""
    names = set()
    for methods in document["paths"].values():
        for operation in methods.values():
            text = json.dumps(operation.get("requestBody", {}))
            names |= {name for name in document["components"]["schemas"] if f"schemas/{name}" in text}
    return names
