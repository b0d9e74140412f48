"""The part of a specification that describes networks which were trained and evaluated elsewhere."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema, field_validator

from bln_search.core.blend import parse_estimate
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.specs.base import Spec, require_storable_text
from bln_search.specs.sections.configuration_code import ConfigurationCode

EXTERNAL_ARM = "network"
"""Label of the only arm of a study with external results."""

LARGEST_SPLIT = 10_000_000
"""Largest number of examples of a split of external results."""


def _require_code(value: object) -> object:
    """Return the value. Raises ValueError unless it is a code: pydantic also reads an object with the field `code`."""
    if not isinstance(value, str | InferenceConfiguration):
        raise ValueError("write a configuration as four letters, like TTFF")  # noqa: TRY004 - pydantic reports it
    return value


Code = Annotated[
    ConfigurationCode, BeforeValidator(_require_code), WithJsonSchema({"type": "string", "pattern": "^[MTFB-]{4}$"})
]
"""A configuration as four letters, like `TTFF`."""

Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
EstimateLabel = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class ExternalNetwork(Spec):
    """A network whose results were submitted.

    Attributes:
        name: Name for display, unique in its study.
        sha256: Fingerprint of its parameters.
    """

    name: Text
    sha256: Sha256 | None = None

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        return require_storable_text(name)


class ExternalBaseline(Spec):
    """Loss (nats) and accuracy (fraction) of predicting the class frequencies of the split that ranks."""

    loss: Annotated[float, Field(ge=0)]
    accuracy: Annotated[float, Field(ge=0, le=1)]


class ExternalRow(Spec):
    """Configuration and population estimate of a row."""

    configuration: Code
    estimate: EstimateLabel | None = None

    @field_validator("estimate")
    @classmethod
    def _check_estimate(cls, estimate: str | None) -> str | None:
        if estimate is not None:
            parse_estimate(estimate)
        return estimate


class ExternalSpec(Spec):
    """Networks that were trained and evaluated elsewhere.

    Attributes:
        networks: The networks; seed i of the study is network i.
        examples: Number of examples of each evaluated split.
        results_sha256: Digest of all evaluations with their per-example outcomes.
        class_prior: What predicting the class frequencies reaches; None if targets are not classes.
        deployed: The row under which the networks compute their original outputs; None if there is none.
    """

    networks: tuple[ExternalNetwork, ...] = Field(min_length=1, max_length=1000)
    examples: dict[Split, Annotated[int, Field(ge=1, le=LARGEST_SPLIT)]]
    results_sha256: Sha256
    class_prior: ExternalBaseline | None = None
    deployed: ExternalRow | None = None
