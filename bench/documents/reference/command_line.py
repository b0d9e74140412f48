"""The reference of the command line and of the settings, from the Typer application and `Settings`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from itertools import groupby
from typing import Any

from typer.main import get_command

from bench.documents.reference.schema import (
    NO_DEFAULT,
    REQUIRED,
    alternatives,
    cell,
    default_text,
    number_text,
    sentence,
    table,
    type_text,
)
from bln_search.cli.main import app
from bln_search.settings import Settings

PROGRAM = "bln-search"
_TYPES = {"float": "number", "boolean": "`true` or `false`", "int": "integer", "str": "text"}
_SYSTEM_FOLDER = "depends on the system"


def commands_section() -> str:
    """Every command with its usage, arguments and options, under the headings of its help."""
    parts = []
    for panel, commands in groupby(sorted_commands(), key=lambda named: _panel(named[1])):
        parts += [f"## {panel}\n", *(_command_section(name, command) for name, command in commands)]
    return "\n".join(parts)


def sorted_commands() -> list[tuple[str, Any]]:
    """Every command with its full name, in the order of `--help`; commands of a panel follow one another."""
    command: Any = get_command(app)
    commands = list(_commands(command.load_all(), ()))
    panels = list(dict.fromkeys(_panel(command) for _, command in commands))
    return sorted(commands, key=lambda named: panels.index(_panel(named[1])))


def settings_section() -> str:
    """Every environment variable with type, default and meaning."""
    schema = Settings.model_json_schema()["properties"]
    rows = []
    for name, field in Settings.model_fields.items():
        default = _SYSTEM_FOLDER if field.default_factory is not None else default_text(schema[name])
        rows.append(
            (f"`BLN_SEARCH_{name.upper()}`", type_text(schema[name], str), default, sentence(field.description or ""))
        )
    return table(("variable", "type", "default", "meaning"), rows)


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The command itself, or the commands of a group; hidden ones are left out."""
    if not hasattr(command, "commands"):
        yield " ".join(path), command
        return
    for name, inner in command.commands.items():
        if not inner.hidden:
            yield from _commands(inner, (*path, name))


def _panel(command: Any) -> str:
    panel = getattr(command, "rich_help_panel", None)
    return panel if isinstance(panel, str) else "Commands"


def _command_section(name: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [
        parameter for parameter in command.params if parameter.param_type_name == "option" and not parameter.hidden
    ]
    words = [PROGRAM, name, *(["[OPTIONS]"] if options else []), *(_metavar(argument) for argument in arguments)]
    parts = [f"### {name}\n", _help_text(command.help), f"```text\n{' '.join(words)}\n```\n"]
    if arguments:
        parts.append(table(("argument", "type", "meaning"), [_argument_row(argument) for argument in arguments]))
    if options:
        parts.append(table(("option", "type", "default", "meaning"), [_option_row(option) for option in options]))
    return "\n".join(parts)


def _help_text(text: str | None) -> str:
    """The paragraphs of a docstring, up to a form feed."""
    paragraphs = inspect.cleandoc(text or "").partition("\f")[0].split("\n\n")
    return "".join(f"{' '.join(paragraph.split())}\n" for paragraph in paragraphs)


def _metavar(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _argument_row(argument: Any) -> tuple[str, ...]:
    return f"`{_metavar(argument)}`", _type(argument), _meaning(argument)


def _option_row(option: Any) -> tuple[str, ...]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    return names, "flag" if option.is_flag else _type(option), _default(option), _meaning(option)


def _type(parameter: Any) -> str:
    kind = parameter.type
    if hasattr(kind, "choices"):
        text = alternatives(map(_value, kind.choices))
    elif hasattr(kind, "file_okay"):
        text = "path" if kind.file_okay and kind.dir_okay else "file" if kind.file_okay else "folder"
    else:
        name = kind.name.removesuffix(" range")
        text = f"{_TYPES.get(name, name)}{_range(kind)}"
    return f"{text}; may be repeated" if getattr(parameter, "multiple", False) else text


def _range(kind: Any) -> str:
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    if low is not None and high is not None:
        return f" from {number_text(low)} to {number_text(high)}"
    bounds = {"≥": low, "≤": high}
    return "".join(f" {sign} {number_text(bound)}" for sign, bound in bounds.items() if bound is not None)


def _default(option: Any) -> str:
    if option.required:
        return REQUIRED
    if isinstance(option.show_default, str):
        return option.show_default
    value = _value(option.default)
    return NO_DEFAULT if value in (None, False, "", ()) or callable(value) else f"`{value}`"


def _value(value: object) -> object:
    """The value of an enumeration's member, or the value itself."""
    return value.value if isinstance(value, Enum) else value


def _meaning(parameter: Any) -> str:
    text = cell(parameter.help or "").replace("\\[", "[")
    named = re.findall(r"\[env: (\w+)\]", text)
    variables = [parameter.envvar] if isinstance(parameter.envvar, str) else list(parameter.envvar or ())
    text = sentence(re.sub(r"\s*\[env: \w+\]", "", text))
    return " ".join([text, *(f"Environment variable: `{name}`." for name in dict.fromkeys([*named, *variables]))])
