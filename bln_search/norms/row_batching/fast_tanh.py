"""The hyperbolic tangent of activations of many rows, faster than torch's in single precision on CPU.

tanh(x) = 2σ(2x) - 1 takes less time than torch's function. Its absolute error is below 2e-7, and below 2e-5
relative to the root mean square of a channel: where a channel of a sample is smaller than 0.01, torch's function is
used, as a later normalization would amplify the error. Double precision is always computed by torch's function.
"""

from __future__ import annotations

import torch
from torch import Tensor

PIECE = 2**17
"""Values that are computed together, so that intermediate results stay in the cache."""

_SAMPLED_EXAMPLES = 32
"""Largest number of examples from which the size of channels is estimated."""

_SMALLEST_CHANNEL = 0.01
"""Root mean square of a channel below which torch's function is used."""

_MINUS_ONE = torch.tensor(-1.0)


def tanh_of_rows(x: Tensor) -> Tensor:
    """Return tanh(x) of activations (examples, channels, ...)."""
    if (
        not x.is_contiguous()
        or not is_tanh_by_sigmoid_faster(x)
        or not is_tanh_by_sigmoid_accurate(x[sample_example_indices(len(x))])
    ):
        return torch.tanh(x)
    out = torch.empty_like(x)
    values, results = x.view(-1), out.view(-1)
    for start in range(0, values.numel(), PIECE):
        piece = results[start : start + PIECE]
        replace_by_tanh_of_half(torch.mul(values[start : start + PIECE], 2, out=piece))
    return out


def sample_example_indices(examples: int, most: int = _SAMPLED_EXAMPLES) -> list[int]:
    """Return indices of at most `most` examples, spread over all of them.

    Their distances differ, so that a sample of several mini-batches does not take the same example of each.
    """
    size = min(examples, most)
    step = examples // max(1, size)
    return [index * step + index * (index + 1) // 2 % step for index in range(size)]


def replace_by_tanh_of_half(x: Tensor) -> None:
    """Replace x by tanh(x/2) = 2σ(x) - 1."""
    torch.add(_MINUS_ONE, x.sigmoid_(), alpha=2, out=x)


def is_tanh_by_sigmoid_faster(x: Tensor) -> bool:
    """Return whether 2σ(2x) - 1 may replace tanh(x): in single precision on a CPU, where it is faster."""
    return x.dtype == torch.float32 and x.device.type == "cpu"


def is_tanh_by_sigmoid_accurate(sample: Tensor) -> bool:
    """Return whether 2σ(2x) - 1 can represent tanh(x), from a sample of activations (examples, channels, ...).

    It can if every channel is large enough or zero.
    """
    if sample.ndim < 2 or sample.numel() == 0:
        return False
    norms = sample if sample.ndim == 2 else torch.linalg.vector_norm(sample.flatten(2), dim=2)
    mean_squares = norms.square().sum(0) * (sample.shape[1] / sample.numel())
    return not bool(((mean_squares > 0) & (mean_squares < _SMALLEST_CHANNEL**2)).any())
