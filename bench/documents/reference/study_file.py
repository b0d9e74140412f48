"""Tables of docs/studies.md: every key of a study file with type, default and meaning.

They come from the JSON Schema of `StudySpec`, so from types, bounds, defaults and docstrings of `bln_search.specs`.
`python -m bench.documents.reference.study_file --write` writes them into the page.
"""

from __future__ import annotations

import argparse
import re
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from bench.documents.reference.schema import Schema, alternatives, properties, table, type_text
from bln_search.core.built_in_adaptations import BUILT_IN_ADAPTATIONS
from bln_search.specs.study import StudySpec

PAGE = Path(__file__).parents[3] / "docs" / "studies.md"
HEAD = ("key", "type", "default", "meaning")

REJECTED = {"PopulationEstimate": {"memory", "last_step", "analytic"}, "Split": {"train"}}
"""Members of enumerations that a study file cannot name."""

ADAPTATION_METHODS = "AdaptationMethods"
"""Name of the block of the methods of adaptation."""

_DIMENSIONS, _RATES, _SCHEDULES = (
    "[dimensions](#space)",
    "[learning rate schedule](#learning-rate)",
    "[schedule](#schedules)",
)
_LINKS = {
    "ArmSpec": "[arms](#arms)",
    "ConditionSpec": "[conditions](#conditions)",
    "InferenceConfiguration": "[configuration](configurations.md)",
    "JsonValue": "any values",
    "SeedsUntilDecided": "[`until: decided`](#seeds-until-the-answer-is-certain)",
    **dict.fromkeys(("ChoiceDimension", "FloatDimension", "IntDimension", "ScheduleDimension"), _DIMENSIONS),
    **dict.fromkeys(("ConstantRate", "CosineRate", "ExponentialRate", "StepRate"), _RATES),
    **dict.fromkeys(("Constant", "Ramp", "Steps"), _SCHEDULES),
}
"""Links to the parts of the page; a section has the heading of its key."""


@cache
def study_schema() -> Schema:
    """The JSON Schema of a study file, whose `$defs` include `StudySpec` itself."""
    schema = StudySpec.model_json_schema()
    schema["$defs"]["StudySpec"] = {key: value for key, value in schema.items() if key != "$defs"}
    return schema


def keys_table(name: str) -> str:
    """The table of the keys of one section, a class of `bln_search.specs`."""
    schema = study_schema()["$defs"][name]
    return table(
        HEAD,
        [
            (f"`{key.name}`", key.type, _default_text(schema["properties"][key.name], key.default), key.meaning)
            for key in properties(schema, _link)
        ],
    )


def adaptation_methods_table() -> str:
    """The table of the built-in methods of test-time adaptation, with their options."""
    rows = [
        (
            f"`{name}`",
            "; ".join(
                f"`{key}`: {type_text(TypeAdapter(kind).json_schema(), str)}" for key, kind in info.own_options.items()
            )
            or "–",
            f"`{info.default_configuration}`",
            "outputs only" if info.reads_outputs_only else "weights or statistics",
        )
        for name, info in sorted(BUILT_IN_ADAPTATIONS.items())
    ]
    return table(("method", "options", "configuration", "changes"), rows)


def render(markdown: str) -> str:
    """Replace the text between `<!-- NAME -->` and `<!-- /NAME -->` by the table of the class NAME."""

    def replace(block: re.Match[str]) -> str:
        name = block["name"]
        text = adaptation_methods_table() if name == ADAPTATION_METHODS else keys_table(name)
        return f"{block['opening']}\n{text}\n{block['closing']}"

    return re.sub(
        r"(?P<opening><!-- (?P<name>\w+) -->\n).*?(?P<closing><!-- /(?P=name) -->)", replace, markdown, flags=re.DOTALL
    )


def _default_text(field: Schema, default: str) -> str:
    """A section that is left out has every default of its own keys."""
    return "every default" if "$ref" in field and isinstance(field.get("default"), dict) else default


def _link(name: str) -> str:
    if name in _LINKS:
        return _LINKS[name]
    schemas = study_schema()["$defs"]
    if "enum" not in schemas[name]:
        fields = [field for schema in schemas.values() for field in schema.get("properties", {}).items()]
        key = next(key for key, field in fields if f"#/$defs/{name}" in str(field))
        return f"[`{key}`](#{key})"
    values = [value for value in schemas[name]["enum"] if value not in REJECTED.get(name, ())]
    return alternatives(values)


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/studies.md")
    text = render(PAGE.read_text(encoding="utf-8"))
    if parser.parse_args().write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
