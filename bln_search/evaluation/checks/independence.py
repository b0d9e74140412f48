"""Comparison of fused with plain forward passes before the one pass: whether it supports the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bln_search.core.errors import BlnSearchError, ModelError
from bln_search.data.inputs import (
    Inputs,
    can_slice_examples,
    concatenate_inputs,
    convert_to_double,
    describe_inputs,
    have_same_shape,
)
from bln_search.evaluation.batches import BatchGroup, MiniBatch
from bln_search.evaluation.checks.numerical_comparison import (
    is_rounding_error,
    loss_distance_in_tolerances,
    machine_epsilon_of_dtype,
    output_distance_in_tolerances,
)
from bln_search.evaluation.row_evaluator import RowEvaluator
from bln_search.norms.network.layers import evaluation_mode, get_norms_by_name, list_possible_configurations
from bln_search.norms.precision import use_full_float32_precision
from bln_search.norms.row_batching.row_tensor import InferenceRow

PLAIN_EVALUATION_HINT = "evaluate with one_pass=False"


@dataclass(frozen=True)
class BatchPair:
    """Two mini-batches of one shape; a layer that mixes examples would mix theirs in a group."""

    first: MiniBatch
    second: MiniBatch

    @staticmethod
    def from_mini_batches(first: MiniBatch, second: MiniBatch | None, examples: int | None = None) -> BatchPair:
        """Pair two mini-batches; without a second one like the first, recombine examples of the first.

        Args:
            first: a mini-batch.
            second: another; None where there is none.
            examples: the maximal number of examples of each; None for all.
        """
        inputs, targets = first
        if second is None or not have_same_shape(second[0], inputs) or len(second[1]) < len(targets):
            indices = torch.arange(len(inputs), device=inputs.device) // 2
            second = inputs[indices], targets[indices[: len(targets)]]
        return BatchPair((inputs[:examples], targets[:examples]), (second[0][:examples], second[1][:examples]))

    @property
    def inputs(self) -> tuple[Inputs, Inputs]:
        """Inputs of both mini-batches."""
        return self.first[0], self.second[0]

    @property
    def as_group(self) -> BatchGroup:
        """Both as a group; filler examples of the first get the target of another example."""
        inputs, targets = self.first
        missing = len(inputs) - len(targets)
        all_targets = torch.cat([targets, targets[:1].expand(missing, *targets.shape[1:]), self.second[1]])
        return BatchGroup(concatenate_inputs(self.inputs), all_targets, groups=2, size=len(inputs))

    def in_double_precision(self) -> BatchPair:
        """Return both in double precision."""
        return BatchPair(*((convert_to_double(inputs), targets) for inputs, targets in (self.first, self.second)))


def check_one_pass_inputs(inputs: Inputs) -> None:
    """Raise ModelError unless every tensor of `inputs` has the examples on its first axis."""
    if can_slice_examples(inputs):
        return
    raise ModelError(
        f"one pass over the data needs mini-batches of tensors that have the examples on their first axis; these have "
        f"{describe_inputs(inputs)}: {PLAIN_EVALUATION_HINT}"
    )


@torch.no_grad()
def check_example_independence(network: nn.Module, inputs: Inputs, other: Inputs | None = None) -> None:
    """Raise ModelError unless the one pass supports `network` and its other layers treat examples independently.

    Args:
        network: with normalization layers.
        inputs: of a mini-batch, (m, ...).
        other: of another mini-batch; None where there is none.
    """
    targets = torch.zeros(len(inputs), dtype=torch.int64, device=inputs.device)
    pair = BatchPair.from_mini_batches((inputs, targets), None if other is None else (other, targets))
    with use_full_float32_precision(), evaluation_mode(network):
        evaluator = _make_evaluator_of_mini_batch_row(network)
        double = evaluator.try_copy_in_double_precision(inputs)
        check_fused_passes(
            evaluator if double is None else double,
            pair if double is None else pair.in_double_precision(),
            scored=False,
        )


@torch.no_grad()
def do_outputs_depend_on_earlier_passes(network: nn.Module, inputs: tuple[Inputs, Inputs]) -> bool:
    """Return whether a network gives other outputs for the same two mini-batches when it is called again."""
    with use_full_float32_precision(), evaluation_mode(network):
        first, *repeated = _plain_outputs_by_round(_make_evaluator_of_mini_batch_row(network), 0, inputs)
    return any(output_distance_in_tolerances(outputs, first) > 1 for outputs in repeated)


def _make_evaluator_of_mini_batch_row(network: nn.Module) -> RowEvaluator:
    layers = get_norms_by_name(network)
    from_batch = next(
        configuration for configuration in list_possible_configurations(layers) if configuration.uses_no_stored_value
    )
    return RowEvaluator(network, [InferenceRow(from_batch, None)], {layer: {} for layer in layers.values()})


def check_fused_passes(evaluator: RowEvaluator, pair: BatchPair, *, scored: bool = True) -> None:
    """Raise ModelError where fused passes of two mini-batches differ from plain ones in three of the rows.

    Use double precision if possible: rounding and TF32 may hide or mimic a difference.

    Args:
        evaluator: of the network.
        pair: two mini-batches.
        scored: compare the losses too, as a score may depend on more than one example.
    """
    group = pair.as_group
    rows = sorted({0, len(evaluator.rows) // 2, len(evaluator.rows) - 1})
    for row, outputs in zip(rows, _fused_outputs(evaluator, group, rows), strict=True):
        distances = [
            _require_equal_outputs(evaluator, pair, row, outputs, expected)
            for expected in _plain_outputs_by_round(evaluator, row, pair.inputs)
        ]
        if scored and max(distances) <= 1:
            _check_score_independence(evaluator, group, outputs)


def _require_equal_outputs(
    evaluator: RowEvaluator, pair: BatchPair, row: int, outputs: Tensor, expected: Tensor
) -> float:
    """Return the distance of fused from plain outputs in tolerances. Raises ModelError unless rounding explains it."""
    if outputs.shape != expected.shape:
        raise ModelError(
            f"the one pass returns outputs of shape {tuple(outputs.shape)} for two mini-batches, plain forward "
            f"passes {tuple(expected.shape)}: the shape of an output must not depend on the number of examples, as "
            f"with squeeze(); {PLAIN_EVALUATION_HINT}"
        )
    distance = output_distance_in_tolerances(outputs, expected)
    if distance > 1 and not is_rounding_error(distance, evaluator, row, pair.inputs):
        raise ModelError(describe_fused_pass_difference(evaluator, pair, row, _largest_difference(outputs, expected)))
    return distance


def _plain_outputs_by_round(evaluator: RowEvaluator, row: int, inputs: tuple[Inputs, Inputs]) -> list[Tensor]:
    """Return plain outputs of two mini-batches, passed one after the other; three times where passes change anything.

    The first mini-batch is passed once more in between, so that what changes in every second pass shows.
    """
    first, second = inputs
    outputs = evaluator.plain_outputs_one_after_the_other(row, [first, second])
    rounds = [(0, 1)]
    if evaluator.passes.changes_state or evaluator.passes.draws_numbers:
        outputs = evaluator.plain_outputs_one_after_the_other(row, [first, second, first, first, second])
        rounds = [(0, 1), (2, 1), (3, 4)]
    return [torch.cat([outputs[i], outputs[j]]) for i, j in rounds]


def _fused_outputs(evaluator: RowEvaluator, group: BatchGroup, rows: Sequence[int]) -> Tensor:
    try:
        return torch.cat(list(evaluator.iter_fused_outputs(group, rows)))
    except BlnSearchError:
        raise
    except Exception as error:
        raise ModelError(
            f"the one-pass evaluation does not support this network ({type(error).__name__}: {error}); "
            f"{PLAIN_EVALUATION_HINT}"
        ) from error


def _check_score_independence(evaluator: RowEvaluator, group: BatchGroup, outputs: Tensor) -> None:
    """Raise ModelError where the loss of an example depends on the examples that are scored with it."""
    together = evaluator.score_outputs(outputs, group.targets).losses
    alone = evaluator.score_outputs(outputs[: group.size], group.targets[: group.size]).losses
    if loss_distance_in_tolerances(together[: group.size], alone, machine_epsilon_of_dtype(alone.dtype) ** 0.5) > 1:
        raise ModelError(
            "score= returns another loss for an example where examples of other configurations and mini-batches are "
            f"scored with it: let it treat each example independently, or {PLAIN_EVALUATION_HINT}"
        )


def describe_fused_pass_difference(evaluator: RowEvaluator, pair: BatchPair, row: int, difference: float) -> str:
    """Return by how much fused and plain passes differ, and the probable cause."""
    configuration = evaluator.rows[row].configuration
    return (
        f"with configuration {configuration} the one pass differs from a plain forward pass by {difference:.3g}: "
        f"{_describe_probable_cause(evaluator, pair, row)}; {PLAIN_EVALUATION_HINT}"
    )


def _describe_probable_cause(evaluator: RowEvaluator, pair: BatchPair, row: int) -> str:
    outputs, repeated = evaluator.plain_outputs_one_after_the_other(row, [pair.first[0]] * 2)
    if output_distance_in_tolerances(repeated, outputs) > 1:
        return (
            "this network gives different outputs for the same mini-batch when it is called again, because it counts "
            "its calls, draws numbers or changes a buffer in evaluation mode"
        )
    fixed = _find_deterministic_row_index(evaluator.rows)
    if fixed is not None:
        separate = torch.cat([evaluator.plain_outputs(fixed, x) for x in pair.inputs])
        if (
            output_distance_in_tolerances(evaluator.plain_outputs(fixed, concatenate_inputs(pair.inputs)), separate)
            <= 1
        ):
            return (
                "its forward pass depends on values of several mini-batches or configurations at once, as in a branch "
                "on the largest value or on the number of examples, or in an operation in place"
            )
    return "a layer of this network does not treat examples independently"


def _find_deterministic_row_index(rows: Sequence[InferenceRow]) -> int | None:
    return next((index for index, row in enumerate(rows) if row.configuration.is_deterministic), None)


def _largest_difference(values: Tensor, expected: Tensor) -> float:
    return float((values.double() - expected.double()).abs().max())
