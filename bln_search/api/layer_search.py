"""Search the best per-layer configurations of a network."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec

import numpy as np
import torch
from pydantic import ValidationError
from torch import nn

from bln_search.api.arguments import (
    CorrectionName,
    EstimateName,
    LayerSearchName,
    OtherLayersName,
    check_network_is_module,
    parse_flag,
    parse_gathered_moments,
    parse_memory_limit,
)
from bln_search.api.compiled import run_compiled_networks_eagerly
from bln_search.api.fixed_layers import find_fixed_layers, stored_populations_of_fixed_layers
from bln_search.api.inputs.batch_forms import Target
from bln_search.api.inputs.evaluation_data import EvaluationData, load_split_into_memory, parse_population_loaders
from bln_search.api.inputs.loaders import Loader
from bln_search.api.inputs.score import UserScore, describe_score, last_score_had_correctness, parse_score
from bln_search.api.preparation import PreparedNetwork
from bln_search.api.progress_lines import ProgressLines
from bln_search.api.ranked.layers import RankedLayers
from bln_search.api.weighted_search import find_search_weights
from bln_search.core.class_prior import ClassPriorBaseline, compute_class_prior_baseline
from bln_search.core.enums import (
    Correction,
    LayerScope,
    LayerSearchAlgorithm,
    PopulationEstimate,
    UngroupedLayers,
    parse_enum,
)
from bln_search.core.errors import DataError, MissingPackageError, ModelError
from bln_search.evaluation.adapted_network import Forward
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.evaluation.isolated_passes import untouched_networks
from bln_search.evaluation.tree.configuration_space import PerLayerEvaluatorOptions
from bln_search.evaluation.tree.evaluators import make_per_layer_evaluator
from bln_search.evaluation.tree.per_layer_evaluator import PerLayerEvaluator
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.ranking.paired.per_layer_results import combine_layer_searches_of_networks
from bln_search.ranking.per_layer import NetworkLayerSearch
from bln_search.search.layers.search import (
    LayerSearchOptions,
    assign_mini_batches_to_folds,
    search_layers_and_cross_validate,
)
from bln_search.search.layers.strategies import StrategyOptions
from bln_search.specs.problems import problems_from_pydantic_errors
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness

_UNUSED_TIME = datetime.min.replace(tzinfo=UTC)


@run_compiled_networks_eagerly()
def search_layers(
    network: nn.Module,
    train_loader: Loader,
    validation_loader: Loader,
    *,
    test_loader: Loader | None = None,
    search: LayerSearchName | LayerSearchAlgorithm | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    others: OtherLayersName | UngroupedLayers = "free",
    evaluations: int = 2_000,
    folds: int = 2,
    keep: int = 1_000,
    seed: int = 0,
    gathered: Mapping[str, Mapping[str, LayerMoments]] | None = None,
    estimate: EstimateName | PopulationEstimate = "frozen",
    correction: CorrectionName | Correction = "bessel",
    per_slot: bool = False,
    score: UserScore = "cross_entropy",
    forward: Forward | None = None,
    target: Target | None = None,
    memory_limit: int = MEMORY_LIMIT,
    progress: bool = True,
) -> RankedLayers:
    """Find the best configuration of each normalization layer, confirmed on examples that did not choose it.

    Warns (UserWarning) if the forward pass branches on values, or takes several tensors. The configurations are then
    evaluated one by one; `exact` accepts at most 4,096 of them and is the default if there are at most `evaluations`.
    Warns (UserWarning) too if configurations have no finite loss and a mini-batch has inputs with NaN or inf.

    Args:
        network: A network with normalization layers of bln-search.
        train_loader: As for `evaluate_configurations`.
        validation_loader: As for `evaluate_configurations`; the split is loaded into memory.
        test_loader: Mini-batches on which the chosen configurations are reported.
        search: `exact` evaluates every per-layer configuration, up to 2²⁴; `beam`, `coordinate`, `tpe`, `racing` and
            `random` spend `evaluations` for each choice of a configuration. By default `exact` if possible, otherwise
            `coordinate`. `tpe` needs the extra `search`.
        groups: Patterns of layer names by the name of a group whose layers share a configuration, as in
            {"early": ["features.*"]}.
        others: Layers that no group names: `free`, each has a configuration of its own; `shared`, they share one; or
            `as_is`, they keep the configuration and the values that they have in the network.
        evaluations: Budget of each choice of a configuration.
        folds: Parts of the validation split; each is evaluated under the configuration chosen on the others.
        keep: Number of best configurations whose per-example outcomes are kept.
        seed: Seed of the random numbers.
        gathered: As for `evaluate_configurations`.
        estimate: Source of population values.
        correction: As for `evaluate_configurations`.
        per_slot: As for `evaluate_configurations`.
        score: As for `evaluate_configurations`.
        forward: As for `evaluate_configurations`.
        target: As for `evaluate_configurations`.
        memory_limit: Bytes of the largest activation.
        progress: As for `evaluate_configurations`.

    Returns:
        The best configurations, and what is confirmed.

    Raises:
        ModelError: The network cannot be searched; the message says what to change.
        DataError: A loader does not yield mini-batches, the estimate does not exist, or a loader has fewer mini-batches
            than folds.
        ValueError: Another argument is invalid.
        TypeError: `score` is neither a name nor a function, or `forward` or `target` is no function.
        MissingPackageError: Optuna is not installed, and `search` is `tpe`.

    Example:
        layered = bln_search.search_layers(model, train_loader, validation_loader)
        print(layered)
        bln_search.apply_configuration(model, layered.best)
    """
    check_network_is_module(network, "search_layers(network, train_loader, validation_loader)")
    scoring = parse_score(score)
    parsed_estimate = parse_enum(PopulationEstimate, estimate, "estimate")
    parsed_correction = parse_enum(Correction, correction, "correction")
    budget = {"evaluations": evaluations, "folds": folds, "keep": keep}
    spec = _parse_layers_spec(
        None if search is None else parse_enum(LayerSearchAlgorithm, search, "search"), parsed_estimate, groups, budget
    )
    parse_memory_limit(memory_limit)
    gathered = parse_gathered_moments(gathered)
    layers = get_norms_by_name(network)
    kept = find_fixed_layers(layers, groups, parse_enum(UngroupedLayers, others, "others"))
    data = EvaluationData.from_loaders(parse_population_loaders(train_loader), {None: (validation_loader, test_loader)})
    lines = ProgressLines(enabled=parse_flag("progress", progress))
    with lines, untouched_networks([network]):
        prepared = PreparedNetwork(
            network,
            data,
            score=scoring,
            forward=forward,
            target=target,
            per_slot=parse_flag("per_slot", per_slot),
            one_pass=False,
            progress=lines,
        )
        adapter, (condition,) = prepared.adapter, data.conditions
        batches = load_split_into_memory(condition.validation, scoring, adapter)
        not_finite_note = adapter.not_finite_note
        test_batches = None if condition.test is None else load_split_into_memory(condition.test, scoring, adapter)
        named_inputs = [
            (f"mini-batch {number} (counted from 0) of {name}", inputs)
            for name, loaded in (("validation_loader", batches), ("test_loader", test_batches or []))
            for number, (inputs, _) in enumerate(loaded)
        ]
        fold_of_batch = assign_mini_batches_to_folds(len(batches), folds)
        weights = find_search_weights(scoring, adapter, batches, test_batches, fold_of_batch)
        measured = prepared.measure_populations(gathered, parsed_correction, kept=kept)
        if parsed_estimate not in measured.estimates:
            raise DataError(
                f"there is no population estimate {parsed_estimate}: there are {', '.join(measured.estimates)}"
            )
        populations = {**measured.values, **stored_populations_of_fixed_layers(kept, parsed_estimate)}
        searched_score = scoring if weights is None else weights.scale_losses(scoring)
        options = PerLayerEvaluatorOptions(
            parsed_estimate,
            spec.scope,
            spec.groups or {},
            UngroupedLayers(others),
            searched_score,
            memory_limit=memory_limit,
        )
        with (
            adapter.caller.explained_failures("validation_loader", named_inputs),
            _named_inputs_in_errors(not_finite_note),
        ):
            evaluator = make_per_layer_evaluator(adapter.network, batches, populations, options, folds=fold_of_batch)
            if search is None:
                spec = spec.model_copy(update={"search": _choose_exact_or_coordinate_search(evaluator, evaluations)})
            _check_search_fits_space(spec.search, evaluator, evaluations)
            adapter.progress.start_part("search_layers", "mini-batches under every configuration", len(batches))
            record = search_layers_and_cross_validate(
                evaluator,
                fold_of_batch,
                LayerSearchOptions(spec.search, evaluations, keep, StrategyOptions(seed=seed)),
                test=test_batches,
                on_progress=lambda sums: adapter.progress.advance_to(sums.done),
            )
    record = record if weights is None else weights.add_to_record(record)
    without_loss = int((~np.isfinite(record.sums.mean_loss_per_configuration)).sum())
    if without_loss and not_finite_note:
        warnings.warn(
            f"{without_loss:,} of the evaluated configurations have no finite loss: {not_finite_note}", stacklevel=2
        )
    network_search = NetworkLayerSearch("network", "", 0, spec, record, _UNUSED_TIME)
    size = len(batches[0][0])
    result = combine_layer_searches_of_networks(
        [network_search],
        batch_size=size,
        estimate=parsed_estimate,
        seeds=[0],
        loss=describe_score(scoring),
        has_accuracy=last_score_had_correctness(scoring),
        class_prior=_compute_class_prior(batches) if scoring is cross_entropy_and_correctness else None,
    )
    return RankedLayers(
        result,
        record,
        {name: populations[layer] for name, layer in layers.items() if layer in populations},
        blends={name: layer.blend for name, layer in kept.items() if layer.blend is not None},
        measured_with=measured.measured_with,
    )


def _compute_class_prior(batches: Sequence[MiniBatch]) -> ClassPriorBaseline | None:
    """What predicting the frequencies of the classes of these mini-batches reaches."""
    return compute_class_prior_baseline(torch.cat([classes for _, classes in batches]).cpu().bincount().tolist())


@contextmanager
def _named_inputs_in_errors(not_finite_note: str | None) -> Iterator[None]:
    """Within this context, add to a ModelError which validation inputs are not finite."""
    try:
        yield
    except ModelError as error:
        if not_finite_note is None:
            raise
        raise ModelError(f"{error}; {not_finite_note}") from error


def _choose_exact_or_coordinate_search(evaluator: PerLayerEvaluator, evaluations: int) -> LayerSearchAlgorithm:
    """`exact` if the tree evaluator can enumerate the space, or plain forward passes within `evaluations`."""
    limit = (
        evaluator.max_configurations
        if isinstance(evaluator, TreePerLayerEvaluator)
        else min(evaluator.max_configurations, evaluations)
    )
    return (
        LayerSearchAlgorithm.EXACT if evaluator.space.num_configurations <= limit else LayerSearchAlgorithm.COORDINATE
    )


def _check_search_fits_space(search: LayerSearchAlgorithm, evaluator: PerLayerEvaluator, evaluations: int) -> None:
    """Raise ModelError for more configurations than `exact` enumerates, ValueError for too few evaluations."""
    space = evaluator.space
    if search is LayerSearchAlgorithm.EXACT:
        if space.num_configurations > evaluator.max_configurations:
            raise ModelError(
                f"there are {space.num_configurations:,} per-layer configurations, more than the "
                f'{evaluator.max_configurations:,} that search="exact" enumerates: use search="coordinate" or '
                'search="beam", or tie layers together, as in groups={"early": ["features.*"]}'
            )
        return
    uniform = len(space.choice_digits_by_uniform_configuration())
    if evaluations < uniform:
        raise ValueError(
            f"evaluations: must be at least {uniform}, the number of uniform configurations, which are evaluated "
            f"first, not {evaluations}"
        )


_LEAST_EVALUATIONS = 16
"""Least budget of a study: a layer has at most 16 configurations."""


def _parse_layers_spec(
    search: LayerSearchAlgorithm | None,
    estimate: PopulationEstimate,
    groups: Mapping[str, Sequence[str]] | None,
    budget: Mapping[str, int],
) -> LayerSearchSpec:
    """The arguments as a section of a study.

    Raises:
        ValueError: A study would reject an argument.
        MissingPackageError: Optuna is not installed, and `search` is `tpe`.
    """
    if search is LayerSearchAlgorithm.TPE and find_spec("optuna") is None:
        raise MissingPackageError("optuna", "search")
    section = {
        "scope": LayerScope.PER_LAYER if groups is None else LayerScope.GROUPS,
        "groups": None if groups is None else {name: tuple(patterns) for name, patterns in groups.items()},
        "search": search or LayerSearchAlgorithm.EXACT,
        "estimate": estimate,
        **budget,
    }
    if isinstance(budget["evaluations"], int) and 1 <= budget["evaluations"] < _LEAST_EVALUATIONS:
        section["evaluations"] = _LEAST_EVALUATIONS  # _check_search_fits_space checks it when the layers are known
    try:
        return LayerSearchSpec.model_validate(section)
    except ValidationError as error:
        problems = problems_from_pydantic_errors(error.errors(), section, LayerSearchSpec)
        raise ValueError(
            "; ".join(f"{'.'.join(map(str, problem.location))}: {problem.message}" for problem in problems)
        ) from None
