"""The weight of a blend in a study file: a number between 0 and 1, or a number of prior examples such as `N16`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from bln_search.core.blend import PopulationWeight


def _parse_blend(value: Any) -> Any:
    return value if isinstance(value, PopulationWeight) else PopulationWeight.parse(value)


def _serialize_blend(blend: PopulationWeight) -> float | str:
    return str(blend) if blend.is_prior else blend.value


BlendWeight = Annotated[
    PopulationWeight,
    BeforeValidator(_parse_blend),
    PlainSerializer(_serialize_blend, return_type=float | str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                {"type": "string", "pattern": r"^N[1-9][0-9]{0,8}(\.[0-9]{1,9})?$"},
            ]
        }
    ),
]
"""α, or N of α = N/(N+m); serialized in the form in which a study file has it."""
