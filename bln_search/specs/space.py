"""The space of a search: which keys of a trial vary, and over what.

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
from math import isfinite, prod
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue, TypeAdapter, model_validator

from bln_search.specs.base import Spec, each_once
from bln_search.specs.schedule import Fraction, Schedule

SECTIONS = ("arm", "training", "model")
_GOLDEN = (5**0.5 - 1) / 2
Point = dict[str, Any]
"""For each key of a space one value of its dimension."""


def _number(value: Any) -> Any:
    """YAML 1.1 reads 1e-3 as a word."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


Number = Annotated[float, BeforeValidator(_number)]


class FloatDimension(Spec):
    """A real number between `low` and `high`; log: uniform in its logarithm."""

    kind: Literal["float"]
    low: Number
    high: Number
    log: bool = False

    @model_validator(mode="after")
    def _not_empty(self) -> FloatDimension:
        _check_bounds(self.low, self.high, log=self.log)
        return self

    @property
    def ends(self) -> list[Any]:
        """Values at its borders and one between, of no special kind."""
        return [self.low, self.low + (self.high - self.low) * _GOLDEN, self.high]


WholeNumber = Annotated[int, Field(ge=-(2**53), le=2**53)]
"""One that a floating-point number holds exactly."""


class IntDimension(Spec):
    """A whole number between `low` and `high`, both included, in steps; log: uniform in its logarithm."""

    kind: Literal["int"]
    low: WholeNumber
    high: WholeNumber
    step: Annotated[WholeNumber, Field(ge=1)] = 1
    log: bool = False

    @model_validator(mode="after")
    def _not_empty(self) -> IntDimension:
        _check_bounds(self.low, self.high, log=self.log)
        if self.log and self.step != 1:
            raise ValueError("log and step exclude each other: remove one")
        return self

    @property
    def values(self) -> range:
        """All of them."""
        return range(self.low, self.high + 1, self.step)

    @property
    def ends(self) -> list[Any]:
        """Values at its borders."""
        return [self.low, self.values[-1]]


class ChoiceDimension(Spec):
    """One of the values written out."""

    takes_words = frozenset({"values"})

    kind: Literal["choice"]
    values: tuple[JsonValue, ...] = Field(min_length=1, max_length=10_000)

    @model_validator(mode="after")
    def _each_once(self) -> ChoiceDimension:
        each_once(tuple(json.dumps(value, sort_keys=True) for value in self.values), "values")
        return self

    @property
    def ends(self) -> list[Any]:
        """All of them."""
        return list(self.values)


class ScheduleDimension(Spec):
    """A schedule: one of `values`; or steps at the fractions `at`, each value free between `low` and `high`.

    form: instead of steps, a `linear` or `cosine` ramp whose ends are free.
    """

    kind: Literal["schedule"]
    values: tuple[Schedule, ...] | None = Field(default=None, min_length=1, max_length=10_000)
    at: tuple[Fraction, ...] | None = Field(default=None, min_length=1, max_length=20)
    form: Literal["steps", "linear", "cosine"] = "steps"
    low: Number | None = None
    high: Number | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> ScheduleDimension:
        free = [name for name in ("at", "low", "high") if getattr(self, name) is not None]
        if self.values is not None:
            if free:
                raise ValueError(f"values and {', '.join(free)} exclude each other: write schedules out, or leave free")
            if len(set(self.values_written)) < len(self.values):
                raise ValueError("values names a schedule twice: each counts once")
            return self
        if self.low is None or self.high is None:
            raise ValueError("give values (schedules written out), or low and high of free ones")
        _check_bounds(self.low, self.high, log=False)
        if self.form == "steps" and (self.at is None or self.at[0] != 0 or sorted(set(self.at)) != list(self.at)):
            raise ValueError("give at, the rising fractions of training where steps begin, the first of them 0")
        if self.form != "steps" and self.at is not None:
            raise ValueError(f"a {self.form} ramp has no steps: remove at")
        return self

    @property
    def values_written(self) -> list[str]:
        """The schedules as JSON."""
        return [TypeAdapter(Schedule).dump_json(value).decode() for value in self.values or ()]

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the free numbers."""
        return tuple(repr(at).removesuffix(".0") for at in self.at) if self.at else ("initial", "final")

    def schedule(self, numbers: list[float]) -> Any:
        """The schedule with these free numbers, as it is written in a study file."""
        if self.form == "steps":
            return {"kind": "steps", "steps": dict(zip(self.coordinates, numbers, strict=True))}
        return {"kind": self.form, "initial": numbers[0], "final": numbers[1]}

    @property
    def ends(self) -> list[Any]:
        """All of them, or the flat ones at the borders."""
        if self.values is not None:
            return [json.loads(written) for written in self.values_written]
        return [self.schedule([bound] * len(self.coordinates)) for bound in (self.low, self.high) if bound is not None]


Dimension = Annotated[FloatDimension | IntDimension | ChoiceDimension | ScheduleDimension, Field(discriminator="kind")]


def finite_values(
    dimension: FloatDimension | IntDimension | ChoiceDimension | ScheduleDimension,
) -> Sequence[Any] | None:
    """Everything the dimension can be, None where that cannot be written out."""
    if isinstance(dimension, IntDimension):
        return dimension.values
    if isinstance(dimension, ChoiceDimension) or (isinstance(dimension, ScheduleDimension) and dimension.values):
        return dimension.ends
    return None


Space = dict[str, Dimension]


def grid_size(space: Space) -> int:
    """How many points a space has whose dimensions can all be written out."""
    return prod(len(finite_values(dimension) or ()) for dimension in space.values())


def grid(space: Space) -> Iterator[Point]:
    """Every point of such a space, the last key varying fastest."""
    values = [finite_values(dimension) or [] for dimension in space.values()]
    for chosen in product(*values):
        yield dict(zip(space, chosen, strict=True))


def point_label(point: Point) -> str:
    """The point for people: `lambda=0.5 batch_size=8`."""
    named: list[tuple[str, Any]] = []
    for key, value in sorted(point.items()):
        whole_section = isinstance(value, dict) and key in SECTIONS
        named += sorted(value.items()) if whole_section else [(key.rpartition(".")[2], value)]
    return " ".join(f"{name}={_shown(value)}" for name, value in named)


def written_label(written: str) -> str:
    """The same of a point that is written as JSON; empty for none."""
    return point_label(json.loads(written)) if written else ""


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict) and value.get("kind") in ("constant", "steps", "linear", "cosine"):
        schedule = TypeAdapter(Schedule).validate_python(value)
        return str(schedule).replace(" ", ",")
    if isinstance(value, dict):
        return ",".join(f"{key}:{_shown(one)}" for key, one in sorted(value.items()))
    return str(value)


def _check_bounds(low: float, high: float, *, log: bool) -> None:
    if not (isfinite(low) and isfinite(high)) or low >= high:
        raise ValueError(f"low {low:g} and high {high:g} leave nothing to choose: low comes first")
    if log and low <= 0:
        raise ValueError(f"a logarithmic dimension starts above 0, not at {low:g}")
