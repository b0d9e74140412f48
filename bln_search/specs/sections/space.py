"""The space of a search: the keys of a trial that vary, and their dimensions.

    space:
      training.learning_rate: {kind: float, low: 1e-3, high: 1e-1, log: true}
      training.batch_size: {kind: choice, values: [8, 32, 128]}
      arm.lambda: {kind: schedule, at: [0, 0.4, 0.6], low: 0, high: 1}

A key is `arm`, `training` or `model` and a key of that section, or the section itself, whose values are then mappings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import product
from math import isfinite, log10, prod
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue, TypeAdapter, model_validator

from bln_search.specs.sections.schedule import Fraction, Schedule
from bln_search.specs.spec_section import SpecSection, require_unique

SECTIONS = ("arm", "training", "model")
HORIZON_KEY = "search.horizon"
"""Key of the horizon in the parameters of a search trial, which separates it from the full training at that point."""

_GOLDEN = (5**0.5 - 1) / 2
Point = dict[str, Any]
"""One value of the dimension of every key of a space."""


def _parse_number_if_text(value: Any) -> Any:
    """Convert strings to numbers: YAML 1.1 reads 1e-3 as a string."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


Number = Annotated[float, BeforeValidator(_parse_number_if_text)]


class FloatDimension(SpecSection):
    """A real number.

    Attributes:
        kind: A real number.
        low: Lower bound.
        high: Upper bound.
        log: Sample on a logarithmic scale.
    """

    kind: Literal["float"]
    low: Number
    high: Number
    log: bool = False

    @model_validator(mode="after")
    def _check_range(self) -> FloatDimension:
        _check_bounds(self.low, self.high, log=self.log)
        return self

    @property
    def representative_values(self) -> list[Any]:
        """The bounds, and an arbitrary value between them."""
        return [self.low, self.low + (self.high - self.low) * _GOLDEN, self.high]

    @property
    def bounds_on_scale(self) -> tuple[float, float]:
        """The bounds; their log₁₀ if the scale is logarithmic."""
        return (log10(self.low), log10(self.high)) if self.log else (self.low, self.high)

    def value_from_scale(self, number: float) -> float:
        """The value of a number between `bounds_on_scale`."""
        return float(min(max(10.0**number, self.low), self.high)) if self.log else number


WholeNumber = Annotated[int, Field(ge=-(2**53), le=2**53)]
"""A whole number that a float represents exactly."""


class IntDimension(SpecSection):
    """A whole number.

    Attributes:
        kind: A whole number.
        low: Lower bound, included.
        high: Upper bound, included.
        step: Distance of values; cannot be combined with `log`.
        log: Sample on a logarithmic scale.
    """

    kind: Literal["int"]
    low: WholeNumber
    high: WholeNumber
    step: Annotated[WholeNumber, Field(ge=1)] = 1
    log: bool = False

    @model_validator(mode="after")
    def _check_range(self) -> IntDimension:
        _check_bounds(self.low, self.high, log=self.log)
        if self.log and self.step != 1:
            raise ValueError("log and step exclude each other: remove one")
        return self

    @property
    def values(self) -> range:
        """Every value."""
        return range(self.low, self.high + 1, self.step)

    @property
    def representative_values(self) -> list[Any]:
        """The lowest and the highest value."""
        return [self.low, self.values[-1]]


_LEVELS = 5
"""Levels of the values of a choice: their list, a section, a list of it, a schedule, and its steps."""


def _write_number_keys_as_text(value: Any, levels: int = _LEVELS) -> Any:
    """Write keys that are numbers as text, as JSON has them: `{0: 0.1, 0.4: 0.5}` is a schedule."""
    if not levels or not isinstance(value, list | tuple | dict):
        return value
    if not isinstance(value, dict):
        return [_write_number_keys_as_text(member, levels - 1) for member in value]
    written = {
        repr(key).removesuffix(".0") if type(key) in (int, float) else key: _write_number_keys_as_text(
            member, levels - 1
        )
        for key, member in value.items()
    }
    if len(written) < len(value):
        raise ValueError(f"the keys {', '.join(map(repr, value))} name a fraction twice: write each once")
    return written


class ChoiceDimension(SpecSection):
    """A categorical choice.

    Attributes:
        kind: One of the listed values.
        values: Any values of that key.
    """

    takes_booleans = frozenset({"values"})

    kind: Literal["choice"]
    values: Annotated[
        tuple[JsonValue, ...], Field(min_length=1, max_length=10_000), BeforeValidator(_write_number_keys_as_text)
    ]

    @model_validator(mode="after")
    def _check_unique_values(self) -> ChoiceDimension:
        require_unique(tuple(json.dumps(value, sort_keys=True) for value in self.values), "values")
        return self

    @property
    def representative_values(self) -> list[Any]:
        """Every value."""
        return list(self.values)


class ScheduleDimension(SpecSection):
    """A schedule: one of `values`, or a form whose numbers vary between `low` and `high`.

    Attributes:
        kind: A schedule.
        values: A list of schedules; alternatively set the keys below.
        at: Increasing fractions of training at which steps begin, the first of them 0.
        form: `steps` at the fractions `at`, or a `linear` or `cosine` ramp over all of training.
        low: Lower bound of each step or end.
        high: Upper bound of each step or end.
    """

    kind: Literal["schedule"]
    values: tuple[Schedule, ...] | None = Field(default=None, min_length=1, max_length=10_000)
    at: tuple[Fraction, ...] | None = Field(default=None, min_length=1, max_length=20)
    form: Literal["steps", "linear", "cosine"] = "steps"
    low: Number | None = None
    high: Number | None = None

    @model_validator(mode="after")
    def _check_values_or_bounds(self) -> ScheduleDimension:
        range_keys = [name for name in ("at", "low", "high") if getattr(self, name) is not None]
        if self.values is not None:
            if range_keys:
                raise ValueError(f"values and {', '.join(range_keys)} exclude each other: give one of the two")
            if len(set(self.values_as_json)) < len(self.values):
                raise ValueError("values has a schedule twice: write each once")
            return self
        if self.low is None or self.high is None:
            raise ValueError("give values (a list of schedules), or low and high")
        _check_bounds(self.low, self.high, log=False)
        if self.form == "steps" and (self.at is None or self.at[0] != 0 or sorted(set(self.at)) != list(self.at)):
            raise ValueError("give at, the rising fractions of training where steps begin, the first of them 0")
        if self.form != "steps" and self.at is not None:
            raise ValueError(f"a {self.form} ramp has no steps: remove at")
        return self

    @property
    def values_as_json(self) -> list[str]:
        """The listed schedules as JSON."""
        return [TypeAdapter(Schedule).dump_json(value).decode() for value in self.values or ()]

    @property
    def varying_number_names(self) -> tuple[str, ...]:
        """Names of the varying numbers."""
        return tuple(repr(at).removesuffix(".0") for at in self.at) if self.at else ("initial", "final")

    def make_schedule_mapping(self, numbers: list[float]) -> Any:
        """The schedule with these numbers, as a study file has it."""
        if self.form == "steps":
            return {"kind": "steps", "steps": dict(zip(self.varying_number_names, numbers, strict=True))}
        return {"kind": self.form, "initial": numbers[0], "final": numbers[1]}

    @property
    def representative_values(self) -> list[Any]:
        """Every listed schedule, or the constant schedules at the bounds."""
        if self.values is not None:
            return [json.loads(text) for text in self.values_as_json]
        return [
            self.make_schedule_mapping([bound] * len(self.varying_number_names))
            for bound in (self.low, self.high)
            if bound is not None
        ]


DIGITS = 4
"""Significant digits of a number in a label, unless more are needed."""

EXACT_DIGITS = 17
"""Significant digits that identify every number."""

Dimension = Annotated[FloatDimension | IntDimension | ChoiceDimension | ScheduleDimension, Field(discriminator="kind")]


def list_values_if_finite(
    dimension: FloatDimension | IntDimension | ChoiceDimension | ScheduleDimension,
) -> Sequence[Any] | None:
    """Every value of the dimension; None if there are infinitely many."""
    if isinstance(dimension, IntDimension):
        return dimension.values
    if isinstance(dimension, ChoiceDimension) or (isinstance(dimension, ScheduleDimension) and dimension.values):
        return dimension.representative_values
    return None


Space = dict[str, Dimension]


def num_grid_points(space: Space) -> int:
    """The number of points of a space whose dimensions are all finite."""
    return prod(len(list_values_if_finite(dimension) or ()) for dimension in space.values())


def iter_grid_points(space: Space) -> Iterator[Point]:
    """Every point of a space whose dimensions are all finite; the last key varies fastest."""
    values = [list_values_if_finite(dimension) or [] for dimension in space.values()]
    for combination in product(*values):
        yield dict(zip(space, combination, strict=True))


def format_point(point: Point, digits: int = DIGITS) -> str:
    """Format a point for people: `lambda=0.5 batch_size=8`.

    Args:
        point: The point.
        digits: Significant digits of its numbers. `point_labels` finds those that distinguish several points.
    """
    return " ".join(
        f"{name}={format_parameter_value(value, digits)}" for name, value in _list_parameters_of_point(point)
    )


def parse_point_parameters(point_json: str) -> dict[str, Any]:
    """Value by name of the parameters of a point that is stored as JSON; empty for no point."""
    return dict(_list_parameters_of_point(json.loads(point_json))) if point_json else {}


def _list_parameters_of_point(point: Point) -> list[tuple[str, Any]]:
    named_values: list[tuple[str, Any]] = []
    for key, value in sorted(point.items()):
        is_section = isinstance(value, dict) and key in SECTIONS
        named_values += sorted(value.items()) if is_section else [(key.rpartition(".")[2], value)]
    return named_values


def format_encoded_point(point_json: str, digits: int = DIGITS) -> str:
    """Format a point that is stored as JSON; an empty string stays empty."""
    return format_point(json.loads(point_json), digits) if point_json else ""


def format_parameter_value(value: Any, digits: int = DIGITS) -> str:
    """Format the value of a parameter: numbers with `digits` significant digits, schedules as in `linear,0.35,0.83`.

    Numbers of schedules have one digit less. `EXACT_DIGITS` gives every number as the study file has it.
    """
    if isinstance(value, float):
        return repr(value) if digits >= EXACT_DIGITS else f"{value:.{digits}g}"
    if isinstance(value, dict) and value.get("kind") in ("constant", "steps", "linear", "cosine"):
        schedule = TypeAdapter(Schedule).validate_python(value)
        return schedule.format(digits - 1).replace(" ", ",")
    if isinstance(value, dict):
        return ",".join(f"{key}:{format_parameter_value(member, digits)}" for key, member in sorted(value.items()))
    return str(value)


def format_parameter_value_short(value: Any, digits: int = DIGITS) -> str:
    """Format the value of a parameter for a narrow column: schedules as their values alone, `0.35→0.23→0.83`."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "steps":
        return "→".join(f"{number:.{digits - 1}g}" for number in value["steps"].values())
    if kind in ("linear", "cosine"):
        return f"{value['initial']:.{digits - 1}g}→{value['final']:.{digits - 1}g}"
    return format_parameter_value(value, digits)


def _check_bounds(low: float, high: float, *, log: bool) -> None:
    if not (isfinite(low) and isfinite(high)) or low >= high:
        raise ValueError(f"low {low:g} and high {high:g} are not a range: low must be less than high")
    if log and low <= 0:
        raise ValueError(f"a logarithmic dimension starts above 0, not at {low:g}")
