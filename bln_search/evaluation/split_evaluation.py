"""Evaluation of one split under all rows: measured, diverged, or undefined with a reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.core.method import FEATURE_STATISTICS
from bln_search.core.records import Evaluation, EvaluationKey, ExampleOutcomes
from bln_search.core.undefined_reasons import layer_without_population_reason, mini_batch_exceeds_slots_reason
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.evaluation.longer_sequences import peek_long_sequence_undefined_reasons
from bln_search.evaluation.one_pass import Progress, evaluate_rows_per_example
from bln_search.evaluation.row_evaluator import OutputObserver
from bln_search.norms.network.layer_calls import collect_called_layers
from bln_search.norms.network.layers import get_norms_by_name, is_population_of_data
from bln_search.norms.normalization_base import NormalizationBase
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations
from bln_search.norms.statistics import configuration_of_layer_in_row, select_layer_population
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness
from bln_search.tasks.score import Score


def evaluate_split(
    network: nn.Module,
    batches: Iterable[MiniBatch],
    rows: Sequence[InferenceRow],
    populations: Populations,
    *,
    split: Split,
    batch_size: int,
    condition: str = "",
    score: Score = cross_entropy_and_correctness,
    has_accuracy: bool = True,
    one_pass: bool = True,
    memory_limit: int = MEMORY_LIMIT,
    progress: Progress | None = None,
    observe: OutputObserver | None = None,
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
        score: see `evaluate_rows_per_example`.
        has_accuracy: whether the score has correctness; evaluations have no accuracy otherwise.
        one_pass: see `evaluate_rows_per_example`.
        memory_limit: see `evaluate_rows_per_example`.
        progress: see `evaluate_rows_per_example`.
        observe: see `evaluate_rows_per_example`.
    """
    results = outcomes_or_undefined_reasons(
        network,
        batches,
        rows,
        populations,
        batch_size=batch_size,
        score=score,
        one_pass=one_pass,
        memory_limit=memory_limit,
        progress=progress,
        observe=observe,
    )
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
