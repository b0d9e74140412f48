"""Hand-written comparisons."""

from __future__ import annotations

from bln_search.core.enums import PopulationEstimate, Split
from bln_search.ranking.comparison import ComparedPair, ComparedRow, Comparison, MeanDifference

FROZEN = PopulationEstimate.FROZEN


def compared(*codes, different=(), seeds=3, not_compared=0, batch_size=25, step=0.01, p=0.5):
    """Rows in this order with losses 1, 1.01, …; `different` ones differ significantly from the first row."""
    rows = tuple(
        ComparedRow(
            arm="bln",
            point="",
            configuration=code,
            estimate=FROZEN if "T" in code else None,
            batch_size=batch_size,
            loss=1 + step * index,
            accuracy=0.9 - 0.1 * index,
            letters="a",
            in_top_group=code not in different,
            lowest_rank=1,
            highest_rank=len(codes),
            mean_rank=None,
            first_share=0.25,
        )
        for index, code in enumerate(codes)
    )
    none = {"mcnemar": (), "wilcoxon": (), "permutation": ()}
    pairs = []
    for index in range(1, len(codes)):
        mean = -step * index
        adjusted = 0.01 if codes[index] in different else p
        loss = MeanDifference(mean=mean, low=mean - 0.005, high=mean + 0.005, p=adjusted, adjusted=adjusted)
        pairs.append(ComparedPair(first=0, second=index, loss=loss, accuracy=loss, **none))
    fields = {"rows": rows, "pairs": tuple(pairs), "not_compared": not_compared, "optimism": 0.0}
    return Comparison(split=Split.VALIDATION, seeds=seeds, examples=9, friedman=None, draws=1, flips=1, **fields)
