"""Evaluate a network under every configuration and rank the results."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.api.ranked import RankedConfigurations
from bln_search.core.configuration import Source
from bln_search.core.enums import Correction, PopulationEstimate, Split, parse_enum
from bln_search.core.errors import DataError
from bln_search.core.records import Evaluation, EvaluationKey, Outcomes
from bln_search.evaluation import collect_frozen_moments, evaluate_split
from bln_search.evaluation.batches import MiniBatch, fill_last_batch, mini_batches
from bln_search.evaluation.class_counts import ClassCounts
from bln_search.evaluation.memory import MEMORY_LIMIT
from bln_search.evaluation.scoring import Score, check_class_targets, cross_entropy, describe_type
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

Loader = Iterable[Any]
"""Yields (inputs, targets), tensors whose first axis is the examples'; for instance a `DataLoader`."""


def evaluate_configurations(
    network: nn.Module,
    train_loader: Loader,
    validation_loader: Loader,
    *,
    test_loader: Loader | None = None,
    batch_sizes: Sequence[int] | None = None,
    gathered: Mapping[PopulationEstimate, Mapping[str, LayerMoments]] | None = None,
    correction: Correction | str = Correction.BESSEL,
    per_slot: bool = False,
    score: Score = cross_entropy,
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
        batch_sizes: Other inference mini-batch sizes; the splits are then loaded into memory.
        gathered: Further population estimates, as `bln_search.norms.moment_collection` collects them during training.
        correction: Correction of population deviations: `bessel` or `total`.
        per_slot: Feature populations have a value for each slot of the mini-batch.
        score: Maps outputs and targets to per-example losses and correctness; by default softmax cross-entropy.
        one_pass: False evaluates the configurations one after the other, for a network in which layers other than the
            normalization layers mix examples.
        memory_limit: Largest size in bytes of an activation that holds all configurations.

    Raises:
        ModelError: The network cannot be evaluated; the message says what to change.
        DataError: A loader does not yield mini-batches; the message says what to change.
        ValueError: Another argument is invalid.
    """
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
        pairs = scored_pairs(loader, device, f"{split}_loader", score)
        if split is Split.VALIDATION and score is cross_entropy:
            pairs = classes.counted(pairs)
        for batch_size, batches in _batches_by_size(pairs, batch_sizes, f"{split}_loader"):
            results += evaluate_split(
                network,
                batches,
                rows,
                populations,
                split=split,
                batch_size=batch_size,
                score=score,
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
    batches = _loader_inputs(loader, device, "train_loader")
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


def split_batches(loader: Loader, device: torch.device, name: str, score: Score) -> list[MiniBatch]:
    """Load a split into memory; a shorter last mini-batch is filled up. Raises DataError for an empty split."""
    batches = list(fill_last_batch(scored_pairs(loader, device, name, score)))
    if not batches:
        raise DataError(f"{name} yields no mini-batch")
    return batches


def _batches_by_size(
    batches: Iterator[MiniBatch], batch_sizes: Sequence[int] | None, name: str
) -> Iterator[tuple[int, Iterable[MiniBatch]]]:
    """Each inference mini-batch size with its mini-batches. Raises DataError for a split without a mini-batch."""
    if batch_sizes is not None:
        loaded = list(batches)
        if not loaded:
            raise DataError(f"{name} yields no mini-batch")
        inputs, targets = torch.cat([x for x, _ in loaded]), torch.cat([y for _, y in loaded])
        yield from ((size, mini_batches(inputs, targets, size)) for size in dict.fromkeys(batch_sizes))
        return
    first = next(batches, None)
    if first is None:
        raise DataError(f"{name} yields no mini-batch")
    yield len(first[0]), fill_last_batch(chain([first], batches))


def scored_pairs(loader: Loader, device: torch.device, name: str, score: Score) -> Iterator[MiniBatch]:
    """Mini-batches (inputs, targets); the targets are checked to be classes if cross-entropy scores them."""
    for inputs, targets in _loader_pairs(loader, device, name):
        if score is cross_entropy:
            check_class_targets(targets, name)
        yield inputs, targets


def _loader_inputs(loader: Loader, device: torch.device, name: str) -> Iterator[Tensor]:
    """Copies of the inputs of a loader, which may yield targets too."""
    for batch in loader:
        inputs = batch[0] if isinstance(batch, list | tuple) and len(batch) in (1, 2) else batch
        if not isinstance(inputs, Tensor):
            raise DataError(
                f"{name} must yield inputs, or (inputs, targets), tensors with examples on the first axis, as a "
                f"torch.utils.data.DataLoader does; it yields {describe_type(batch)}"
            )
        if not inputs.ndim:
            raise DataError(f"{name} yields single examples: put the data set into a torch.utils.data.DataLoader")
        if len(inputs) == 0:
            raise DataError(f"{name} yields a mini-batch of 0 inputs")
        yield inputs.to(device, copy=True)


def _loader_pairs(loader: Loader, device: torch.device, name: str) -> Iterator[MiniBatch]:
    """Copies of a loader's mini-batches, because a loader may reuse its tensors."""
    for batch in loader:
        is_pair = isinstance(batch, list | tuple) and len(batch) == 2
        if not is_pair or not all(isinstance(part, Tensor) for part in batch):
            raise DataError(
                f"{name} must yield (inputs, targets), two tensors with examples on the first axis, as a "
                f"torch.utils.data.DataLoader does; it yields {describe_type(batch)}"
            )
        inputs, targets = batch
        if not inputs.ndim or not targets.ndim:
            raise DataError(f"{name} yields single examples: put the data set into a torch.utils.data.DataLoader")
        if len(inputs) != len(targets) or len(inputs) == 0:
            raise DataError(f"{name} yields {len(inputs)} inputs with {len(targets)} targets")
        yield inputs.to(device, copy=True), targets.to(device, copy=True)


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
