"""Run the Triton kernels in Triton's interpreter and print their errors and those of torch; see `test_triton`.

The interpreter is chosen before Triton is imported, by the environment.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys

import torch

from bln_search.norms.fused import torch_kernels, triton_launch
from bln_search.norms.fused.layout import FusedLayout
from bln_search.norms.fused.terms import FusedTerms, HistoryKind, HistoryTerm

SHAPES = [(7, 5, 1), (6, 4, 15), (25, 6, 196), (3, 130, 1), (2, 70, 40), (1, 5, 1), (300, 3, 1), (2, 3, 1000)]
TERMS = {
    "bln": FusedTerms(1e-4, 0.7, 0.3),
    "bn": FusedTerms(1e-4, 1.0, None, 1.1),
    "ln": FusedTerms(1e-4, None, 1.0),
    "mbn": FusedTerms(1e-4, 1.0, None, 1.0, HistoryTerm(HistoryKind.MEMORY, None, 0.3, between_variance=True)),
    "mbn without between": FusedTerms(1e-4, 1.0, None, 1.0, HistoryTerm(HistoryKind.MEMORY, None, 0.3)),
    "brn": FusedTerms(1e-4, 1.0, None, 1.0, HistoryTerm(HistoryKind.AVERAGES, None, r_max=1.5, d_max=0.7)),
}


def compute(kernels, dtype, layout, terms, tensors):
    x, grad, weight, bias, history = (tensor.to(dtype) for tensor in tensors)
    if terms.history.kind is not HistoryKind.NONE:
        terms = dataclasses.replace(terms, history=dataclasses.replace(terms.history, values=history))
    batch = None if terms.batch_weight is None else kernels.compute_batch_statistics(x, layout, terms)
    output, feature = kernels.normalize(x, weight, bias, batch, layout, terms)
    sums = kernels.compute_gradient_sums(grad, x, weight, batch, feature, layout, terms)
    gradient = kernels.compute_input_gradient(grad, x, weight, batch, feature, sums, layout, terms)
    return [tensor for tensor in (batch, output, feature, sums, gradient) if tensor is not None and tensor.numel()]


def largest_error(results, exact):
    """Largest difference, as a fraction of the largest absolute value of its tensor, at least 1."""
    return max(
        float((result - true).abs().max() / true.abs().max().clamp(min=1))
        for result, true in zip(results, exact, strict=True)
    )


def main():
    torch.manual_seed(0)
    errors = []
    for (outer, channels, inner), whole_layer, name in itertools.product(SHAPES, (False, True), TERMS):
        layout = FusedLayout(outer, channels, inner, whole_layer)
        tensors = torch.randn(layout.shape) * 2 + 3, torch.randn(layout.shape), torch.randn(channels)
        tensors = *tensors, torch.randn(channels), torch.stack([torch.randn(channels), torch.rand(channels) + 0.5])
        exact = compute(torch_kernels, torch.float64, layout, TERMS[name], tensors)
        in_triton, in_torch = (
            largest_error(compute(kernels, torch.float32, layout, TERMS[name], tensors), exact)
            for kernels in (triton_launch, torch_kernels)
        )
        errors.append({"case": f"{name} {layout.shape} {whole_layer}", "triton": in_triton, "torch": in_torch})
    json.dump(errors, sys.stdout)


if __name__ == "__main__":
    main()
