"""The one pass beside plain forward passes, before it begins: can it follow the network?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bln_search.core.errors import BlnSearchError, ModelError
from bln_search.evaluation.agreement import epsilon_of, is_rounding, losses_apart, outputs_apart
from bln_search.evaluation.batches import Group, MiniBatch
from bln_search.evaluation.row_evaluator import RowEvaluator, doubled
from bln_search.norms.network_layers import evaluation_mode, find_norms, network_configurations
from bln_search.norms.precision import full_precision
from bln_search.norms.row_tensor import Row

OTHERWISE = "evaluate with one_pass=False"


@dataclass(frozen=True)
class Pair:
    """Two mini-batches of one shape: a layer that mixes examples would mix those of a group."""

    first: MiniBatch
    second: MiniBatch

    @staticmethod
    def of(first: MiniBatch, second: MiniBatch | None, examples: int | None = None) -> Pair:
        """Those; where there is no second one like the first, examples of the first in another combination.

        examples: so many of each are taken at most.
        """
        inputs, targets = first
        if second is None or second[0].shape != inputs.shape or len(second[1]) < len(targets):
            places = torch.arange(len(inputs), device=inputs.device) // 2
            second = inputs[places], targets[places[: len(targets)]]
        return Pair((inputs[:examples], targets[:examples]), (second[0][:examples], second[1][:examples]))

    @property
    def inputs(self) -> tuple[Tensor, Tensor]:
        """Of both."""
        return self.first[0], self.second[0]

    @property
    def group(self) -> Group:
        """Both together; examples without a target of their own are given that of another."""
        inputs, targets = self.first
        missing = len(inputs) - len(targets)
        both = torch.cat([targets, targets[:1].expand(missing, *targets.shape[1:]), self.second[1]])
        return Group(torch.cat(self.inputs), both, groups=2, size=len(inputs))

    def in_double(self) -> Pair:
        """In double precision."""
        return Pair(*((doubled(inputs), targets) for inputs, targets in (self.first, self.second)))


@torch.no_grad()
def check_independence(network: nn.Module, inputs: Tensor, other: Tensor | None = None) -> None:
    """Raise ModelError unless the one pass can follow `network` and its other layers treat examples independently.

    Seen by two mini-batches, (m, ...), with every statistic taken from them; without `other` by one.
    """
    layers = find_norms(network)
    configurations = network_configurations(layers)
    row = Row(next(one for one in configurations if not (one.uses_population or one.uses_memory)), None)
    nothing = inputs.new_zeros(len(inputs), dtype=torch.int64)
    pair = Pair.of((inputs, nothing), None if other is None else (other, nothing))
    with full_precision(), evaluation_mode(network):
        evaluator = RowEvaluator(network, [row], {layer: {} for layer in layers.values()})
        double = evaluator.in_double(inputs)
        check_pair(evaluator if double is None else double, pair if double is None else pair.in_double(), scored=False)


def check_pair(evaluator: RowEvaluator, pair: Pair, *, scored: bool = True) -> None:
    """Raise ModelError where fused passes of two mini-batches differ from plain ones under three of the rows.

    Best in double precision, where neither rounding nor TF32 hides or feigns a difference.
    scored: compare the losses too, as a score may look at more than one example.
    """
    group = pair.group
    rows = sorted({0, len(evaluator.rows) // 2, len(evaluator.rows) - 1})
    for row, outputs in zip(rows, _fused_outputs(evaluator, group, rows), strict=True):
        expected = torch.cat([evaluator.plain_outputs(row, x) for x in pair.inputs])
        if outputs.shape != expected.shape:
            raise ModelError(
                f"the one pass gives two mini-batches answers of shape {tuple(outputs.shape)}, plain forward passes "
                f"{tuple(expected.shape)}: the shape of an answer must not depend on the number of examples, as with "
                f"squeeze(); {OTHERWISE}"
            )
        apart = outputs_apart(outputs, expected)
        if apart > 1 and not is_rounding(apart, evaluator, row, pair.inputs):
            raise ModelError(difference_message(evaluator, pair, row, _largest(outputs, expected)))
        if scored and apart <= 1:
            _check_score(evaluator, group, outputs)


def _fused_outputs(evaluator: RowEvaluator, group: Group, rows: Sequence[int]) -> Tensor:
    try:
        return torch.cat(list(evaluator.outputs(group, rows)))
    except BlnSearchError:
        raise
    except Exception as error:
        raise ModelError(
            f"the one-pass evaluation cannot follow this network ({type(error).__name__}: {error}); {OTHERWISE}"
        ) from error


def _check_score(evaluator: RowEvaluator, group: Group, outputs: Tensor) -> None:
    """Raise ModelError where examples that are scored beside others have other losses than alone."""
    together, _ = evaluator.score_answers(outputs, group.targets)
    alone, _ = evaluator.score_answers(outputs[: group.size], group.targets[: group.size])
    if losses_apart(together[: group.size], alone, epsilon_of(alone.dtype)) > 1:
        raise ModelError(
            "score= gives an example another loss where other examples are scored with it, those of several "
            f"configurations and mini-batches: let it look at one example at a time, or {OTHERWISE}"
        )


def difference_message(evaluator: RowEvaluator, pair: Pair, row: int, difference: float) -> str:
    """What is said where fused and plain passes differ: by how much, and why as far as plain passes tell."""
    said = f"under {evaluator.rows[row].configuration} the one pass differs from a plain forward pass by "
    return f"{said}{difference:.3g}: {_cause(evaluator, pair, row)}; {OTHERWISE}"


def _cause(evaluator: RowEvaluator, pair: Pair, row: int) -> str:
    once, again = (evaluator.plain_outputs(row, pair.first[0]) for _ in range(2))
    if outputs_apart(again, once) > 1:
        return (
            "this network answers the same mini-batch differently when it is called again, as one does that counts "
            "its calls, draws numbers or changes a buffer in evaluation mode"
        )
    fixed = _deterministic_row(evaluator.rows)
    if fixed is not None:
        apart = torch.cat([evaluator.plain_outputs(fixed, x) for x in pair.inputs])
        if outputs_apart(evaluator.plain_outputs(fixed, torch.cat(pair.inputs)), apart) <= 1:
            return (
                "its forward pass depends on values of several mini-batches or configurations at once, as in a branch "
                "on the largest value or on the number of examples, or in an operation in place"
            )
    return "a layer of this network does not treat examples independently"


def _deterministic_row(rows: Sequence[Row]) -> int | None:
    return next((place for place, row in enumerate(rows) if row.configuration.deterministic), None)


def _largest(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).abs().max())
