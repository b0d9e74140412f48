"""A normalization layer over images of separate rows by a compiled kernel."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bln_search.norms.axes import InputAxes
from bln_search.norms.normalization_base import NormalizationBase
from bln_search.norms.row_batching.compiled.availability import can_kernels_read, flat_array
from bln_search.norms.row_batching.parallel import run_in_threads
from bln_search.norms.row_batching.row_sources import LayerSourcesByRow, PairSourcesByRow

FEWEST_VALUES = 2**18
"""Activations of all rows from which on the kernel is used."""

_SMALLEST_AREA = 12
"""Smaller images leave most of a vector empty."""


def try_normalize_separate_rows(
    layer: NormalizationBase, rows: Tensor, axes: InputAxes, sources: LayerSourcesByRow, weights: tuple[float, float]
) -> Tensor | None:
    """Return the outputs of all rows, like `rows` (K, G, N, C, H, W); None where the kernel is not applicable.

    Args:
        layer: the layer.
        rows: inputs.
        axes: of the inputs without rows and mini-batches.
        sources: of its statistics.
        weights: w_B and w_F.
    """
    batch, feature = sources.batch, sources.feature
    is_image = rows.ndim == 6 and axes.feature == 1 and axes.feature_reduction_axes == (1,)
    if not is_image or batch is None or feature is None or rows.numel() < FEWEST_VALUES:
        return None
    area = prod(rows.shape[4:])
    if area < _SMALLEST_AREA or not can_kernels_read(rows, layer.weight, layer.bias):
        return None
    plane = rows.shape[3:]
    batch_values = _expand_population(batch, len(rows), plane)
    feature_values = _expand_population(feature, len(rows), (1, *plane[1:]))
    if batch_values is None or feature_values is None:
        return None
    from bln_search.norms.row_batching.compiled.separate_rows import (  # noqa: PLC0415 - loads the compiler
        normalize_separate_rows,
    )

    shape = layer.broadcast_parameter_shape(4)[1:]
    parameters = [value.view(shape).expand(plane).contiguous() for value in (layer.weight, layer.bias)]
    variant = layer.formula_variant
    scalars = [
        (weight, variant.epsilon, _variance_factor(layer, prod(rows.shape[axis + 2] for axis in reduced)))
        for weight, reduced in zip(weights, (axes.batch_reduction_axes, axes.feature_reduction_axes), strict=True)
    ]
    out = torch.empty_like(rows)
    arguments = (
        flat_array(rows),
        *map(flat_array, parameters),
        batch_values,
        feature_values,
        *scalars,
        (axes.batch_reduction_axes != (0,), variant.around_selected_mean),
        (rows.shape[1], rows.shape[2], rows.shape[3], area),
    )
    target = flat_array(out)
    run_in_threads(
        lambda start, stop: normalize_separate_rows(*arguments, start, stop, target), len(rows) * rows.shape[1]
    )
    return out


def _variance_factor(layer: NormalizationBase, count: int) -> float:
    return count / max(count - 1, 1) if layer.formula_variant.unbiased else 1.0


def _expand_population(pair: PairSourcesByRow, rows: int, shape: tuple[int, ...]) -> tuple[Any, Any, Any] | None:
    """Return means and deviations of all rows, and whether they are of the population, (rows, 2).

    The result is None where rows mix values or a population has several slots.
    """
    if pair.mixed_means or pair.mixed_deviations:
        return None
    arrays, masks = [], []
    for value, mask in ((pair.mean, pair.mean_from_population), (pair.deviation, pair.deviation_from_population)):
        if value is None or mask is None:
            arrays.append(np.ones(rows * prod(shape), np.float32))
            masks.append(np.zeros(rows, np.bool_))
            continue
        if value.shape[2] != 1:
            return None
        arrays.append(flat_array(value.expand(rows, 1, 1, *shape).contiguous()))
        masks.append(mask.view(-1).numpy())
    return arrays[0], arrays[1], np.stack(masks, 1)
