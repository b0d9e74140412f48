"""The part of a specification that describes networks which were trained and evaluated elsewhere."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema, field_validator

from bln_search.core.blend import parse_estimate_label
from bln_search.core.configuration import CODE_LETTERS, InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.loss_description import LossDescription
from bln_search.core.names import CONDITION_PATTERN
from bln_search.specs.sections.condition import CLEAN, RESERVED_NAMES
from bln_search.specs.sections.configuration_code import ConfigurationCode
from bln_search.specs.spec_section import SpecSection, Storable

EXTERNAL_ARM = "network"
"""Label of the only arm of a study with external results."""

LARGEST_SPLIT = 10_000_000
"""Largest number of examples of a split of external results."""


def _require_configuration_code(value: object) -> object:
    """Return the value. Raises ValueError unless it is a code: pydantic also reads an object with the field `code`."""
    if not isinstance(value, str | InferenceConfiguration):
        raise ValueError("write a configuration as four letters, like TTFF")  # noqa: TRY004 - pydantic reports it
    return value


Code = Annotated[
    ConfigurationCode,
    BeforeValidator(_require_configuration_code),
    WithJsonSchema({"type": "string", "pattern": f"^[{CODE_LETTERS}]{{4}}$"}),
]
"""A configuration as four letters, like `TTFF`."""

Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
EstimateLabel = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=64), Storable]


def _check_condition_name(name: str) -> str:
    if name in RESERVED_NAMES - {CLEAN}:
        raise ValueError(f"the name {name} is reserved: give the condition another name")
    return name


ConditionName = Annotated[str, StringConstraints(pattern=CONDITION_PATTERN), AfterValidator(_check_condition_name)]
Examples = dict[Literal[Split.VALIDATION, Split.TEST], Annotated[int, Field(ge=1, le=LARGEST_SPLIT)]]
"""Number of examples by split."""


class ExternalNetwork(SpecSection):
    """A network whose results were submitted.

    Attributes:
        name: Name for display, unique in its study.
        sha256: Fingerprint of its parameters.
    """

    name: Text
    sha256: Sha256 | None = None


class ExternalBaseline(SpecSection):
    """Loss (nats) and accuracy (fraction) of predicting the class frequencies of the split that ranks."""

    loss: Annotated[float, Field(ge=0)]
    accuracy: Annotated[float, Field(ge=0, le=1)]


class ExternalInferenceRow(SpecSection):
    """Configuration and population estimate of a row."""

    configuration: Code
    estimate: EstimateLabel | None = None

    @field_validator("estimate")
    @classmethod
    def _check_estimate(cls, estimate: str | None) -> str | None:
        if estimate is not None:
            parse_estimate_label(estimate)
        return estimate


class ExternalLossDescription(SpecSection):
    """The loss of each example, if it is not the cross-entropy of a classification.

    Attributes:
        name: Its name, as `squared error`.
        unit: Its unit; empty for a loss without one.
        has_accuracy: Whether it says of each example if the prediction is correct.
    """

    name: Text
    unit: Annotated[str, StringConstraints(max_length=32), Storable] = ""
    has_accuracy: bool

    @property
    def description(self) -> LossDescription:
        """Name and unit."""
        return LossDescription(self.name, self.unit)


class ExternalSpec(SpecSection):
    """Networks that were trained and evaluated elsewhere.

    Attributes:
        networks: The networks; seed i of the study is network i.
        examples: Number of examples of each evaluated split.
        results_sha256: Digest of all evaluations with their per-example outcomes.
        class_prior: What predicting the class frequencies reaches; None if targets are not classes.
        deployed: The row under which the networks compute their original outputs; None if there is none.
        ranking_condition: Name of the condition whose loss ranks the rows; empty without conditions.
        conditions: Further conditions, with the number of examples of each evaluated split.
        score: The loss, if it is not the cross-entropy of a classification.
    """

    added_later = frozenset({"ranking_condition", "conditions", "score"})

    networks: tuple[ExternalNetwork, ...] = Field(min_length=1, max_length=1000)
    examples: dict[Split, Annotated[int, Field(ge=1, le=LARGEST_SPLIT)]]
    results_sha256: Sha256
    class_prior: ExternalBaseline | None = None
    deployed: ExternalInferenceRow | None = None
    ranking_condition: Annotated[str, StringConstraints(pattern=f"^$|{CONDITION_PATTERN}")] = ""
    conditions: dict[ConditionName, dict[Split, Annotated[int, Field(ge=1, le=LARGEST_SPLIT)]]] = Field(
        default={}, max_length=64
    )
    score: ExternalLossDescription | None = None
