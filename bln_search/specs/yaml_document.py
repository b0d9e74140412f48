"""YAML nodes and values of a study; size and depth are bounded while the text is parsed."""

from __future__ import annotations

from typing import Any, NoReturn

import yaml
from yaml.composer import Composer
from yaml.events import AliasEvent

from bln_search.core.errors import SpecError
from bln_search.specs.yaml_scalars import ScalarResolver, construct_scalar

MAX_CHARACTERS = 1_000_000
"""Characters of the longest study."""

_MAX_VALUES = 25_000
"""Largest number of keys and values of a study; half a second is needed to read them."""

_MAX_DEPTH = 50
"""Largest nesting depth of a study."""

_MAX_NUMBER_KEYS = 100
"""Largest number of numbers among the keys of a mapping: numbers, unlike texts, may be chosen to have equal hashes."""

_Parser: Any
if yaml.__with_libyaml__:
    from yaml._yaml import CParser as _Parser
else:  # the parser in Python takes ten times as long
    from yaml.loader import SafeLoader as _Parser


class _ContentError(Exception):
    """Valid YAML that no study has, with its line if it has one."""

    def __init__(self, problem: str, mark: Any = None) -> None:
        super().__init__(f"line {mark.line + 1}: {problem}" if mark else problem)


class _BoundedComposer(Composer, _Parser, ScalarResolver):  # type: ignore[misc] # the parser has no types
    """Composes nodes; rejects aliases, deep nesting and too many values before it has composed them."""

    def __init__(self, text: str) -> None:
        _Parser.__init__(self, text)
        Composer.__init__(self)
        ScalarResolver.__init__(self)
        self._depth = self._values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, AliasEvent):
            raise _ContentError("YAML aliases (*name) are not allowed; repeat the values", event.start_mark)
        self._values += 1
        if self._values > _MAX_VALUES:
            raise _ContentError(f"there are more than {_MAX_VALUES:,} keys and values in it: a study needs far fewer")
        self._depth += 1
        if self._depth > _MAX_DEPTH and not isinstance(event, yaml.ScalarEvent):
            raise _ContentError(
                f"this is nested more than {_MAX_DEPTH} levels deep; a study needs far fewer", event.start_mark
            )
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


def parse_yaml_nodes_and_values(text: str, *, source: str = "study") -> tuple[yaml.MappingNode, dict[Any, Any]]:
    """The YAML nodes of a study and their values, without validation.

    Raises SpecError for invalid YAML, aliases, duplicate keys, values of types that JSON lacks, and texts that are too
    large or nested too deeply.
    """
    if len(text) > MAX_CHARACTERS:
        raise SpecError(source, [f"this has {len(text):,} characters; a study has {MAX_CHARACTERS:,} at most"])
    try:
        node = _compose_yaml_node(text)
        value = _convert_node(node)
    except _ContentError as error:
        raise SpecError(source, [str(error)]) from None
    if not isinstance(node, yaml.MappingNode):
        raise SpecError(source, ["this is not a study: a study has lines `key: value`, the first one `name: ...`"])
    return node, value


def _compose_yaml_node(text: str) -> yaml.Node:
    try:
        node: yaml.Node | None = _BoundedComposer(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line + 1, len(text.splitlines())) if mark else 1  # libyaml counts a line after the last one
        raise _ContentError(f"line {line}: this is not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise _ContentError(f"this is not YAML: {str(error).splitlines()[0][:200]}") from None
    if node is None:
        raise _ContentError("the file is empty; a study needs at least name, data, model and arms")
    return node


def _convert_node(node: yaml.Node) -> Any:
    """Return the value of a node; duplicate keys are rejected, which yaml.safe_load would accept."""
    if isinstance(node, yaml.ScalarNode):
        return _convert_scalar(node)
    kind = "seq" if isinstance(node, yaml.SequenceNode) else "map"
    if node.tag != f"tag:yaml.org,2002:{kind}":
        _reject(node, f"the tag {node.tag[:60]} is not allowed: remove it")
    if isinstance(node, yaml.SequenceNode):
        return [_convert_node(item) for item in node.value]
    assert isinstance(node, yaml.MappingNode)
    mapping: dict[Any, Any] = {}
    numbers = 0
    for key_node, value_node in node.value:
        key = _convert_scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else None
        if not isinstance(key, str | int | float):
            _reject(key_node, "a key is a single word or number")
        numbers += not isinstance(key, str)
        if numbers > _MAX_NUMBER_KEYS:
            _reject(key_node, f"this has more than {_MAX_NUMBER_KEYS} keys that are numbers; a study needs far fewer")
        if key in mapping:
            _reject(key_node, f"the key `{str(key)[:60]}` is repeated; remove one")
        mapping[key] = _convert_node(value_node)
    return mapping


def _convert_scalar(node: yaml.ScalarNode) -> Any:
    try:
        return construct_scalar(node)
    except ValueError as error:
        _reject(node, str(error))


def _reject(node: yaml.Node, problem: str) -> NoReturn:
    raise _ContentError(problem, node.start_mark)
