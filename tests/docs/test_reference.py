"""The generated reference pages have every command, setting, operation and public name, in plain words."""

from __future__ import annotations

import re

import pytest

import bln_search
from bench.documents.reference import command_line, python_api, rest_api
from bench.documents.reference.pages import SECTIONS, render
from bench.documents.reference.schema import (
    members,
    properties,
    type_text,
)
from bln_search.core import errors
from bln_search.settings import Settings
from tests.docs.pages import OPENAPI_PATHS, PAGES, verbs, written

pytestmark = pytest.mark.promise


def rows(text):
    """The cells of every row of every table."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "minimum": 1.0, "maximum": 100000.0}, "integer from 1 to 100,000"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "number > 0 and ≤ 1"),
        ({"type": "integer", "minimum": 0, "exclusiveMaximum": 2**32}, "integer ≥ 0 and < 2³²"),
        ({"type": "string", "minLength": 1, "maxLength": 64}, "text (1 to 64 characters)"),
        ({"type": "string", "pattern": "^a|b$"}, "text that matches `^a|b$`"),
        ({"enum": ["a", "b", "c"], "type": "string"}, "`a`, `b` or `c`"),
        ({"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/Other"}, {"type": "null"}]}, "integer, or [Other]"),
        ({"type": "array", "items": {"type": "number"}, "maxItems": 5}, "list of at most 5 numbers"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "mapping of keys to numbers"),
        ({}, "any value"),
    ],
)
def test_a_type_is_written_with_its_bounds(schema, text):
    assert type_text(schema, lambda name: f"[{name}]") == text


def test_a_docstring_describes_properties_and_values():
    schema = {
        "description": "A thing.\n\nAttributes:\n    size: its size.\n    lambda_: λ of it.\n",
        "properties": {"size": {"type": "integer", "default": 3}, "lambda": {"anyOf": [{"type": "null"}]}},
        "required": ["lambda"],
    }
    size, rate = properties(schema, str)
    assert (size.type, size.default, size.meaning, size.nullable) == ("integer", "`3`", "Its size.", False)
    assert (rate.default, rate.meaning, rate.nullable) == ("required", "λ of it.", True)
    schema = {"description": "Which.\n\nMembers:\n    A_B: the first.\n", "enum": ["a_b", "c"]}
    assert members(schema) == {"a_b": "The first.", "c": ""}


class TestCommandLine:
    TEXT = command_line.commands_section()

    def test_every_command_has_a_section_with_its_help(self):
        told = dict(re.findall(r"^### (.*)\n\n(.*)$", self.TEXT, re.MULTILINE))
        expected = {name: " ".join(verb.help.split("\n\n")[0].split()) for name, verb in verbs().items()}
        assert told == expected

    def test_every_option_and_argument_is_listed_with_a_meaning(self):
        sections = {part.partition("\n")[0]: part for part in re.split("^### ", self.TEXT, flags=re.MULTILINE)[1:]}
        for name, verb in verbs().items():
            cells = [row for row in rows(sections[name]) if row[0].startswith("`")]
            parameters = [parameter for parameter in verb.params if not getattr(parameter, "hidden", False)]
            options = [parameter for parameter in parameters if parameter.param_type_name == "option"]
            told = {word for row in cells for word in re.findall("`(-[^`]+)`", row[0])}
            assert told == {word for option in options for word in (*option.opts, *option.secondary_opts)}
            assert len(cells) == len(parameters)
            assert all(len(row[-1]) > 3 for row in cells), name

    def test_every_setting_is_listed_and_named_by_its_option(self):
        assert "Environment variable: `BLN_SEARCH_DATABASE`." in self.TEXT
        assert "[env" not in self.TEXT
        told = {row[0].strip("`"): row for row in rows(command_line.settings_section())[2:]}
        assert told.keys() == {f"BLN_SEARCH_{name.upper()}" for name in Settings.model_fields}
        assert told["BLN_SEARCH_RUNNING_STUDIES"][1:3] == ["integer ≥ 1", "`2`"]
        assert told["BLN_SEARCH_HOME"][2] == "depends on the system"


class TestRestApi:
    TEXT = rest_api.rest_section()

    def test_every_operation_is_listed_once(self):
        told = re.findall(r"^`([A-Z]+) (/\S*)`$", self.TEXT, re.MULTILINE)
        expected = [(method.upper(), path) for path, methods in OPENAPI_PATHS.items() for method in methods]
        assert sorted(told) == sorted(expected)

    def test_every_parameter_and_status_is_listed(self):
        common = rest_api.common_problems()
        for _, _, operation in rest_api.operations():
            section = re.split("^##", self.TEXT.split(f"\n### {operation['summary']}\n")[1], flags=re.MULTILINE)[0]
            told = {row[0].strip("`") for row in rows(section)}
            assert {parameter["name"] for parameter in operation.get("parameters", ())} <= told
            statuses = {status for status, response in operation["responses"].items() if response != common.get(status)}
            assert statuses <= told

    def test_every_link_to_a_schema_has_its_heading(self):
        headings = {name.lower() for name in re.findall(r"^### (\S+)$", self.TEXT, re.MULTILINE)}
        assert set(re.findall(r"\]\(#([^)]+)\)", self.TEXT)) <= headings


def test_every_public_name_and_error_of_the_python_api_has_a_directive():
    text = python_api.python_section()
    assert set(re.findall(r"heading: bln_search\.(\w+)$", text, re.MULTILINE)) == set(bln_search.__all__)
    named = re.findall(r"^::: bln_search\.core\.errors\.(\w+)$", text, re.MULTILINE)
    kinds = [kind for kind in errors.BlnSearchError.__subclasses__() if kind.__module__ == errors.__name__]
    assert {kind.__name__ for kind in [errors.BlnSearchError, *kinds]} <= set(named)


def test_every_marker_of_a_page_is_replaced():
    for name in ("cli.md", "rest_api.md", "python_api.md"):
        assert "<!-- generated:" in written(PAGES[name])
        assert "<!-- generated:" not in render(name, written(PAGES[name]))
    assert len(SECTIONS) == sum(written(page).count("<!-- generated:") for page in PAGES.values())
