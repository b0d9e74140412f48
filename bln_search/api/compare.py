"""Compare the rows of any table of scores: which one is best, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from bln_search.api.compared_scores import ComparedScore, ComparedScores
from bln_search.api.score_table import NAMES_OF_AN_ARRAY, ScoreTable, is_instance_of, read_score_table
from bln_search.api.study_table import StudyReading
from bln_search.core.errors import DataError
from bln_search.ranking.comparison import Verdict
from bln_search.ranking.paired.compare import TableComparison, compare_with_best, mean_difference
from bln_search.ranking.paired.table import OutcomeTable
from bln_search.ranking.selection.recommendation import judge_choice


def compare(
    table: Any,
    *,
    names: Iterable[str] | None = None,
    seed: str = "seed",
    lower_is_better: bool = True,
    practical: float | None = None,
    current: str | None = None,
) -> ComparedScores:
    """Compare the rows of a table of scores with the best one: any methods, each scored under the same seeds.

    A seed is a repetition that all rows share: a random seed, a fold or a data set. With one score for each seed this
    is the paired t test over seeds, from four rows and three seeds on with moderated variances. With scores of examples
    seeds and examples vary. p values and verdicts are corrected for all rows.

    Args:
        table: The scores, in one of these forms:
            a `pandas.DataFrame` with the columns `row` (or `arm`), `seed`, `score` and optionally `example`;
            a `pandas.DataFrame` with seeds as index and rows as columns;
            a dictionary from names to scores, (seeds,) or (seeds, examples);
            an array (seeds, rows) or (seeds, rows, examples), with `names`;
            a study of Optuna, whose rows are the distinct parameters beside the seed.
        names: Names of the rows of an array.
        seed: Parameter or user attribute of Optuna that holds the seed.
        lower_is_better: Whether lower scores are better; a study of Optuna has its own direction.
        practical: Difference of mean scores up to which rows are practically equal; None for 1 % of the absolute best
            mean score.
        current: Name of the row in use. It stays recommended while its expected score is near enough to the best one,
            or a change may do harm.

    Raises:
        DataError: The scores cannot be compared; the message says which, and what to do.
    """
    if not is_instance_of(table, "optuna", "Study"):
        scores = read_score_table(table, names)
    elif names is None:
        scores = StudyReading(seed).read(table)
    else:
        raise DataError(NAMES_OF_AN_ARRAY)
    return compare_scores(scores, lower_is_better=lower_is_better, practical=practical, current=current)


def compare_scores(
    scores: ScoreTable, *, lower_is_better: bool = True, practical: float | None = None, current: str | None = None
) -> ComparedScores:
    """Compare the rows of a table; see `compare`.

    Raises:
        DataError: An argument is not possible.
    """
    if scores.lower_is_better is not None:
        lower_is_better = scores.lower_is_better
    if practical is not None and not (isinstance(practical, Real) and 0 <= practical < math.inf):
        raise DataError(f"practical={practical!r}: the difference up to which rows are equal is a number of at least 0")
    if current is not None and current not in scores.names:
        raise DataError(f"current={current!r} is no row of the table: its rows are {', '.join(scores.names)}")
    losses = scores.scores if lower_is_better else -scores.scores
    losses = losses[np.argsort(losses.mean(axis=(1, 2)))]  # random draws do not depend on the order of the seeds
    outcomes = OutcomeTable(losses, np.zeros(losses.shape, np.bool_), has_correctness=False)
    compared = compare_with_best(
        outcomes,
        margin=practical,
        level=scores.level,
        preferred=None if current is None else [name == current for name in scores.names],
    )
    names = [scores.names[row] for row in compared.order]
    rows = _compared_scores(names, compared, lower_is_better=lower_is_better)
    differences, variances = compared.differences.mean, compared.differences.variance
    chosen = 0 if current is None else names.index(current)
    prior, others = compared.differences.prior, len(rows) - 1
    if not prior.keeps_row_in_use(differences[chosen], variances[chosen], compared.margin, others):
        chosen = 0
    are_best = [bool(is_best) for is_best in (differences == 0) & (variances == 0)]
    verdict = judge_choice(
        [row.verdict for row, is_best in zip(rows, are_best, strict=True) if not is_best],
        is_best=are_best[chosen],
        is_settled=compared.is_settled[chosen],
    )
    return ComparedScores(
        rows=rows,
        recommended=rows[chosen],
        verdict=verdict,
        lower_is_better=lower_is_better,
        practical=compared.margin,
        seeds=len(losses),
        examples=losses.shape[2],
        optimism=compared.optimism,
        required=compared.required if verdict is Verdict.CANNOT_TELL else None,
        left_out=scores.left_out,
        level=scores.level,
    )


def _compared_scores(
    names: Iterable[str], compared: TableComparison, *, lower_is_better: bool
) -> tuple[ComparedScore, ...]:
    """The rows in the direction of the scores."""
    rows = []
    for position, name in enumerate(names):
        mean, difference = float(compared.means[position]), mean_difference(compared.differences, position)
        if not lower_is_better:
            mean, difference = -mean, difference.with_rows_swapped
        rows.append(
            ComparedScore(
                name=name,
                mean=mean,
                verdict=compared.verdicts[position],
                difference=difference.mean + 0.0,  # no negative zero
                low=difference.low + 0.0,
                high=difference.high + 0.0,
                p=difference.adjusted,
                probability_best=float(compared.first_shares[position]),
            )
        )
    return tuple(rows)
