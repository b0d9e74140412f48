"""The network of a checkpoint, with the data of its trial."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import nn

from bln_search.core.records import CheckpointRecord
from bln_search.data.prepared import PreparedData
from bln_search.execution.environment import Place, prepared_data
from bln_search.execution.trial import build_network
from bln_search.norms.network_layers import Gathered
from bln_search.specs.trial import TrialSpec
from bln_search.training.checkpoint import load_weights, read_checkpoint
from bln_search.training.seeding import repeatable


@dataclass(frozen=True)
class Restored:
    """A trained network on a device, the populations gathered with it, and the data."""

    network: nn.Module
    gathered: Gathered
    data: PreparedData


@contextmanager
def restored(trial: TrialSpec, checkpoint: CheckpointRecord, place: Place) -> Iterator[Restored]:
    """The trial's network as its checkpoint has it; while this is open the trial's seed and the place's threads hold.

    Raises DataError where the file is absent, damaged or of another network, or where the data are not here.
    """
    weights, gathered = read_checkpoint(place.checkpoints, checkpoint.file, checkpoint.sha256)
    with repeatable(trial.seed, threads=place.threads):
        data = prepared_data(trial.data, place.data, place.cache, place.device)
        network = build_network(trial, data).to(place.device)
        load_weights(network, weights)
        yield Restored(network, gathered, data)
