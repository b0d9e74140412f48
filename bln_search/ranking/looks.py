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
