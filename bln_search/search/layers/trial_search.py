"""The network of a trial, searched layer by layer from its checkpoint; whole, or for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from torch import nn

from bln_search.core.enums import LayerSearch, PopulationEstimate, Split
from bln_search.core.errors import ModelError
from bln_search.core.layer_search_record import LayerSearchRecord
from bln_search.core.records import CheckpointRecord
from bln_search.data.prepared import PreparedData
from bln_search.evaluation.batches import MiniBatch, mini_batches
from bln_search.evaluation.memory import MEMORY_LIMIT
from bln_search.evaluation.tree.options import Asked
from bln_search.evaluation.tree.running_sums import Sums
from bln_search.evaluation.tree.segments import staged
from bln_search.evaluation.tree.space import largest_size
from bln_search.evaluation.tree.tree_evaluator import MOST_CONFIGURATIONS, TreeEvaluator
from bln_search.execution.environment import Place
from bln_search.execution.loaded_network import restored
from bln_search.norms.network_layers import evaluation_mode, find_norms, network_populations
from bln_search.search.layers.search import Plan, fold_of, search_network
from bln_search.search.layers.strategies import Options
from bln_search.specs.layer_search import LayersSpec
from bln_search.specs.trial import TrialSpec


class _OverError(Exception):
    """The time of a slice is over."""


def search_trial(
    trial: TrialSpec,
    checkpoint: CheckpointRecord,
    place: Place,
    asked: LayersSpec,
    *,
    sums: Sums | None = None,
    keep: Callable[[Sums], None] | None = None,
) -> LayerSearchRecord:
    """Search the trial's network on its validation split, in mini-batches of the training size; report on test.

    sums, keep: where an interrupted enumeration goes on, and who is given what is added up behind each group of
    mini-batches. Raises DataError and ModelError.
    """
    with restored(trial, checkpoint, place) as found:
        size, evaluation = trial.training.batch_size, trial.evaluation
        batches = _batches(found.data, Split.VALIDATION, size)
        folds = fold_of(len(batches), asked.folds)
        populations = network_populations(
            find_norms(found.network), found.gathered, evaluation.correction, per_slot=evaluation.per_slot
        )
        question = Asked(
            estimate=estimate_of(trial, asked), scope=asked.scope, groups=asked.groups or {}, memory_limit=MEMORY_LIMIT
        )
        return search_network(
            TreeEvaluator(found.network, batches, populations, question, folds=folds),
            folds,
            Plan(asked.search, asked.evaluations, asked.keep, Options(asked.width, asked.restarts, trial.seed)),
            test=_batches(found.data, Split.TEST, size) if Split.TEST in found.data.splits else None,
            sums=sums,
            keep=keep if asked.search is LayerSearch.EXACT else None,
        )


def check_layers(network: nn.Module, asked: LayersSpec) -> None:
    """Raise ModelError unless the network can be cut at its layers, has those that are named, and not too many."""
    with evaluation_mode(network):
        cut = staged(network)
    size = largest_size(cut, asked.scope, asked.groups)
    if asked.search is LayerSearch.EXACT and size > MOST_CONFIGURATIONS:
        raise ModelError(
            f"layers: {len(cut.names)} normalization layers have {size:,} per-layer configurations, more than the "
            f"{MOST_CONFIGURATIONS:,} that are enumerated: set `search` to beam, coordinate, tpe or racing, or tie "
            "layers together in groups"
        )


def search_slice(
    trial: TrialSpec,
    checkpoint: CheckpointRecord,
    place: Place,
    asked: LayersSpec,
    sums: Sums | None,
    seconds: float,
) -> LayerSearchRecord | Sums:
    """As `search_trial`; but an enumeration that takes longer than so many seconds hands back what it added up."""
    ends = time.monotonic() + seconds
    held: list[Sums] = []

    def keep(so_far: Sums) -> None:
        if so_far.done < so_far.total and time.monotonic() >= ends:
            held.append(so_far)
            raise _OverError

    try:
        return search_trial(trial, checkpoint, place, asked, sums=sums, keep=keep)
    except _OverError:
        return held[-1]


def estimate_of(trial: TrialSpec, asked: LayersSpec) -> PopulationEstimate:
    """Where population values come from."""
    return asked.estimate or trial.estimates[0]


def _batches(data: PreparedData, split: Split, size: int) -> Sequence[MiniBatch]:
    return list(mini_batches(*data.splits[split], size))
