"""Read a study file and report every problem with its line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
from bln_search.specs.study import StudySpec
from bln_search.specs.yaml_document import MAX_CHARACTERS, parse_yaml_nodes_and_values

_MAX_FILE_BYTES = MAX_CHARACTERS


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
            *problems_from_pydantic_errors(error.errors(include_url=False), value),
            *find_unknown_name_problems_in_raw_study(value),
        ]
        raise SpecError(source, _format_problems_in_line_order(problems, node)) from None
    problems = [*find_data_and_model_problems(study), *find_space_problems(study)] or find_oversized_batch_problems(
        study
    )
    if problems:
        raise SpecError(source, _format_problems_in_line_order(problems, node))
    return study


def _format_problems_in_line_order(problems: Sequence[Problem], root: yaml.Node) -> list[str]:
    """Every problem with its line, each once."""
    line_by_text: dict[str, int] = {}
    for problem in problems:
        line, path = _line_number_at(root, problem.location), "" if problem.names_location else problem.path
        line_by_text[f"line {line}: {path + ': ' if path else ''}{problem.message}"] = line
    return sorted(line_by_text, key=line_by_text.__getitem__)


def _line_number_at(root: yaml.Node, location: Sequence[int | str]) -> int:
    node = root
    line = root.start_mark.line
    for part in location:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line
        elif isinstance(node, yaml.MappingNode):
            name = str(part)
            match = next(((key, value) for key, value in node.value if key.value == name), None)
            if match is None:
                break
            line, node = match[0].start_mark.line, match[1]
    return line + 1
