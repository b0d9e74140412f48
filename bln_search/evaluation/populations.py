"""Population estimates of a network for its evaluation, and the `frozen` estimate."""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterable

import torch
from torch import nn

from bln_search.core.errors import DataError
from bln_search.data.inputs import Inputs
from bln_search.evaluation.isolated_passes import restored_network
from bln_search.evaluation.moment_passes import MomentPasses
from bln_search.norms.moment_collection import LayerMoments, MomentAccumulator
from bln_search.norms.network.layers import (
    MomentsByEstimate,
    compute_populations_of_layers,
    evaluation_mode,
    get_norms_by_name,
    use_training_sources_in_evaluation,
)
from bln_search.norms.row_batching.row_tensor import Populations
from bln_search.specs.trial import TrialSpec


def compute_trial_populations(trial: TrialSpec, network: nn.Module, moments: MomentsByEstimate) -> Populations:
    """Return the population values of each layer of `network` under each estimate, as the trial's evaluation asks.

    Args:
        trial: names the correction and whether feature values are kept for each slot.
        network: a network of the trial.
        moments: of each layer under each estimate.
    """
    evaluation = trial.evaluation
    return compute_populations_of_layers(
        get_norms_by_name(network), moments, evaluation.correction, per_slot=evaluation.per_slot
    )


@torch.no_grad()
def collect_moments_with_frozen_weights(
    network: nn.Module, inputs: Iterable[Inputs], *, kept: Container[str] = (), several_at_once: bool = False
) -> dict[str, LayerMoments]:
    """Collect the moments of each normalization layer over training mini-batches with fixed weights.

    The network runs in evaluation mode (no dropout), with all statistics from the mini-batch, as in BLN's Algorithm 2.
    Mini-batches smaller than the largest are excluded, unless their examples are not on the first axis, as in batches
    of graphs. Layers that the network does not use in evaluation mode are excluded. The network is not changed. Warns
    (UserWarning) where most mini-batches are excluded.

    Args:
        network: the trained network.
        inputs: inputs (m, ...) of training mini-batches.
        kept: names of layers that use their configuration instead of mini-batch statistics.
        several_at_once: pass several mini-batches at once where that gives the same moments up to rounding. All have
            one shape.

    Returns:
        The moments of each layer by name.

    Raises:
        DataError: no mini-batch reached a normalization layer.
    """
    layers = get_norms_by_name(network)
    passes = MomentPasses(network, layers)
    with (
        restored_network(network, with_random_state=False),
        evaluation_mode(network),
        use_training_sources_in_evaluation(layer for name, layer in layers.items() if name not in kept),
    ):
        (passes.accumulate_several_at_once if several_at_once else passes.pass_one_by_one)(inputs)
    reached = [name for name, accumulator in passes.accumulators.items() if not accumulator.is_empty]
    if not any(layer.method.statistics for layer in layers.values()):
        return {}
    if not reached:
        raise DataError(
            "no training mini-batch reached a normalization layer: give at least one complete mini-batch, and a "
            "network whose forward pass calls its present layers, not modules that they replaced"
        )
    _warn_if_most_excluded(passes.accumulators[reached[0]])
    return {name: passes.compute_moments_of_layer(name) for name in reached}


def _warn_if_most_excluded(accumulator: MomentAccumulator) -> None:
    included, seen = accumulator.batches_included, accumulator.batches_seen
    if included < seen - included:
        warnings.warn(
            f"the population is estimated from {included} of {seen} training mini-batches, those of "
            f"{accumulator.batch_size} examples; smaller ones are excluded: give mini-batches of one size",
            stacklevel=2,
        )
