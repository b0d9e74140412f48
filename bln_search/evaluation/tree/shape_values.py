"""Numbers that a network reads from the shapes of its tensors, carried from one stage to another.

Behind a normalization layer there are more examples than in front of it: one for each configuration. A number of
examples that was read in front of it, as `x.shape[0]`, is another one behind it; a number of channels is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

Growing = bool | tuple[bool, ...]
"""Does a number grow with the number of examples? Of several, as of a shape: which of them do?"""


@dataclass(frozen=True)
class PerExample:
    """What was read, with numbers that grow divided by the number of examples at hand."""

    read: Any
    growing: Growing
    examples: int

    def at(self, examples: int) -> Any:
        """As it reads with so many examples."""
        if isinstance(self.growing, bool):
            return self._at(self.read, examples) if self.growing else self.read
        parts = [
            self._at(part, examples) if grows else part for part, grows in zip(self.read, self.growing, strict=True)
        ]
        return torch.Size(parts) if isinstance(self.read, torch.Size) else type(self.read)(parts)

    def _at(self, number: int, examples: int) -> int:
        return int(Fraction(number * examples, self.examples))


def growing(once: Any, twice: Any) -> Growing:
    """Which numbers grow, from what was read with some examples and with twice as many.

    Raises ValueError where a number neither doubles nor stays.
    """
    if isinstance(once, tuple):
        if not isinstance(twice, tuple) or len(once) != len(twice):
            raise ValueError(f"{once} became {twice} with twice as many examples")
        return tuple(bool(growing(part, other)) for part, other in zip(once, twice, strict=True))
    if once == twice:
        return False
    if isinstance(once, int) and twice == 2 * once:
        return True
    raise ValueError(f"{once} became {twice} with twice as many examples")


def is_number(value: Any) -> bool:
    """Is this something read from a tensor's shape, not a tensor?"""
    return not isinstance(value, Tensor)


def per_example(values: Sequence[Any], flags: Sequence[Growing], examples: int) -> list[Any]:
    """Values behind a stage: numbers as they are for each example."""
    return [
        PerExample(value, grows, examples) if is_number(value) else value
        for value, grows in zip(values, flags, strict=True)
    ]


def at(values: Sequence[Any], examples: int) -> list[Any]:
    """Values in front of a stage: numbers as they read with so many examples."""
    return [value.at(examples) if isinstance(value, PerExample) else value for value in values]
