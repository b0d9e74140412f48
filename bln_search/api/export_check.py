"""Compare the outputs of all forms of an exported network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.api.runtimes import Program
from bln_search.core.undefined_reasons import too_few_slots

TOLERANCE = 1e-5
"""Largest accepted difference of outputs, relative to the largest output if that is above 1."""

BATCH_SIZES = (1, 25, 100)


@dataclass(frozen=True)
class SizeParity:
    """One mini-batch size: the largest difference from the eager network by form; or why it is undefined."""

    batch_size: int
    largest_output: float | None
    differences: dict[str, float]
    reason: str | None = None

    @property
    def failing(self) -> dict[str, float]:
        """The differences beyond the tolerance; NaN always is."""
        allowed = TOLERANCE * max(1.0, self.largest_output or 0.0)
        return {form: value for form, value in self.differences.items() if not value <= allowed}


@dataclass(frozen=True)
class Parity:
    """The comparison at every mini-batch size. inputs: description of the inputs."""

    inputs: str
    sizes: tuple[SizeParity, ...]

    @property
    def passes(self) -> bool:
        """Is every difference within the tolerance?"""
        return not any(size.failing for size in self.sizes)

    @property
    def largest_difference(self) -> float:
        """The largest difference over all sizes and forms; NaN if one of them is NaN."""
        differences = [difference for size in self.sizes for difference in size.differences.values()]
        return max(
            differences, key=lambda difference: difference if isfinite(difference) else float("inf"), default=0.0
        )

    def as_json(self) -> dict[str, Any]:
        """For parity.json; a difference that is not a number is null."""
        whole = asdict(self)
        for size in whole["sizes"]:
            size["differences"] = {form: d if isfinite(d) else None for form, d in size["differences"].items()}
        return {"tolerance": TOLERANCE, "largest_difference": self.largest_difference, **whole}


@torch.no_grad()
def compare(
    eager: nn.Module, forms: Mapping[str, Program], inputs: Tensor, described: str, largest: int | None
) -> Parity:
    """Outputs of every form against those of `eager`, at each of BATCH_SIZES.

    inputs: (n, ...), float32, repeated where a mini-batch is larger. largest: the largest mini-batch the configuration
    is defined for.
    """
    sizes = []
    for batch_size in BATCH_SIZES:
        if largest is not None and batch_size > largest:
            sizes.append(SizeParity(batch_size, None, {}, too_few_slots(largest, batch_size)))
            continue
        x = inputs[torch.arange(batch_size) % len(inputs)]
        expected = eager(x)
        differences = {form: _difference(run(x), expected) for form, run in forms.items()}
        sizes.append(SizeParity(batch_size, expected.abs().max().item(), differences))
    return Parity(described, tuple(sizes))


def _difference(found: Tensor, expected: Tensor) -> float:
    if found.shape != expected.shape:
        return float("inf")
    return (found.double() - expected.double()).abs().max().item()
