"""Losses of all configurations in one pass, and of one configuration by plain forward passes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.configuration import all_configurations
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.method import Method
from bln_search.evaluation import collect_moments_with_frozen_weights, evaluate_rows_per_example
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.row_evaluator import use_row_in_all_layers
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations

BATCH = 25


def rows_of(method: Method) -> tuple[InferenceRow, ...]:
    """Return the configurations of a method; those with population statistics take frozen ones."""
    return tuple(
        InferenceRow(configuration, PopulationEstimate.FROZEN if configuration.uses_population else None)
        for configuration in all_configurations(method)
    )


ROWS = rows_of(Method.BLN)


def collect_frozen_populations(network: nn.Module, inputs: Tensor, targets: Tensor, size: int = BATCH) -> Populations:
    """Return the frozen population values of all layers from mini-batches of these examples."""
    sample = (x for x, _ in iter_mini_batches_with_fillers(inputs, targets, size))
    gathered = {str(PopulationEstimate.FROZEN): collect_moments_with_frozen_weights(network, sample)}
    return compute_populations_of_layers(get_norms_by_name(network), gathered, Correction.BESSEL, per_slot=False)


def losses_in_one_pass(network: nn.Module, inputs: Tensor, targets: Tensor, populations: Populations) -> list[float]:
    """Return mean losses of all rows, in one pass."""
    batches = iter_mini_batches_with_fillers(inputs, targets, BATCH)
    outcomes = evaluate_rows_per_example(network, batches, ROWS, populations)
    return [float(outcome.losses.mean(dtype="float64")) for outcome in outcomes]


@torch.inference_mode()
def loss_of_row(
    network: nn.Module, inputs: Tensor, targets: Tensor, populations: Populations, row: InferenceRow
) -> float:
    """Return the mean loss of one row by plain forward passes."""
    total = torch.zeros((), dtype=torch.float64, device=inputs.device)
    with use_row_in_all_layers(row, populations):
        for start in range(0, len(inputs), BATCH):
            x, y = inputs[start : start + BATCH], targets[start : start + BATCH]
            total += F.cross_entropy(network(x), y, reduction="sum")
    return total.item() / len(inputs)


def largest_relative_difference(network: nn.Module, inputs: Tensor, targets: Tensor, populations: Populations) -> float:
    """Return the largest relative difference of mean losses over all rows, one pass against plain."""
    losses = losses_in_one_pass(network, inputs, targets, populations)
    expected = [loss_of_row(network, inputs, targets, populations, row) for row in ROWS]
    return max(abs(loss - plain) / abs(plain) for loss, plain in zip(losses, expected, strict=True))
