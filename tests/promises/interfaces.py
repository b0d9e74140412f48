"""Names of every interface: REST, command line, Python, and written files."""

from __future__ import annotations

import csv
import inspect
import io
import json
from enum import Enum
from pathlib import Path

from pyarrow import parquet
from torch import nn

import bln_search
from tests.docs.pages import verbs
from tests.end_to_end.commands import call

ROOT = Path(__file__).parents[2]
OPAQUE = ("spec", "provenance", "trained_with")
"""Objects whose keys are not recorded: REST has those of a specification, the others name source files and devices."""


def list_rest_names():
    """Parameters, bodies and answers of every operation, and the fields of every schema; `!` marks what is required."""
    document = json.loads((ROOT / "openapi.json").read_text())
    entries = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parameters = [
                f"{parameter['in']} {parameter['name']}{'!' if parameter.get('required') else ''}"
                for parameter in operation.get("parameters", [])
            ]
            answers = {status: list_content(answer) for status, answer in operation["responses"].items()}
            entries[f"{method.upper()} {path}"] = {
                "parameters": parameters,
                "body": list_content(operation.get("requestBody", {})),
                "answers": {status: content for status, content in answers.items() if status < "300"},
            }
    for name, schema in document["components"]["schemas"].items():
        required = schema.get("required", [])
        fields = [field + ("!" if field in required else "") for field in schema.get("properties", {})]
        entries[f"schema {name}"] = sorted(fields) or schema.get("enum", [])
    return entries


def list_content(body):
    """Media types of a body with the names of their schemas."""
    references = {media: json.dumps(value.get("schema", {})) for media, value in body.get("content", {}).items()}
    return {media: text.rpartition("/schemas/")[2].partition('"')[0] for media, text in references.items()}


def list_commands():
    """Every option and argument of every command, with its default and its choices; the environment variables."""
    entries = {}
    for name, command in verbs().items():
        for parameter in command.params:
            if not getattr(parameter, "hidden", False):
                words = parameter.opts if parameter.param_type_name == "option" else [parameter.metavar]
                default = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
                choices = list(getattr(parameter.type, "choices", []))
                shown = default if isinstance(default, str | int | float | bool | None) else repr(default)
                entries[f"{name} {'/'.join(words)}"] = [parameter.required, shown, choices]
    settings = json.loads(call("settings", "--format", "json", check=0).stdout)
    return {**entries, "environment": [setting["variable"] for setting in settings]}


def list_python_names():
    """Signatures of the public functions, classes and methods, without types; other public names of classes."""
    entries = {}
    for name in bln_search.__all__:
        value = getattr(bln_search, name)
        entries[name] = describe(value)
        if inspect.isclass(value) and not issubclass(value, nn.Module):  # methods of layers are for the evaluation
            foreign = [base for base in value.__mro__ if not base.__module__.startswith("bln_search")]
            members = set(dir(value)).difference(*map(dir, foreign)) | set(getattr(value, "__members__", ()))
            for member in sorted(member for member in members if not member.startswith("_")):
                entries[f"{name}.{member}"] = describe(inspect.getattr_static(value, member))
    return entries


def describe(value):
    """The signature of a callable, the value of a member of an enum, otherwise its kind."""
    value = getattr(value, "__func__", value)
    if isinstance(value, Enum):
        return value.value
    if not callable(value):
        return type(value).__name__ if isinstance(value, property) else "value"
    if inspect.isclass(value) and issubclass(value, Enum | Exception):  # their signatures depend on Python's version
        return "class"
    signature = inspect.signature(value)
    without_types = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=without_types, return_annotation=signature.empty))


def list_written_files(study, home):
    """Columns of each format of a finished study's table, keys of its manifest, files of an exported network."""
    formats = {name: home / f"table.{name}" for name in ("csv", "json", "jsonl", "parquet")}
    for name, path in formats.items():
        call("leaderboard", study, "--format", name, "--output", path, home=home, check=0)
    document = json.loads(formats["json"].read_text())
    schema = parquet.read_schema(formats["parquet"])
    manifest = json.loads(call("manifest", study, home=home, check=0).stdout)
    row = ("--config", "TTFF", "--arm", "bln", "--estimate", "frozen", "--batch-size", 25, "--seed", 0)
    call("export", study, "--output", home / "exported", *row, home=home, check=0)
    return {
        "CSV": next(csv.reader(io.StringIO(formats["csv"].read_text()))),
        "JSON": list_keys(document),
        "JSON lines": list(json.loads(formats["jsonl"].read_text().partition("\n")[0])),
        "Parquet": [f"{field.name} {field.type}" for field in schema],
        "Parquet metadata": sorted(key.decode() for key in schema.metadata),
        "manifest": list_keys(manifest),
        "export": sorted(str(path.relative_to(home / "exported")) for path in (home / "exported").rglob("*")),
        "export, configuration.json": list_keys(json.loads((home / "exported" / "configuration.json").read_text())),
    }


def list_keys(value, path=""):
    """Paths of the keys of nested objects; of a list those of its first item."""
    if isinstance(value, list):
        return list_keys(value[0], f"{path}[]") if value else [f"{path}[]"]
    if not isinstance(value, dict) or path.endswith(OPAQUE):
        return [path]
    return [inner for key, item in value.items() for inner in list_keys(item, f"{path}.{key}" if path else key)]
