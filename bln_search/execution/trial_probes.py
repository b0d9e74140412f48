"""Probes of a trained network: figures besides the leaderboard, without further training."""

from __future__ import annotations

from dataclasses import replace

from bln_search.core.enums import ProbeKind, Split
from bln_search.core.records import ProbeResult
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.evaluation.probe_evaluation import ValidationProbe
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import LoadedNetwork
from bln_search.specs.sections.evaluation import ProbesSpec
from bln_search.training.checkpoint import (
    copy_weights_into_network,
    read_checkpoint_weights_and_moments,
    restore_weights_on_exit,
)


def measure_trial_probes(
    loaded: LoadedNetwork, probes: ProbesSpec, environment: ExecutionEnvironment, memory_limit: int = MEMORY_LIMIT
) -> tuple[ProbeResult, ...]:
    """Measure every probe on the validation split. Afterwards the network has its former weights.

    Args:
        loaded: The trained network with its populations, data and snapshots.
        probes: What to measure.
        environment: Its checkpoint store holds the snapshots.
        memory_limit: Bytes of the largest activation of all configurations together.

    Raises:
        DataError: A snapshot is missing or damaged.
    """
    size = loaded.trial.training.batch_size
    probe = ValidationProbe(
        loaded.network,
        *loaded.data.splits[Split.VALIDATION],
        loaded.planned_inference_rows,
        loaded.populations_by_estimate_and_layer,
        loaded.task,
        memory_limit,
    )
    figures = [figure for probed in probes.batch_sizes or () for figure in probe.probe_at_batch_size(probed)]
    if probes.reshuffles:
        figures += probe.probe_batch_composition(size, reshuffles=probes.reshuffles, seed=loaded.trial.seed)
    if probes.epochs is not None:
        with restore_weights_on_exit(loaded.network):
            for snapshot in loaded.snapshots:
                weights, gathered = read_checkpoint_weights_and_moments(
                    environment.checkpoints, snapshot.file, snapshot.sha256
                )
                copy_weights_into_network(loaded.network, weights)
                populations = replace(loaded, gathered=gathered).populations_by_estimate_and_layer
                figures += replace(probe, populations=populations).probe_at_batch_size(
                    size, kind=ProbeKind.EPOCH, epoch=snapshot.epoch
                )
    return tuple(figures)
