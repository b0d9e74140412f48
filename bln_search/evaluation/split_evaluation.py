"""Evaluation of one split under all rows: measured, diverged, or undefined with a reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import nn

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.method import FEATURE_STATISTICS
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.undefined_reasons import (
    layer_without_population_reason,
    mini_batch_exceeds_slots_reason,
    sequence_exceeds_time_steps_reason,
)
from bln_search.data.inputs import first_examples_if_sliceable
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.one_pass import evaluate_rows_per_example
from bln_search.models.recurrent import TimeStepNorms
from bln_search.models.recurrent.time_step_norms import REFUSE
from bln_search.norms import Normalization
from bln_search.norms.network.layer_calls import collect_called_layers
from bln_search.norms.network.layers import (
    evaluation_mode,
    get_norms_by_name,
    is_population_of_data,
    use_training_sources_in_evaluation,
)
from bln_search.norms.normalization_base import NormalizationBase
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations
from bln_search.norms.statistics import configuration_of_layer_in_row, select_layer_population


def evaluate_split(
    network: nn.Module,
    batches: Iterable[MiniBatch],
    rows: Sequence[InferenceRow],
    populations: Populations,
    *,
    split: Split,
    batch_size: int,
    condition: str = "",
    has_accuracy: bool = True,
    **options: Any,
) -> list[Evaluation]:
    """Return one evaluation for each of `rows`, in their order.

    Args:
        network: the network.
        batches: mini-batches of `batch_size` examples.
        rows: the rows.
        populations: population values of each layer under each estimate.
        split: of the data, for the record.
        batch_size: the inference mini-batch size.
        condition: name of the condition of the images, for the record; empty for clean ones.
        has_accuracy: whether the score has correctness; evaluations have no accuracy otherwise.
        options: of `evaluate_rows_per_example`.
    """
    results = outcomes_or_undefined_reasons(network, batches, rows, populations, batch_size=batch_size, **options)
    return make_evaluations(
        rows, results, split=split, batch_size=batch_size, condition=condition, has_accuracy=has_accuracy
    )


def make_evaluations(
    rows: Sequence[InferenceRow],
    results: Sequence[ExampleOutcomes | str],
    *,
    split: Split,
    batch_size: int,
    condition: str = "",
    has_accuracy: bool = True,
) -> list[Evaluation]:
    """Return one evaluation for each of `rows` from its outcomes, or from the reason why it is undefined.

    Raises:
        DataError: no example counts.
    """
    for result in results:
        if not isinstance(result, str) and len(result.losses) == result.left_out:
            raise DataError(
                f"score= counts no example of the split {split}: every target is ignored, or every weight is 0"
            )
    keys = [EvaluationKey(row.configuration, row.estimate, batch_size, split, condition) for row in rows]
    return [
        Evaluation.make_undefined(key, result)
        if isinstance(result, str)
        else Evaluation.from_outcomes(key, result, has_accuracy=has_accuracy)
        for key, result in zip(keys, results, strict=True)
    ]


def outcomes_or_undefined_reasons(
    network: nn.Module,
    batches: Iterable[MiniBatch],
    rows: Sequence[InferenceRow],
    populations: Populations,
    *,
    batch_size: int,
    **options: Any,
) -> list[ExampleOutcomes | str]:
    """Return the outcomes of each of `rows` in their order, or the reason why it is undefined.

    Args:
        network: the network.
        batches: mini-batches of `batch_size` examples.
        rows: the rows.
        populations: population values of each layer under each estimate.
        batch_size: the inference mini-batch size.
        options: of `evaluate_rows_per_example`.

    A row is undefined where it reads a population of which no mini-batch reached a layer that these mini-batches reach.

    Raises:
        ModelError: a sequence is longer than the network supports, or the one pass does not support the network.
    """
    names: dict[NormalizationBase, str] = {layer: name for name, layer in get_norms_by_name(network).items()}
    populations = {layer: populations.get(layer, {}) for layer in names}  # of those without any too
    batches, without_steps = peek_long_sequence_undefined_reasons(network, batches, rows)
    reasons = [
        find_undefined_reason(row, populations, batch_size) or reason
        for row, reason in zip(rows, without_steps, strict=True)
    ]
    defined = [row for row, reason in zip(rows, reasons, strict=True) if reason is None]
    lacking = _rows_by_layer_without_their_population(defined, populations)
    with collect_called_layers(lacking) as called:
        outcomes: list[ExampleOutcomes | str] = list(
            evaluate_rows_per_example(network, batches, defined, populations, **options)
        )
    for layer in called:
        for index in lacking[layer]:
            outcomes[index] = layer_without_population_reason(names[layer], defined[index].population_name)
    remaining = iter(outcomes)
    return [next(remaining) if reason is None else reason for reason in reasons]


def _rows_by_layer_without_their_population(
    rows: Sequence[InferenceRow], populations: Populations
) -> dict[NormalizationBase, list[int]]:
    """Return for each layer the indices of rows that read a population of which no mini-batch reached the layer.

    Layers that need no estimate of their own history use the mini-batch instead, as torch's layers do without running
    statistics.
    """
    lacking: dict[NormalizationBase, list[int]] = {}
    for layer, estimates in populations.items():
        for index, row in enumerate(rows):
            configuration = row.configuration.restricted_to_statistics_of(layer.method)
            is_missing = configuration.uses_population and row.population_name not in estimates
            if is_missing and (layer.requires_layer_estimate or is_population_of_data(row.population_name)):
                lacking.setdefault(layer, []).append(index)
    return lacking


def find_undefined_reason(row: InferenceRow, populations: Populations, batch_size: int) -> str | None:
    """Return why `row` is undefined in this network at this inference mini-batch size; None where it is defined."""
    for layer, estimates in populations.items():
        configuration = configuration_of_layer_in_row(
            row.configuration, row.estimate, estimates
        ).restricted_to_statistics_of(layer.method)
        population = select_layer_population(configuration, row.estimate, estimates)
        if population is None:
            continue
        reason = population.find_undefined_reason(configuration)
        if reason is not None:
            return reason
        uses_feature = any(configuration.source_of(statistic).reads_population for statistic in FEATURE_STATISTICS)
        slots = 1 if population.feature is None else population.feature.mean.shape[0]
        if uses_feature and slots != 1 and batch_size > slots:
            return mini_batch_exceeds_slots_reason(slots, batch_size)
    return None


def peek_long_sequence_undefined_reasons(
    network: nn.Module, batches: Iterable[MiniBatch], rows: Sequence[InferenceRow]
) -> tuple[Iterable[MiniBatch], list[str | None]]:
    """Return the mini-batches, and for each row the reason why it has no value for their sequences.

    A row of a method without statistics of the mini-batch, as LN's `--TF`, has no value where it reads population
    values of a time step after those for which the network was built. The first mini-batch decides for all.

    Args:
        network: any network.
        batches: mini-batches.
        rows: the rows.

    Raises:
        ModelError: the sequences are longer, and the method has statistics of the mini-batch at every time step.
    """
    inside = [module for module in network.modules() if isinstance(module, TimeStepNorms)]
    inside = [norms for norms in inside if norms.longer_sequences == REFUSE]
    iterator = iter(batches)
    first = next(iterator, None) if inside else None
    if first is None:
        return iterator, [None] * len(rows)
    steps = _count_steps_per_norms(network, first, inside)
    reasons = [_find_undefined_reason(row, steps) for row in rows]
    return chain([first], iterator), reasons


@torch.no_grad()
def _count_steps_per_norms(
    network: nn.Module, batch: MiniBatch, inside: Iterable[TimeStepNorms]
) -> dict[TimeStepNorms, int]:
    """Return the number of time steps for which a forward pass of one example calls each of the norms."""
    steps: dict[TimeStepNorms, int] = {}

    def count_step(norms: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        assert isinstance(norms, TimeStepNorms)
        step: int = args[1] if len(args) > 1 else kwargs["step"]
        steps[norms] = max(steps.get(norms, 0), step + 1)

    hooks = [norms.register_forward_pre_hook(count_step, with_kwargs=True) for norms in inside]
    try:
        with evaluation_mode(network), use_training_sources_in_evaluation(get_norms_by_name(network).values()):
            network(first_examples_if_sliceable(batch[0], 1).clone())
    finally:
        for hook in hooks:
            hook.remove()
    return steps


def _find_undefined_reason(row: InferenceRow, steps: dict[TimeStepNorms, int]) -> str | None:
    for norms, count in steps.items():
        layer = norms.of_step[-1]
        if isinstance(layer, Normalization) and count > len(norms.of_step):
            configuration = row.configuration.restricted_to_statistics_of(layer.method)
            if configuration.uses_population:
                return sequence_exceeds_time_steps_reason(len(norms.of_step), count)
    return None
