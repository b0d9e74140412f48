"""How far two computations of the same numbers are apart, and whether that is rounding."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from statistics import median

import torch
from torch import Tensor, nn

from bln_search.evaluation.row_evaluator import RowEvaluator

_PROBES = 3
_ENLARGED = 64.0
"""A difference of up to so many times what a rounding error of the inputs and weights does is rounding."""

_SMALLEST = 1e-300


def outputs_apart(fused: Tensor, plain: Tensor) -> float:
    """The largest difference of answers (examples, ...) in units of what is allowed for each element; 1 is equal.

    Allowed is √ε, by the coarser precision of the two, of the element and of the median of its place over examples: a
    large element, as a masked logit, allows nothing to the others. Beyond that a few ε of the largest element that
    differs at all, as it may have been part of sums that others come from. Elements that are equal, both infinite or
    both NaN are no distance apart.
    """
    epsilon = max(epsilon_of(fused.dtype), epsilon_of(plain.dtype))
    fused, plain = _real(fused), _real(plain)
    size = plain.nan_to_num(0, 0, 0).abs()
    middle = size.sort(0).values[len(size) // 2]  # sorting is deterministic on a GPU, the median of torch is not
    allowed = epsilon**0.5 * (size + middle) + 4 * epsilon * torch.where(fused == plain, 0.0, size).max()
    return _largest_ratio(fused, plain, allowed)


def epsilon_of(dtype: torch.dtype) -> float:
    """ε of a type of numbers; of whole numbers and truth values, which have none, that of single precision."""
    return torch.finfo(dtype if dtype.is_floating_point or dtype.is_complex else torch.float32).eps


def _real(x: Tensor) -> Tensor:
    """In double precision, real and imaginary parts side by side."""
    return torch.view_as_real(x.to(torch.complex128)) if x.is_complex() else x.double()


def losses_apart(fused: Tensor, plain: Tensor, epsilon: float) -> float:
    """The same of losses: allowed is √ε of 1 + |loss|."""
    fused, plain = fused.double(), plain.double()
    return _largest_ratio(fused, plain, epsilon**0.5 * (1 + plain.nan_to_num(0, 0, 0).abs()))


def _largest_ratio(one: Tensor, other: Tensor, allowed: Tensor) -> float:
    same = (one == other) | (one.isnan() & other.isnan())
    ratio = torch.where(same, 0.0, (one - other).abs() / allowed.clamp_min(_SMALLEST))
    return float(ratio.nan_to_num(torch.inf, torch.inf).max()) if ratio.numel() else 0.0


def is_rounding(apart: float, evaluator: RowEvaluator, row: int, inputs: Sequence[Tensor]) -> bool:
    """Does a rounding error of inputs and weights move plain answers about as far as `apart`?

    A network may enlarge rounding without bound: at a mini-batch deviation next to zero, or where training diverged.
    """
    return apart <= _ENLARGED * _moved_by_rounding(evaluator, row, inputs)


def _moved_by_rounding(evaluator: RowEvaluator, row: int, inputs: Sequence[Tensor]) -> float:
    try:
        copied = evaluator.with_network(deepcopy(evaluator.network))
    except Exception:  # noqa: BLE001 - a network may have its own way to be copied; then nothing is known of rounding
        return 0.0
    generator = torch.Generator().manual_seed(0)
    exact, again = (torch.cat([evaluator.plain_outputs(row, x) for x in inputs]) for _ in range(2))
    if outputs_apart(again, exact) > 1:  # it draws numbers or counts: its answers move without any rounding
        return 0.0
    moved = []
    for _ in range(_PROBES):
        _round_weights(copied.network, evaluator.network, generator)
        rounded = torch.cat([copied.plain_outputs(row, _rounded(x, generator)) for x in inputs])
        moved.append(outputs_apart(rounded, exact))
    return median(moved)


def _round_weights(copied: nn.Module, network: nn.Module, generator: torch.Generator) -> None:
    for target, source in zip(copied.parameters(), network.parameters(), strict=True):
        target.copy_(_rounded(source, generator))


def _rounded(x: Tensor, generator: torch.Generator) -> Tensor:
    """x·(1 ± ε), the signs drawn; whole numbers stay, as a float may carry an id or a flag."""
    if not x.is_floating_point():
        return x
    signs = torch.randint(0, 2, x.shape, generator=generator) * 2 - 1
    return torch.where(x == x.round(), x, x + x * (signs.to(x) * torch.finfo(x.dtype).eps))
