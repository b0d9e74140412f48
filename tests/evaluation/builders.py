"""Networks in double precision with random γ and β, their examples, populations and rows."""

from __future__ import annotations

from functools import partial

import torch

from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.norms import make_norm
from bln_search.norms.network.layers import (
    compute_populations_of_layers,
    get_norms_by_name,
    list_possible_configurations,
)
from bln_search.norms.network.unit_positions import expand_unit_parameters_to_inputs
from bln_search.norms.row_batching.row_tensor import InferenceRow
from tests.evaluation.networks import NETWORKS, input_size

SIZE = 6
"""The mini-batch size."""

ESTIMATES = (PopulationEstimate.FROZEN, PopulationEstimate.EPOCH)


def build_network(name, method="bln", semantics="paper", dtype=torch.float64, batch_size=SIZE, **options):
    torch.manual_seed(0)
    norm = partial(make_norm, method, semantics=semantics, batch_size=batch_size, **options)
    network = NETWORKS[name](norm).to(dtype).eval()
    expand_unit_parameters_to_inputs(network, draw_examples(name, dtype=dtype)[0])
    with torch.no_grad():
        for layer in get_norms_by_name(network).values():
            layer.weight.normal_()
            layer.bias.normal_()
    return network


def draw_examples(name, n=20, dtype=torch.float64):
    """Return random images (n, 3, H, W) of the size that a network takes, and classes (n,)."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(n, 3, input_size(name), input_size(name), generator=generator, dtype=dtype)
    return inputs, torch.randint(0, 10, (n,), generator=generator)


def estimate_populations(network, name, *, per_slot=False, estimates=ESTIMATES, dtype=torch.float64):
    """Return population values under estimates that differ, because they are computed from different mini-batches."""
    inputs, _ = draw_examples(name, 48, dtype)
    moments = {
        estimate: collect_moments_with_frozen_weights(network, inputs[start : start + 24].split(SIZE))
        for estimate, start in zip(estimates, (0, 24), strict=False)
    }
    return compute_populations_of_layers(get_norms_by_name(network), moments, Correction.BESSEL, per_slot=per_slot)


def frozen_populations(network, batches, correction=Correction.BESSEL):
    """Return population values under the `frozen` estimate from these mini-batches of inputs."""
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, batches)}
    return compute_populations_of_layers(get_norms_by_name(network), moments, correction, per_slot=False)


def row_specs(network, estimates=ESTIMATES):
    return [
        InferenceRow(configuration, estimate)
        for configuration in list_possible_configurations(get_norms_by_name(network))
        for estimate in (estimates if configuration.uses_population else (None,))
    ]
