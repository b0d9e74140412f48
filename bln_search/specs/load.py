"""Reading a study file: every mistake at once, each with its line."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bln_search.core.errors import SpecError
from bln_search.specs.arm import ArmSpec
from bln_search.specs.base import Spec
from bln_search.specs.data import DataSpec
from bln_search.specs.search import SearchSpec
from bln_search.specs.study import EvaluationSpec, ModelSpec, RankingSpec, StudySpec
from bln_search.specs.training import TrainingSpec
from bln_search.specs.trial import border_trials, trials_of

_LARGEST_FILE = 1_000_000


def load_study(path: Path) -> StudySpec:
    """The study in the file `path`. Raises SpecError with every problem and its line."""
    try:
        size = path.stat().st_size
        text = path.read_text(encoding="utf-8") if size <= _LARGEST_FILE else None
    except FileNotFoundError:
        raise SpecError(str(path), ["there is no such file; give the path of a study file (*.yaml)"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(str(path), [f"the file cannot be read as UTF-8 text: {error}"]) from None
    if text is None:
        raise SpecError(str(path), [f"the file has {size} bytes; a study file has {_LARGEST_FILE} at most"])
    return parse_study(text, source=str(path))


def parse_study(text: str, *, source: str = "study") -> StudySpec:
    """The study in `text` (YAML). Raises SpecError with every problem and its line."""
    node = _compose(text, source)
    if node is None:
        raise SpecError(source, ["the file is empty; a study needs at least name, data, model and arms"])
    value = _Reader(source).value(node)
    if not isinstance(value, dict):
        raise SpecError(source, ["a study file is a list of `key: value` lines, starting with `name:`"])
    try:
        study = StudySpec.model_validate(value)
    except ValidationError as error:
        problems = [_problem(details, node) for details in error.errors() if not _follows_from_another(details)]
        raise SpecError(source, list(dict.fromkeys(problems))) from None
    try:
        border_trials(study)
        trials_of(study)
    except SpecError as error:
        raise SpecError(source, [f"line {_line(node, ['space'])}: {problem}" for problem in error.problems]) from None
    return study


def _compose(text: str, source: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise SpecError(source, [f"{where}this is not YAML: {error.problem or error.context}"]) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise SpecError(source, [f"this is not YAML: {str(error).splitlines()[0]}"]) from None


class _Reader:
    """Plain values from YAML nodes; refuses duplicate keys and repeated nodes, which plain loading would hide."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.seen: set[int] = set()
        self.scalars = yaml.SafeLoader("")

    def value(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self.seen:
            self._refuse(node, "YAML aliases (*name) are not taken; write the values out")
        self.seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item) for item in node.value]
        assert isinstance(node, yaml.MappingNode)
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(key_node, "a key is a single word or number")
            key = self._scalar(key_node)
            if not isinstance(key, str | int | float):
                self._refuse(key_node, "a key is a single word or number")
            if key in mapping:
                self._refuse(key_node, f"the key `{key}` stands here a second time; remove one")
            mapping[key] = self.value(value_node)
        return mapping

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        try:
            return self.scalars.construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError):
            self._refuse(node, f"this value cannot be read: {node.value[:60]!r}")

    def _refuse(self, node: yaml.Node, problem: str) -> Any:
        raise SpecError(self.source, [f"line {node.start_mark.line + 1}: {problem}"])


def _problem(details: ErrorDetails, root: yaml.Node) -> str:
    place = _place(details["loc"], root)
    line = _line(root, place)
    path = ".".join(str(part) for part in place)
    message = details["msg"].removeprefix("Value error, ")
    if details["type"] == "extra_forbidden":
        message = f"unknown key{_suggestion(place)}"
    elif details["type"] == "missing":
        message = "this key is missing; add it"
    elif details["type"] not in ("value_error",):
        message = f"{message}, not {_shown(details['input'])}"
    return f"line {line}: {path}: {message}" if path else f"line {line}: {message}"


def _follows_from_another(details: ErrorDetails) -> bool:
    """A list that is too short only because its members were refused, each with an error of its own."""
    return details["type"] == "too_short" and bool(details["input"])


def _place(location: Sequence[int | str], root: yaml.Node) -> list[int | str]:
    """A location without the names that pydantic puts in for members of a union: what is not in the file is left out.

    The last part stays where it may be the name of a key that is missing.
    """
    node: yaml.Node | None = root
    place: list[int | str] = []
    for position, part in enumerate(location):
        last = position == len(location) - 1
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part] if part < len(node.value) else None
            place.append(part)
        elif isinstance(node, yaml.MappingNode):
            found = [value for key, value in node.value if key.value == str(part)]
            node = found[0] if found else node
            if found or (last and not _is_tag(part)):
                place.append(part)
        elif isinstance(part, str) and last and not _is_tag(part) and node is None:
            place.append(part)
    return place


def _is_tag(part: int | str) -> bool:
    """Names that pydantic gives to members of a union."""
    names = ("constant", "steps", "linear", "cosine", "int", "float", "constrained-int", "constrained-float")
    return isinstance(part, str) and (part in names or "[" in part)


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


def _line(root: yaml.Node, place: Sequence[int | str]) -> int:
    node = root
    line = root.start_mark.line
    for part in place:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line
        elif isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == str(part)]
            if not found:
                break
            line, node = found[0][0].start_mark.line, found[0][1]
    return line + 1


_SECTIONS: dict[str, type[Spec]] = {
    "data": DataSpec,
    "model": ModelSpec,
    "arms": ArmSpec,
    "training": TrainingSpec,
    "evaluation": EvaluationSpec,
    "ranking": RankingSpec,
    "search": SearchSpec,
}


def _suggestion(place: Sequence[int | str]) -> str:
    section = _SECTIONS.get(str(place[0])) if len(place) > 1 else StudySpec
    if section is None:
        return "; remove it"
    known = [field.alias or name for name, field in section.model_fields.items()]
    close = get_close_matches(str(place[-1]), known, n=1)
    return f"; did you mean `{close[0]}`?" if close else f"; known here: {', '.join(known)}"
