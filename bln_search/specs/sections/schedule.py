"""A value that changes while a network trains: λ of MBN, the ramps of BRN.

In a study file: a number; steps `{0: 0.1, 0.4: 0.5, 0.6: 0.9}`, from each fraction of training on; or a ramp
`{kind: linear, initial: 0.1, final: 0.9, begin: 0.2, end: 0.8}`, likewise `cosine`.
"""

from __future__ import annotations

from math import cos, pi
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from bln_search.specs.spec_section import SpecSection

Fraction = Annotated[float, Field(ge=0, lt=1)]


class Constant(SpecSection):
    """A constant value.

    Attributes:
        kind: The number alone is equivalent.
        value: The value.
    """

    kind: Literal["constant"] = "constant"
    value: float

    def value_at_progress(self, progress: float) -> float:  # noqa: ARG002 - every schedule takes the progress
        """The value after `progress`, the fraction of training that is done."""
        return self.value

    @property
    def bounding_values(self) -> tuple[float, ...]:
        """Values between which all others lie."""
        return (self.value,)

    def __str__(self) -> str:
        return self.format()

    def format(self, digits: int = 3) -> str:
        """The value with so many significant digits."""
        return f"{self.value:.{digits}g}"


class Steps(SpecSection):
    """A step function.

    Attributes:
        kind: The mapping alone is equivalent.
        steps: Values by the fraction of training from which they apply, the first from 0, as in `{0: 0.1, 0.4: 0.5}`.
    """

    kind: Literal["steps"] = "steps"
    steps: dict[Fraction, float] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _check_first_step(self) -> Steps:
        if 0 not in self.steps:
            raise ValueError("the steps of a schedule start at 0: say which value training begins with")
        return self

    def value_at_progress(self, progress: float) -> float:
        """The value after `progress`, the fraction of training that is done."""
        return self.steps[max(fraction for fraction in self.steps if fraction <= progress)]

    @property
    def bounding_values(self) -> tuple[float, ...]:
        """Values between which all others lie."""
        return tuple(self.steps.values())

    def __str__(self) -> str:
        return self.format()

    def format(self, digits: int = 3) -> str:
        """Each fraction with its value, which has so many significant digits."""
        return " ".join(f"{fraction:g}:{value:.{digits}g}" for fraction, value in sorted(self.steps.items()))


class Ramp(SpecSection):
    """A ramp from `initial` to `final` between the fractions `begin` and `end` of training, constant outside.

    Attributes:
        kind: Form of the ramp.
        initial: The value up to `begin`.
        final: The value from `end` on.
        begin: A fraction of training.
        end: A fraction of training.
    """

    kind: Literal["linear", "cosine"]
    initial: float
    final: float
    begin: Annotated[float, Field(ge=0, lt=1)] = 0.0
    end: Annotated[float, Field(gt=0, le=1)] = 1.0

    @model_validator(mode="after")
    def _check_order(self) -> Ramp:
        if self.begin >= self.end:
            raise ValueError(f"a ramp ends after it begins, not at {self.end} after {self.begin}")
        return self

    def value_at_progress(self, progress: float) -> float:
        """The value after `progress`, the fraction of training that is done."""
        fraction = min(max((progress - self.begin) / (self.end - self.begin), 0.0), 1.0)
        if self.kind == "cosine":
            fraction = (1 - cos(pi * fraction)) / 2
        return self.initial + (self.final - self.initial) * fraction

    @property
    def bounding_values(self) -> tuple[float, ...]:
        """Values between which all others lie."""
        return self.initial, self.final

    def __str__(self) -> str:
        return self.format()

    def format(self, digits: int = 3) -> str:
        """The form with both ends, which have so many significant digits."""
        interval = "" if (self.begin, self.end) == (0, 1) else f" {self.begin:g}-{self.end:g}"
        return f"{self.kind} {self.initial:.{digits}g}→{self.final:.{digits}g}{interval}"


def _add_schedule_kind(value: Any) -> Any:
    """Add the kind: a number is constant, a mapping of fractions is steps."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"kind": "constant", "value": value}
    if isinstance(value, dict) and "kind" not in value and not value.keys() & {"initial", "final", "value"}:
        return {"kind": "steps", "steps": value}
    return value


Schedule = Annotated[
    Annotated[Constant | Steps | Ramp, Field(discriminator="kind")],
    BeforeValidator(_add_schedule_kind),
]
