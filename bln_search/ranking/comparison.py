"""Results of a comparison of rows, as stored and reported; computed by `bln_search.ranking.paired`."""

from __future__ import annotations

from pydantic import Field

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.analysis_part import StoredAnalysisModel
from bln_search.ranking.statistics.intervals import ALPHA

MAX_COMPARED_ROWS = 40
"""Number of rows, from the best one down, that are compared with one another."""


POWER = 0.8
"""Probability of a significant difference for which the required number of seeds is computed."""

MAX_REQUIRED_SEEDS = 100
"""Largest required number of seeds that is named."""


class RequiredSeeds(StoredAnalysisModel):
    """Number of seeds with which the first two rows would differ significantly, if the observed difference is true.

    Attributes:
        seeds: Number of seeds; None for more than `MAX_REQUIRED_SEEDS`.
        level: Two-sided level of the test: 5 % over the number of pairs that do not differ significantly.
        power: Probability of a significant difference.
        limited_by_examples: No number of seeds suffices on so few examples.
    """

    seeds: int | None
    level: float
    power: float = POWER
    limited_by_examples: bool = False


class MeanDifference(StoredAnalysisModel):
    """Mean difference of two rows (first − second) with its 95 % confidence interval.

    Attributes:
        mean: Mean difference, nats or fraction.
        low: Lower end of the confidence interval.
        high: Upper end of the confidence interval.
        p: Two-sided p value.
        adjusted: p value corrected for all pairs.
    """

    mean: float
    low: float
    high: float
    p: float
    adjusted: float

    @property
    def with_rows_swapped(self) -> MeanDifference:
        """The difference second − first."""
        return self.model_copy(update={"mean": -self.mean, "low": -self.high, "high": -self.low})


class ComparedPair(StoredAnalysisModel):
    """Comparison of two rows.

    Attributes:
        first: Index of the row with the lower mean loss.
        second: Index of the other row.
        loss: Difference of mean losses (nats) over seeds and examples.
        accuracy: Difference of mean accuracies (fraction) over seeds and examples; None for a score without
            correctness.
        mcnemar: p values of McNemar's test by seed, after Holm's correction over the pairs of that seed; empty for a
            score without correctness.
        wilcoxon: The same of the Wilcoxon signed-rank test.
        permutation: The same of the paired permutation test.
    """

    first: int
    second: int
    loss: MeanDifference
    accuracy: MeanDifference | None
    mcnemar: tuple[float, ...]
    wilcoxon: tuple[float, ...]
    permutation: tuple[float, ...]

    @property
    def is_significant(self) -> bool:
        """Whether mean losses differ significantly (5 %, corrected)."""
        return self.loss.adjusted < ALPHA


class ComparedRow(StoredAnalysisModel):
    """A row with its position in a comparison.

    Attributes:
        arm: Label of the arm.
        point: Point of the search space as JSON; empty without a space.
        configuration: Inference configuration.
        estimate: Population estimate; None where the configuration reads no population value.
        batch_size: Inference mini-batch size.
        loss: Mean loss over seeds and examples, nats.
        accuracy: Mean accuracy over seeds and examples, fraction; None for a score without correctness.
        letters: Compact letter display: rows that share a letter do not differ significantly. None where there are too
            many groups.
        in_top_group: Whether neither this row nor any row above it differs significantly from the best row.
        lowest_rank: Lower end of the simultaneous 95 % confidence interval of the rank.
        highest_rank: Upper end of that interval.
        mean_rank: Mean rank over seeds; None for fewer than two seeds or three rows.
        first_share: Share of bootstrap draws of seeds and examples in which the row has the lowest mean loss.
    """

    arm: str
    point: str
    configuration: str
    estimate: str | None
    batch_size: int
    loss: float
    accuracy: float | None
    letters: str | None
    in_top_group: bool = Field(validation_alias="shares_first")
    lowest_rank: int
    highest_rank: int
    mean_rank: float | None
    first_share: float

    @property
    def key(self) -> RowKey:
        """Identity of the row."""
        configuration = InferenceConfiguration(self.configuration)
        return RowKey(self.arm, self.point, configuration, self.estimate, self.batch_size)


class FriedmanTestSummary(StoredAnalysisModel):
    """Friedman's test of equal ranks, with seeds as blocks and examples fixed.

    Attributes:
        statistic: Chi-squared statistic.
        p: p value.
        critical_difference: Difference of mean ranks beyond which rows differ significantly (Nemenyi, 5 %).
    """

    statistic: float
    p: float
    critical_difference: float


class CurrentRowComparison(StoredAnalysisModel):
    """The row of the current configuration of the networks at hand, compared with every row on other examples.

    The question is which row these networks should use. Unlike the order of rows for networks that are trained anew, it
    does not depend on the variation between seeds.

    Attributes:
        row: Index of the row.
        gains: Mean loss of this row minus that of each row, in the order of the rows, corrected for all of them.
    """

    row: int
    gains: tuple[MeanDifference, ...]

    @property
    def better_rows(self) -> frozenset[int]:
        """Indices of the rows that are significantly better (5 %)."""
        return frozenset(index for index, gain in enumerate(self.gains) if gain.mean > 0 and gain.adjusted < ALPHA)


class Comparison(StoredAnalysisModel):
    """Rows of one leaderboard compared with one another on one split, by increasing mean loss.

    Attributes:
        split: Split on which rows are compared.
        seeds: Number of seeds.
        examples: Number of examples.
        current: Comparison with the row of the current configuration; None where there is none.
        sampled_from: Number of examples of the split, from which those were drawn at random; None where they are all.
        not_compared: Number of ranked rows that are not part of the comparison.
        rows: Compared rows.
        pairs: All pairs of compared rows.
        friedman: None for fewer than two seeds or three rows.
        optimism: Selection bias of the best row: expected amount (nats) by which its mean loss is too low because it
            was selected for a low mean loss.
        draws: Number of bootstrap draws.
        flips: Number of random sign flips of the permutation test.
        required_seeds: Number of seeds that would separate the first two rows; None for one seed, equal rows, and rows
            that differ significantly.
    """

    split: Split
    seeds: int
    examples: int
    not_compared: int = Field(validation_alias="left_out")
    rows: tuple[ComparedRow, ...]
    pairs: tuple[ComparedPair, ...]
    friedman: FriedmanTestSummary | None
    optimism: float
    draws: int
    flips: int
    required_seeds: RequiredSeeds | None = None
    current: CurrentRowComparison | None = None
    sampled_from: int | None = None

    @property
    def top_group(self) -> tuple[ComparedRow, ...]:
        """The best row and the rows below it, up to the first that differs significantly from it."""
        return tuple(row for row in self.rows if row.in_top_group)

    @property
    def num_inconclusive_rows_below_top_group(self) -> int:
        """Number of rows below the top group whose large variance prevents a significant difference to the best row."""
        size = len(self.top_group)
        return sum(pair.first == 0 and not pair.is_significant and pair.second >= size for pair in self.pairs)

    def find_pair(self, first: int, second: int) -> ComparedPair | None:
        """The comparison of two rows by index, the one of lower mean loss first; None where they were not compared."""
        return next((pair for pair in self.pairs if (pair.first, pair.second) == (first, second)), None)
