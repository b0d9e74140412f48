"""The form of a new study: fields that are read from and written into the YAML text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.core.corruption import DEFAULT_SEVERITY
from bln_search.core.errors import SpecError
from bln_search.specs.sections.seeds import PLANNED_LOOKS
from bln_search.specs.yaml_document import parse_yaml_nodes_and_values
from service.pages.editor.yaml_text import find_value_at_path, set_value_in_yaml


@dataclass(frozen=True)
class FormField:
    """A field of the form.

    Attributes:
        name: Name in the HTML form.
        label: Label for the user.
        path: Keys of the value in the study.
        kind: Kind of the input element: text, number, list, seeds, conditions, choice, choices or methods.
        help: Hint for the user.
        is_optional: Whether an empty list removes the entry from the study.
    """

    name: str
    label: str
    path: tuple[str, ...]
    kind: str
    help: str = ""
    is_optional: bool = False


FIELDS = (
    FormField("name", "Name", ("name",), "text", "lower-case letters, digits, - and _"),
    FormField("title", "Title", ("title",), "text"),
    FormField("data", "Data set", ("data", "name"), "choice"),
    FormField("fraction", "Part of the training set", ("data", "fraction"), "number", "0.2 for a fifth, 1 for all"),
    FormField("model", "Network", ("model", "name"), "choice"),
    FormField("methods", "Normalization", ("arms",), "methods", "one arm each"),
    FormField("population", "Population estimates", ("evaluation", "population"), "choices"),
    FormField(
        "inference_sizes",
        "Inference mini-batch sizes",
        ("evaluation", "batch_sizes"),
        "list",
        "as in 1, 4, 64; by default that of training",
        is_optional=True,
    ),
    FormField(
        "blends",
        "Blends of population and mini-batch",
        ("evaluation", "blends"),
        "list",
        "weights of the population, as in 0.1, 0.5, N16",
        is_optional=True,
    ),
    FormField(
        "moving",
        "Moving statistics of the mini-batches",
        ("evaluation", "moving"),
        "list",
        "weights of the value before, as in 0.9, 0.99, N16",
        is_optional=True,
    ),
    FormField(
        "conditions",
        "Conditions: corrupted images",
        ("evaluation", "conditions"),
        "conditions",
        "corruptions with a severity from 1 to 5, as in fog-3, contrast-5",
        is_optional=True,
    ),
    FormField(
        "seeds", "Seeds", ("seeds",), "seeds", "three or more to test differences; or “until decided, at most 20”"
    ),
    FormField("epochs", "Epochs", ("training", "epochs"), "number"),
    FormField("batch_size", "Mini-batch size", ("training", "batch_size"), "number"),
    FormField("learning_rate", "Learning rate", ("training", "learning_rate"), "number"),
)
_FIELD_BY_NAME = {field.name: field for field in FIELDS}
_MAX_LENGTH = 200
"""Characters of a value in the form; users edit longer ones in the YAML text."""


def read_form_values_from_yaml(text: str) -> dict[str, str | list[str]]:
    """Return the fields of a study's YAML text: empty for missing values, no fields if it cannot be parsed."""
    try:
        _, study = parse_yaml_nodes_and_values(text)
        return {field.name: _yaml_to_form_value(field, find_value_at_path(study, field.path)) for field in FIELDS}
    except (SpecError, ValueError):
        return {}


def set_field_in_yaml(text: str, name: str, value: str | list[str] | None) -> str:
    """Return the text with one field changed and everything else preserved.

    The text is returned unchanged if it cannot be parsed or if there is no such field.
    """
    field = _FIELD_BY_NAME.get(name)
    if field is None:
        return text
    try:
        _, study = parse_yaml_nodes_and_values(text)
        return set_value_in_yaml(
            text, field.path, _form_to_yaml_value(field, value, find_value_at_path(study, field.path))
        )
    except (SpecError, ValueError):
        return text


def _yaml_to_form_value(field: FormField, value: Any) -> str | list[str]:
    if field.kind == "methods":
        arms = value if isinstance(value, list) else []
        return [_to_short_text(arm["method"]) for arm in arms if isinstance(arm, dict) and "method" in arm]
    if field.kind == "choices":
        return [_to_short_text(item) for item in value] if isinstance(value, list) else []
    if field.kind == "seeds" and isinstance(value, dict):
        return _to_short_text(f"until {value.get('until')}, at most {value.get('at_most', PLANNED_LOOKS[-1])}")
    if field.kind in ("list", "seeds", "conditions"):
        return ", ".join(_condition_text(item) for item in value) if isinstance(value, list) else ""
    return "" if value is None else _to_short_text(value)


def _condition_text(item: Any) -> str:
    """The text of an item of a list; of a condition that is a mapping its name, or `CORRUPTION-SEVERITY`."""
    if not isinstance(item, dict):
        return _to_short_text(item)
    name = item.get("name") or f"{item.get('corruption', '')}-{item.get('severity', DEFAULT_SEVERITY)}"
    return _to_short_text(name)


def _to_short_text(value: Any) -> str:
    """Return a value as text; a lone surrogate, which UTF-8 cannot encode, becomes a question mark."""
    return "" if isinstance(value, dict | list) else str(value)[:_MAX_LENGTH].encode(errors="replace").decode()


def _form_to_yaml_value(field: FormField, value: str | list[str] | None, present: Any) -> Any:
    """Return the value for the study; None to remove it.

    Args:
        field: The field.
        value: Value of the form.
        present: Present value in the study.
    """
    if field.kind in ("methods", "choices"):
        selected = [value] if isinstance(value, str) else list(value or ())
        return _update_arms(selected, present) if field.kind == "methods" else selected
    text = "" if value is None else " ".join(value) if isinstance(value, list) else value.strip()
    if field.kind in ("list", "seeds", "conditions"):
        items = text.replace(",", " ").split()
        if field.kind == "seeds" and items[:1] == ["until"]:
            most = _parse_number_or_text(items[-1])
            return {"until": "decided"} | ({"at_most": most} if isinstance(most, int) else {})
        if field.is_optional and not items:
            return None
        return (
            _update_conditions(items, present)
            if field.kind == "conditions"
            else list(map(_parse_number_or_text, items))
        )
    if not text:
        return None
    return _parse_number_or_text(text) if field.kind == "number" else text


def _update_arms(methods: Sequence[str], present_arms: Any) -> list[Any]:
    """Return arms with these methods; arms that exist keep their settings."""
    existing = present_arms if isinstance(present_arms, list) else []
    kept_arms = [arm for arm in existing if isinstance(arm, dict) and arm.get("method") in methods]
    kept_methods = {arm["method"] for arm in kept_arms}
    return kept_arms + [{"method": method} for method in methods if method not in kept_methods]


def _update_conditions(texts: Sequence[str], present_conditions: Any) -> list[Any]:
    """Return conditions with these texts; those that exist keep their settings."""
    existing = present_conditions if isinstance(present_conditions, list) else []
    by_text = {_condition_text(condition): condition for condition in existing}
    return [by_text.get(text, text) for text in texts]


def _parse_number_or_text(text: str) -> Any:
    """Return an int or a float; the text itself if it is neither."""
    for number_type in (int, float):
        try:
            return number_type(text)
        except ValueError:
            continue
    return text
