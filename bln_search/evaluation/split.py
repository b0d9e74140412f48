"""One split of the data under every row: measured, diverged, or undefined with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from bln_search.core.configuration import FEATURE_STATISTICS, Source
from bln_search.core.enums import Split
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.undefined_reasons import more_than_slots
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.memory import MEMORY_LIMIT
from bln_search.evaluation.one_pass import Progress, evaluate_rows
from bln_search.evaluation.scoring import Score, cross_entropy
from bln_search.norms.row_tensor import Populations, Row
from bln_search.norms.statistics import chosen_population, layer_configuration


def evaluate_split(
    network: nn.Module,
    batches: Iterable[MiniBatch],
    rows: Sequence[Row],
    populations: Populations,
    *,
    split: Split,
    batch_size: int,
    score: Score = cross_entropy,
    one_pass: bool = True,
    memory_limit: int = MEMORY_LIMIT,
    progress: Progress | None = None,
) -> list[Evaluation]:
    """An evaluation for each of `rows`, in their order; `batches` are mini-batches of `batch_size`."""
    reasons = [undefined_reason(row, populations, batch_size) for row in rows]
    outcomes = iter(
        evaluate_rows(
            network,
            batches,
            [row for row, reason in zip(rows, reasons, strict=True) if reason is None],
            populations,
            score=score,
            one_pass=one_pass,
            memory_limit=memory_limit,
            progress=progress,
        )
    )
    results = []
    for row, reason in zip(rows, reasons, strict=True):
        key = EvaluationKey(row.configuration, row.estimate, batch_size, split)
        results.append(Evaluation.undefined(key, reason) if reason else Evaluation.from_outcomes(key, next(outcomes)))
    return results


def undefined_reason(row: Row, populations: Populations, batch_size: int) -> str | None:
    """Why `row` has no value in this network at this inference mini-batch size; None where it has one."""
    for layer, estimates in populations.items():
        configuration = layer_configuration(row.configuration, row.estimate, estimates).restricted_to(layer.method)
        population = chosen_population(configuration, row.estimate, estimates)
        if population is None:
            continue
        reason = population.undefined(configuration)
        if reason is not None:
            return reason
        reads_feature = Source.POPULATION in (configuration.source(statistic) for statistic in FEATURE_STATISTICS)
        slots = 1 if population.feature is None else population.feature.mean.shape[0]
        if reads_feature and slots != 1 and batch_size > slots:
            return more_than_slots(slots, batch_size)
    return None
