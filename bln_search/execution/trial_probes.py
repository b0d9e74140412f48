"""Probes of a trained network: figures besides the leaderboard, without further training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bln_search.core.enums import ProbeKind, Split
from bln_search.core.records import ProbeResult
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.evaluation.probe_evaluation import probe_at_batch_size, probe_batch_composition
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
    inputs, targets = loaded.data.splits[Split.VALIDATION]
    size = loaded.trial.training.batch_size

    def probe(probed: LoadedNetwork, batch_size: int, **options: Any) -> list[ProbeResult]:
        return probe_at_batch_size(
            probed.network,
            inputs,
            targets,
            probed.planned_inference_rows,
            probed.populations_by_estimate_and_layer,
            batch_size=batch_size,
            task=probed.task,
            memory_limit=memory_limit,
            **options,
        )

    figures = [figure for batch_size in probes.batch_sizes or () for figure in probe(loaded, batch_size)]
    if probes.reshuffles:
        figures += probe_batch_composition(
            loaded.network,
            inputs,
            targets,
            loaded.planned_inference_rows,
            loaded.populations_by_estimate_and_layer,
            batch_size=size,
            reshuffles=probes.reshuffles,
            seed=loaded.trial.seed,
            task=loaded.task,
            memory_limit=memory_limit,
        )
    if probes.epochs is not None:
        with restore_weights_on_exit(loaded.network):
            for snapshot in loaded.snapshots:
                weights, gathered = read_checkpoint_weights_and_moments(
                    environment.checkpoints, snapshot.file, snapshot.sha256
                )
                copy_weights_into_network(loaded.network, weights)
                figures += probe(replace(loaded, gathered=gathered), size, kind=ProbeKind.EPOCH, epoch=snapshot.epoch)
    return tuple(figures)
