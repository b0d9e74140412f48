"""All rows of a table compared with one another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bln_search.core.enums import Split
from bln_search.ranking.comparison import ComparedPair, ComparedRow, Comparison, Difference, FriedmanTest
from bln_search.ranking.leaderboard import Candidate
from bln_search.ranking.paired.bootstrap import REPLICATES, Replicates, intervals, replicates, shares_of_first
from bln_search.ranking.paired.bootstrap_selection_bias import selection_bias
from bln_search.ranking.paired.crossed_anova import crossed_differences
from bln_search.ranking.paired.friedman import MeanRanks, friedman
from bln_search.ranking.paired.per_seed_tests import FLIPS, within_seeds
from bln_search.ranking.paired.table import Floats, OutcomeTable
from bln_search.ranking.statistics.intervals import ALPHA, holm
from bln_search.ranking.statistics.letter_display import letters, rank_intervals

_METRICS = "loss", "accuracy"


def compare(
    candidates: Sequence[Candidate], table: OutcomeTable, split: Split, *, left_out: int = 0, random: int = 0
) -> Comparison:
    """Compare the rows of `table`, which are `candidates`, in the order of their mean loss.

    Pairs are told apart by their loss over seeds and examples, Holm over all pairs; letters and rank intervals follow
    from that. The first row that is told from the best ends the group that shares the first place, though one behind it
    may vary so much that nothing can be told of it. left_out: rows that are not in the table, for the record. random:
    seed of every draw.
    """
    order = [int(row) for row in np.argsort(table.losses.mean(axis=(0, 2), dtype=np.float64), kind="stable")]
    table = table.chosen(order)
    found = dict(zip(_METRICS, replicates(table, *_METRICS, random=random), strict=True))
    differences = {metric: _differences(table, metric, found[metric]) for metric in _METRICS}
    inside = within_seeds(table, random=random)
    of_seeds = [_holm_each(one) for one in (inside.mcnemar, inside.wilcoxon, inside.permutation)]
    pairs = tuple(
        ComparedPair(
            first=int(first),
            second=int(second),
            loss=differences["loss"][place],
            accuracy=differences["accuracy"][place],
            mcnemar=of_seeds[0][place],
            wilcoxon=of_seeds[1][place],
            permutation=of_seeds[2][place],
        )
        for place, (first, second) in enumerate(zip(*table.pairs, strict=True))
    )
    ranked = friedman(table.losses.mean(axis=2, dtype=np.float64))
    return Comparison(
        split=split,
        seeds=table.seeds,
        examples=table.examples,
        left_out=left_out,
        rows=_rows([candidates[row] for row in order], table, pairs, ranked, found["loss"], left_out),
        pairs=pairs,
        friedman=None
        if ranked is None
        else FriedmanTest(statistic=ranked.statistic, p=ranked.p, critical_difference=ranked.critical_difference),
        optimism=selection_bias(table, random=random),
        draws=REPLICATES,
        flips=FLIPS,
    )


def _differences(table: OutcomeTable, metric: str, drawn: Replicates) -> list[Difference]:
    crossed = crossed_differences(table, metric)
    low, high = intervals(drawn, crossed, table.pairs, table.seeds)
    adjusted = holm(crossed.p.tolist())
    return [
        Difference(mean=mean, low=bottom, high=top, p=p, adjusted=raised)
        for mean, bottom, top, p, raised in zip(
            crossed.mean.tolist(), low.tolist(), high.tolist(), crossed.p.tolist(), adjusted, strict=True
        )
    ]


def _holm_each(p: Floats) -> list[tuple[float, ...]]:
    """By pair the p of every seed, after Holm over the pairs of that seed."""
    return list(zip(*(holm(line) for line in p.tolist()), strict=True))


def _rows(
    candidates: Sequence[Candidate],
    table: OutcomeTable,
    pairs: Sequence[ComparedPair],
    ranked: MeanRanks | None,
    drawn: Replicates,
    left_out: int,
) -> tuple[ComparedRow, ...]:
    apart = {(one.first, one.second) for one in pairs if one.loss.adjusted < ALPHA}
    named = letters(table.rows, apart)
    ranks = rank_intervals(table.rows, apart)
    first = shares_of_first(drawn).tolist()
    told = min((second for one, second in apart if one == 0), default=table.rows)
    accuracies = table.correct.mean(axis=(0, 2)).tolist()
    return tuple(
        ComparedRow(
            arm=arm,
            point=point,
            configuration=str(configuration),
            estimate=estimate,
            batch_size=batch_size,
            loss=float(drawn.observed[place]),
            accuracy=accuracies[place],
            letters=None if named is None else named[place],
            shares_first=place < told,
            lowest_rank=ranks[place][0],
            highest_rank=ranks[place][1] + left_out,
            mean_rank=None if ranked is None else float(ranked.ranks[place]),
            first_share=first[place],
        )
        for place, (arm, point, configuration, estimate, batch_size) in enumerate(candidates)
    )
