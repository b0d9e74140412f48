"""The form of a new study: a few entries of its YAML, read from it and written into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bln_search.core.errors import SpecError
from bln_search.specs.load import read_plain
from service.pages.yaml_text import inside, put


@dataclass(frozen=True)
class Field:
    """An entry of the form. place: where it stands in the study. kind: how it is entered."""

    name: str
    label: str
    place: tuple[str, ...]
    kind: str
    help: str = ""


FIELDS = (
    Field("name", "Name", ("name",), "text", "small letters, digits, - and _"),
    Field("title", "Title", ("title",), "text"),
    Field("data", "Data set", ("data", "name"), "choice"),
    Field("fraction", "Part of the training set", ("data", "fraction"), "number", "0.2 for a fifth, 1 for all"),
    Field("model", "Network", ("model", "name"), "choice"),
    Field("methods", "Normalization", ("arms",), "methods", "one arm each"),
    Field("population", "Population estimates", ("evaluation", "population"), "choices"),
    Field("seeds", "Seeds", ("seeds",), "list", "three or more tell chance from difference"),
    Field("epochs", "Epochs", ("training", "epochs"), "number"),
    Field("batch_size", "Mini-batch size", ("training", "batch_size"), "number"),
    Field("learning_rate", "Learning rate", ("training", "learning_rate"), "number"),
)
_BY_NAME = {field.name: field for field in FIELDS}
_LONGEST = 200
"""Signs of an entry that is shown; longer ones are edited as text."""


def read_fields(text: str) -> dict[str, str | list[str]]:
    """What the form shows of a study's text; empty entries where the text has none, nothing where it cannot be read."""
    try:
        _, study = read_plain(text)
        return {field.name: _shown(field, inside(study, field.place)) for field in FIELDS}
    except (SpecError, ValueError):
        return {}


def set_field(text: str, name: str, value: str | list[str] | None) -> str:
    """The text with one entry changed and all else as it is; unchanged where it cannot be read or there is no such."""
    field = _BY_NAME.get(name)
    if field is None:
        return text
    try:
        _, study = read_plain(text)
        return put(text, field.place, _meant(field, value, inside(study, field.place)))
    except (SpecError, ValueError):
        return text


def _shown(field: Field, value: Any) -> str | list[str]:
    if field.kind == "methods":
        arms = value if isinstance(value, list) else []
        return [_short(arm["method"]) for arm in arms if isinstance(arm, dict) and "method" in arm]
    if field.kind == "choices":
        return [_short(one) for one in value] if isinstance(value, list) else []
    if field.kind == "list":
        return ", ".join(_short(one) for one in value) if isinstance(value, list) else ""
    return "" if value is None else _short(value)


def _short(value: Any) -> str:
    """A value in the form; half a character, which no text may hold, as a question mark."""
    return "" if isinstance(value, dict | list) else str(value)[:_LONGEST].encode(errors="replace").decode()


def _meant(field: Field, value: str | list[str] | None, before: Any) -> Any:
    """What goes into the study; None for nothing."""
    if field.kind in ("methods", "choices"):
        wanted = [value] if isinstance(value, str) else list(value or ())
        return _arms(wanted, before) if field.kind == "methods" else wanted
    given = "" if value is None else " ".join(value) if isinstance(value, list) else value.strip()
    if field.kind == "list":
        return [_number(one) for one in given.replace(",", " ").split()]
    if not given:
        return None
    return _number(given) if field.kind == "number" else given


def _arms(methods: Sequence[str], before: Any) -> list[Any]:
    """Arms of these methods; those there were keep their own settings."""
    old = before if isinstance(before, list) else []
    kept = [arm for arm in old if isinstance(arm, dict) and arm.get("method") in methods]
    known = {arm["method"] for arm in kept}
    return kept + [{"method": method} for method in methods if method not in known]


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
