"""Numbers that a network reads from tensor shapes, passed from one segment to the next.

After a normalization layer there are more examples than before: one for each configuration. A number of examples read
before the layer, as `x.shape[0]`, must grow accordingly; a number of channels must not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

ScalesWithBatch = bool | tuple[bool, ...]
"""Whether a number scales with the number of examples; for several numbers, as of a shape, one flag each."""


@dataclass(frozen=True)
class ShapeValue:
    """A value read from a shape of `examples` examples, with flags for the numbers that scale with them."""

    value: Any
    scales_with_batch: ScalesWithBatch
    examples: int

    def value_at_num_examples(self, examples: int) -> Any:
        """Return the value for another number of examples."""
        if isinstance(self.scales_with_batch, bool):
            return self._scale_to_batch(self.value, examples) if self.scales_with_batch else self.value
        numbers = [
            self._scale_to_batch(number, examples) if scales else number
            for number, scales in zip(self.value, self.scales_with_batch, strict=True)
        ]
        return torch.Size(numbers) if isinstance(self.value, torch.Size) else type(self.value)(numbers)

    def _scale_to_batch(self, number: int, examples: int) -> int:
        return int(Fraction(number * examples, self.examples))


def batch_scaling_flags(value: Any, doubled_value: Any) -> ScalesWithBatch:
    """Return which numbers scale with the number of examples.

    Args:
        value: the value for some number of examples.
        doubled_value: the value for twice as many.

    Raises:
        ValueError: a number neither doubles nor stays the same.
    """
    if isinstance(value, tuple):
        if not isinstance(doubled_value, tuple) or len(value) != len(doubled_value):
            raise ValueError(f"{value} became {doubled_value} with twice as many examples")
        return tuple(
            bool(batch_scaling_flags(part, doubled_part))
            for part, doubled_part in zip(value, doubled_value, strict=True)
        )
    if value == doubled_value:
        return False
    if isinstance(value, int) and doubled_value == 2 * value:
        return True
    raise ValueError(f"{value} became {doubled_value} with twice as many examples")


def is_shape_value(value: Any) -> bool:
    """Return whether an output of a segment was read from a shape (is no tensor)."""
    return not isinstance(value, Tensor)


def wrap_shape_values(values: Sequence[Any], flags: Sequence[ScalesWithBatch], examples: int) -> list[Any]:
    """Wrap the shape values among the outputs of a segment, computed for `examples` examples."""
    return [
        ShapeValue(value, scales, examples) if is_shape_value(value) else value
        for value, scales in zip(values, flags, strict=True)
    ]


def resolve_shape_values(values: Sequence[Any], examples: int) -> list[Any]:
    """Return the inputs of a segment, with shape values for `examples` examples."""
    return [value.value_at_num_examples(examples) if isinstance(value, ShapeValue) else value for value in values]
