"""Probes of a trained network: figures besides the leaderboard, without further training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from bln_search.core.enums import PopulationEstimate, ProbeKind, Split
from bln_search.core.records import Probe, Snapshot
from bln_search.data.prepared import PreparedData
from bln_search.evaluation import collect_frozen_moments
from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.memory import MEMORY_LIMIT
from bln_search.evaluation.probe_evaluation import probe_batch_composition, probe_batch_size
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import LoadedNetwork
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.network_layers import MomentsByEstimate
from bln_search.specs.study import ProbesSpec
from bln_search.specs.trial import TrialSpec
from bln_search.training import TrainingRun
from bln_search.training.checkpoint import (
    copy_weights,
    load_weights,
    network_weights,
    read_checkpoint,
    write_checkpoint,
)


def add_frozen_population(
    trial: TrialSpec, network: nn.Module, gathered: MomentsByEstimate, data: PreparedData
) -> dict[str, Mapping[str, LayerMoments]]:
    """Add the `frozen` population of the network's present weights to `gathered` if the trial evaluates it."""
    moments = dict(gathered)
    if PopulationEstimate.FROZEN in trial.estimates:
        inputs, targets = data.splits[Split.TRAIN]
        batch_size = trial.training.batch_size
        complete = len(inputs) // batch_size * batch_size
        batches = mini_batches(inputs[:complete], targets[:complete], batch_size)
        moments[PopulationEstimate.FROZEN] = collect_frozen_moments(network, (x for x, _ in batches))
    return moments


def wants_snapshot(trial: TrialSpec, epoch: int) -> bool:
    """Does the trial probe the weights after this epoch?"""
    return trial.probes is not None and trial.probes.epochs is not None and epoch % trial.probes.epochs == 0


def keep_snapshot(
    trial: TrialSpec,
    run: TrainingRun,
    data: PreparedData,
    environment: ExecutionEnvironment,
    origin: Mapping[str, Any],
    epoch: int,
) -> Snapshot:
    """Write a checkpoint of the network after `epoch`."""
    gathered = add_frozen_population(trial, run.network, run.moments, data)
    weights = network_weights(run.network)
    file, sha256 = write_checkpoint(environment.checkpoints, weights, gathered, {**origin, "epoch": epoch})
    return Snapshot(epoch, file, sha256)


def probe_trial(
    loaded: LoadedNetwork,
    probes: ProbesSpec,
    snapshots: Sequence[Snapshot],
    environment: ExecutionEnvironment,
    *,
    memory_limit: int = MEMORY_LIMIT,
) -> tuple[Probe, ...]:
    """Measure every probe on the validation split. Afterwards the network has its former weights.

    Args:
        loaded: The trained network with its populations and data.
        probes: What to measure.
        snapshots: Checkpoints of former epochs.
        environment: Its checkpoint store holds the snapshots.
        memory_limit: Bytes of the largest activation of all configurations together.

    Raises:
        DataError: A snapshot is missing or damaged.
    """
    inputs, targets = loaded.data.splits[Split.VALIDATION]
    figures: list[Probe] = []
    for batch_size in probes.batch_sizes or ():
        figures += probe_batch_size(
            loaded.network,
            inputs,
            targets,
            loaded.rows,
            loaded.populations,
            batch_size=batch_size,
            memory_limit=memory_limit,
        )
    if probes.reshuffles:
        figures += probe_batch_composition(
            loaded.network,
            inputs,
            targets,
            loaded.rows,
            loaded.populations,
            batch_size=loaded.trial.training.batch_size,
            reshuffles=probes.reshuffles,
            seed=loaded.trial.seed,
            memory_limit=memory_limit,
        )
    if probes.epochs is not None:
        figures += _probe_epochs(loaded, snapshots, environment, memory_limit)
    return tuple(figures)


def _probe_epochs(
    loaded: LoadedNetwork, snapshots: Sequence[Snapshot], environment: ExecutionEnvironment, memory_limit: int
) -> list[Probe]:
    """Evaluate every snapshot under every row, at the training mini-batch size."""
    figures: list[Probe] = []
    trained_weights = copy_weights(network_weights(loaded.network))
    try:
        for snapshot in snapshots:
            weights, gathered = read_checkpoint(environment.checkpoints, snapshot.file, snapshot.sha256)
            load_weights(loaded.network, weights)
            figures += probe_batch_size(
                loaded.network,
                *loaded.data.splits[Split.VALIDATION],
                loaded.rows,
                replace(loaded, gathered=gathered).populations,
                batch_size=loaded.trial.training.batch_size,
                kind=ProbeKind.EPOCH,
                epoch=snapshot.epoch,
                memory_limit=memory_limit,
            )
    finally:
        load_weights(loaded.network, trained_weights)
    return figures
