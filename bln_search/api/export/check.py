"""Compare the outputs of all forms of an exported network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.api.export.passes import ExampleInputs, flatten_outputs_by_name
from bln_search.api.export.runtimes import Program
from bln_search.core.undefined_reasons import mini_batch_exceeds_slots_reason

TOLERANCE = 1e-5
"""Largest accepted difference of outputs, relative to the largest output if that is above 1."""


@dataclass(frozen=True)
class OutputParityAtBatchSize:
    """The comparison at one mini-batch size.

    Attributes:
        largest_output: Largest absolute output of the eager network; None if it is undefined at this size.
        differences: Largest absolute difference from the eager network, by form.
        reason: Why the network is undefined at this size; None if it is defined.
    """

    batch_size: int
    largest_output: float | None
    differences: dict[str, float]
    reason: str | None = None

    @property
    def failing_differences(self) -> dict[str, float]:
        """The differences above the tolerance, by form; NaN counts as above."""
        allowed = TOLERANCE * max(1.0, self.largest_output or 0.0)
        return {form: value for form, value in self.differences.items() if not value <= allowed}


@dataclass(frozen=True)
class ProgramFigures:
    """What an exported program achieves on the test split.

    Attributes:
        accuracy: A fraction; None for a task without.
        loss_deviation: Standard deviation of the loss over examples (n − 1 in the denominator); None if it is unknown.
    """

    form: str
    examples: int
    batch_size: int
    loss: float
    accuracy: float | None
    loss_deviation: float | None = None


@dataclass(frozen=True)
class OutputParity:
    """The comparison at every mini-batch size.

    Attributes:
        inputs: Description of the inputs.
        test: What an exported program achieves on the test split of its study; None for a user's own network.
    """

    inputs: str
    sizes: tuple[OutputParityAtBatchSize, ...]
    test: ProgramFigures | None = None

    @property
    def is_within_tolerance(self) -> bool:
        """Is every difference within the tolerance?"""
        return not any(size.failing_differences for size in self.sizes)

    @property
    def largest_difference(self) -> float:
        """The largest difference over all sizes and forms; NaN if one of them is NaN."""
        differences = [difference for size in self.sizes for difference in size.differences.values()]
        return max(
            differences, key=lambda difference: difference if isfinite(difference) else float("inf"), default=0.0
        )

    def to_json_object(self) -> dict[str, Any]:
        """The content of parity.json; a difference that is infinite or NaN is null."""
        content = asdict(self)
        if self.test is None:
            del content["test"]
        for size in content["sizes"]:
            size["differences"] = {
                form: difference if isfinite(difference) else None for form, difference in size["differences"].items()
            }
        return {"tolerance": TOLERANCE, "largest_difference": self.largest_difference, **content}


@torch.no_grad()
def compare_outputs_of_forms(
    eager: nn.Module,
    forms: Mapping[str, Program],
    examples: ExampleInputs,
    inputs_text: str,
    sizes: Sequence[int],
    largest_batch_size: int | None,
) -> OutputParity:
    """Compare the outputs of every form with those of `eager`, at each mini-batch size.

    Examples are repeated if a mini-batch is larger. Beyond `largest_batch_size`, None without a bound, the
    configuration is undefined.
    """
    comparisons = []
    for size in sizes:
        if largest_batch_size is not None and size > largest_batch_size:
            comparisons.append(
                OutputParityAtBatchSize(size, None, {}, mini_batch_exceeds_slots_reason(largest_batch_size, size))
            )
            continue
        batch = examples.with_num_examples(size)
        expected = list(flatten_outputs_by_name(batch.call_with_copies(eager)).values())
        largest = max((value.double().abs().max().item() for value in expected if value.numel()), default=0.0)
        differences = {
            form: _largest_output_difference(batch.call_with_copies(run), expected) for form, run in forms.items()
        }
        comparisons.append(OutputParityAtBatchSize(size, largest, differences))
    return OutputParity(inputs_text, tuple(comparisons))


def _largest_output_difference(outputs: Any, expected: Sequence[Tensor]) -> float:
    """The largest absolute difference; infinite if shapes differ."""
    values = list(flatten_outputs_by_name(outputs).values())
    if [value.shape for value in values] != [value.shape for value in expected]:
        return float("inf")
    differences = [
        (value.double() - other.double()).abs().max().item()
        for value, other in zip(values, expected, strict=True)
        if value.numel()
    ]
    return max(differences, key=lambda value: value if isfinite(value) else float("inf"), default=0.0)
