"""The type of a score: a loss for each example, and whether its prediction is correct."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Score = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""A function from outputs (n, ...) and targets (n, ...) to losses (n,) and correctness (n,), example by example."""
