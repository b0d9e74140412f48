"""Search the per-layer configurations of a trial's network from its checkpoint, completely or for a limited time."""

from __future__ import annotations

import time
from collections.abc import Sequence

from torch import nn

from bln_search.core.enums import LayerSearchAlgorithm, Split
from bln_search.core.errors import ModelError
from bln_search.core.layer_search_record import LayerSearchRecord
from bln_search.core.records import CheckpointRecord
from bln_search.data.input_shape import require_single_tensor_for_purpose
from bln_search.data.prepared import PreparedData
from bln_search.evaluation.batches import MiniBatch, iter_mini_batches_with_fillers
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.evaluation.tree.configuration_space import PerLayerEvaluatorOptions, compute_space_size_with_all_options
from bln_search.evaluation.tree.graph.segments import split_at_norms
from bln_search.evaluation.tree.score_sums import RunningScoreSums
from bln_search.evaluation.tree.tree_evaluator import MAX_CONFIGURATIONS, TreePerLayerEvaluator
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import use_trained_network
from bln_search.norms.network.layers import evaluation_mode
from bln_search.search.layers.search import (
    LayerSearchOptions,
    OnProgress,
    assign_mini_batches_to_folds,
    search_layers_and_cross_validate,
)
from bln_search.search.layers.strategies import StrategyOptions
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.specs.trial import TrialSpec


class _TimeSliceExpired(Exception):  # noqa: N818 - a signal, not an error
    """The time of a slice is over."""


def search_layers_of_trial(
    trial: TrialSpec,
    checkpoint: CheckpointRecord,
    environment: ExecutionEnvironment,
    layers: LayerSearchSpec,
    *,
    resume_from: RunningScoreSums | None = None,
    on_progress: OnProgress | None = None,
) -> LayerSearchRecord:
    """Search the trial's network on its validation split and report the result on the test split.

    Mini-batches have the training size.

    Args:
        trial: The trial.
        checkpoint: Its trained network.
        environment: Folders, checkpoint store, device and threads.
        layers: How to search.
        resume_from: The sums of an interrupted enumeration.
        on_progress: Called with the sums of an enumeration.

    Raises:
        DataError: The checkpoint or the data set is missing or damaged, or there are fewer mini-batches than folds.
        ModelError: No configuration has a finite loss, or the network cannot be evaluated layer by layer.
    """
    with use_trained_network(trial, checkpoint, environment) as loaded:
        if loaded.task.compares_examples:
            raise ModelError(
                "the losses compare each example with all others: the layers of this network cannot be searched"
            )
        batch_size = trial.training.batch_size
        batches = _list_mini_batches_of_split(loaded.data, Split.VALIDATION, batch_size)
        require_single_tensor_for_purpose(batches[0][0], "the search of per-layer configurations")
        folds = assign_mini_batches_to_folds(len(batches), layers.folds)
        options = PerLayerEvaluatorOptions(
            estimate=layers.estimate or trial.population_estimates[0],
            scope=layers.scope,
            groups=layers.groups or {},
            score=loaded.task.score,
            memory_limit=MEMORY_LIMIT,
        )
        strategy = StrategyOptions(layers.width, layers.restarts, trial.seed)
        return search_layers_and_cross_validate(
            TreePerLayerEvaluator(
                loaded.network, batches, loaded.populations_by_estimate_and_layer, options, folds=folds
            ),
            folds,
            LayerSearchOptions(layers.search, layers.evaluations, layers.keep, strategy),
            test=_list_mini_batches_of_split(loaded.data, Split.TEST, batch_size)
            if Split.TEST in loaded.data.splits
            else None,
            resume_from=resume_from,
            on_progress=on_progress if layers.search is LayerSearchAlgorithm.EXACT else None,
        )


def check_network_is_searchable(network: nn.Module, layers: LayerSearchSpec) -> None:
    """Raise ModelError unless the network can be split at its layers, has the named layers, and few enough of them."""
    with evaluation_mode(network):
        split_network = split_at_norms(network)
    size = compute_space_size_with_all_options(split_network, layers.scope, layers.groups)
    if layers.search is LayerSearchAlgorithm.EXACT and size > MAX_CONFIGURATIONS:
        raise ModelError(
            f"layers: {len(split_network.names)} normalization layers have {size:,} per-layer configurations, more "
            f"than the {MAX_CONFIGURATIONS:,} that can be enumerated: set `search` to beam, coordinate, tpe or "
            "racing, or tie layers together in groups"
        )


def search_layers_within_time_slice(
    trial: TrialSpec,
    checkpoint: CheckpointRecord,
    environment: ExecutionEnvironment,
    layers: LayerSearchSpec,
    resume_from: RunningScoreSums | None,
    seconds: float,
) -> LayerSearchRecord | RunningScoreSums:
    """Run `search_layers_of_trial`; an enumeration that takes longer than `seconds` returns its sums so far."""
    deadline = time.monotonic() + seconds
    last_sums: list[RunningScoreSums] = []

    def stop_at_deadline(sums: RunningScoreSums) -> None:
        if sums.done < sums.total and time.monotonic() >= deadline:
            last_sums.append(sums)
            raise _TimeSliceExpired

    try:
        return search_layers_of_trial(
            trial, checkpoint, environment, layers, resume_from=resume_from, on_progress=stop_at_deadline
        )
    except _TimeSliceExpired:
        return last_sums[-1]


def _list_mini_batches_of_split(data: PreparedData, split: Split, batch_size: int) -> Sequence[MiniBatch]:
    return list(iter_mini_batches_with_fillers(*data.splits[split], batch_size))
