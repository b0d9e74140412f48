"""Evaluate a network under every configuration and rank the results."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import chain
from numbers import Integral
from typing import Any

import torch
from torch import nn

from bln_search.api.arguments import CorrectionName, check_network
from bln_search.api.loaders import Loader, batches_by_size, loader_inputs, scored_pairs
from bln_search.api.ranked import RankedConfigurations
from bln_search.api.score import UserScore, has_correctness, resolve_score
from bln_search.core.configuration import Source
from bln_search.core.enums import Correction, PopulationEstimate, Split, parse_enum
from bln_search.core.errors import DataError
from bln_search.core.records import Evaluation, EvaluationKey, Outcomes
from bln_search.evaluation import collect_frozen_moments, evaluate_split
from bln_search.evaluation.class_counts import ClassCounts
from bln_search.evaluation.memory import MEMORY_LIMIT
from bln_search.evaluation.scoring import cross_entropy
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.network_layers import (
    MomentsByEstimate,
    find_norms,
    layer_estimates,
    network_configurations,
    network_populations,
    row_before_conversion,
)
from bln_search.norms.row_batching.row_tensor import Populations, RowSpec
from bln_search.ranking.leaderboard import TrialEvaluation, rank


def evaluate_configurations(
    network: nn.Module,
    train_loader: Loader,
    validation_loader: Loader,
    *,
    test_loader: Loader | None = None,
    batch_sizes: Sequence[int] | None = None,
    gathered: Mapping[PopulationEstimate, Mapping[str, LayerMoments]] | None = None,
    correction: CorrectionName | Correction = "bessel",
    per_slot: bool = False,
    score: UserScore = "cross_entropy",
    one_pass: bool = True,
    memory_limit: int = MEMORY_LIMIT,
) -> RankedConfigurations:
    """Evaluate `network` under every configuration of its normalization layers, in one pass, ranked on validation.

    BLN layers without a batch_size get the largest training mini-batch size; otherwise the network is not changed.

    Args:
        network: A network with normalization layers of bln-search.
        train_loader: Mini-batches for the population values, usually the training data; the values are means over the
            mini-batches with the present weights. It yields inputs, alone or with targets, which are not read.
        validation_loader: Mini-batches (inputs, targets) of the inference size; their loss ranks the rows. A shorter
            last mini-batch is filled up with examples that are not scored.
        test_loader: Mini-batches of the test split, whose figures are reported and do not rank the rows.
        batch_sizes: Inference mini-batch sizes in place of those of the loaders; splits are then loaded into memory.
        gathered: Further population estimates, as `bln_search.norms.moment_collection` collects them during training.
        correction: Correction of population deviations: `bessel` or `total`.
        per_slot: Feature populations have a value for each slot of the mini-batch.
        score: The loss that ranks the rows: `cross_entropy` (softmax, targets are classes), `mse`, `mae`, or `bce`
            (targets from 0 to 1, outputs are logits). Or a function of outputs and targets that returns one loss for
            each example, alone or with correctness (a bool for each example); losses (n, ...) are averaged to (n,).
            A loss module of torch needs `reduction="none"`. It is called with outputs of several configurations at
            once. Without correctness the table has no accuracy.
        one_pass: False evaluates the configurations one after the other, for a network in which layers other than the
            normalization layers mix examples.
        memory_limit: Largest size in bytes of an activation that holds all configurations.

    Returns:
        The ranked table.

    Raises:
        ModelError: The network cannot be evaluated; the message says what to change.
        DataError: A loader does not yield mini-batches; the message says what to change.
        ValueError: Another argument is invalid.
        TypeError: `score` is neither a name nor a function.

    Example:
        ranked = bln_search.evaluate_configurations(model, train_loader, validation_loader)
        print(ranked)
        print(ranked.recommended, ranked["TTTT"])
    """
    check_network(network, "evaluate_configurations(network, train_loader, validation_loader)")
    scoring = resolve_score(score)
    parsed_correction = parse_enum(Correction, correction, "correction")
    if batch_sizes is not None and not _are_batch_sizes(batch_sizes):
        raise ValueError(f"batch_sizes is a list of whole numbers of at least 1, as in [1, 25], not {batch_sizes!r}")
    layers = find_norms(network)
    device = next(network.parameters()).device
    estimates = collect_estimates(network, layers, train_loader, device, gathered)
    populations = network_populations(layers, estimates, parsed_correction, per_slot=per_slot)
    rows = _possible_rows(layers, estimates)
    results: list[Evaluation] = []
    classes = ClassCounts()
    for split, loader in ((Split.VALIDATION, validation_loader), (Split.TEST, test_loader)):
        if loader is None:
            continue
        pairs = scored_pairs(loader, device, f"{split}_loader", scoring)
        if split is Split.VALIDATION and scoring is cross_entropy:
            pairs = classes.counted(pairs)
        for batch_size, batches in batches_by_size(pairs, batch_sizes, f"{split}_loader"):
            results += evaluate_split(
                network,
                batches,
                rows,
                populations,
                split=split,
                batch_size=batch_size,
                score=scoring,
                one_pass=one_pass,
                memory_limit=memory_limit,
            )
    return RankedConfigurations(
        board=rank(TrialEvaluation(arm="network", seed=0, evaluation=result) for result in results),
        populations=_populations_by_estimate(layers, estimates, populations),
        outcomes=_outcomes_by_key(results),
        class_prior=classes.class_prior,
        per_slot=per_slot and any(layer.batch_size != 1 for layer in layers.values()),
        deployed=row_before_conversion(layers, estimates[PopulationEstimate.FROZEN]),
        has_accuracy=has_correctness(scoring),
    )


def _possible_rows(layers: Mapping[str, Normalization], estimates: MomentsByEstimate) -> list[RowSpec]:
    """Every configuration, under each estimate of the statistics that it takes from the population."""
    statistics_by_estimate = {
        estimate: {statistic for name in moments for statistic in layers[name].method.statistics}
        for estimate, moments in estimates.items()
        if estimate is not PopulationEstimate.MEMORY
    }
    rows = []
    for configuration in network_configurations(layers):
        if configuration.uses_memory and PopulationEstimate.MEMORY not in estimates:
            continue
        if not configuration.uses_population:
            rows.append(RowSpec(configuration, None))
            continue
        population_statistics = {
            statistic for statistic, source in configuration.sources.items() if source is Source.POPULATION
        }
        rows += [
            RowSpec(configuration, estimate)
            for estimate, estimated in statistics_by_estimate.items()
            if population_statistics <= estimated
        ]
    return rows


def _are_batch_sizes(sizes: Sequence[int]) -> bool:
    is_nonempty_list = hasattr(sizes, "__len__") and len(sizes) > 0
    return is_nonempty_list and all(isinstance(size, Integral) and size >= 1 for size in sizes)


def collect_estimates(
    network: nn.Module,
    layers: Mapping[str, Normalization],
    loader: Loader,
    device: torch.device,
    gathered: MomentsByEstimate | None,
) -> dict[PopulationEstimate, Mapping[str, LayerMoments]]:
    """The estimates that the layers collected, those of `gathered`, and `frozen` unless `gathered` has it.

    Raises DataError if `gathered` belongs to other layers.
    """
    estimates = dict(gathered or {})
    estimates.setdefault(PopulationEstimate.FROZEN, _collect_frozen_population(network, layers, loader, device))
    _check_names(estimates, layers)
    return {**layer_estimates(layers, estimates[PopulationEstimate.FROZEN]), **estimates}


def _collect_frozen_population(
    network: nn.Module, layers: Mapping[str, Normalization], loader: Loader, device: torch.device
) -> dict[str, LayerMoments]:
    """The `frozen` population over training mini-batches; layers without a batch_size get the largest mini-batch size.

    Without a batch_size a layer uses the weights of the present mini-batch, and smaller mini-batches are excluded.
    Warns (UserWarning) if no mini-batch reaches a layer.
    """
    batches = loader_inputs(loader, device, "train_loader")
    first = next(batches, None)
    if first is None:
        raise DataError("train_loader yields no mini-batch: population values need at least one")
    gathered = collect_frozen_moments(network, chain([first], batches))
    size = max(moments.batch_size for moments in gathered.values())
    for layer in layers.values():
        layer.batch_size = layer.batch_size or size
    unreached = [name for name in layers if name not in gathered]
    if unreached:
        warnings.warn(
            f"no mini-batch of train_loader reached the layer {unreached[0]} in evaluation mode: its configuration "
            "does not change the outputs. If it should, the network calls a module other than this one, "
            "for example one in a Python list",
            stacklevel=4,
        )
    return gathered


def _check_names(gathered: MomentsByEstimate, layers: Mapping[str, Normalization]) -> None:
    """Raise DataError if an estimate belongs to other layers or lacks a layer, ValueError for unknown estimates."""
    for name in gathered:
        parse_enum(PopulationEstimate, name, "gathered: a population estimate")
    reached = gathered[PopulationEstimate.FROZEN].keys()
    for estimate, moments in gathered.items():
        mismatched = sorted(moments.keys() - layers.keys()) or sorted(reached - moments.keys())
        if mismatched:
            difference = "not a layer of the network" if mismatched[0] in moments else "missing"
            raise DataError(
                f"gathered[{str(estimate)!r}] belongs to other layers than this network's: {mismatched[0]} is "
                f"{difference}; collect the moments from the network that is evaluated, neither from a wrapper around "
                "it (DataParallel, torch.compile) nor from a part of it"
            )


def _populations_by_estimate(
    layers: Mapping[str, Normalization], estimates: MomentsByEstimate, populations: Populations
) -> dict[PopulationEstimate, dict[str, Any]]:
    reached = {name: populations[layer] for name, layer in layers.items() if layer in populations}
    return {
        estimate: {name: by_estimate[estimate] for name, by_estimate in reached.items() if estimate in by_estimate}
        for estimate in estimates
    }


def _outcomes_by_key(results: list[Evaluation]) -> dict[EvaluationKey, Outcomes]:
    return {result.key: result.outcomes for result in results if result.outcomes is not None}
