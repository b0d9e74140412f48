"""A network and its loaders in, the ranked table out."""

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
from bln_search.core.enums import Correction, PopulationEstimate, Split, chosen
from bln_search.core.errors import DataError
from bln_search.core.records import Evaluation, EvaluationKey, Outcomes
from bln_search.evaluation import evaluate_split, gather_frozen
from bln_search.evaluation.batches import MiniBatch, completed, mini_batches
from bln_search.evaluation.class_counts import ClassCounts
from bln_search.evaluation.memory import MEMORY_LIMIT
from bln_search.evaluation.scoring import Score, check_classes, cross_entropy, kind_of
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import GatheredMoments
from bln_search.norms.network_layers import (
    Gathered,
    as_deployed,
    find_norms,
    network_configurations,
    network_populations,
    own_estimates,
)
from bln_search.norms.row_tensor import Populations, Row
from bln_search.ranking.leaderboard import Scored, rank

Loader = Iterable[Any]
"""Yields (inputs, targets): tensors whose first axis holds examples; a `DataLoader` for instance."""


def evaluate_configurations(
    network: nn.Module,
    train_loader: Loader,
    validation_loader: Loader,
    *,
    test_loader: Loader | None = None,
    batch_sizes: Sequence[int] | None = None,
    gathered: Mapping[PopulationEstimate, Mapping[str, GatheredMoments]] | None = None,
    correction: Correction | str = Correction.BESSEL,
    per_slot: bool = False,
    score: Score = cross_entropy,
    one_pass: bool = True,
    memory_limit: int = MEMORY_LIMIT,
) -> RankedConfigurations:
    """Evaluate `network` under every configuration of its normalization layers, in one pass, ranked on validation.

    train_loader: the mini-batches of the population, usually the training data; its values are their means with the
    weights as they are. It yields inputs, alone or with targets, which are not read.
    validation_loader: decides the order. test_loader: reported beside it. Both give mini-batches of the inference
    size; a shorter last one is filled up with examples that do not count. batch_sizes: other inference mini-batch
    sizes to evaluate instead; the split is then held in memory.
    gathered: further population estimates, as `bln_search.norms.moment_collection` collects them during training.
    score: from outputs and targets to per-example losses and correctness; by default softmax cross-entropy.
    one_pass=False evaluates configuration by configuration, for a network whose other layers mix examples.
    memory_limit: bytes of the largest activation of all configurations together.

    Layers of BLN without a batch_size take the largest training mini-batch size; else the network is left as it was.
    Raises ModelError or DataError, saying what to change, ValueError for other words or sizes than there are.
    """
    asked_correction = chosen(Correction, correction, "correction")
    if batch_sizes is not None and not _are_sizes(batch_sizes):
        raise ValueError(f"batch_sizes is a list of whole numbers of at least 1, as in [1, 25], not {batch_sizes!r}")
    layers = find_norms(network)
    device = next(network.parameters()).device
    every = every_estimate(network, layers, train_loader, device, gathered)
    populations = network_populations(layers, every, asked_correction, per_slot=per_slot)
    rows = _rows(layers, every)
    results: list[Evaluation] = []
    classes = ClassCounts()
    for split, loader in ((Split.VALIDATION, validation_loader), (Split.TEST, test_loader)):
        if loader is None:
            continue
        checked = scored_pairs(loader, device, f"{split}_loader", score)
        if split is Split.VALIDATION and score is cross_entropy:
            checked = classes.counted(checked)
        for batch_size, batches in _batchings(checked, batch_sizes, f"{split}_loader"):
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
        board=rank(Scored(arm="network", seed=0, evaluation=result) for result in results),
        populations=_by_name(layers, every, populations),
        outcomes=_outcomes(results),
        guess=classes.guess,
        per_slot=per_slot and any(layer.batch_size != 1 for layer in layers.values()),
        deployed=as_deployed(layers, every[PopulationEstimate.FROZEN]),
    )


def _rows(layers: Mapping[str, Normalization], every: Gathered) -> list[Row]:
    """Every configuration, under each estimate of the statistics that it takes from the population."""
    statistics = {
        estimate: {statistic for name in moments for statistic in layers[name].method.statistics}
        for estimate, moments in every.items()
        if estimate is not PopulationEstimate.MEMORY
    }
    rows = []
    for configuration in network_configurations(layers):
        if configuration.uses_memory and PopulationEstimate.MEMORY not in every:
            continue
        if not configuration.uses_population:
            rows.append(Row(configuration, None))
            continue
        read = {one for one, source in configuration.sources.items() if source is Source.POPULATION}
        rows += [Row(configuration, estimate) for estimate, known in statistics.items() if read <= known]
    return rows


def _are_sizes(sizes: Sequence[int]) -> bool:
    listed = hasattr(sizes, "__len__") and len(sizes) > 0
    return listed and all(isinstance(size, Integral) and size >= 1 for size in sizes)


def every_estimate(
    network: nn.Module,
    layers: Mapping[str, Normalization],
    loader: Loader,
    device: torch.device,
    gathered: Gathered | None,
) -> dict[PopulationEstimate, Mapping[str, GatheredMoments]]:
    """What the layers have gathered by themselves, what was handed in, and the `frozen` population where it was not.

    Raises DataError where what was handed in is not of these layers.
    """
    given = dict(gathered or {})
    given.setdefault(PopulationEstimate.FROZEN, _gather_population(network, layers, loader, device))
    _check_names(given, layers)
    return {**own_estimates(layers, given[PopulationEstimate.FROZEN]), **given}


def _gather_population(
    network: nn.Module, layers: Mapping[str, Normalization], loader: Loader, device: torch.device
) -> dict[str, GatheredMoments]:
    """The `frozen` population over training mini-batches; layers without a batch_size take that of the largest.

    While they have none, their weights are those of the mini-batch at hand, and smaller ones are left out. Warns
    (UserWarning) of layers that no mini-batch reached.
    """
    batches = _inputs(loader, device, "train_loader")
    first = next(batches, None)
    if first is None:
        raise DataError("train_loader yields no mini-batch: population values need at least one")
    gathered = gather_frozen(network, chain([first], batches))
    size = max(moments.batch_size for moments in gathered.values())
    for layer in layers.values():
        layer.batch_size = layer.batch_size or size
    missed = [name for name in layers if name not in gathered]
    if missed:
        warnings.warn(
            f"no mini-batch of train_loader reached the layer {missed[0]} in evaluation mode: its configuration makes "
            "no difference here. If it should, the network calls another module than this one, as one kept in a list",
            stacklevel=4,
        )
    return gathered


def _check_names(gathered: Gathered, layers: Mapping[str, Normalization]) -> None:
    """Raise DataError where an estimate is not of these layers, or lacks one that training mini-batches reach.

    Raises ValueError for a name that is not an estimate's.
    """
    for name in gathered:
        chosen(PopulationEstimate, name, "gathered: a population estimate")
    reached = gathered[PopulationEstimate.FROZEN].keys()
    for estimate, moments in gathered.items():
        different = sorted(moments.keys() - layers.keys()) or sorted(reached - moments.keys())
        if different:
            where = "only there" if different[0] in moments else "not there"
            raise DataError(
                f"gathered[{str(estimate)!r}] is not of this network's layers: {different[0]} is {where}; gather from "
                "the very network that is evaluated, neither from one around it (DataParallel, torch.compile) nor "
                "from one inside it"
            )


def split_batches(loader: Loader, device: torch.device, name: str, score: Score) -> list[MiniBatch]:
    """A split in memory, a shorter last mini-batch filled up. Raises DataError where it is empty."""
    held = list(completed(scored_pairs(loader, device, name, score)))
    if not held:
        raise DataError(f"{name} yields no mini-batch")
    return held


def _batchings(
    batches: Iterator[MiniBatch], batch_sizes: Sequence[int] | None, name: str
) -> Iterator[tuple[int, Iterable[MiniBatch]]]:
    """Each inference mini-batch size with its mini-batches."""
    if batch_sizes is not None:
        held = list(batches)
        if not held:
            raise DataError(f"{name} yields no mini-batch")
        inputs, targets = torch.cat([x for x, _ in held]), torch.cat([y for _, y in held])
        yield from ((size, mini_batches(inputs, targets, size)) for size in dict.fromkeys(batch_sizes))
        return
    first = next(batches, None)
    if first is None:
        raise DataError(f"{name} yields no mini-batch")
    yield len(first[0]), completed(chain([first], batches))


def scored_pairs(loader: Loader, device: torch.device, name: str, score: Score) -> Iterator[MiniBatch]:
    """Mini-batches whose targets can be classes, where it is cross-entropy that scores them."""
    for inputs, targets in _pairs(loader, device, name):
        if score is cross_entropy:
            check_classes(targets, name)
        yield inputs, targets


def _inputs(loader: Loader, device: torch.device, name: str) -> Iterator[Tensor]:
    """Copies of the inputs of a loader, whether it has targets beside them or not."""
    for batch in loader:
        inputs = batch[0] if isinstance(batch, list | tuple) and len(batch) in (1, 2) else batch
        if not isinstance(inputs, Tensor):
            raise DataError(
                f"{name} must yield inputs, or (inputs, targets), tensors with examples on the first axis, as a "
                f"torch.utils.data.DataLoader does; it yields {kind_of(batch)}"
            )
        if not inputs.ndim:
            raise DataError(f"{name} yields single examples: put the data set into a torch.utils.data.DataLoader")
        if len(inputs) == 0:
            raise DataError(f"{name} yields a mini-batch of 0 inputs")
        yield inputs.to(device, copy=True)


def _pairs(loader: Loader, device: torch.device, name: str) -> Iterator[MiniBatch]:
    """Copies of what a loader yields: it may refill the same tensors while earlier ones are still held here."""
    for batch in loader:
        whole = isinstance(batch, list | tuple) and len(batch) == 2
        if not whole or not all(isinstance(part, Tensor) for part in batch):
            raise DataError(
                f"{name} must yield (inputs, targets), two tensors with examples on the first axis, as a "
                f"torch.utils.data.DataLoader does; it yields {kind_of(batch)}"
            )
        inputs, targets = batch
        if not inputs.ndim or not targets.ndim:
            raise DataError(f"{name} yields single examples: put the data set into a torch.utils.data.DataLoader")
        if len(inputs) != len(targets) or len(inputs) == 0:
            raise DataError(f"{name} yields {len(inputs)} inputs with {len(targets)} targets")
        yield inputs.to(device, copy=True), targets.to(device, copy=True)


def _by_name(
    layers: Mapping[str, Normalization], every: Gathered, populations: Populations
) -> dict[PopulationEstimate, dict[str, Any]]:
    reached = {name: populations[layer] for name, layer in layers.items() if layer in populations}
    return {
        estimate: {name: of_layer[estimate] for name, of_layer in reached.items() if estimate in of_layer}
        for estimate in every
    }


def _outcomes(results: list[Evaluation]) -> dict[EvaluationKey, Outcomes]:
    return {result.key: result.outcomes for result in results if result.outcomes is not None}
