"""The present weights of a network in training as a checkpoint, with the populations that its trial evaluates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.data.prepared import PreparedData
from bln_search.evaluation.batches import complete_mini_batches
from bln_search.evaluation.populations import collect_frozen_moments
from bln_search.norms.network.layers import MomentsByEstimate
from bln_search.specs.trial import TrialSpec
from bln_search.training.checkpoint import network_weights, write_checkpoint


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


def write_trained_weights(
    trial: TrialSpec,
    network: nn.Module,
    gathered: MomentsByEstimate,
    data: PreparedData,
    store: CheckpointStore,
    origin: Mapping[str, Any],
) -> WrittenCheckpoint:
    """Write the network's present weights; the `frozen` population is collected first if the trial evaluates it.

    Args:
        trial: The trial.
        network: Its network.
        gathered: Moments collected in training.
        data: Its training examples give the `frozen` population.
        store: Receives the checkpoint.
        origin: Provenance, written into the checkpoint.
    """
    if PopulationEstimate.FROZEN in trial.estimates:
        inputs, targets = data.splits[Split.TRAIN]
        batch_size = trial.training.batch_size
        batches = complete_mini_batches(inputs, targets, batch_size)
        frozen = collect_frozen_moments(network, (x for x, _ in batches))
        gathered = {**gathered, PopulationEstimate.FROZEN: frozen}
    weights = network_weights(network)
    file, sha256 = write_checkpoint(store, weights, gathered, origin)
    return WrittenCheckpoint(file, sha256, gathered)
