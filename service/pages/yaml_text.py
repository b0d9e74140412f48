"""One value of a YAML text changed; comments and everything else stay as somebody wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from bln_search.core.errors import SpecError
from bln_search.specs.load import read_plain

_WIDE = 10_000


def put(text: str, place: Sequence[str], value: Any) -> str:
    """The text with the value at `place` (keys from the top) set, or taken out where it is None.

    Raises SpecError where the text cannot be read.
    """
    root, before = read_plain(text)
    wanted = _with(before, place, value)
    if wanted == before:
        return text
    edited = _edited(text, root, place, value, inside(before, place))
    try:
        if read_plain(edited)[1] == wanted:
            return edited
    except SpecError:
        pass
    return yaml.safe_dump(wanted, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)


def _with(plain: dict[Any, Any], place: Sequence[str], value: Any) -> dict[Any, Any]:
    key, *rest = place
    changed = dict(plain)
    if rest:
        inner = plain.get(key)
        changed[key] = _with(inner if isinstance(inner, dict) else {}, rest, value)
    elif value is None:
        changed.pop(key, None)
    else:
        changed[key] = value
    return changed


def inside(plain: Any, place: Sequence[str]) -> Any:
    """What stands at `place`; None where nothing does."""
    for key in place:
        plain = plain.get(key) if isinstance(plain, dict) else None
    return plain


def _edited(text: str, mapping: yaml.MappingNode, place: Sequence[str], value: Any, before: Any) -> str:
    key, *rest = place
    found = next(((name, node) for name, node in mapping.value if name.value == key), None)
    if found is None:
        written = value
        for outer in reversed(rest):
            written = {outer: written}
        return text if value is None else _inserted(text, mapping, key, written)
    name, node = found
    if rest and isinstance(node, yaml.MappingNode) and not node.flow_style:
        if value is None and len(rest) == 1 and [one.value for one, _ in node.value] == rest:
            return _replaced(text, name, node, {})  # the last entry goes
        return _edited(text, node, rest, value, before)
    if rest:
        plain = read_plain(text[node.start_mark.index : node.end_mark.index])[1] if _is_flow_mapping(node) else {}
        return _replaced(text, name, node, _with(plain, rest, value))
    return _changed(text, name, node, value, before)


def _changed(text: str, name: yaml.Node, node: yaml.Node, value: Any, before: Any) -> str:
    """An entry with another value, or without it."""
    if value is None:
        return _removed(text, name, node)
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and isinstance(value, list):
        return _with_members(text, name, node, value, before)
    return _replaced(text, name, node, value)


def _with_members(text: str, name: yaml.Node, node: yaml.SequenceNode, value: list[Any], before: list[Any]) -> str:
    """A block list whose members keep their lines, less those that go, with a line for each that comes."""
    stay = [place for place, member in enumerate(before) if member in value]
    come = [member for member in value if member not in before]
    if not stay or [before[place] for place in stay] + come != value:
        return _replaced(text, name, node, value)
    line = f"\n{' ' * node.start_mark.column}- "
    last = _line_end(text, _end(node))
    changed = text[:last] + "".join(f"{line}{_flow(member)}" for member in come) + text[last:]
    for place in reversed(range(len(before))):
        if place not in stay:
            start = text.rfind("\n", 0, node.value[place].start_mark.index) + 1
            changed = changed[:start] + changed[_line_end(text, _end(node.value[place])) + 1 :]
    return changed


def _line_end(text: str, index: int) -> int:
    found = text.find("\n", index)
    return len(text) if found < 0 else found


def _is_flow_mapping(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and bool(node.flow_style)


def _replaced(text: str, name: yaml.Node, node: yaml.Node, value: Any) -> str:
    colon = text.index(":", name.end_mark.index)
    return f"{text[: colon + 1]} {_flow(value)}{text[_end(node) :]}"


def _inserted(text: str, mapping: yaml.MappingNode, key: str, value: Any) -> str:
    """A new line behind the last one of a block mapping."""
    last = _end(mapping)
    line_end = _line_end(text, last)
    column = mapping.start_mark.column
    return f"{text[:line_end]}\n{' ' * column}{key}: {_flow(value)}{text[line_end:]}"


def _removed(text: str, name: yaml.Node, node: yaml.Node) -> str:
    """Without the lines of an entry of a block mapping."""
    start = text.rfind("\n", 0, name.start_mark.index) + 1
    line_end = text.find("\n", _end(node))
    return text[:start] + ("" if line_end < 0 else text[line_end + 1 :])


def _end(node: yaml.Node) -> int:
    """Where a node ends; a block collection with its last member, not with the comments and lines behind it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _flow(value: Any) -> str:
    """On one line."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, sort_keys=False, width=_WIDE)
    return text.removesuffix("\n").removesuffix("\n...").strip()
