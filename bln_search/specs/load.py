"""Read a study file and report every problem with its line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from bln_search.core.errors import SpecError
from bln_search.specs.problems import (
    Problem,
    find_data_and_model_problems,
    find_oversized_batch_problems,
    find_space_problems,
    find_unknown_name_problems_in_raw_study,
    problems_from_pydantic_errors,
)
from bln_search.specs.spec_section import MAX_VALUES
from bln_search.specs.study import StudySpec

_MAX_FILE_BYTES = 1_000_000
_MAX_DEPTH = 50
"""Largest nesting depth of a study file."""

_SCANNERS: tuple[type[Any], ...] = (*([yaml.CSafeLoader] if yaml.__with_libyaml__ else []), yaml.SafeLoader)
"""The fast loader first; the other one for texts that it rejects, because the two accept slightly different texts."""


def load_study(path: Path) -> StudySpec:
    """Read the study file `path`. Raises SpecError with every problem and its line."""
    if path.is_dir():
        raise SpecError(str(path), ["this is a folder; give the path of a study file (*.yaml)"])
    try:
        size = path.stat().st_size
        text = path.read_text(encoding="utf-8") if size <= _MAX_FILE_BYTES else None
    except FileNotFoundError:
        raise SpecError(str(path), ["there is no such file; give the path of a study file (*.yaml)"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(str(path), [f"the file cannot be read as UTF-8 text: {error}"]) from None
    if text is None:
        raise SpecError(str(path), [f"the file has {size} bytes; a study file has {_MAX_FILE_BYTES} at most"])
    return parse_study(text, source=str(path))


def parse_study(text: str, *, source: str = "study") -> StudySpec:
    """Read a study from YAML. Raises SpecError with every problem and its line."""
    node, value = parse_yaml_nodes_and_values(text, source=source)
    try:
        study = StudySpec.model_validate(value)
    except ValidationError as error:
        problems = [
            *problems_from_pydantic_errors(error.errors(), value),
            *find_unknown_name_problems_in_raw_study(value),
        ]
        raise SpecError(
            source, list(dict.fromkeys(_format_problem_with_line(problem, node) for problem in problems))
        ) from None
    problems = [*find_data_and_model_problems(study), *find_space_problems(study)] or find_oversized_batch_problems(
        study
    )
    if problems:
        raise SpecError(source, [_format_problem_with_line(problem, node) for problem in problems])
    return study


def parse_yaml_nodes_and_values(text: str, *, source: str = "study") -> tuple[yaml.MappingNode, dict[Any, Any]]:
    """The YAML nodes of a study and their values, without validation.

    Raises SpecError for invalid YAML, aliases, duplicate keys, values of types that JSON lacks, and texts that are too
    large or nested too deeply.
    """
    if len(text) > _MAX_FILE_BYTES:
        raise SpecError(source, [f"this has {len(text):,} characters; a study has {_MAX_FILE_BYTES:,} at most"])
    _check_size_and_depth(text, source)
    node = _compose_yaml_node(text, source)
    if node is None:
        raise SpecError(source, ["the file is empty; a study needs at least name, data, model and arms"])
    value = _YamlNodeConverter(source).convert_node(node)
    if not isinstance(node, yaml.MappingNode):
        raise SpecError(source, ["this is not a study: a study has lines `key: value`, the first one `name: ...`"])
    return node, value


def _format_problem_with_line(problem: Problem, root: yaml.Node) -> str:
    path = "" if problem.names_location else ".".join(str(part) for part in problem.location)
    return f"line {_line_number_at(root, problem.location)}: {path + ': ' if path else ''}{problem.message}"


def _check_size_and_depth(text: str, source: str) -> None:
    """Raise SpecError for deeply nested or very large texts before they are parsed, which would take seconds."""
    for scanner in _SCANNERS:
        try:
            problem = _find_size_or_depth_problem(yaml.parse(text, Loader=scanner))
        except (yaml.YAMLError, UnicodeError):
            continue  # the other loader, or _compose_yaml_node, reports the position
        if problem is not None:
            raise SpecError(source, [problem])
        return


def _find_size_or_depth_problem(events: Iterable[yaml.Event]) -> str | None:
    depth = values = 0
    for event in events:
        values += isinstance(event, yaml.NodeEvent)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            assert event.start_mark is not None
            location = f"line {event.start_mark.line + 1}"
            return f"{location}: this is nested more than {_MAX_DEPTH} levels deep; a study needs far fewer"
        if values > MAX_VALUES:
            return f"there are more than {MAX_VALUES:,} keys and values in it: a study needs far fewer"
    return None


def _compose_yaml_node(text: str, source: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        location = f"line {mark.line + 1}: " if mark else ""
        raise SpecError(source, [f"{location}this is not YAML: {error.problem or error.context}"]) from None
    except yaml.YAMLError as error:
        raise SpecError(source, [f"this is not YAML: {str(error).splitlines()[0]}"]) from None


class _YamlNodeConverter:
    """Converts YAML nodes to values; rejects duplicate keys and aliases, which yaml.safe_load would accept."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.visited_ids: set[int] = set()
        self.scalars = yaml.SafeLoader("")

    def convert_node(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._construct_scalar(node)
        if id(node) in self.visited_ids:
            self._raise_spec_error(node, "YAML aliases (*name) are not allowed; repeat the values")
        self.visited_ids.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            return [self.convert_node(item) for item in node.value]
        assert isinstance(node, yaml.MappingNode)
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._raise_spec_error(key_node, "a key is a single word or number")
            key = self._construct_scalar(key_node)
            if not isinstance(key, str | int | float):
                self._raise_spec_error(key_node, "a key is a single word or number")
            if key in mapping:
                self._raise_spec_error(key_node, f"the key `{key}` is repeated; remove one")
            mapping[key] = self.convert_node(value_node)
        return mapping

    def _construct_scalar(self, node: yaml.ScalarNode) -> Any:
        try:
            return self.scalars.construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError):
            self._raise_spec_error(node, f"this value cannot be read: {node.value[:60]!r}")

    def _raise_spec_error(self, node: yaml.Node, problem: str) -> Any:
        raise SpecError(self.source, [f"line {node.start_mark.line + 1}: {problem}"])


def _line_number_at(root: yaml.Node, location: Sequence[int | str]) -> int:
    node = root
    line = root.start_mark.line
    for part in location:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line
        elif isinstance(node, yaml.MappingNode):
            matches = [(key, value) for key, value in node.value if key.value == str(part)]
            if not matches:
                break
            line, node = matches[0][0].start_mark.line, matches[0][1]
    return line + 1
