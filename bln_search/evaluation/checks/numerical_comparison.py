"""Distance between two computations of the same values, and whether rounding explains it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from statistics import median

import torch
from torch import Tensor, nn

from bln_search.data.inputs import Inputs, map_tensors
from bln_search.evaluation.row_evaluator import RowEvaluator

_PERTURBATIONS = 3
_MAX_AMPLIFICATION = 64.0
"""A distance of at most this multiple of the effect of rounding inputs and weights counts as rounding."""

_TINY = 1e-300


def output_distance_in_tolerances(fused: Tensor, plain: Tensor) -> float:
    """Return the largest difference of outputs (examples, ...) in units of the tolerance; at most 1 is equal.

    The tolerance of an element is √ε, ε of the coarser precision of the two, times the sum of its size and the median
    size at its position over examples: a large element, as a masked logit, does not relax the others. It adds 4 ε of
    the largest element that differs, which may have been part of sums behind the others. Elements that are equal, both
    infinite or both NaN have distance 0.

    Args:
        fused: outputs of the fused pass.
        plain: outputs of plain forward passes.
    """
    epsilon = max(machine_epsilon_of_dtype(fused.dtype), machine_epsilon_of_dtype(plain.dtype))
    fused, plain = _to_real_double(fused), _to_real_double(plain)
    size = plain.nan_to_num(0, 0, 0).abs()
    typical = size.sort(0).values[len(size) // 2]  # sorting is deterministic on a GPU, the median of torch is not
    tolerance = epsilon**0.5 * (size + typical) + 4 * epsilon * torch.where(fused == plain, 0.0, size).max()
    return _largest_difference_in_tolerances(fused, plain, tolerance)


def machine_epsilon_of_dtype(dtype: torch.dtype) -> float:
    """Return the machine epsilon of a dtype; for integers and booleans that of single precision."""
    return torch.finfo(dtype if dtype.is_floating_point or dtype.is_complex else torch.float32).eps


def _to_real_double(x: Tensor) -> Tensor:
    """Convert to double precision, real and imaginary parts on a last axis."""
    return torch.view_as_real(x.to(torch.complex128)) if x.is_complex() else x.double()


def loss_distance_in_tolerances(fused: Tensor, plain: Tensor, tolerance: float) -> float:
    """Return the largest difference of losses in units of tolerance·(1 + |loss|); at most 1 is equal.

    Losses that are equal, both infinite or both NaN have distance 0.
    """
    fused, plain = fused.double(), plain.double()
    return _largest_difference_in_tolerances(fused, plain, tolerance * (1 + plain.nan_to_num(0, 0, 0).abs()))


def _largest_difference_in_tolerances(values: Tensor, expected: Tensor, tolerance: Tensor) -> float:
    is_same = (values == expected) | (values.isnan() & expected.isnan())
    ratio = torch.where(is_same, 0.0, (values - expected).abs() / tolerance.clamp_min(_TINY))
    return float(ratio.nan_to_num(torch.inf, torch.inf).max()) if ratio.numel() else 0.0


def is_rounding_error(distance: float, evaluator: RowEvaluator, row: int, inputs: Sequence[Inputs]) -> bool:
    """Return whether rounding of inputs and weights changes plain outputs by about `distance`.

    A network may amplify rounding without bound: at a mini-batch deviation close to zero, or after divergent training.

    Args:
        distance: of fused and plain outputs, in units of the tolerance.
        evaluator: of the network.
        row: index of the row.
        inputs: mini-batches.
    """
    return distance <= _MAX_AMPLIFICATION * _rounding_distance(evaluator, row, inputs)


def _rounding_distance(evaluator: RowEvaluator, row: int, inputs: Sequence[Inputs]) -> float:
    """Return the median distance between exact outputs and outputs with rounded inputs and weights."""
    try:
        perturbed = evaluator.with_network(deepcopy(evaluator.network))
    except Exception:  # noqa: BLE001 - a network may define its own deepcopy; the effect of rounding is then unknown
        return 0.0
    generator = torch.Generator().manual_seed(0)
    exact, repeated = (torch.cat([evaluator.plain_outputs(row, x) for x in inputs]) for _ in range(2))
    if (
        output_distance_in_tolerances(repeated, exact) > 1
    ):  # the network is random or stateful: outputs differ without rounding
        return 0.0
    distances = []
    for _ in range(_PERTURBATIONS):
        _round_weights(perturbed.network, evaluator.network, generator)
        rounded_inputs = [map_tensors(lambda x: _perturb_by_rounding(x, generator), part) for part in inputs]
        rounded = torch.cat([perturbed.plain_outputs(row, part) for part in rounded_inputs])
        distances.append(output_distance_in_tolerances(rounded, exact))
    return median(distances)


def _round_weights(copy: nn.Module, network: nn.Module, generator: torch.Generator) -> None:
    for target, source in zip(copy.parameters(), network.parameters(), strict=True):
        target.copy_(_perturb_by_rounding(source, generator))


def _perturb_by_rounding(x: Tensor, generator: torch.Generator) -> Tensor:
    """Return x·(1 ± ε) with random signs; integral values are unchanged, as they may be ids or flags."""
    if not x.is_floating_point():
        return x
    signs = torch.randint(0, 2, x.shape, generator=generator) * 2 - 1
    return torch.where(x == x.round(), x, x + x * (signs.to(x) * torch.finfo(x.dtype).eps))
