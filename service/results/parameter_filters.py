"""Filter rows by parameters of the search space, as in `learning_rate=0.1` or `weight_decay<=0.001`."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bln_search.specs.problems import Problem
from bln_search.specs.sections.space import format_parameter_value
from service.http.problems import ProblemException

_EXPRESSION = re.compile(r"([^\s<>=]+)\s*(<=|>=|=)\s*(\S.*)")
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True)
class ParameterFilter:
    """A requirement on one parameter.

    Attributes:
        name: Name of the parameter, as the leaderboard writes it.
        comparison: `=`, `<=` or `>=`.
        value: Value as text; a number for `<=` and `>=`.
    """

    name: str
    comparison: str
    value: str

    def matches(self, parameters: dict[str, Any]) -> bool:
        """Whether the parameters of a row meet the requirement; False for a row without the parameter."""
        if self.name not in parameters:
            return False
        value = parameters[self.name]
        if self.comparison == "=":
            return self.value in {str(value), format_parameter_value(value), json.dumps(value)} or _equals_number(
                value, self.value_as_number
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or self.value_as_number is None:
            return False
        return _COMPARISONS[self.comparison](value, self.value_as_number)

    @cached_property
    def value_as_number(self) -> float | None:
        """The value as a number; None for other text."""
        try:
            return float(self.value)
        except ValueError:
            return None


def _equals_number(value: object, number: float | None) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and value == number


def parse_parameter_filters(texts: Sequence[str], names: Sequence[str]) -> list[ParameterFilter]:
    """Return the filters of a query; empty texts are ignored.

    Args:
        texts: Expressions such as `learning_rate=0.1`.
        names: Parameters of the study.

    Raises:
        ProblemException: 422 if a text is no expression, or the study has no such parameter.
    """
    return [_parse_parameter_filter(text, names) for text in texts if text.strip()]


def _parse_parameter_filter(text: str, names: Sequence[str]) -> ParameterFilter:
    match = _EXPRESSION.fullmatch(text.strip())
    if match is None:
        raise _make_invalid_parameter_problem(
            f"{text!r} is no filter of a parameter: write NAME=VALUE, NAME<=NUMBER or NAME>=NUMBER"
        )
    parameter = ParameterFilter(*match.groups())
    if parameter.name not in names:
        choice = f"choose one of {', '.join(names)}" if names else "the study has no search space"
        raise _make_invalid_parameter_problem(f"there is no parameter {parameter.name!r}: {choice}")
    if parameter.comparison != "=" and parameter.value_as_number is None:
        raise _make_invalid_parameter_problem(f"{parameter.value!r} in {text!r} is not a number")
    return parameter


def _make_invalid_parameter_problem(message: str) -> ProblemException:
    return ProblemException(422, "invalid", message, [Problem(("parameter",), message)])
