"""The present weights of a network in training as a checkpoint, with the populations that its trial evaluates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.checkpoints.retries import retry_store_access
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.data.input_shape import require_single_tensor_for_purpose
from bln_search.data.prepared import PreparedData
from bln_search.evaluation.batches import iter_complete_mini_batches
from bln_search.evaluation.populations import collect_moments_with_frozen_weights
from bln_search.models.analytic import estimate_from_weights
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.network.layers import MomentsByEstimate
from bln_search.specs.trial import TrialSpec
from bln_search.training.checkpoint import weights_and_buffers_by_name, write_checkpoint
from bln_search.training.input_moments import measure_training_input_moments


def layer_moments_from_weights(trial: TrialSpec, network: nn.Module, data: PreparedData) -> dict[str, LayerMoments]:
    """Return the moments of each layer from the present weights and the moments of the inputs.

    Raises:
        ModelError: They cannot be propagated through this network; the message names the operation.
    """
    inputs = data.splits[Split.TRAIN][0][: trial.training.batch_size]
    example = require_single_tensor_for_purpose(inputs, "the estimate of the population from the weights")
    return estimate_from_weights(network, example, measure_training_input_moments(data))


@dataclass(frozen=True)
class WrittenCheckpoint:
    """A written checkpoint.

    Attributes:
        file: Its name in the checkpoint store.
        sha256: Of its content.
        gathered: Moments of every layer for each population estimate.
    """

    file: str
    sha256: str
    gathered: MomentsByEstimate


def write_weights_and_populations(
    trial: TrialSpec,
    network: nn.Module,
    gathered: MomentsByEstimate,
    data: PreparedData,
    store: CheckpointStore,
    origin: Mapping[str, Any],
) -> WrittenCheckpoint:
    """Write the network's present weights; the populations that the trial evaluates after training come first.

    Args:
        trial: The trial.
        network: Its network.
        gathered: Moments collected in training.
        data: Its training examples give the `frozen` population.
        store: Receives the checkpoint.
        origin: Provenance, written into the checkpoint.

    Raises:
        StorageFullError: The disk is full.
        CheckpointStoreError: The store is unavailable for longer than a moment.
    """
    if PopulationEstimate.FROZEN in trial.population_estimates:
        inputs, targets = data.splits[Split.TRAIN]
        batch_size = trial.training.batch_size
        batches = iter_complete_mini_batches(inputs, targets, batch_size)
        frozen = collect_moments_with_frozen_weights(network, (x for x, _ in batches), several_at_once=True)
        gathered = {**gathered, PopulationEstimate.FROZEN: frozen}
    if trial.arm.from_weights:
        gathered = {**gathered, PopulationEstimate.ANALYTIC: layer_moments_from_weights(trial, network, data)}
    weights = weights_and_buffers_by_name(network)
    file, sha256 = retry_store_access(lambda: write_checkpoint(store, weights, gathered, origin))
    return WrittenCheckpoint(file, sha256, gathered)
