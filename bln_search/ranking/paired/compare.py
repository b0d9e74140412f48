"""Compare all rows of a table with one another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.comparison import (
    ComparedPair,
    ComparedRow,
    Comparison,
    CurrentRowComparison,
    FriedmanTestSummary,
    MeanDifference,
    RequiredSeeds,
)
from bln_search.ranking.paired.bootstrap import (
    BOOTSTRAP_DRAWS,
    BootstrapMeans,
    bootstrap_row_means,
    bootstrap_shaped_difference_intervals,
    first_place_share_of_each_row,
)
from bln_search.ranking.paired.bootstrap_selection_bias import estimate_selection_bias
from bln_search.ranking.paired.crossed_anova import ContrastEstimates, crossed_anova_differences, merge_equal_rows
from bln_search.ranking.paired.friedman import FriedmanResult, friedman_test
from bln_search.ranking.paired.per_seed_tests import FLIPS, run_per_seed_tests
from bln_search.ranking.paired.required_seeds import estimate_required_seeds
from bln_search.ranking.paired.sum_of_means import compare_sums_of_means_with_zero
from bln_search.ranking.paired.table import Floats, OutcomeTable
from bln_search.ranking.statistics.intervals import ALPHA, adjust_p_values_by_holm
from bln_search.ranking.statistics.letter_display import compact_letter_display, rank_interval_of_each_row

_METRICS = "loss", "accuracy"


def compare_all_pairs_of_rows(
    keys: Sequence[RowKey],
    table: OutcomeTable,
    split: Split,
    *,
    not_compared: int = 0,
    random: int = 0,
    current: RowKey | None = None,
) -> Comparison:
    """Compare the rows of `table` and order them by mean loss.

    Pairs are tested for a difference of mean losses over seeds and examples, corrected for all pairs.
    Letters and rank intervals follow from the significant pairs. The first row that differs significantly from the best
    one ends the top group, although a row below it may vary so much that its difference is not significant.

    Args:
        keys: Identity of each row of `table`.
        table: Outcomes of the rows on the examples of `split`.
        split: Split on which rows are compared.
        not_compared: Number of ranked rows that are not in the table, for the record.
        random: Seed of all random draws.
        current: Row of the current configuration of these networks, with which every row is compared.
    """
    order = [int(row) for row in np.argsort(table.losses.mean(axis=(0, 2), dtype=np.float64), kind="stable")]
    table = table.restrict_to_rows(order)
    metrics = _METRICS if table.has_correctness else _METRICS[:1]
    bootstrap = dict(zip(metrics, bootstrap_row_means(table, *metrics, random=random), strict=True))
    crossed = {metric: crossed_anova_differences(table, metric) for metric in metrics}
    differences = {
        metric: _mean_differences_with_intervals(table, crossed[metric], bootstrap[metric]) for metric in metrics
    }
    tests = run_per_seed_tests(table, random=random)
    mcnemar, wilcoxon, permutation = (
        _holm_adjust_pairs_by_seed(p) for p in (tests.mcnemar, tests.wilcoxon, tests.permutation)
    )
    pairs = tuple(
        ComparedPair(
            first=int(first),
            second=int(second),
            loss=differences["loss"][index],
            accuracy=differences["accuracy"][index] if table.has_correctness else None,
            mcnemar=mcnemar[index] if table.has_correctness else (),
            wilcoxon=wilcoxon[index],
            permutation=permutation[index],
        )
        for index, (first, second) in enumerate(zip(*table.row_pairs, strict=True))
    )
    ranks = friedman_test(table.losses.mean(axis=2, dtype=np.float64))
    return Comparison(
        split=split,
        seeds=table.num_seeds,
        examples=table.num_examples,
        not_compared=not_compared,
        rows=_make_compared_rows([keys[row] for row in order], table, pairs, ranks, bootstrap["loss"], not_compared),
        pairs=pairs,
        friedman=None
        if ranks is None
        else FriedmanTestSummary(statistic=ranks.statistic, p=ranks.p, critical_difference=ranks.critical_difference),
        optimism=estimate_selection_bias(table, random=random),
        draws=BOOTSTRAP_DRAWS,
        flips=FLIPS,
        required_seeds=_find_required_seeds(table, pairs, crossed["loss"]),
        current=_compare_with_current_row([keys[row] for row in order], table, current),
        sampled_from=table.sampled_from,
    )


def _compare_with_current_row(
    keys: Sequence[RowKey], table: OutcomeTable, current: RowKey | None
) -> CurrentRowComparison | None:
    """Compare one row with all rows on the networks of the table; None where it is not among them."""
    if current not in keys:
        return None
    row = keys.index(current)
    row_of, kept = merge_equal_rows(table.losses)
    losses = table.average_over_seeds().losses.astype(np.float64)[:, kept]
    others = [other for other in range(len(kept)) if other != row_of[row]]
    gains = compare_sums_of_means_with_zero([losses[:, [row_of[row]]] - losses[:, others]])
    columns = (gains.mean, gains.mean - gains.half, gains.mean + gains.half, gains.p, gains.adjusted)
    differences = [
        MeanDifference(mean=mean, low=low, high=high, p=p, adjusted=adjusted)
        for mean, low, high, p, adjusted in zip(*(column.tolist() for column in columns), strict=True)
    ]
    differences.insert(row_of[row], MeanDifference(mean=0, low=0, high=0, p=1, adjusted=1))
    return CurrentRowComparison(row=row, gains=tuple(differences[place] for place in row_of))


def _find_required_seeds(
    table: OutcomeTable, pairs: Sequence[ComparedPair], crossed: ContrastEstimates
) -> RequiredSeeds | None:
    """Number of seeds that would separate the first two rows; None where they differ significantly."""
    if not pairs or pairs[0].is_significant or pairs[0].loss.mean == 0:
        return None
    rejected = sum(pair.is_significant for pair in pairs)
    moderated = None if crossed.moderated_of_seeds is None else float(crossed.moderated_of_seeds[0])
    return estimate_required_seeds(table, ALPHA / (len(pairs) - rejected), moderated)


def _mean_differences_with_intervals(
    table: OutcomeTable, crossed: ContrastEstimates, bootstrap: BootstrapMeans
) -> list[MeanDifference]:
    low, high = bootstrap_shaped_difference_intervals(bootstrap, crossed, table.row_pairs, table.num_seeds)
    columns = (values.tolist() for values in (crossed.mean, low, high, crossed.p, crossed.adjusted))
    return [
        MeanDifference(mean=mean, low=lower, high=upper, p=p, adjusted=adjusted)
        for mean, lower, upper, p, adjusted in zip(*columns, strict=True)
    ]


def _holm_adjust_pairs_by_seed(p: Floats) -> list[tuple[float, ...]]:
    """p values of every seed by pair, after Holm's correction over the pairs of that seed. p: (S, P)."""
    return list(zip(*(adjust_p_values_by_holm(line) for line in p.tolist()), strict=True))


def _make_compared_rows(
    keys: Sequence[RowKey],
    table: OutcomeTable,
    pairs: Sequence[ComparedPair],
    ranks: FriedmanResult | None,
    bootstrap: BootstrapMeans,
    not_compared: int,
) -> tuple[ComparedRow, ...]:
    different = {(pair.first, pair.second) for pair in pairs if pair.loss.adjusted < ALPHA}
    letters = compact_letter_display(table.num_rows, different)
    intervals = rank_interval_of_each_row(table.num_rows, different)
    first_shares = first_place_share_of_each_row(bootstrap).tolist()
    top_group_size = min((second for first, second in different if first == 0), default=table.num_rows)
    accuracies = table.correct.mean(axis=(0, 2)).tolist() if table.has_correctness else [None] * table.num_rows
    return tuple(
        ComparedRow(
            arm=key.arm,
            point=key.point,
            configuration=str(key.configuration),
            estimate=key.estimate,
            batch_size=key.batch_size,
            loss=float(bootstrap.observed[index]),
            accuracy=accuracies[index],
            letters=None if letters is None else letters[index],
            in_top_group=index < top_group_size,
            lowest_rank=intervals[index][0],
            highest_rank=intervals[index][1] + not_compared,
            mean_rank=None if ranks is None else float(ranks.ranks[index]),
            first_share=first_shares[index],
        )
        for index, key in enumerate(keys)
    )
