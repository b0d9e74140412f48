"""What a comparison of rows found, as it is kept and shown; `bln_search.ranking.paired` makes it."""

from __future__ import annotations

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.ranking.leaderboard import Candidate
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.ranking.stored_model import Kept

MOST_ROWS = 40
"""Rows that are compared with one another: the best so many."""


class Difference(Kept):
    """Mean of the first row less that of the second, its 95 % interval, p, and p after Holm over all pairs."""

    mean: float
    low: float
    high: float
    p: float
    adjusted: float


class ComparedPair(Kept):
    """Two rows by their place. Differences are over seeds and examples; the lists hold p by seed, after Holm."""

    first: int
    second: int
    loss: Difference
    accuracy: Difference
    mcnemar: tuple[float, ...]
    wilcoxon: tuple[float, ...]
    permutation: tuple[float, ...]

    @property
    def apart(self) -> bool:
        """Is the difference of their losses more than chance?"""
        return self.loss.adjusted < ALPHA


class ComparedRow(Kept):
    """A row of the table and where it may stand.

    letters: two rows that share one cannot be told apart; None where there are too many groups. shares_first: neither
    it nor any row above it is told from the best row. lowest_rank, highest_rank: where it may stand. mean_rank: over
    seeds. first_share: how often it comes first when seeds and examples are drawn anew.
    """

    arm: str
    point: str
    configuration: str
    estimate: PopulationEstimate | None
    batch_size: int
    loss: float
    accuracy: float
    letters: str | None
    shares_first: bool
    lowest_rank: int
    highest_rank: int
    mean_rank: float | None
    first_share: float

    @property
    def group(self) -> str:
        """What a table shows: the letters; where there are too many, a mark for those that share the first place."""
        return self.letters or ("=" if self.shares_first else "")

    @property
    def candidate(self) -> Candidate:
        """Its key in a table."""
        return self.arm, self.point, InferenceConfiguration(self.configuration), self.estimate, self.batch_size


class FriedmanTest(Kept):
    """Do rows rank differently over seeds? Mean ranks further apart than the critical difference do (Nemenyi).

    Examples are not drawn anew: what it finds may be so on these examples only.
    """

    statistic: float
    p: float
    critical_difference: float


class Comparison(Kept):
    """Rows of one table compared on one split, best first.

    left_out: rows of the table that were not compared. optimism: by how much the best row's mean loss is optimistic
    because it was selected for it (selection bias). draws, flips: of the bootstrap and of the permutation test.
    """

    split: Split
    seeds: int
    examples: int
    left_out: int
    rows: tuple[ComparedRow, ...]
    pairs: tuple[ComparedPair, ...]
    friedman: FriedmanTest | None
    optimism: float
    draws: int
    flips: int

    @property
    def sharing_first(self) -> tuple[ComparedRow, ...]:
        """The best row, and those behind it until the first that is told from it."""
        return tuple(row for row in self.rows if row.shares_first)

    @property
    def too_varied(self) -> int:
        """How many rows further down vary so much that they are not told from the best, either."""
        sharing = len(self.sharing_first)
        return sum(one.first == 0 and not one.apart and one.second >= sharing for one in self.pairs)

    def pair(self, first: int, second: int) -> ComparedPair | None:
        """The comparison of two rows by their place, the upper one first."""
        return next((one for one in self.pairs if (one.first, one.second) == (first, second)), None)
