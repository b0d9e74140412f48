"""Hand-written comparisons."""

from __future__ import annotations

from bln_search.core.enums import PopulationEstimate, Split
from bln_search.ranking.comparison import ComparedRow, Comparison, MeanDifference, Question, RowVerdict

FROZEN = PopulationEstimate.FROZEN


def compared(
    *codes,
    worse=(),
    equal=(),
    seeds=3,
    not_compared=0,
    batch_size=25,
    step=0.01,
    error=0.02,
    settled=(),
    current=None,
    prior_variance=1e-4,
):
    """Rows in this order with losses 1, 1.01, …, each of which differs from the first with this standard error.

    settled: codes of the rows that no other row beats by the margin, or True for all rows.
    """

    def verdict(index, code):
        listed = {RowVerdict.WORSE: worse, RowVerdict.PRACTICALLY_EQUAL: equal}
        found = next((one for one, names in listed.items() if code in names), RowVerdict.CANNOT_TELL)
        return found if index else RowVerdict.BEST

    def difference(mean, half, code):
        p = 0.01 if code in worse else 0.5
        return MeanDifference(mean=mean, low=mean - half, high=mean + half, p=p, adjusted=p)

    rows = tuple(
        ComparedRow(
            arm="bln",
            point="",
            configuration=code,
            estimate=FROZEN if "T" in code else None,
            batch_size=25,
            loss=1 + step * index,
            accuracy=0.9 - 0.1 * index,
            verdict=verdict(index, code),
            above_best=difference(step * index, 2 * error * bool(index), code),
            accuracy_above_best=difference(-0.1 * index, 0.05 * bool(index), code),
            variance=error**2 * bool(index),
            first_share=0.25,
            is_settled=settled is True or code in (settled or ()),
        )
        for index, code in enumerate(codes)
    )
    return Comparison(
        split=Split.VALIDATION,
        question=Question.NEW_TRAININGS if seeds > 1 and current is None else Question.THESE_NETWORKS,
        seeds=seeds,
        examples=9,
        sampled_from=None,
        not_compared=not_compared,
        margin=0.01,
        level=0.05,
        rows=rows,
        current=None if current is None else codes.index(current),
        optimism=0.0,
        prior_variance=prior_variance,
        draws=1,
        required=None,
    )
