"""Labels of several points of a search space: as many digits as distinguish them."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable

from bln_search.specs.sections.space import DIGITS, EXACT_DIGITS, format_encoded_point, format_parameter_value

_DIGITS = (DIGITS, 5, 6, 8, 10, 12, EXACT_DIGITS)


def find_distinct_point_digits(points: Iterable[str]) -> int:
    """Significant digits at which different points have different labels; 4 where these suffice.

    Args:
        points: The points as JSON; an empty string stands for no point.
    """
    return _find_distinct_digits({point for point in points if point}, format_encoded_point)


def find_distinct_value_digits(values: Iterable[object]) -> int:
    """Significant digits at which different values of one parameter have different texts; 4 where these suffice."""
    encoded = {json.dumps(value, sort_keys=True) for value in values}
    return _find_distinct_digits(encoded, lambda value, digits: format_parameter_value(json.loads(value), digits))


def make_label_by_distinct_point(points: Iterable[str]) -> dict[str, str]:
    """Label of each point that is given as JSON; an empty string for no point."""
    listed = set(points)
    digits = find_distinct_point_digits(listed)
    return {point: format_encoded_point(point, digits) for point in listed}


def _find_distinct_digits(items: set[str], label: Callable[[str, int], Hashable]) -> int:
    if len(items) < 2:
        return DIGITS
    return next((digits for digits in _DIGITS if len({label(item, digits) for item in items}) == len(items)), DIGITS)
