"""What a study asks about its trained networks beside the leaderboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from bln_search.core.enums import PopulationEstimate, ProbeKind, Split
from bln_search.core.records import Probe, Snapshot
from bln_search.data.prepared import PreparedData
from bln_search.evaluation import gather_frozen
from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.memory import MEMORY_LIMIT
from bln_search.evaluation.probe_evaluation import probe_company, probe_size
from bln_search.execution.environment import Place
from bln_search.norms.moment_collection import GatheredMoments
from bln_search.norms.network_layers import Gathered, find_norms, network_populations
from bln_search.norms.row_tensor import Populations, Row
from bln_search.specs.study import ProbesSpec
from bln_search.specs.trial import TrialSpec, planned_rows
from bln_search.training import TrainingRun
from bln_search.training.checkpoint import copied, load_weights, read_checkpoint, weights_of, write_checkpoint


def with_frozen(
    trial: TrialSpec, network: nn.Module, gathered: Gathered, data: PreparedData
) -> dict[PopulationEstimate, Mapping[str, GatheredMoments]]:
    """What was gathered in training and, where the trial asks for it, the `frozen` population of these weights."""
    found = dict(gathered)
    if PopulationEstimate.FROZEN in trial.estimates:
        inputs, targets = data.splits[Split.TRAIN]
        size = trial.training.batch_size
        complete = len(inputs) // size * size
        batches = mini_batches(inputs[:complete], targets[:complete], size)
        found[PopulationEstimate.FROZEN] = gather_frozen(network, (x for x, _ in batches))
    return found


def wants_snapshot(trial: TrialSpec, epoch: int) -> bool:
    """Are the weights after this epoch kept?"""
    return trial.probes is not None and trial.probes.epochs is not None and epoch % trial.probes.epochs == 0


def keep_snapshot(
    trial: TrialSpec, run: TrainingRun, data: PreparedData, place: Place, origin: Mapping[str, Any], epoch: int
) -> Snapshot:
    """Write the network as it is after `epoch`."""
    gathered = with_frozen(trial, run.network, run.gathered, data)
    weights = weights_of(run.network)
    file, sha256 = write_checkpoint(place.checkpoints, weights, gathered, {**origin, "epoch": epoch})
    return Snapshot(epoch, file, sha256)


def probe_trial(
    trial: TrialSpec,
    asked: ProbesSpec,
    network: nn.Module,
    gathered: Gathered,
    snapshots: Sequence[Snapshot],
    data: PreparedData,
    place: Place,
    *,
    memory_limit: int = MEMORY_LIMIT,
) -> tuple[Probe, ...]:
    """Every probe that is asked for, on validation. The network is left with the weights it had."""
    inputs, targets = data.splits[Split.VALIDATION]
    rows = [Row(configuration, estimate) for configuration, estimate in planned_rows(trial)]
    populations = _populations(trial, network, gathered)
    size = trial.training.batch_size
    found: list[Probe] = []
    for batch_size in asked.batch_sizes or ():
        found += probe_size(
            network, inputs, targets, rows, populations, batch_size=batch_size, memory_limit=memory_limit
        )
    if asked.reshuffles:
        found += probe_company(
            network,
            inputs,
            targets,
            rows,
            populations,
            batch_size=size,
            reshuffles=asked.reshuffles,
            seed=trial.seed,
            memory_limit=memory_limit,
        )
    if asked.epochs is not None:
        found += _epochs(trial, network, snapshots, data, rows, place, memory_limit)
    return tuple(found)


def _epochs(
    trial: TrialSpec,
    network: nn.Module,
    snapshots: Sequence[Snapshot],
    data: PreparedData,
    rows: Sequence[Row],
    place: Place,
    memory_limit: int,
) -> list[Probe]:
    """Every snapshot under every row, at the training mini-batch size."""
    found: list[Probe] = []
    kept = copied(weights_of(network))
    try:
        for one in snapshots:
            weights, gathered = read_checkpoint(place.checkpoints, one.file, one.sha256)
            load_weights(network, weights)
            found += probe_size(
                network,
                *data.splits[Split.VALIDATION],
                rows,
                _populations(trial, network, gathered),
                batch_size=trial.training.batch_size,
                kind=ProbeKind.EPOCH,
                epoch=one.epoch,
                memory_limit=memory_limit,
            )
    finally:
        load_weights(network, kept)
    return found


def _populations(trial: TrialSpec, network: nn.Module, gathered: Gathered) -> Populations:
    evaluation = trial.evaluation
    return network_populations(find_norms(network), gathered, evaluation.correction, per_slot=evaluation.per_slot)
