"""Axes of Plotly: positions of values as parts of the length of an axis, and its ticks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_TICKS = 5
"""About as many ticks has an axis of numbers."""

_STEPS = (1.0, 2.0, 5.0, 10.0)
_PADDING = 0.06
"""Part of the range that an axis without a given range shows beyond its values."""


class AxisScale:
    """An axis of Plotly: where values stand, from 0 at its start to 1 at its end.

    Args:
        options: The axis in the layout of Plotly.
        values: Values of each trace on this axis.
    """

    def __init__(self, options: Mapping[str, Any], values: Sequence[Sequence[Any]]) -> None:
        self._options = options
        listed = [value for of_trace in values for value in of_trace]
        is_category = options.get("type") == "category"
        self.categories = list(dict.fromkeys([*options.get("categoryarray", ()), *listed])) if is_category else []
        self._index = {name: float(position) for position, name in enumerate(self.categories)}
        self._is_log = options.get("type") == "log"
        self._low, self._high = self._find_range(listed)

    @property
    def title(self) -> str:
        """The title, in lines separated by `<br>`."""
        return str(self._options.get("title", {}).get("text", ""))

    def part(self, value: Any) -> float | None:
        """Where a value stands, between 0 and 1; None where it has no position."""
        number = self._to_number(value)
        if number is None:
            return None
        part = min(1.0, max(0.0, (number - self._low) / (self._high - self._low)))
        return 1.0 - part if self._options.get("autorange") == "reversed" else part

    def list_ticks(self) -> list[tuple[float, str]]:
        """Position and label of each tick."""
        labels = dict(zip(self._options.get("tickvals", ()), self._options.get("ticktext", ()), strict=True))
        values = self.categories or list(labels) or self._choose_tick_values()
        parts = [(self.part(value), str(labels.get(value, _format_tick(value)))) for value in values]
        return [(part, label) for part, label in parts if part is not None]

    def _to_number(self, value: Any) -> float | None:
        if self.categories:
            return self._index.get(value)
        if value is None or not math.isfinite(value) or (self._is_log and value <= 0):
            return None
        return math.log10(value) if self._is_log else float(value)

    def _find_range(self, values: Sequence[Any]) -> tuple[float, float]:
        if self.categories:
            return -0.5, len(self.categories) - 0.5
        ends = [self._to_number(value) for value in self._options.get("range", values)]
        numbers = [number for number in ends if number is not None]
        low, high = min(numbers, default=0.0), max(numbers, default=1.0)
        if low == high:
            return low - 0.5, high + 0.5
        padding = 0.0 if "range" in self._options else _PADDING * (high - low)
        return low - padding, high + padding

    def _choose_tick_values(self) -> list[float]:
        """Multiples of 1, 2 or 5 times a power of ten; with these powers on a logarithmic axis."""
        raw = (self._high - self._low) / _TICKS
        power = 10.0 ** math.floor(math.log10(raw))
        step = power * next(step for step in _STEPS if step * power >= raw * (1 - 1e-9))
        ticks = [step * index for index in range(math.ceil(self._low / step), math.floor(self._high / step) + 1)]
        return [10.0**tick for tick in ticks] if self._is_log else ticks


def _format_tick(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
