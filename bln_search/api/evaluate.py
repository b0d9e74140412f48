"""Evaluate a network under every configuration and rank the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypedDict, Unpack, overload

from torch import nn

from bln_search.api.arguments import CorrectionName
from bln_search.api.conditions.tables import RankedConditions
from bln_search.api.estimates import (
    collect_estimates,
    moments_of_reached_layers,
    parse_blends,
    population_loaders_by_name,
    possible_rows,
)
from bln_search.api.inputs.adapters import BatchAdapter, Loader
from bln_search.api.inputs.batch_forms import Target
from bln_search.api.inputs.condition_loaders import ConditionLoaders, parse_condition_loaders
from bln_search.api.inputs.loaders import batches_by_size
from bln_search.api.inputs.metrics import Metric, MetricRecorder, UserMetric, count_examples, resolve_metrics
from bln_search.api.inputs.score import UserScore, has_correctness, resolve_score
from bln_search.api.network_list import network_fingerprints, parse_networks
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.api.several_tables import combine_tables
from bln_search.core.blend import Blend
from bln_search.core.enums import Correction, Split, parse_enum
from bln_search.core.records import Evaluation, EvaluationKey, Outcomes
from bln_search.evaluation import evaluate_split
from bln_search.evaluation.adapted_network import Forward
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.evaluation.class_counts import ClassCounts
from bln_search.evaluation.scoring import Score, cross_entropy
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.network.layers import (
    MomentsByEstimate,
    find_norms,
    network_populations,
    row_matching_original_outputs,
)
from bln_search.norms.row_batching.row_tensor import Populations
from bln_search.ranking.leaderboard import rank_rows
from bln_search.ranking.row_results import TrialEvaluation


class EvaluationOptions(TypedDict, total=False):
    """Arguments of `evaluate_configurations` that do not change the type of its result."""

    batch_sizes: Sequence[int] | None
    blends: Sequence[float | str]
    gathered: Mapping[str, Mapping[str, LayerMoments]] | None
    correction: CorrectionName | Correction
    per_slot: bool
    score: UserScore
    forward: Forward | None
    target: Target | None
    metrics: Mapping[str, UserMetric] | None
    one_pass: bool
    memory_limit: int


@overload
def evaluate_configurations(
    network: nn.Module | Sequence[nn.Module],
    train_loader: Loader | Mapping[str, Loader],
    validation_loader: Mapping[str, Loader],
    *,
    test_loader: Mapping[str, Loader] | None = None,
    **options: Unpack[EvaluationOptions],
) -> RankedConditions: ...


@overload
def evaluate_configurations(
    network: nn.Module | Sequence[nn.Module],
    train_loader: Loader | Mapping[str, Loader],
    validation_loader: Loader,
    *,
    test_loader: Loader | None = None,
    **options: Unpack[EvaluationOptions],
) -> RankedConfigurations: ...


def evaluate_configurations(
    network: nn.Module | Sequence[nn.Module],
    train_loader: Loader | Mapping[str, Loader],
    validation_loader: Loader | Mapping[str, Loader],
    *,
    test_loader: Loader | Mapping[str, Loader] | None = None,
    batch_sizes: Sequence[int] | None = None,
    blends: Sequence[float | str] = (),
    gathered: Mapping[str, Mapping[str, LayerMoments]] | None = None,
    correction: CorrectionName | Correction = "bessel",
    per_slot: bool = False,
    score: UserScore = "cross_entropy",
    forward: Forward | None = None,
    target: Target | None = None,
    metrics: Mapping[str, UserMetric] | None = None,
    one_pass: bool = True,
    memory_limit: int = MEMORY_LIMIT,
) -> RankedConfigurations | RankedConditions:
    """Evaluate `network` under every configuration of its normalization layers, in one pass, ranked on validation.

    BLN layers without a batch_size get the largest training mini-batch size; otherwise the network is not changed.

    Args:
        network: A network with normalization layers of bln-search. Or a list of such networks, trained alike with
            different seeds: rows are ranked by their means over the networks, and compared over networks and examples.
        train_loader: Mini-batches for the population values, usually the training data; the values are means over the
            mini-batches with the present weights. It yields inputs, alone or with targets, which are not read. Or
            several loaders by name, as in `{"source": train_loader, "target": unlabelled_loader}`: rows are evaluated
            with each population.
        validation_loader: Mini-batches of the inference size, (inputs, targets) or of another structure; their loss
            ranks the rows. A shorter last mini-batch is filled up with examples that are not scored. Or several loaders
            by name, the conditions, as in `{"clean": clean, "noise": noisy}`: rows are ranked in each condition and
            over all of them, with the same populations.
        test_loader: Mini-batches of the test split, whose figures are reported and do not rank the rows; with
            conditions a dictionary with the same names.
        batch_sizes: Inference mini-batch sizes in place of those of the loaders; splits are then loaded into memory.
        blends: Weights α of the population in rows with blended statistics, α·population + (1 - α)·mini-batch: numbers
            between 0 and 1; or prior weights, as in `"N16"` for α = 16/(16+m) with mini-batches of m. Rows with `B` in
            their configuration have them (Schneider et al. 2020).
        gathered: Further population estimates, as `bln_search.norms.moment_collection` collects them during training.
        correction: Correction of population deviations: `bessel` or `total`.
        per_slot: Feature populations have a value for each slot of the mini-batch.
        score: The loss that ranks the rows: `cross_entropy` (softmax, targets are classes), `mse`, `mae`, or `bce`
            (targets from 0 to 1, outputs are logits). Or a function of outputs and targets that returns one loss for
            each example, alone or with correctness (a bool for each example); losses (n, ...) are averaged to (n,).
            A loss module of torch needs `reduction="none"`. It is called with outputs of several configurations at
            once. Without correctness the table has no accuracy.
        forward: Calls the network with a mini-batch of any structure and returns its output, as in
            `lambda model, batch: model(**batch).logits`. It must call the model that it is given. By default a tensor
            is the only argument, a list of tensors gives the arguments, and a dictionary the keywords, without the
            keys `labels`, `label`, `targets` and `target`. Of an output that is no tensor, `logits`, `out` or the
            first item is taken.
        target: Returns the targets in a mini-batch, as in `lambda batch: batch["y"]`. By default the second of two
            parts, or the labels of a dictionary.
        metrics: Metrics over all examples of a split, by name, as in `{"AUC": function}`: functions of all outputs and
            targets that return a number, objects with `update`, `compute` and `reset` (torchmetrics), or a
            `bln_search.Metric`, which says whether a higher value is better. They do not rank the rows. Functions need
            the outputs of all rows on the CPU, rows × examples × the size of an output, at most `memory_limit` bytes.
        one_pass: False evaluates the configurations one after the other, for a network in which layers other than the
            normalization layers mix examples.
        memory_limit: Largest size in bytes of an activation that holds all configurations, and of the outputs that are
            kept for metrics.

    Returns:
        The ranked table; with conditions a `RankedConditions`, which has one for each.

    Raises:
        ModelError: The network cannot be evaluated, or several networks have different normalization layers or equal
            parameters; the message says what to change.
        DataError: A loader does not yield mini-batches; the message says what to change.
        ValueError: Another argument is invalid.
        TypeError: `score` is neither a name nor a function, or `forward`, `target` or a metric is no function.

    Example:
        ranked = bln_search.evaluate_configurations(model, train_loader, validation_loader)
        print(ranked)
        print(ranked.recommended, ranked["TTTT"])
    """
    networks = parse_networks(network, "evaluate_configurations(network, train_loader, validation_loader)")
    conditions = parse_condition_loaders(validation_loader, test_loader)
    if batch_sizes is not None and not _are_batch_sizes(batch_sizes):
        raise ValueError(f"batch_sizes is a list of whole numbers of at least 1, as in [1, 25], not {batch_sizes!r}")
    options = _CheckedArguments(
        scoring=resolve_score(score),
        correction=parse_enum(Correction, correction, "correction"),
        blends=parse_blends(blends),
        batch_sizes=batch_sizes,
        forward=forward,
        target=target,
        metrics=resolve_metrics(metrics),
        gathered=gathered,
        per_slot=per_slot,
        one_pass=one_pass,
        memory_limit=memory_limit,
    )
    loaders = population_loaders_by_name(train_loader)
    fingerprints = network_fingerprints(networks)
    return combine_tables([_evaluate_network(each, loaders, conditions, options) for each in networks], fingerprints)


@dataclass(frozen=True)
class _CheckedArguments:
    """Checked arguments of `evaluate_configurations`."""

    scoring: Score
    correction: Correction
    blends: tuple[Blend, ...]
    batch_sizes: Sequence[int] | None
    forward: Forward | None
    target: Target | None
    metrics: Mapping[str, Metric]
    gathered: MomentsByEstimate | None
    per_slot: bool
    one_pass: bool
    memory_limit: int


def _evaluate_network(
    network: nn.Module,
    loaders: Mapping[str, Loader],
    conditions: Sequence[ConditionLoaders],
    options: _CheckedArguments,
) -> dict[str | None, RankedConfigurations]:
    """The ranked table of each condition; populations are collected once."""
    layers = find_norms(network)
    adapter = BatchAdapter(network, options.forward, options.target, next(network.parameters()).device)
    loaders = adapter.check_population_loaders(loaders, per_slot=options.per_slot)
    peeked = [
        condition.map_loaders(
            lambda loader, argument: adapter.check_first_batch(
                loader, argument, options.scoring, one_pass=options.one_pass
            )
        )
        for condition in conditions
    ]
    estimates = collect_estimates(adapter, layers, loaders, options.gathered)
    populations = network_populations(layers, estimates, options.correction, per_slot=options.per_slot)
    rows = possible_rows(layers, estimates, options.blends)
    by_estimate = _populations_by_estimate(layers, estimates, populations)
    tables: dict[str | None, RankedConfigurations] = {}
    for condition in peeked:
        results: list[Evaluation] = []
        metric_values: dict[EvaluationKey, dict[str, float]] = {}
        classes = ClassCounts()
        for split, loader, argument in condition.by_split():
            pairs = adapter.input_target_pairs(loader, argument, options.scoring)
            if split is Split.VALIDATION and options.scoring is cross_entropy:
                pairs = classes.count_targets(pairs)
            for batch_size, batches in batches_by_size(pairs, options.batch_sizes, argument):
                recorder = MetricRecorder(options.metrics, len(rows), count_examples(loader), options.memory_limit)
                evaluations = evaluate_split(
                    adapter.network,
                    batches,
                    rows,
                    populations,
                    split=split,
                    batch_size=batch_size,
                    score=options.scoring,
                    one_pass=options.one_pass,
                    memory_limit=options.memory_limit,
                    observe=recorder.observe if options.metrics else None,
                )
                results += evaluations
                metric_values |= recorder.values(evaluations)
        tables[condition.name] = RankedConfigurations(
            board=rank_rows(TrialEvaluation(arm="network", seed=0, evaluation=result) for result in results),
            populations=by_estimate,
            outcomes=_outcomes_by_key(results),
            class_prior=classes.class_prior,
            per_slot=options.per_slot and any(layer.batch_size != 1 for layer in layers.values()),
            deployed=row_matching_original_outputs(layers, moments_of_reached_layers(estimates)),
            has_accuracy=has_correctness(options.scoring),
            metric_values=metric_values,
            higher_is_better={name: metric.higher_is_better for name, metric in options.metrics.items()},
        )
    return tables


def _are_batch_sizes(sizes: Sequence[int]) -> bool:
    is_nonempty_list = hasattr(sizes, "__len__") and len(sizes) > 0
    return is_nonempty_list and all(isinstance(size, Integral) and size >= 1 for size in sizes)


def _populations_by_estimate(
    layers: Mapping[str, Normalization], estimates: MomentsByEstimate, populations: Populations
) -> dict[str, dict[str, Any]]:
    reached = {name: populations[layer] for name, layer in layers.items() if layer in populations}
    return {
        estimate: {name: by_estimate[estimate] for name, by_estimate in reached.items() if estimate in by_estimate}
        for estimate in estimates
    }


def _outcomes_by_key(results: list[Evaluation]) -> dict[EvaluationKey, Outcomes]:
    return {result.key: result.outcomes for result in results if result.outcomes is not None}
