"""Change one value of a YAML text and preserve comments, order and formatting of everything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from bln_search.core.errors import SpecError
from bln_search.specs.yaml_document import parse_yaml_nodes_and_values
from bln_search.specs.yaml_scalars import StudyDumper

_MAX_WIDTH = 10_000


def set_value_in_yaml(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with one value changed.

    Args:
        text: A YAML mapping.
        path: Keys of the value.
        value: The new value; None to remove the entry.

    Raises:
        SpecError: The text cannot be parsed.
    """
    text = text.removeprefix("\ufeff")  # positions of nodes do not count it
    root, present = parse_yaml_nodes_and_values(text)
    expected = _copy_with_value(present, path, value)
    if expected == present:
        return text
    edited = _edit_yaml_text(text, root, path, value, find_value_at_path(present, path))
    try:
        if parse_yaml_nodes_and_values(edited)[1] == expected:
            return edited
    except SpecError:
        pass
    return yaml.dump(
        expected, sort_keys=False, Dumper=StudyDumper, allow_unicode=True, default_flow_style=None, width=100
    )


def find_value_at_path(data: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of keys; None if there is none."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _copy_with_value(data: dict[Any, Any], path: Sequence[str], value: Any) -> dict[Any, Any]:
    """Return a copy of the data with one value changed."""
    key, *rest = path
    changed = dict(data)
    if rest:
        inner = data.get(key)
        changed[key] = _copy_with_value(inner if isinstance(inner, dict) else {}, rest, value)
    elif value is None:
        changed.pop(key, None)
    else:
        changed[key] = value
    return changed


def _edit_yaml_text(text: str, mapping: yaml.MappingNode, path: Sequence[str], value: Any, present: Any) -> str:
    """Return the text with one value changed.

    Args:
        text: The text.
        mapping: Node that contains the first key of the path.
        path: Keys of the value.
        value: The new value; None to remove the entry.
        present: The present value.
    """
    key, *rest = path
    entry = next(((name, node) for name, node in mapping.value if name.value == key), None)
    if entry is None:
        nested = value
        for outer in reversed(rest):
            nested = {outer: nested}
        return text if value is None else _append_entry_to_mapping(text, mapping, key, nested)
    name, node = entry
    if rest and isinstance(node, yaml.MappingNode) and not node.flow_style:
        if value is None and len(rest) == 1 and [name.value for name, _ in node.value] == rest:
            return _replace_entry_value(text, name, node, {})  # the mapping loses its last entry
        return _edit_yaml_text(text, node, rest, value, present)
    if rest:
        data = (
            parse_yaml_nodes_and_values(text[node.start_mark.index : node.end_mark.index])[1]
            if _is_flow_mapping(node)
            else {}
        )
        return _replace_entry_value(text, name, node, _copy_with_value(data, rest, value))
    return _replace_or_remove_entry(text, name, node, value, present)


def _replace_or_remove_entry(text: str, name: yaml.Node, node: yaml.Node, value: Any, present: Any) -> str:
    """Replace the value of an entry, or remove the entry if the value is None."""
    if value is None:
        return _remove_entry(text, name, node)
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and isinstance(value, list):
        return _edit_block_sequence(text, name, node, value, present)
    return _replace_entry_value(text, name, node, value)


def _edit_block_sequence(
    text: str, name: yaml.Node, node: yaml.SequenceNode, value: list[Any], present: list[Any]
) -> str:
    """Remove and append items of a block sequence; the other items keep their lines."""
    kept_indices = [index for index, item in enumerate(present) if item in value]
    added_items = [item for item in value if item not in present]
    if not kept_indices or [present[index] for index in kept_indices] + added_items != value:
        return _replace_entry_value(text, name, node, value)
    prefix = f"\n{' ' * node.start_mark.column}- "
    sequence_end = _find_line_end(text, _node_end_index(node))
    changed = (
        text[:sequence_end]
        + "".join(f"{prefix}{_to_one_line_yaml(item)}" for item in added_items)
        + text[sequence_end:]
    )
    for index in reversed(range(len(present))):
        if index not in kept_indices:
            start = text.rfind("\n", 0, node.value[index].start_mark.index) + 1
            changed = changed[:start] + changed[_find_line_end(text, _node_end_index(node.value[index])) + 1 :]
    return changed


def _find_line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end


def _is_flow_mapping(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and bool(node.flow_style)


def _replace_entry_value(text: str, name: yaml.Node, node: yaml.Node, value: Any) -> str:
    colon = text.index(":", name.end_mark.index)
    return f"{text[: colon + 1]} {_to_one_line_yaml(value)}{text[_node_end_index(node) :]}"


def _append_entry_to_mapping(text: str, mapping: yaml.MappingNode, key: str, value: Any) -> str:
    """Insert a line after the last one of a block mapping."""
    line_end = _find_line_end(text, _node_end_index(mapping))
    column = mapping.start_mark.column
    return f"{text[:line_end]}\n{' ' * column}{key}: {_to_one_line_yaml(value)}{text[line_end:]}"


def _remove_entry(text: str, name: yaml.Node, node: yaml.Node) -> str:
    """Remove the lines of an entry of a block mapping."""
    start = text.rfind("\n", 0, name.start_mark.index) + 1
    line_end = text.find("\n", _node_end_index(node))
    return text[:start] + ("" if line_end < 0 else text[line_end + 1 :])


def _node_end_index(node: yaml.Node) -> int:
    """Return the end of a node; for a block collection that of its last item, without the comments after it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _node_end_index(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _to_one_line_yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    text = yaml.dump(
        value, Dumper=StudyDumper, default_flow_style=True, allow_unicode=True, sort_keys=False, width=_MAX_WIDTH
    )
    return text.removesuffix("\n").removesuffix("\n...").strip()
