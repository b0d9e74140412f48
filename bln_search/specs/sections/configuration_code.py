"""The code of an inference configuration as a value of a study file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from bln_search.core.configuration import InferenceConfiguration


def _parse_configuration(value: Any) -> Any:
    return InferenceConfiguration(value) if isinstance(value, str) else value


ConfigurationCode = Annotated[
    InferenceConfiguration, BeforeValidator(_parse_configuration), PlainSerializer(str, return_type=str)
]
