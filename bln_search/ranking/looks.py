"""How much of the error rate of 5 % each look at growing data may spend.

A study that is analysed again after more seeds were added would reject equal rows in far more than 5 % of cases if each
analysis were a test of 5 %. The looks therefore share the error rate (Bonferroni): however many there are, whenever
they happen, and whatever decides that there is a next one, the shares add up to at most 5 %.

- Looks that nobody planned: the first one, which is the only one of most studies, spends four fifths. Each further one
  spends half of what is left.
- Planned looks, of a study that adds seeds until it is decided: three fifths, a fifth, a tenth, a tenth.
- Looks at a growing part of a split whose size is known: a look spends the share of the examples that were read since
  the look before (the linear spending function of Kim & DeMets 1987). An eighth of the examples spends an eighth of the
  error rate, because few examples find only large differences, whose p values are small at any share.
- Rows that arrive one after another, each of which is looked at after every seed from the third on: half of the error
  rate is spent on ending rows, half is kept for the comparison of those that are complete. Neither the number of rows
  nor that of seeds is known, so both shares decrease such that they add up to at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from bln_search.ranking.statistics.intervals import ALPHA

_FIRST_SHARE = 0.8
_PLANNED_SHARES = 0.6, 0.2, 0.1, 0.1


def level_of_look(earlier: int, *, planned: bool = False) -> float:
    """Significance level of a look.

    Args:
        earlier: Number of earlier looks, at fewer data of the same study.
        planned: Whether it is a look of a study that adds seeds until it is decided; for further ones the level is 0.
    """
    if planned:
        return ALPHA * _PLANNED_SHARES[earlier] if earlier < len(_PLANNED_SHARES) else 0.0
    return ALPHA * (_FIRST_SHARE if earlier == 0 else (1 - _FIRST_SHARE) / 2**earlier)


@dataclass(frozen=True)
class StagedReading:
    """How much of a split was read in stages until the recommendation stood.

    Attributes:
        examples: Number of examples that were read.
        of: Number of examples of the split.
        level: Significance level of the last look.
        is_decided: Whether the verdict on the recommended row stands; otherwise everything was read.
    """

    examples: int
    of: int
    level: float
    is_decided: bool = False


def level_of_stage(earlier: int, examples: int, total: int) -> float:
    """Significance level of a look at a part of a split.

    Args:
        earlier: Number of examples at the look before; 0 for the first one.
        examples: Number of examples at this look.
        total: Number of examples of the split.
    """
    return ALPHA * (examples - earlier) / total


FIRST_SEEDS_OF_NEWCOMER = 3
"""Number of seeds at the first look at a row that has just arrived."""

LEVEL_AFTER_NEWCOMERS = ALPHA / 2
"""Significance level of the comparison of complete rows, after looks at rows as they arrived."""

_ROWS_OF_HALF = 50
"""Number of rows on which half of the error rate of ending rows is spent."""


def level_of_newcomer(earlier: int, seeds: int) -> float:
    """Significance level of a look at a row that has just arrived.

    The shares 1/(n − 2)(n − 1) of the looks at n = 3, 4, … seeds add up to 1. So do the shares h/(k + h − 1)(k + h) of
    rows with k = 1, 2, … rows before them.

    Args:
        earlier: Number of rows before it, at least 1.
        seeds: Number of its seeds, at least `FIRST_SEEDS_OF_NEWCOMER`.
    """
    look = seeds - FIRST_SEEDS_OF_NEWCOMER + 1
    of_row = _ROWS_OF_HALF / ((earlier + _ROWS_OF_HALF - 1) * (earlier + _ROWS_OF_HALF))
    return (ALPHA - LEVEL_AFTER_NEWCOMERS) * of_row / (look * (look + 1))
