"""Convert a space to Optuna distributions, and points to Optuna parameters and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from bln_search.specs.sections.space import (
    ChoiceDimension,
    FloatDimension,
    IntDimension,
    Point,
    ScheduleDimension,
    Space,
)


def optuna_distributions_of_space(space: Space) -> dict[str, BaseDistribution]:
    """Distributions by parameter name; a schedule has a parameter for each of its free numbers."""
    return dict(_iter_named_distributions(space))


def point_from_optuna_parameters(space: Space, parameters: Mapping[str, Any]) -> Point:
    """The point of the space for Optuna's parameters."""
    point: Point = {}
    for key, dimension in space.items():
        if isinstance(dimension, ScheduleDimension) and dimension.values is None:
            numbers = [parameters[_optuna_parameter_name(key, name)] for name in dimension.varying_number_names]
            point[key] = dimension.make_schedule_mapping(numbers)
        elif _passes_choices_as_json(dimension):
            point[key] = json.loads(parameters[key])
        else:
            point[key] = parameters[key]
    return point


def optuna_parameters_of_point(space: Space, point: Mapping[str, Any]) -> dict[str, Any]:
    """Optuna's parameters for a point: the inverse of `point_from_optuna_parameters`."""
    parameters: dict[str, Any] = {}
    for key, dimension in space.items():
        value = point[key]
        if isinstance(dimension, ScheduleDimension) and dimension.values is None:
            numbers = value["steps"].values() if "steps" in value else (value["initial"], value["final"])
            names = [_optuna_parameter_name(key, name) for name in dimension.varying_number_names]
            parameters.update(zip(names, numbers, strict=True))
        else:
            parameters[key] = _encode_choice(value) if _passes_choices_as_json(dimension) else value
    return parameters


def _iter_named_distributions(space: Space) -> Iterator[tuple[str, BaseDistribution]]:
    for key, dimension in space.items():
        if isinstance(dimension, FloatDimension):
            yield key, FloatDistribution(dimension.low, dimension.high, log=dimension.log)
        elif isinstance(dimension, IntDimension):
            yield key, IntDistribution(dimension.low, dimension.values[-1], log=dimension.log, step=dimension.step)
        elif isinstance(dimension, ScheduleDimension) and dimension.values is None:
            assert dimension.low is not None
            assert dimension.high is not None
            for name in dimension.varying_number_names:
                yield _optuna_parameter_name(key, name), FloatDistribution(dimension.low, dimension.high)
        else:
            values = dimension.representative_values
            yield (
                key,
                CategoricalDistribution(
                    [_encode_choice(value) if _passes_choices_as_json(dimension) else value for value in values]
                ),
            )


def _passes_choices_as_json(dimension: object) -> bool:
    """Are the choices passed as JSON? Optuna takes only plain values."""
    if isinstance(dimension, ScheduleDimension):
        return dimension.values is not None
    return isinstance(dimension, ChoiceDimension) and not all(
        isinstance(value, bool | int | float | str) or value is None for value in dimension.values
    )


def _encode_choice(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _optuna_parameter_name(key: str, name: str) -> str:
    return f"{key}[{name}]"
