"""Compare the rows of a table with the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.comparison import ComparedRow, Comparison, MeanDifference, Question, RequiredData, RowVerdict
from bln_search.ranking.paired.crossed_anova import ContrastEstimates
from bln_search.ranking.paired.differences_to_best import DifferencesToBest, differences_to_best, row_verdicts
from bln_search.ranking.paired.distinct_rows import find_distinct_rows
from bln_search.ranking.paired.noise_draws import (
    DRAWS,
    draw_noise,
    estimate_required_data,
    estimate_selection_bias,
    first_place_share_of_each_row,
)
from bln_search.ranking.paired.table import Floats, OutcomeTable
from bln_search.ranking.selection.expected_loss import default_margin
from bln_search.ranking.selection.row_cost import cost_of_row
from bln_search.ranking.statistics.intervals import ALPHA


@dataclass(frozen=True)
class TableComparison:
    """Rows of a table compared with the row of lowest mean loss, by increasing mean loss.

    Attributes:
        order: Index of each row in the table.
        table: Outcomes of the rows in this order; of one seed where only examples vary.
        means: Mean loss of each row, (K,).
        margin: Difference of mean losses up to which rows are practically equal.
        differences: Loss of each row minus that of the first one.
        verdicts: What is known about each row beside the first one.
        first_shares: Probability of each row to have the lowest mean loss, (K,).
        is_settled: Whether no row is better than each row by more than the margin.
        optimism: Selection bias of the first row.
        required: About how much data would decide; None where the first row and the preferred ones are settled.
    """

    order: list[int]
    table: OutcomeTable
    means: Floats
    margin: float
    differences: DifferencesToBest
    verdicts: list[RowVerdict]
    first_shares: Floats
    is_settled: list[bool]
    optimism: float
    required: RequiredData | None


def compare_with_best(
    table: OutcomeTable,
    *,
    margin: float | None = None,
    level: float = ALPHA,
    random: int = 0,
    over_seeds: bool = True,
    preferred: Sequence[bool] | None = None,
) -> TableComparison:
    """Compare the rows of a table with the row of lowest mean loss.

    Args:
        table: Outcomes of the rows.
        margin: Difference of mean losses up to which rows are practically equal; None for the default.
        level: Significance level of this look at the data.
        random: Seed of all random draws.
        over_seeds: Whether seeds vary; otherwise outcomes are averaged over them, and only examples vary.
        preferred: Whether each row is preferred, whatever its loss is; None where no row is.
    """
    means = table.losses.mean(axis=(0, 2), dtype=np.float64)
    order = [int(row) for row in np.argsort(means, kind="stable")]
    means, table = means[order], table.restrict_to_rows(order)
    if not over_seeds:
        table = table.average_over_seeds()
    if margin is None:
        margin = default_margin(float(means[0]), has_correctness=table.has_correctness)
    distinct = find_distinct_rows(table.losses)
    chosen = None if preferred is None else [preferred[row] for row in order]
    losses = differences_to_best(table, "loss", 0, margin, distinct, chosen)
    noise = draw_noise(table, 0, random=random)
    moderated = noise.with_moderated_variances(losses, table.num_seeds, random)
    is_settled = (losses.better_by_margin < level).tolist()
    may_be_chosen = [0] if chosen is None else sorted({0, *np.flatnonzero(chosen).tolist()})
    return TableComparison(
        order,
        table,
        means,
        margin,
        losses,
        row_verdicts(losses, 0, level),
        first_place_share_of_each_row(means, moderated, distinct.of_row),
        is_settled,
        estimate_selection_bias(means, noise),
        None
        if all(is_settled[row] for row in may_be_chosen)
        else estimate_required_data(table, means, moderated, margin, may_be_chosen),
    )


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
    per_slot: bool = False,
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
        per_slot: Whether the population has a value for each position in the mini-batch.
    """
    seeds = table.num_seeds
    question = Question.NEW_TRAININGS if seeds > 1 and current not in keys else Question.THESE_NETWORKS
    over_seeds = question is Question.NEW_TRAININGS
    costs = [cost_of_row(key.configuration, per_slot=per_slot) for key in keys]
    is_preferred = [key == current for key in keys] if current in keys else [cost == min(costs) for cost in costs]
    compared = compare_with_best(
        table,
        margin=margin,
        level=level,
        random=random,
        over_seeds=over_seeds,
        preferred=is_preferred,
    )
    keys = [keys[row] for row in compared.order]
    table, losses = compared.table, compared.differences
    accuracies = differences_to_best(table, "accuracy", 0) if table.has_correctness else None
    return Comparison(
        split=split,
        question=question,
        seeds=seeds,
        examples=table.num_examples,
        sampled_from=table.sampled_from,
        not_compared=not_compared,
        margin=compared.margin,
        level=level,
        rows=tuple(
            ComparedRow(
                arm=key.arm,
                point=key.point,
                configuration=str(key.configuration),
                estimate=key.estimate,
                batch_size=key.batch_size,
                loss=float(compared.means[row]),
                accuracy=None if accuracies is None else float(table.correct[:, row].mean(dtype=np.float64)),
                verdict=compared.verdicts[row],
                above_best=mean_difference(losses, row),
                accuracy_above_best=None if accuracies is None else mean_difference(accuracies, row),
                variance=float(losses.variance[row]),
                first_share=float(compared.first_shares[row]),
                is_settled=compared.is_settled[row],
            )
            for row, key in enumerate(keys)
        ),
        current=keys.index(current) if current in keys else None,
        optimism=compared.optimism,
        prior_variance=losses.prior.variance,
        draws=DRAWS,
        required=compared.required,
    )


def mean_difference(estimates: ContrastEstimates, row: int) -> MeanDifference:
    """The difference of one row."""
    mean, half = float(estimates.mean[row]), float(estimates.half[row])
    p, adjusted = float(estimates.p[row]), float(estimates.adjusted[row])
    return MeanDifference(mean=mean, low=mean - half, high=mean + half, p=p, adjusted=adjusted)
