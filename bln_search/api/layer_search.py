"""A network and its loaders in, the best per-layer configurations out."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import ValidationError
from rich.console import Console
from torch import nn

from bln_search.api.evaluate import Loader, every_estimate, split_batches
from bln_search.api.layered import LayeredConfiguration
from bln_search.core.enums import Correction, LayerScope, LayerSearch, PopulationEstimate, chosen
from bln_search.core.errors import DataError
from bln_search.core.layer_search_record import LayerSearchRecord
from bln_search.core.per_layer import PerLayerConfiguration
from bln_search.evaluation.memory import MEMORY_LIMIT
from bln_search.evaluation.scoring import Score, cross_entropy
from bln_search.evaluation.tree.evaluators import Evaluator, find_evaluator
from bln_search.evaluation.tree.options import Asked
from bln_search.evaluation.tree.tree_evaluator import TreeEvaluator
from bln_search.norms.moment_collection import GatheredMoments
from bln_search.norms.network_layers import find_norms, network_populations
from bln_search.norms.statistics import LayerPopulation, chosen_population
from bln_search.ranking.paired.per_layer_tests import layer_result
from bln_search.ranking.per_layer import LayerResult
from bln_search.reports.layer_table import layer_table
from bln_search.reports.per_layer import layer_lines
from bln_search.search.layers.search import Plan, fold_of, search_network
from bln_search.search.layers.strategies import Options
from bln_search.specs.layer_search import LayersSpec
from bln_search.specs.problems import problems_of


@dataclass(frozen=True)
class RankedLayers:
    """What was found; printing it prints the best rows and what of them was confirmed."""

    result: LayerResult
    record: LayerSearchRecord
    populations: Mapping[str, Mapping[PopulationEstimate, LayerPopulation]]

    @property
    def best(self) -> LayeredConfiguration:
        """The best on all validation examples."""
        return self.of(PerLayerConfiguration.parse(self.result.rows[0].configuration))

    def of(self, configuration: PerLayerConfiguration) -> LayeredConfiguration:
        """A configuration with the population values it reads. Raises ValueError for one that was not to be chosen."""
        self.record.space.digits(configuration)
        names = self.record.space.layers
        values = {
            name: chosen_population(
                word, self.result.estimate if word.uses_population else None, self.populations.get(name, {})
            )
            for name, word in zip(names, configuration.words, strict=True)
        }
        read = {name: population for name, population in values.items() if population is not None}
        return LayeredConfiguration(configuration, names, read)

    def __str__(self) -> str:
        out = io.StringIO()
        Console(file=out, width=160).print(layer_table(self.result), *layer_lines(self.result), sep="\n", markup=False)
        return out.getvalue()


_ONCE = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class _Search:
    """One search of one network, for `layer_result`."""

    spec: LayersSpec
    record: LayerSearchRecord
    arm: str = "network"
    point: str = ""
    seed: int = 0
    made_at: datetime = _ONCE


def search_layers(
    network: nn.Module,
    train_loader: Loader,
    validation_loader: Loader,
    *,
    test_loader: Loader | None = None,
    search: LayerSearch | str | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    evaluations: int = 2_000,
    folds: int = 2,
    keep: int = 1_000,
    seed: int = 0,
    gathered: Mapping[PopulationEstimate, Mapping[str, GatheredMoments]] | None = None,
    estimate: PopulationEstimate | str = PopulationEstimate.FROZEN,
    correction: Correction | str = Correction.BESSEL,
    per_slot: bool = False,
    score: Score = cross_entropy,
    memory_limit: int = MEMORY_LIMIT,
) -> RankedLayers:
    """Find the best word for each normalization layer, and what that is worth on examples that did not choose.

    Loaders, gathered, correction, per_slot and score: as of `evaluate_configurations`; the validation split is held in
    memory. test_loader: what was chosen is reported on it.
    search: `exact` tries every per-layer configuration, up to 2²⁴; `beam`, `coordinate`, `tpe`, `racing` and `random`
    try `evaluations` each time something is chosen; by default `exact` where that can be, else `coordinate`.
    groups: patterns of layer names by the name of a group whose layers share a word, as in {"early": ["features.*"]}.
    folds: parts of the validation split; what is chosen on the others is judged on each. keep: of so many best ones the
    outcomes of single examples are held. seed: of searches that draw. estimate: where population values come from.

    Warns (UserWarning) of a network whose forward pass branches on values: its configurations are evaluated one by one,
    `exact` then tries 4,096 at most and is the default where there are no more than `evaluations`.
    Raises ModelError or DataError, saying what to change, ValueError for other words or numbers than there are.
    """
    wanted = chosen(PopulationEstimate, estimate, "estimate")
    asked_correction = chosen(Correction, correction, "correction")
    given = {"evaluations": evaluations, "folds": folds, "keep": keep}
    spec = _spec(None if search is None else chosen(LayerSearch, search, "search"), wanted, groups, given)
    layers = find_norms(network)
    device = next(network.parameters()).device
    every = every_estimate(network, layers, train_loader, device, gathered)
    if wanted not in every:
        raise DataError(f"there is no population estimate {wanted}: there are {', '.join(every)}")
    populations = network_populations(layers, every, asked_correction, per_slot=per_slot)
    batches = split_batches(validation_loader, device, "validation_loader", score)
    parts = fold_of(len(batches), folds)
    asked = Asked(wanted, spec.scope, spec.groups or {}, score, memory_limit)
    evaluator = find_evaluator(network, batches, populations, asked, folds=parts)
    if search is None:
        spec = spec.model_copy(update={"search": _default_search(evaluator, evaluations)})
    if spec.search is not LayerSearch.EXACT:
        _check_evaluations(evaluations, len(evaluator.space.uniform()))
    record = search_network(
        evaluator,
        parts,
        Plan(spec.search, evaluations, keep, Options(seed=seed)),
        test=None if test_loader is None else split_batches(test_loader, device, "test_loader", score),
    )
    found = _Search(spec, record)
    size = len(batches[0][0])
    result = layer_result([found], batch_size=size, estimate=wanted, seeds=[0])
    return RankedLayers(
        result, record, {name: populations[layer] for name, layer in layers.items() if layer in populations}
    )


def _default_search(evaluator: Evaluator, evaluations: int) -> LayerSearch:
    """All configurations where a walk can enumerate them, or plain forward passes within `evaluations`."""
    most = evaluator.most if isinstance(evaluator, TreeEvaluator) else min(evaluator.most, evaluations)
    return LayerSearch.EXACT if evaluator.space.size <= most else LayerSearch.COORDINATE


def _check_evaluations(evaluations: int, uniform: int) -> None:
    """Raise ValueError for fewer evaluations than there are configurations alike in all layers."""
    if evaluations < uniform:
        raise ValueError(
            f"evaluations: must be at least {uniform}, the configurations that are alike in all layers and are tried "
            f"first, not {evaluations}"
        )


_FEWEST = 16
"""Evaluations that a study asks for at least: as many as a layer has words at most."""


def _spec(
    search: LayerSearch | None,
    estimate: PopulationEstimate,
    groups: Mapping[str, Sequence[str]] | None,
    numbers: Mapping[str, int],
) -> LayersSpec:
    """What is asked for, as a study would ask. Raises ValueError where it could not."""
    asked = {
        "scope": LayerScope.PER_LAYER if groups is None else LayerScope.GROUPS,
        "groups": None if groups is None else {name: tuple(patterns) for name, patterns in groups.items()},
        "search": search or LayerSearch.EXACT,
        "estimate": estimate,
        **numbers,
    }
    if isinstance(numbers["evaluations"], int) and 1 <= numbers["evaluations"] < _FEWEST:
        asked["evaluations"] = _FEWEST  # what this network needs is known when its layers are
    try:
        return LayersSpec.model_validate(asked)
    except ValidationError as error:
        found = problems_of(error.errors(), asked)
        raise ValueError("; ".join(f"{'.'.join(map(str, one.place))}: {one.message}" for one in found)) from None
