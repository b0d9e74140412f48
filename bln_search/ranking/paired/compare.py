"""Compare the rows of a table with the best of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.comparison import ComparedRow, Comparison, MeanDifference, Question
from bln_search.ranking.paired.crossed_anova import ContrastEstimates
from bln_search.ranking.paired.differences_to_best import differences_to_best, row_verdicts
from bln_search.ranking.paired.distinct_rows import find_distinct_rows
from bln_search.ranking.paired.noise_draws import (
    DRAWS,
    draw_noise,
    estimate_required_data,
    estimate_selection_bias,
    first_place_share_of_each_row,
)
from bln_search.ranking.paired.table import OutcomeTable
from bln_search.ranking.selection.expected_loss import default_margin
from bln_search.ranking.statistics.intervals import ALPHA


def compare_rows(
    keys: Sequence[RowKey],
    table: OutcomeTable,
    split: Split,
    *,
    margin: float | None = None,
    level: float = ALPHA,
    not_compared: int = 0,
    random: int = 0,
    current: RowKey | None = None,
) -> Comparison:
    """Compare the rows of `table` with the row of lowest mean loss, and order them by mean loss.

    With one seed, or a row in use (`current`), the question is about the networks of the table: examples vary. Else it
    is about new trainings: seeds and examples vary.

    Args:
        keys: Identity of each row of `table`.
        table: Outcomes of the rows on the examples of `split`.
        split: Split on which rows are compared.
        margin: Difference of mean losses up to which rows are practically equal; None for the default.
        level: Significance level of this look at the data.
        not_compared: Number of ranked rows that are not in the table, for the record.
        random: Seed of all random draws.
        current: Row of the current configuration of these networks.
    """
    means = table.losses.mean(axis=(0, 2), dtype=np.float64)
    order = [int(row) for row in np.argsort(means, kind="stable")]
    keys, means = [keys[row] for row in order], means[order]
    seeds = table.num_seeds
    table = table.restrict_to_rows(order)
    question = Question.NEW_TRAININGS if seeds > 1 and current not in keys else Question.THESE_NETWORKS
    if question is Question.THESE_NETWORKS:
        table = table.average_over_seeds()
    if margin is None:
        margin = default_margin(float(means[0]), has_correctness=table.has_correctness)
    distinct = find_distinct_rows(table.losses)
    losses = differences_to_best(table, "loss", 0, margin, distinct)
    accuracies = differences_to_best(table, "accuracy", 0) if table.has_correctness else None
    noise = draw_noise(table, 0, random=random)
    moderated = noise.with_moderated_variances(losses)
    verdicts = row_verdicts(losses, 0, level)
    is_settled = bool((losses.opposite_margin < level).all())
    shares = first_place_share_of_each_row(means, moderated, distinct.of_row)
    return Comparison(
        split=split,
        question=question,
        seeds=seeds,
        examples=table.num_examples,
        sampled_from=table.sampled_from,
        not_compared=not_compared,
        margin=margin,
        level=level,
        rows=tuple(
            ComparedRow(
                arm=key.arm,
                point=key.point,
                configuration=str(key.configuration),
                estimate=key.estimate,
                batch_size=key.batch_size,
                loss=float(means[row]),
                accuracy=None if accuracies is None else float(table.correct[:, row].mean(dtype=np.float64)),
                verdict=verdicts[row],
                above_best=_mean_difference(losses, row),
                accuracy_above_best=None if accuracies is None else _mean_difference(accuracies, row),
                variance=float(losses.variance[row]),
                first_share=float(shares[row]),
            )
            for row, key in enumerate(keys)
        ),
        current=keys.index(current) if current in keys else None,
        is_best_settled=is_settled,
        optimism=estimate_selection_bias(means, noise),
        draws=DRAWS,
        required=None if is_settled else estimate_required_data(table, means, moderated, margin),
    )


def _mean_difference(estimates: ContrastEstimates, row: int) -> MeanDifference:
    mean, half = float(estimates.mean[row]), float(estimates.half[row])
    p, adjusted = float(estimates.p[row]), float(estimates.adjusted[row])
    return MeanDifference(mean=mean, low=mean - half, high=mean + half, p=p, adjusted=adjusted)
